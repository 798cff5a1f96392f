"""A scenario's own metrics: built, checked, and measured with errors that name them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from fedsim.common.errors import KeyPath, Mistake, PluginError
from fedsim.measure.metrics import METRICS, MOST_GROUPS, declared, describe, metric_part, scope
from fedsim.measure.metrics.metric import Measure, Measurement, Metric, RunPart
from fedsim.scenario import Scenario

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_SCOPES = ("run", "groups", "both")


@dataclass(frozen=True)
class OwnMetrics:
    """A scenario's own measurement, `inner`, with the kind that the scenario names and what it declares."""

    kind: str
    metrics: tuple[Metric, ...]
    scope: str
    inner: Measurement | None = None  # of a run that was read: nothing is imported for that

    def measure(self, run: RunPart) -> dict[str, Measure]:
        """Return the metrics by name.

        Raises
        ------
        PluginError
            If it fails, or returns something else than numbers, or rows of them, for the metrics that it declares.
        """
        where = f"metric {self.kind!r}"
        assert self.inner is not None
        with METRICS.reraise_as_plugin_error(where, self.inner.measure):
            returned = self.inner.measure(run)
            named = returned if isinstance(returned, Mapping) else {self.metrics[0].name: returned}
            names, measured = [each.name for each in self.metrics], dict[str, Measure]()
            if not isinstance(returned, Mapping) and len(names) > 1:
                raise PluginError(f"declares {len(names)} metrics, so it must return a mapping, not {returned!r}")
            for name, value in named.items():
                several = isinstance(value, list | tuple | np.ndarray)  # of days or spans
                rows: Any = value if several else [value]
                if name not in names:
                    raise PluginError(f"returned {name!r}, and declares only {', '.join(names)}")
                if not all(isinstance(each, Real) for each in rows):
                    raise PluginError(f"returned {value!r} for {name}, which is not a number")
                measured[name] = [*map(float, rows)] if several else float(rows[0])
            return measured


def made_metrics(scenario: Scenario) -> tuple[list[OwnMetrics], list[Mistake]]:
    """Return a scenario's own metrics, and what is wrong with those that are not among them."""
    made, mistakes, names = list[OwnMetrics](), list[Mistake](), set[str]()
    for index, choice in enumerate(scenario.metrics):
        path: KeyPath = ("metrics", index)
        if findings := METRICS.check(choice.kind, choice.options):
            mistakes += [scenario.mistake(path + keys, message) for keys, message in findings]
            continue
        try:
            inner = METRICS.build(choice.kind, choice.options)
            with METRICS.reraise_as_plugin_error(f"metric {choice.kind!r}", type(inner)):
                candidate = OwnMetrics(choice.kind, declared(inner), scope(inner), inner)
            complaint = _complaint(candidate, names)
        except PluginError as error:
            complaint = str(error)
        if complaint:
            mistakes.append(scenario.mistake((*path, "kind"), complaint))
        else:
            names |= {metric.name for metric in candidate.metrics}
            made.append(candidate)
    return made, mistakes


def own_described(scenario: Scenario, made: Sequence[OwnMetrics]) -> dict[str, Metric]:
    """Return what a scenario's own metrics are, by the name in ``metrics.json``, those of groups written out."""
    several = 1 < len(scenario.population) <= MOST_GROUPS
    groups = [f"group.{metric_part(group.name)}." for group in scenario.population] if several else []
    prefixes = {"run": [""], "groups": groups, "both": ["", *groups]}
    return {prefix + metric.name: metric for each in made for metric in each.metrics for prefix in prefixes[each.scope]}


def _complaint(candidate: OwnMetrics, taken: set[str]) -> str:
    """Return what is wrong with what a measurement declares; empty where nothing is."""
    if candidate.scope not in _SCOPES:
        return f"{candidate.kind!r} has scope {candidate.scope!r}, which is not one of {', '.join(_SCOPES)}"
    if not candidate.metrics:
        return f"{candidate.kind!r} declares no metrics"
    for metric in candidate.metrics:
        name, has = metric.name, f"{candidate.kind!r} has the name {metric.name!r}"
        if not all(isinstance(each, str) for each in (name, metric.unit, metric.meaning)):
            return f"name, unit and meaning of {candidate.kind!r} must be text"
        if not _NAME.fullmatch(name) or len(name) > 300:
            return f"{has}: words of letters, digits, _ and - with dots between are wanted"
        if name in taken or describe(name) is not None or name.startswith(("group.", "learning.", "zone.", "class.")):
            return f"{has}, which belongs to another metric: choose another"
    return ""
