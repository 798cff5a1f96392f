"""The language of conditions: one metric, one or two limits; read by a parser of its own, never evaluated.

::

    condition = [value compare] METRIC [compare value [tolerance]]    0.4 <= participation.l1_uniform <= 0.5
              | METRIC "between" value "and" value                    rounds.duration.p95 between 2m and 6m
    compare   = "<" | "<=" | ">" | ">=" | "=="
    tolerance = ("+-" | "+/-" | "±") value                            after ==
    value     = NUMBER | NUMBER "%" | DURATION | AMOUNT               0.05, 1e-3, 10%, 6m, PT6M, 40TB, 12kWh, 35/d
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fedsim.scenario.units import SIZES, WEIGHTS, parse_duration

ValueForm = Literal["number", "percentage", "duration", "B", "Wh", "g", "1/d"]
"""How a value is written: an amount has the unit in which it is counted."""
_AMOUNTS: Mapping[ValueForm, Mapping[str, float]] = {
    "B": SIZES, "Wh": {"Wh": 1.0, "kWh": 1e3, "MWh": 1e6}, "g": WEIGHTS, "1/d": {"/d": 1.0, "/h": 24.0}
}  # fmt: skip
_AMOUNT = re.compile(r"([+-]?[\d.]+)([A-Za-z]+|/[a-z]+)", re.ASCII)

_TOKEN = re.compile(
    r"\s*(?:(?P<value>[+-]?\.?\d[\w.]*(?:(?<=\d[eE])[+-]\d+)?(?:%|/[a-z]+)?)|(?P<word>[A-Za-z_][\w.-]*)"
    r"|(?P<tolerance>\+/?-|±)|(?P<compare><=|>=|==|=<|=>|!=|<>|[<>=])|(?P<other>\S))",
    re.ASCII,
)
_MEANT = {"=": "==", "=<": "<=", "=>": ">="}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}


class ConditionError(ValueError):
    """A condition that cannot be read; `offset` is the character at which it goes wrong, counted from 0."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True)
class WrittenValue:
    """A number, how it was written, and where it stands in the text: a percentage over 100, a duration in seconds."""

    number: float
    form: ValueForm
    offset: int


@dataclass(frozen=True)
class Limit:
    """One end of what a metric may be; `strict` leaves the end itself out."""

    value: float
    strict: bool = False


@dataclass(frozen=True)
class MetricCondition:
    """A condition, read; for ``==`` both ends are the value, less and plus the tolerance."""

    text: str
    metric: str
    offset: int  # of the metric's name in the text
    low: Limit | None  # None where the metric is free
    high: Limit | None
    values: tuple[WrittenValue, ...]  # in order

    def holds(self, observed: float) -> bool:
        """Say whether a value keeps the limits; NaN keeps none."""
        low, high = self.low, self.high
        above = low is None or observed > low.value or (observed == low.value and not low.strict)
        below = high is None or observed < high.value or (observed == high.value and not high.strict)
        return above and below and not math.isnan(observed)

    def margin(self, observed: float) -> float:
        """Return the distance to the nearer limit, in the metric's unit; negative beyond it."""
        ends = [] if self.low is None else [observed - self.low.value]
        ends += [] if self.high is None else [self.high.value - observed]
        return min(ends)


class _Token(NamedTuple):
    kind: str
    text: str
    offset: int


def parse_condition(text: str) -> MetricCondition:
    """Read a condition; a `ConditionError` says where it is none, and what would be right."""
    tokens = [_token(str(match.lastgroup), match) for match in _TOKEN.finditer(text)]
    tokens.append(_Token("", "", len(text.rstrip())))
    values, limits, allowed = list[WrittenValue](), list[tuple[str, float]](), 0.0

    def take(kind: str, wanted: str) -> _Token:
        if tokens[0].kind != kind:
            instead = f", not {tokens[0].text[:40]!r}" if tokens[0].kind else ", but the condition ends"
            raise ConditionError(f"expected {wanted}{instead}", tokens[0].offset)
        return tokens.pop(0)

    def value(after: str) -> float:
        values.append(_read_value(take("value", f"a value such as 10, 10%, 6m or 40TB after {after!r}")))
        return values[-1].number

    def compare() -> str:
        sign = take("compare", "<, <=, >, >=, == or `between`")
        if sign.text not in _TURNED:
            hint = f"did you mean {_MEANT[sign.text]!r}?" if sign.text in _MEANT else "known are <, <=, >, >= and =="
            raise ConditionError(f"{sign.text!r} is no comparison; {hint}", sign.offset)
        return sign.text

    if tokens[0].kind == "value":
        limit = value("")
        limits.append((_TURNED[compare()], limit))
    metric = take("word", "a metric, as in `participation.l1_chain < 0.05`")
    if tokens[0].text == "between" and not limits:
        limits.append((">=", value(tokens.pop(0).text)))
        if tokens[0].text != "and":
            take("and", "`and`, as in `between 2m and 6m`")
        limits.append(("<=", value(tokens.pop(0).text)))
    elif tokens[0].kind or not limits:
        second = tokens[0].offset
        sign = compare()
        limits.append((sign, value(sign)))
        if len(limits) > 1 and {each[0] for each, _ in limits} != {"<", ">"}:
            message = "two limits need comparisons that point the same way, as in `0.4 <= METRIC <= 0.5`"
            raise ConditionError(message, second)
        if tokens[0].kind == "tolerance" and len(limits) == 1:
            mark = tokens.pop(0)
            value(mark.text)
            allowed = _tolerance(sign, mark, *values)
    if extra := tokens[0].text:
        hint = "; write each condition as an item of its own" if extra in {"and", "or"} else ""
        take("", f"nothing more{hint}")
    low = next((Limit(end - allowed, strict=sign == ">") for sign, end in limits if sign[0] in ">="), None)
    high = next((Limit(end + allowed, strict=sign == "<") for sign, end in limits if sign[0] in "<="), None)
    if low is not None and high is not None and (low.value, low.strict or high.strict) > (high.value, False):
        raise ConditionError("nothing lies between these limits", values[-1].offset)
    return MetricCondition(text, metric.text, metric.offset, low, high, tuple(values))


def _token(kind: str, match: re.Match[str]) -> _Token:
    token = _Token(kind, match[kind], match.start(kind))
    if kind == "word":  # ISO 8601 durations are the only values that begin with a letter
        try:
            parse_duration(token.text)
        except ValueError:
            return token
        return token._replace(kind="value")
    return token


def _tolerance(compare: str, mark: _Token, value: WrittenValue, tolerance: WrittenValue) -> float:
    if compare != "==":
        raise ConditionError(f"a tolerance goes with ==, not with {compare}", mark.offset)
    if tolerance.number < 0:
        raise ConditionError("a tolerance cannot be negative", tolerance.offset)
    if tolerance.form != value.form:
        message = "the tolerance and the value have different units: write both the same way"
        raise ConditionError(message, tolerance.offset)
    return tolerance.number


def _read_value(token: _Token) -> WrittenValue:
    written, percentage = token.text, token.text.endswith("%")
    if amount := _AMOUNT.fullmatch(written):
        for form, units in _AMOUNTS.items():
            if amount[2] in units:
                return WrittenValue(_number(amount[1], token) * units[amount[2]], form, token.offset)
    try:
        seconds = parse_duration(written.lstrip("+-"))
    except ValueError:
        number = _number(written.removesuffix("%"), token) / (100 if percentage else 1)
        return WrittenValue(number, "percentage" if percentage else "number", token.offset)
    return WrittenValue(-seconds if written.startswith("-") else seconds, "duration", token.offset)


def _number(text: str, token: _Token) -> float:
    try:
        number = float(text)
    except ValueError:
        examples = "a percentage such as 10%, a duration such as 90s or an amount such as 40TB, 12kWh or 35/d"
        raise ConditionError(f"{token.text[:40]!r} is not a number, {examples}", token.offset) from None
    if not math.isfinite(number):
        raise ConditionError(f"{token.text[:40]!r} is too large", token.offset)
    return number
