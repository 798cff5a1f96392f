"""The conditions of a scenario, read and checked against the metrics that it can have."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedsim.analysis.metrics.own import Own, made_metrics
from fedsim.common.errors import KeyPath, Mistake, ScenarioError
from fedsim.limits.grammar import Condition, ConditionError, parse_condition
from fedsim.limits.names import UnknownMetricError, find_metric
from fedsim.scenario import Scenario
from fedsim.scenario.expect import Expectation

_PLACE = re.compile(r"(?P<file>.*):(?P<line>\d+):(?P<column>\d+)", re.DOTALL)
_PLAIN_UNITS = ("s", "rounds", "clients", "1/d")


def expectations(scenario: Scenario, own: Sequence[Own] | None = None) -> list[tuple[Condition, Expectation, str]]:
    """Return the conditions of a scenario, what it says about each, and its ``FILE:LINE:COLUMN``.

    Parameters
    ----------
    scenario, own
        The scenario, and its own metrics, if they are made already.

    Raises
    ------
    ScenarioError
        With everything that is wrong with `expect`: the place of the very character, where the file shows it.
    """
    found: list[tuple[Condition, Expectation, str]] = []
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


def _condition(text: str, path: KeyPath, shown: KeyPath, scenario: Scenario, own: Sequence[Own]) -> Condition | Mistake:
    """Read a condition of a scenario, or say what is wrong with it, at the place of the very character."""
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


def _check_metric(condition: Condition, scenario: Scenario, own: Sequence[Own]) -> None:
    try:
        unit = find_metric(condition.metric, scenario, own).unit
    except UnknownMetricError as error:
        raise ConditionError(str(error), condition.offset) from None
    for value in condition.values:
        written = f"{value.number:.6g}"
        if unit == "s" and value.form == "number" and value.number != 0:
            message = (
                f"{condition.metric} is a time, so the limit needs a unit: write {written}s, {written}m or {written}h"
            )
            raise ConditionError(message, value.offset)
        if unit != "s" and value.form == "duration":
            kind = f"is in {unit}" if unit in _PLAIN_UNITS else "has no unit"
            raise ConditionError(f"{condition.metric} {kind}, and cannot be compared with a duration", value.offset)
        if unit in _PLAIN_UNITS and value.form == "percentage":
            raise ConditionError(
                f"{condition.metric} is in {unit}, and cannot be compared with a percentage", value.offset
            )


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
