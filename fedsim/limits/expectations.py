"""The conditions of a scenario, read and checked against the metrics that it can have, before anything runs."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import TypeAlias

from fedsim.analysis.metrics import BUILTIN, METRICS, declared, listed, metric_part, scope
from fedsim.analysis.metrics.metric import Metric
from fedsim.analysis.metrics.own import Own, made_metrics, own_described
from fedsim.common.errors import KeyPath, Mistake, ScenarioError
from fedsim.common.hints import did_you_mean
from fedsim.limits.grammar import ConditionError, MetricCondition, parse_condition
from fedsim.scenario import Scenario
from fedsim.scenario.sweep import Expectation

_PLACE = re.compile(r"(?P<file>.*):(?P<line>\d+):(?P<column>\d+)", re.DOTALL)
_PLAIN_UNITS = ("s", "rounds", "clients", "1/d")
_OWNERS = {"learning": "OPTIMIZER", "group": "GROUP"}
_MOST_SUGGESTED = 5_000


class UnknownMetricError(ValueError):
    """A name that is no metric of the scenario; the message suggests one."""


def find_metric(name: str, scenario: Scenario, own: Sequence[Own] | None = None) -> Metric:
    """Return the metric of a scenario that has this name in ``metrics.json``; `own` is as in `expectations`.

    An `UnknownMetricError` says if there is none, or it names an optimizer or a group that the scenario does not have.
    A scenario that trains nothing has learning metrics without samples: switching training off is no spelling mistake.
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
            short = family == "learning" or len(labels) < 20
            hint = did_you_mean(label, labels[:_MOST_SUGGESTED], or_known=True) if short else ""
            raise UnknownMetricError(f"no {_OWNERS[family].lower()} is called {label!r}{hint}")
    if metric is not None:
        return metric
    close = did_you_mean(name, list(islice(chain(described, _names(scenario)), _MOST_SUGGESTED)))
    raise UnknownMetricError(f"unknown metric {name!r}{close or '; `fedsim metrics` lists them'}")


def _labels(scenario: Scenario, family: str) -> list[str]:
    """Return under which names groups or optimizers have metrics, the twin of ``reference: uniform`` included."""
    learning = scenario.learning
    if family == "group":
        return [metric_part(group.name) for group in scenario.population]
    labels = [choice.label for choice in learning.optimizers] if learning is not None else []
    return labels + ([f"{labels[0]}_uniform"] if learning is not None and learning.reference == "uniform" else [])


def _names(scenario: Scenario) -> Iterator[str]:
    """Yield every name, those of groups last."""
    yield from (name for name in _known() if name.partition(".")[0] not in _OWNERS)
    for family, owner in _OWNERS.items():
        labels = _labels(scenario, family)
        for label in labels if family != "group" or len(labels) > 1 else ():
            yield from (name.replace(owner, label, 1) for name in _known() if name.startswith(family + "."))


@cache
def _known() -> dict[str, Metric]:
    """Return every built-in metric by its name: numbers written out, optimizers and groups by their placeholders."""
    both = [metric for kind in BUILTIN if scope(METRICS[kind]) == "both" for metric in declared(METRICS[kind])]
    named = [(metric.name, metric) for metric in listed() if "METRIC" not in metric.name]
    named += [(f"group.GROUP.{metric.name}", metric) for metric in both]
    hours, tenths = [f"{hour:02d}" for hour in range(24)], [str(number) for number in range(1, 11)]
    return {
        name.replace("HOUR", hour).replace("TENTH", tenth): metric
        for name, metric in named
        for hour in (hours if "HOUR" in name else [""])
        for tenth in (tenths if "TENTH" in name else [""])
    }


_Expected: TypeAlias = tuple[MetricCondition, Expectation, str]


def expectations(scenario: Scenario, own: Sequence[Own] | None = None) -> list[_Expected]:
    """Return the conditions of a scenario, what it says about each, and its ``FILE:LINE:COLUMN``.

    `own` are the scenario's own metrics, if they are made already. A `ScenarioError` has everything that is wrong with
    `expect`, at the character where it is wrong if the file shows it.
    """
    found: list[_Expected] = []
    mistakes: list[Mistake] = []
    own = made_metrics(scenario)[0] if own is None else own
    for index, expectation in enumerate(scenario.expect):
        path: KeyPath = ("expect", index, "check")
        condition = _condition(expectation.check, path, path[:2], scenario, own)
        if isinstance(condition, Mistake):
            mistakes.append(condition)
        else:
            found.append((condition, expectation, scenario.mistake(path, "").place))
        if expectation.over != "every" and scenario.replicates == 1:
            message = f"over: {expectation.over} needs several replicates: give the scenario `replicates: 20`"
            mistakes.append(scenario.mistake(("expect", index, "over"), message))
    if mistakes:
        raise ScenarioError(mistakes)
    return found


def check_study(scenario: Scenario, own: Sequence[Own] | None = None) -> list[Mistake]:
    """Return what is wrong with the `expect`, `drift` and `decide` of a scenario; `own` is as in `expectations`."""
    own = made_metrics(scenario)[0] if own is None else own
    beside = [*_check_drift(scenario, own), *_check_decide(scenario, own)]
    try:
        expectations(scenario, own)
    except ScenarioError as error:
        return [*error.mistakes, *beside]
    return beside


def _condition(
    text: str, path: KeyPath, shown: KeyPath, scenario: Scenario, own: Sequence[Own]
) -> MetricCondition | Mistake:
    """Read a condition of a scenario, or say what is wrong with it, at the character where it is wrong."""
    try:
        condition = parse_condition(text)
        _check_metric(condition, scenario, own)
    except ConditionError as error:
        place = scenario.mistake(path, "").place
        return Mistake(_within(place, text, error.offset), shown, str(error))
    return condition


def _check_decide(scenario: Scenario, own: Sequence[Own]) -> Iterator[Mistake]:
    decide = scenario.decide
    if decide is None:
        return
    try:
        find_metric(decide.metric, scenario, own)
    except UnknownMetricError as error:
        yield scenario.mistake(("decide", "minimize" if decide.minimize is not None else "maximize"), str(error))
    for index, text in enumerate(decide.subject_to):
        path: KeyPath = ("decide", "subject_to", index)
        condition = _condition(text, path, path, scenario, own)
        if isinstance(condition, Mistake):
            yield condition


def _check_metric(condition: MetricCondition, scenario: Scenario, own: Sequence[Own]) -> None:
    try:
        unit = find_metric(condition.metric, scenario, own).unit
    except UnknownMetricError as error:
        raise ConditionError(str(error), condition.offset) from None
    for value in condition.values:
        written = f"{value.number:.6g}"
        if unit == "s" and value.form == "number" and value.number != 0:
            units = f"{written}s, {written}m or {written}h"
            message = f"{condition.metric} is a time, so the limit needs a unit: write {units}"
            raise ConditionError(message, value.offset)
        if unit != "s" and value.form == "duration":
            kind = f"is in {unit}" if unit in _PLAIN_UNITS else "has no unit"
            raise ConditionError(f"{condition.metric} {kind}, and cannot be compared with a duration", value.offset)
        if unit in _PLAIN_UNITS and value.form == "percentage":
            message = f"{condition.metric} is in {unit}, and cannot be compared with a percentage"
            raise ConditionError(message, value.offset)


def _check_drift(scenario: Scenario, own: Sequence[Own]) -> Iterator[Mistake]:
    drift = scenario.drift
    if drift is None:
        return
    names = [figure.name for figure in drift.figures]
    for index, name in enumerate(names):
        path: KeyPath = ("drift", "figures", index)
        try:
            find_metric(name, scenario, own)
        except UnknownMetricError as error:
            yield scenario.mistake(path, str(error))
        if name in names[:index]:
            yield scenario.mistake(path, f"{name!r} is listed twice")
    for index, table in enumerate(drift.fingerprint):
        path = ("drift", "fingerprint", index)
        if table in drift.fingerprint[:index]:
            yield scenario.mistake(path, f"{table!r} is listed twice")
        if table == "transitions" and not scenario.records.transitions:
            yield scenario.mistake(path, "there is no such table, since records.transitions names no clients")
        if table == "convergence" and scenario.theory.convergence is None:
            yield scenario.mistake(path, "there is no such table, since theory.convergence asks for none")


def _within(place: str, text: str, offset: int) -> str:
    """Return the place of a character of a value; the value's, unless the file has it on one line as it is."""
    match = _PLACE.fullmatch(place)
    if match is None:
        return place
    line, column = int(match["line"]), int(match["column"])
    try:
        with Path(match["file"]).open(encoding="utf-8-sig") as file:
            written = next((each for number, each in enumerate(file, start=1) if number == line), "")
    except (OSError, UnicodeDecodeError):
        return place
    rest = written[column - 1 :]
    quoted = rest[:1] in {"'", '"'}
    if not rest[quoted:].startswith(text):
        return place
    return f"{match['file']}:{line}:{column + quoted + offset}"
