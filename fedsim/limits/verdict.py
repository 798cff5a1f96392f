"""The verdict on each condition of a run: observed, limit, margin."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedsim.analysis.metrics.own import Own
from fedsim.limits.expectations import expectations
from fedsim.limits.grammar import MetricCondition, ValueForm
from fedsim.scenario import Scenario
from fedsim.scenario.sweep import Expectation
from fedsim.scenario.units import format_duration

Metrics = Mapping[str, float | None]
_Status = Literal["pass", "warn", "fail", "unjudged"]


@dataclass(frozen=True)
class Judgement:
    """One condition and its verdict."""

    check: str
    severity: str
    why: str
    over: str
    observed: float | None  # the metric; over replicates the one that counts; None where there were no samples
    limit: float | list[float] | None  # a number, or both ends, in the metric's unit (s, or a share of 1)
    margin: float | None  # distance of the observed value to the nearer limit, negative where that was missed
    status: _Status  # "unjudged" where it is about several replicates and this is one run
    place: str  # FILE:LINE:COLUMN of the condition
    note: str  # what else there is to say: no samples, or which replicate was the worst
    form: ValueForm  # in which the limit was written

    def as_dict(self) -> dict[str, Any]:
        """Return what manifests and `--json` show."""
        return {name: value for name, value in vars(self).items() if name != "form"}

    @property
    def figures(self) -> str:
        """Observed, limit and margin, in the form in which the limit was written."""
        if self.observed is None:
            return self.note
        limits = self.limit if isinstance(self.limit, list) else [self.limit]
        shown = " to ".join(_shown(limit, self.form) for limit in limits if limit is not None)
        margin = "" if self.margin is None else f", margin {_shown(self.margin, self.form)}"
        note = f"; {self.note}" if self.note else ""
        return f"observed {_shown(self.observed, self.form)}, limit {shown}{margin}{note}"


def judge(scenario: Scenario, replicates: Sequence[Metrics], own: Sequence[Own] | None = None) -> list[Judgement]:
    """Judge the conditions of a scenario by the metrics of each replicate that was run.

    With fewer than the scenario asks for, conditions on the mean or the 95 % of replicates stay unjudged. `own` are the
    scenario's own metrics, if they are made already.
    """
    return [_judge(*expected, replicates, scenario.replicates) for expected in expectations(scenario, own)]


def failed(judgements: Iterable[Judgement]) -> bool:
    """Say whether any condition fails."""
    return any(judgement.status == "fail" for judgement in judgements)


def _judge(
    condition: MetricCondition, expectation: Expectation, place: str, replicates: Sequence[Metrics], wanted: int
) -> Judgement:
    missed: _Status = "warn" if expectation.severity == "warn" else "fail"
    observed = margin = None
    values = [_sample(metrics, condition.metric) for metrics in replicates]
    empty = [index for index, value in enumerate(values) if math.isnan(value)]
    if expectation.over != "every" and len(replicates) < wanted:
        status: _Status = "unjudged"
        note = f"speaks of {wanted} replicates, which `fedsim replay` runs"
    elif empty:
        status = missed
        which = f" in replicate {empty[0]}" if len(replicates) > 1 else ""
        note = f"no samples: the run has no value of {condition.metric}{which}"
    else:
        observed, kept, note = _over(condition, values, expectation.over)
        margin = condition.margin(observed)
        status = "pass" if kept else missed
    return Judgement(
        **expectation.model_dump(),
        observed=observed,
        limit=_limit(condition),
        margin=margin,
        status=status,
        place=place,
        note=note,
        form=condition.values[0].form,
    )


def _over(condition: MetricCondition, values: Sequence[float], over: str) -> tuple[float, bool, str]:
    """Return the value that counts, whether it keeps the limits, and what to say about it."""
    if len(values) == 1:
        return values[0], condition.holds(values[0]), ""
    if over == "mean":
        mean = math.fsum(values) / len(values)
        return mean, condition.holds(mean), f"mean of {len(values)} replicates"
    if over == "p95":
        # The end that is nearer to its limit counts: 95 % of the replicates are on the right side of it.
        ends = [float(np.quantile(values, 0.95))] if condition.high is not None else []
        ends += [float(np.quantile(values, 0.05))] if condition.low is not None else []
        worst = min(ends, key=condition.margin)
        return worst, all(map(condition.holds, ends)), f"95 % of {len(values)} replicates are on its better side"
    index = min(range(len(values)), key=lambda each: condition.margin(values[each]))
    misses = sum(not condition.holds(value) for value in values)
    beside = f", {misses} of them miss the limit" if misses else ""
    return values[index], not misses, f"the worst of {len(values)} replicates, number {index}{beside}"


def _sample(metrics: Metrics, name: str) -> float:
    value = metrics.get(name)
    return math.nan if value is None or not math.isfinite(value) else float(value)


def _limit(condition: MetricCondition) -> float | list[float]:
    ends = [end.value for end in (condition.low, condition.high) if end is not None]
    return ends[0] if ends[0] == ends[-1] else ends


def _shown(value: float, form: ValueForm) -> str:
    if form == "percentage":
        return f"{100 * value:.6g}%"
    if form == "duration" and math.isfinite(value):
        sign = "-" if value < 0 else ""
        rounded = float(f"{abs(value):.6g}")
        return sign + (format_duration(rounded) if rounded % 60 == 0 or rounded < 100 else f"{rounded:g}s")
    return f"{value:.6g}"
