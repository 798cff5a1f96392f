"""The conditions of a scenario: checked against its metrics before anything runs, and the verdict on each after it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedsim.common.errors import KeyPath, Mistake, ScenarioError
from fedsim.common.formatting import SCALED, scaled
from fedsim.common.hints import did_you_mean
from fedsim.measure.grammar import ConditionError, MetricCondition, ValueForm, parse_condition
from fedsim.measure.metrics import metric_part, names, split
from fedsim.measure.metrics.metric import Metric
from fedsim.measure.metrics.own import OwnMetrics, made_metrics, own_described
from fedsim.scenario import Scenario
from fedsim.scenario.privacy import scope_of
from fedsim.scenario.sweep import Expectation
from fedsim.scenario.units import format_duration

_PLAIN_UNITS = ("s", "rounds", "clients", "1/d", "1/h", "h", "MB", *SCALED)
_MOST_SUGGESTED = 5_000
Metrics = Mapping[str, float | None]
_Status = Literal["pass", "warn", "fail", "unjudged"]


class UnknownMetricError(ValueError):
    """A name that is no metric of the scenario; the message suggests one."""


def find_metric(name: str, scenario: Scenario, own_metrics: Sequence[OwnMetrics] | None = None) -> Metric:
    """Return the metric of a scenario that has this name in ``metrics.json``; `own_metrics` are as in `judge`.

    An `UnknownMetricError` says if there is none, or it names an optimizer or a group that the scenario does not have.
    A scenario that trains nothing has learning metrics without samples: switching training off is no spelling mistake.
    """
    if scenario.jobs and name.startswith("job."):
        job, _, rest = name.removeprefix("job.").partition(".")
        if job not in scenario.jobs:
            raise UnknownMetricError(f"no job is called {job!r}{did_you_mean(job, scenario.jobs, or_known=True)}")
        return find_metric(rest.removeprefix("alone."), scenario.of_job(job))
    described = own_described(scenario, made_metrics(scenario)[0] if own_metrics is None else own_metrics)
    if name in described:
        return described[name]
    metric, dimensions = split(name)
    if metric is None or "job" in dimensions:
        close = did_you_mean(name, list(islice(chain(described, _names(scenario)), _MOST_SUGGESTED)))
        raise UnknownMetricError(f"unknown metric {name!r}{close or '; `fedsim metrics` lists them'}")
    for dimension, labels in _labels(scenario).items():
        label = dimensions.get(dimension)
        if label is not None and label not in labels and (labels or dimension == "group"):
            hint = did_you_mean(label, labels[:_MOST_SUGGESTED], or_known=len(labels) < 20)
            raise UnknownMetricError(f"no {dimension} is called {label!r}{hint}")
    return metric


def _labels(scenario: Scenario) -> dict[str, list[str]]:
    """Return under which names optimizers and groups have metrics, the twin of ``reference: uniform`` included.

    Zones are known with the population.
    """
    learning, by_dimension = scenario.learning, dict[str, list[str]](optimizer=[], group=[])
    if scenario.jobs:
        return by_dimension
    by_dimension["group"] = [metric_part(group.name) for group in scenario.population]
    if learning is not None:
        labels = [choice.label for choice in learning.optimizers]
        by_dimension["optimizer"] = [*labels, *filter(None, (learning.twin,))]
    return by_dimension


def _names(scenario: Scenario) -> Iterator[str]:
    """Yield every name, those of groups last."""
    labels = _labels(scenario)
    labels["group"] = labels["group"] if len(labels["group"]) > 1 else []
    labels |= {"zone": [], "class": [], "tenth": [*map(str, range(1, 11))]}
    labels["hour"] = [f"{hour:02d}" for hour in range(24)]
    for name, _ in sorted(names(), key=lambda each: "GROUP" in each[0]):
        spelled = [name]
        for word in (each for each in labels if each.upper() in name):
            spelled = [each.replace(word.upper(), label) for each in spelled for label in labels[word]]
        yield from spelled


def check_study(scenario: Scenario, own_metrics: Sequence[OwnMetrics] | None = None) -> list[Mistake]:
    """Return what is wrong with the `expect`, `drift`, `decide` and `headline` of a scenario; else as `judge`."""
    own_metrics = made_metrics(scenario)[0] if own_metrics is None else own_metrics
    return [*_check_expect(scenario, own_metrics), *_check_drift(scenario), *_check_names(scenario, own_metrics)]


def measurable(changed: Scenario, before: Scenario) -> tuple[Scenario, list[str]]:
    """Return a scenario without limits, locks and headline of metrics that its changes took away, and these names.

    Those that the scenario `before` the changes does not have either stay, and are mistakes.
    """
    gone = list[str]()

    def kept(metric: str) -> bool:
        lost = not _has(changed, metric) and _has(before, metric)
        gone.extend([metric] * lost)
        return not lost

    expect, drift = changed.as_written.get("expect") or [], changed.as_written.get("drift") or {}
    limits = [each for each, limit in zip(expect, changed.expect, strict=True) if kept(_metric_in(limit.check))]
    listed = () if changed.drift is None else changed.drift.figures
    figures = [each for each, figure in zip(drift.get("figures", ()), listed, strict=True) if kept(figure.name)]
    spoken = {} if kept(changed.headline) else {"headline": ""}
    if not gone:
        return changed, gone
    locked = {**drift, "figures": figures} if figures or drift.get("fingerprint") else None
    return changed.with_values({"expect": limits, "drift": locked, **spoken}), list(dict.fromkeys(gone))


def _has(scenario: Scenario, metric: str) -> bool:
    with suppress(UnknownMetricError):
        return bool(find_metric(metric, scenario))
    return False


def _metric_in(check: str) -> str:
    with suppress(ConditionError):
        return parse_condition(check).metric
    return ""


def _check_expect(scenario: Scenario, own_metrics: Sequence[OwnMetrics]) -> Iterator[Mistake]:
    for index, expectation in enumerate(scenario.expect):
        path: KeyPath = ("expect", index)
        yield from _check_condition(expectation.check, (*path, "check"), path, scenario, own_metrics)
        if expectation.over != "every" and scenario.replicates == 1:
            message = f"over: {expectation.over} needs several replicates: give the scenario `replicates: 20`"
            yield scenario.mistake((*path, "over"), message)


def _check_names(scenario: Scenario, own_metrics: Sequence[OwnMetrics]) -> Iterator[Mistake]:
    """Find the names of no metric, and the conditions of `decide` that cannot be read."""
    named = list[tuple[KeyPath, str]]()
    if (drift := scenario.drift) is not None:
        named += [(("drift", "figures", index), figure.name) for index, figure in enumerate(drift.figures)]
    if (decide := scenario.decide) is not None:
        named.append((("decide", "minimize" if decide.minimize is not None else "maximize"), decide.metric))
    if scenario.headline:
        named.append((("headline",), scenario.headline))
    for path, name in named:
        try:
            find_metric(name, scenario, own_metrics)
        except UnknownMetricError as error:
            yield scenario.mistake(path, str(error))
    for index, text in enumerate(decide.subject_to if decide is not None else ()):
        path = ("decide", "subject_to", index)
        yield from _check_condition(text, path, path, scenario, own_metrics)


def _check_condition(
    text: str, path: KeyPath, shown: KeyPath, scenario: Scenario, own_metrics: Sequence[OwnMetrics]
) -> Iterator[Mistake]:
    """Say what is wrong with a condition, at the character where it is wrong if the file shows it."""
    try:
        condition = parse_condition(text)
        _check_metric(condition, scenario, own_metrics)
    except ConditionError as error:
        yield Mistake(_within(scenario.mistake(path, "").place, text, error.offset), shown, str(error))


def _check_metric(condition: MetricCondition, scenario: Scenario, own_metrics: Sequence[OwnMetrics]) -> None:
    metric = condition.metric
    try:
        unit = find_metric(metric, scenario, own_metrics).unit
    except UnknownMetricError as error:
        raise ConditionError(str(error), condition.offset) from None
    for value in condition.values:
        if unit == "s" and value.form == "number" and value.number != 0:
            written = f"{value.number:.6g}"
            message = f"{metric} is a time, so the limit needs a unit: write {written}s, {written}m or {written}h"
            raise ConditionError(message, value.offset)
        fits = value.form == "number" or (value.form == "percentage" and unit not in _PLAIN_UNITS)
        if not fits and value.form != {"s": "duration"}.get(unit, unit):
            kind = f"is in {unit}" if unit in _PLAIN_UNITS else "has no unit"
            written = value.form if value.form in {"percentage", "duration"} else f"value in {value.form}"
            raise ConditionError(f"{metric} {kind}, and cannot be compared with a {written}", value.offset)


def _check_drift(scenario: Scenario) -> Iterator[Mistake]:
    if (drift := scenario.drift) is None:
        return
    figures: Sequence[str] = [each.name for each in drift.figures]
    for key, entries in {"figures": figures, "fingerprint": drift.fingerprint}.items():
        for index, name in enumerate(entries):
            if name in entries[:index]:
                yield scenario.mistake(("drift", key, index), f"{name!r} is listed twice")
    absent = {"transitions": "records.transitions names no clients"} if not scenario.records.transitions else {}
    absent |= {"convergence": "theory.convergence asks for none"} if scenario.theory.convergence is None else {}
    for index, table in enumerate(drift.fingerprint):
        if table in absent:
            yield scenario.mistake(("drift", "fingerprint", index), f"there is no such table, since {absent[table]}")


def _within(place: str, text: str, offset: int) -> str:
    """Return the place of a character of a value; the value's, unless the file has it on one line as it is."""
    try:
        file, line, column = place.rsplit(":", 2)
        written = Path(file).read_text(encoding="utf-8-sig").split("\n")[int(line) - 1][int(column) - 1 :]
    except (OSError, ValueError, IndexError):
        return place
    quoted = written[:1] in {"'", '"'}
    return f"{file}:{line}:{int(column) + quoted + offset}" if written[quoted:].startswith(text) else place


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


def judge(
    scenario: Scenario, replicates: Sequence[Metrics], own_metrics: Sequence[OwnMetrics] | None = None
) -> list[Judgement]:
    """Judge the conditions of a scenario by the metrics of each replicate that was run.

    With fewer than the scenario asks for, conditions on the mean or the 95 % of replicates stay unjudged. `own_metrics`
    are the scenario's own, if they are made already. A `ScenarioError` has everything that is wrong with `expect`.
    """
    own_metrics = made_metrics(scenario)[0] if own_metrics is None else own_metrics
    if mistakes := [*_check_expect(scenario, own_metrics)]:
        raise ScenarioError(mistakes)
    places = [scenario.mistake(("expect", index, "check"), "").place for index in range(len(scenario.expect))]
    return [_judge(each, place, replicates, scenario) for each, place in zip(scenario.expect, places, strict=True)]


def _covered(metric: str, scenario: Scenario) -> str:
    """Say what an epsilon covers; "" for another metric."""
    if scenario.privacy is None or not metric.startswith("privacy.epsilon"):
        return ""
    secret = scenario.privacy.amplification != "none" and metric != "privacy.epsilon_if_known"
    return f"for {scope_of(secret)}; delta = {scenario.privacy.delta:g}"


def _judge(expectation: Expectation, place: str, replicates: Sequence[Metrics], scenario: Scenario) -> Judgement:
    condition = parse_condition(expectation.check)
    missed: _Status = "warn" if expectation.severity == "warn" else "fail"
    observed = margin = None
    measured = [metrics.get(condition.metric) for metrics in replicates]
    values = [each for each in measured if each is not None and math.isfinite(each)]
    empty = [index for index, each in enumerate(measured) if each is None or not math.isfinite(each)]
    if expectation.over != "every" and len(replicates) < scenario.replicates:
        status: _Status = "unjudged"
        note = f"speaks of {scenario.replicates} replicates, which `fedsim replay` runs"
    elif empty:
        status = missed
        which = f" in replicate {empty[0]}" if len(replicates) > 1 else ""
        note = f"no samples: the run has no value of {condition.metric}{which}"
    else:
        observed, kept, note = _over(condition, values, expectation.over)
        margin = condition.margin(observed)
        status = "pass" if kept else missed
        note = "; ".join(filter(None, (note, _covered(condition.metric, scenario))))
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
    if form in SCALED and math.isfinite(value):
        value, unit = scaled(value, form)
        return f"{value:.6g}{unit}"
    return f"{value:.6g}{'/d' * (form == '1/d')}"
