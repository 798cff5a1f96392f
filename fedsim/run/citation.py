"""What to cite for a run: this simulator, the paper of its model, and the sources of the methods that were used."""

from collections.abc import Iterator
from typing import Any

from fedsim._version import __version__
from fedsim.common.arguments import short_repr
from fedsim.run.run import Result

_MODEL = "Sun et al., Debiasing Federated Learning with Correlated Client Participation, ICLR 2025, arXiv:2410.01209"
_SOURCES = """
ace: Chang et al. 2025 2511.19066; adam: Reddi et al. ICLR 2021 2003.00295; adaptive_clip: Andrew et al. NeurIPS 2021
1905.03871; amplified_fedavg: Wang and Ji NeurIPS 2022 2205.13648; amplified_scaffold: Crawshaw and Liu NeurIPS 2024
2410.23131; area: Iakovidou and Kim 2024 2405.10123; banded: Choquette-Choo et al. NeurIPS 2023 2306.08153; blt:
Dvijotham et al. FOCS 2024 2404.16706; cosine: Loshchilov and Hutter ICLR 2017 1608.03983; debiased_fedbuff: Nguyen et
al. AISTATS 2022 2106.06639; fadas: Wang et al. ICML 2024 2407.18365; fedau: Wang and Ji ICLR 2024 2306.03401; fedavg:
McMahan et al. AISTATS 2017 1602.05629; fedawe: Xiang et al. NeurIPS 2024 2409.17446; fedbuff: Nguyen et al. AISTATS
2022 2106.06639; feddyn: Acar et al. ICLR 2021 2111.04263; fednova: Wang et al. NeurIPS 2020 2007.07481; fedprox: Li et
al. MLSys 2020 1812.06127; fedvarp: Jhunjhunwala et al. UAI 2022 2207.14130; focus: Ying et al. NeurIPS 2025 2503.20117;
lambda_cgd: Kalinin et al. 2026 2601.22334; loss_proportional: Goetz et al. 2019 1909.12641; mifa: Gu et al. NeurIPS
2021 2106.04159; momentum: Hsu et al. 2019 1909.06335; oort: Lai et al. OSDI 2021 2010.06081; power_of_choice: Cho et
al. 2020 2010.01243; refl: Abdelmoniem et al. EuroSys 2023 2111.01108; robust_regression: Sun and Wei NeurIPS 2022
2206.01132; scaffold: Karimireddy et al. ICML 2020 1910.06378; sqrt: Henzinger et al. SODA 2023 2211.05006
"""


def citation(result: Result) -> str:
    """Return what to cite for a run, a line each: fedsim, the paper of its model, and the built-in methods by name.

    A `TypeError` says that `result` is not what `simulate` or `load` returned.

    >>> print(citation(simulate(Scenario.load("paper/synthetic", ["stop.rounds=50"]))).splitlines()[1])
    Sun et al., Debiasing Federated Learning with Correlated Client Participation, ICLR 2025, arXiv:2410.01209
    """
    if not isinstance(result, Result):
        raise TypeError(f"result must be what simulate or load has returned, not {short_repr(result)}")
    works = dict(each.split(": ") for each in " ".join(_SOURCES.split()).split("; "))
    parts = (result.scenario.learning, result.scenario.server, result.scenario.privacy)
    used = {kind for part in parts if part is not None for kind in _kinds(part.model_dump(mode="json"))}
    sources = [f"{kind}: {', arXiv:'.join(works[kind].rsplit(' ', 1))}" for kind in sorted(used & works.keys())]
    return "\n".join([f"fedsim {__version__}, simulator of participation; its theory: docs/theory", _MODEL, *sources])


def _kinds(data: Any) -> Iterator[str]:
    """Yield the values of all keys ``kind``, and the keys of all objects, however deep."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data if isinstance(data, list) else ()):
        if isinstance(value, dict):
            yield str(key)
        yield from [value] if key == "kind" else _kinds(value)
