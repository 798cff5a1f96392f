"""What to cite for a run: every built-in method that has a source in its module has one here."""

import re
import sys

import fedsim
from fedsim.learning.optimizers import OPTIMIZERS
from fedsim.privacy.mechanisms import MECHANISMS
from fedsim.run.citation import _SOURCES
from fedsim.scenario import Scenario


def test_a_run_is_told_the_sources_of_its_methods() -> None:
    changes = ["stop.rounds=5", "learning.optimizers=[scaffold, {kind: debiased_fedavg, server: adam}]"]
    result = fedsim.simulate(Scenario.load("scenarios/paper/synthetic.fedsim.yaml", changes))
    first, model, *methods = fedsim.citation(result).splitlines()
    assert first.startswith(f"fedsim {fedsim.__version__}, ")
    assert model.endswith("ICLR 2025, arXiv:2410.01209")
    assert methods == [
        "adam: Reddi et al. ICLR 2021, arXiv:2003.00295",
        "robust_regression: Sun and Wei NeurIPS 2022, arXiv:2206.01132",
        "scaffold: Karimireddy et al. ICML 2020, arXiv:1910.06378",
    ]


def test_an_adaptive_clip_and_a_schedule_have_sources_too() -> None:
    changes = ["stop.rounds=5", "learning.optimizers=[debiased_fedavg]"]
    changes += ["learning.step_size={kind: cosine, initial: 0.1, rounds: 4, final: 0.01}"]
    changes += ["privacy={noise_multiplier: 1, delta: 1e-6, clip: 1, training: noise, adaptive_clip: {quantile: 0.5}}"]
    result = fedsim.simulate(Scenario.load("scenarios/paper/synthetic.fedsim.yaml", changes))
    said = fedsim.citation(result)
    assert "adaptive_clip: Andrew et al. NeurIPS 2021, arXiv:1905.03871" in said
    assert "cosine: Loshchilov and Hutter ICLR 2017, arXiv:1608.03983" in said


def test_sources_are_those_of_the_modules() -> None:
    found = dict(each.split(": ") for each in " ".join(_SOURCES.split()).split("; "))
    without = {"debiased_fedavg", "oracle_weighted", "independent"}  # of the model's paper, and of everybody
    for registry in (OPTIMIZERS, MECHANISMS):
        for kind in set(registry.built_in) - without:
            told = sys.modules[registry[kind].__module__].__doc__ or ""
            assert re.search(rf"arXiv:{found[kind].rsplit(' ', 1)[1]}\b", told), kind
