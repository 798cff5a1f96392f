"""Which metrics a scenario can have, so that a misspelt name is told before anything runs."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice

from fedsim.analysis.metrics import BUILTIN, METRICS, declared, listed, metric_part, scope
from fedsim.analysis.metrics.metric import Metric
from fedsim.analysis.metrics.own import Own, made_metrics, own_described
from fedsim.scenario import Scenario
from fedsim.scenario.model import did_you_mean

_OWNERS = {"learning": "OPTIMIZER", "group": "GROUP"}
_MOST_SUGGESTED = 5_000


class UnknownMetricError(ValueError):
    """A name that is no metric of the scenario; the message suggests one."""


def find_metric(name: str, scenario: Scenario, own: Sequence[Own] | None = None) -> Metric:
    """Return what there is to know about a metric of a scenario.

    Parameters
    ----------
    name
        As in ``metrics.json``: optimizers and groups are named as the scenario names them.
    scenario, own
        The scenario, and its own metrics, if they are made already.

    Raises
    ------
    UnknownMetricError
        If there is no such metric, or it names an optimizer or a group that the scenario does not have. A scenario that
        trains nothing has learning metrics without samples: switching training off is no spelling mistake.
    """
    described, known = own_described(scenario, made_metrics(scenario)[0] if own is None else own), _known()
    if name in described:
        return described[name]
    family, _, rest = name.partition(".")
    label, _, figure = rest.partition(".")
    metric = known.get(f"{family}.{_OWNERS[family]}.{figure}" if family in _OWNERS else name)
    if metric is not None and family in _OWNERS:
        labels = _labels(scenario, family)
        if label not in labels and (labels or family == "group"):
            hint = did_you_mean(label, labels[:_MOST_SUGGESTED]) if family == "learning" or len(labels) < 20 else ""
            raise UnknownMetricError(f"no {_OWNERS[family].lower()} is called {label!r}{hint}")
    if metric is not None:
        return metric
    close = did_you_mean(name, list(islice(chain(described, _names(scenario)), _MOST_SUGGESTED)))
    hint = close if "did you mean" in close else "; `fedsim metrics` lists them"
    raise UnknownMetricError(f"unknown metric {name!r}{hint}")


def _labels(scenario: Scenario, family: str) -> list[str]:
    """Return under which names groups or optimizers have metrics, the twin of ``reference: uniform`` included."""
    learning = scenario.learning
    if family == "group":
        return [metric_part(group.name) for group in scenario.population]
    labels = [choice.label for choice in learning.optimizers] if learning is not None else []
    return labels + ([f"{labels[0]}_uniform"] if learning is not None and learning.reference == "uniform" else [])


def _names(scenario: Scenario) -> Iterator[str]:
    """Yield every name, those of groups last."""
    for family in ("", *_OWNERS):
        labels = _labels(scenario, family) if family else [""]
        for label in labels if family != "group" or len(labels) > 1 else ():
            for name in _known():
                if name.startswith(family + ".") or (not family and name.partition(".")[0] not in _OWNERS):
                    yield name.replace(_OWNERS.get(family, " "), label, 1)


@cache
def _known() -> dict[str, Metric]:
    """Return every built-in metric by its name: numbers written out, optimizers and groups by their placeholders."""
    both = [metric for kind in BUILTIN if scope(METRICS[kind]) == "both" for metric in declared(METRICS[kind])]
    named = [(metric.name, metric) for metric in listed() if "METRIC" not in metric.name]
    named += [(f"group.GROUP.{metric.name}", metric) for metric in both]
    return {written: metric for name, metric in named for written in _written_out(name)}


def _written_out(name: str) -> list[str]:
    """Return a name with each of the numbers that its placeholder stands for."""
    if "HOUR" in name:
        return [name.replace("HOUR", f"{hour:02d}") for hour in range(24)]
    if "TENTH" in name:
        return [name.replace("TENTH", str(number)) for number in range(1, 11)]
    return [name]
