"""Which metrics a scenario can have, so that a misspelt name is told before anything runs."""

from collections.abc import Iterator
from itertools import chain, islice

from fedsim.analysis.metrics import BUILTIN, METRICS, declared, listed, metric_part, scope
from fedsim.analysis.metrics.metric import Metric
from fedsim.analysis.metrics.own import own_described
from fedsim.scenario import Scenario
from fedsim.scenario.model import did_you_mean

_HOURS = tuple(f"{hour:02d}" for hour in range(24))
_MOST_SUGGESTED = 5_000


class UnknownMetricError(ValueError):
    """A name that is no metric of the scenario; the message suggests one."""


def find_metric(name: str, scenario: Scenario) -> Metric:
    """Return what the catalogue says about a metric of a scenario.

    Parameters
    ----------
    name
        As in ``metrics.json``: optimizers and groups are named as the scenario names them.

    Raises
    ------
    UnknownMetricError
        If there is no such metric, or it names an optimizer or a group that the scenario does not have. A scenario that
        trains nothing has learning metrics without samples: switching training off is no spelling mistake.
    """
    own = own_described(scenario)
    if name in own:
        return own[name]
    family, _, rest = name.partition(".")
    label, _, figure = rest.partition(".")
    if family == "learning":
        known = _of_optimizers()
        labels = optimizer_labels(scenario)
        if figure in known and (label in labels or not labels):
            return known[figure]
        if figure in known:
            raise UnknownMetricError(f"no optimizer is called {label!r}{did_you_mean(label, labels)}")
    elif family == "group":
        metric = _of_groups(figure)
        labels = [metric_part(group.name) for group in scenario.population]
        if metric is not None and label in labels:
            return metric
        if metric is not None:
            hint = did_you_mean(label, labels[:_MOST_SUGGESTED]) if len(labels) < 20 else ""
            raise UnknownMetricError(f"no group is called {label!r}{hint}")
    else:
        metric = _plain().get(name)
        if metric is not None:
            return metric
    close = did_you_mean(name, list(islice(chain(own, _names(scenario)), _MOST_SUGGESTED)))
    hint = close if "did you mean" in close else "; `fedsim metrics` lists them"
    raise UnknownMetricError(f"unknown metric {name!r}{hint}")


def optimizer_labels(scenario: Scenario) -> list[str]:
    """Return the names under which optimizers have metrics, the twin of ``reference: uniform`` included."""
    learning = scenario.learning
    if learning is None:
        return []
    labels = [choice.label for choice in learning.optimizers]
    return labels + ([f"{labels[0]}_uniform"] if learning.reference == "uniform" else [])


def _names(scenario: Scenario) -> Iterator[str]:
    yield from _plain()
    for label in optimizer_labels(scenario):
        yield from (f"learning.{label}.{figure}" for figure in _of_optimizers())
    parts = [name for name in _plain() if _of_groups(name) is not None]
    for group in scenario.population if len(scenario.population) > 1 else []:
        prefix = f"group.{metric_part(group.name)}."
        yield from (prefix + part for part in chain(("share", "ratio"), parts))


def _plain() -> dict[str, Metric]:
    """Return the metrics of the whole population, hours written out."""
    return {
        metric.name.replace("HOUR", hour): metric
        for metric in listed()
        if not metric.name.startswith(("learning.", "group."))
        for hour in (_HOURS if "HOUR" in metric.name else ("",))
    }


def _of_optimizers() -> dict[str, Metric]:
    prefix = "learning.OPTIMIZER."
    return {metric.name.removeprefix(prefix): metric for metric in listed() if metric.name.startswith(prefix)}


def _of_groups(figure: str) -> Metric | None:
    own = {metric.name: metric for metric in listed()}.get(f"group.GROUP.{figure}")
    if own is not None and figure != "METRIC":
        return own
    both = {metric.name for kind in BUILTIN if scope(METRICS[kind]) == "both" for metric in declared(METRICS[kind])}
    metric = _plain().get(figure)
    return metric if metric is not None and metric.name in both else None
