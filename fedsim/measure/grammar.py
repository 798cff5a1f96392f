"""The language of conditions: one metric, one or two limits; read by a parser of its own, never evaluated.

::

    condition = METRIC compare value [tolerance]      participation.l1_chain < 0.05
              | value compare METRIC [compare value]  0.4 <= participation.l1_uniform <= 0.5
              | METRIC "between" value "and" value    rounds.duration.p95 between 2m and 6m
    compare   = "<" | "<=" | ">" | ">=" | "=="
    tolerance = ("+-" | "+/-" | "±") value            after ==
    value     = NUMBER | NUMBER "%" | DURATION        0.05, 1e-3, 10%, 6m, PT6M
"""

import math
import re
from dataclasses import dataclass
from typing import Literal, NoReturn

from fedsim.scenario.units import parse_duration

ValueForm = Literal["number", "percentage", "duration"]

_TOKEN = re.compile(
    r"\s*(?:(?P<value>[+-]?(?:\d[\w.]*(?:(?<=\d[eE])[+-]\d+)?|\.\d[\w.]*(?:(?<=\d[eE])[+-]\d+)?)%?)"
    r"|(?P<word>[A-Za-z_][\w.-]*)|(?P<tolerance>\+/?-|±)|(?P<compare><=|>=|==|=<|=>|!=|<>|[<>=])|(?P<other>\S))",
    re.ASCII,
)
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?", re.ASCII)
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


def parse_condition(text: str) -> MetricCondition:
    """Read a condition; a `ConditionError` says where it is none, and what would be right."""
    return _Parser(text).condition()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    offset: int


class _Parser:
    """Goes through the tokens of one condition; the last one, without a kind, is the end of the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        kinds = [(str(match.lastgroup), match) for match in _TOKEN.finditer(text)]
        tokens = [_Token(kind, match[kind], match.start(kind)) for kind, match in kinds]
        self.rest = [*tokens, _Token("", "", len(text.rstrip()))]
        self.values: list[WrittenValue] = []
        self.low: Limit | None = None
        self.high: Limit | None = None

    def condition(self) -> MetricCondition:
        first = self.rest[0]
        if first.kind not in {"value", "word"}:
            self.fail(first, "expected a metric, as in `participation.l1_chain < 0.05`")
        metric = self.after_value() if _is_value(first) else self.after_metric()
        if extra := self.rest[0].text:
            hint = "; write each condition as an item of its own" if extra in {"and", "or"} else ""
            self.fail(self.rest[0], f"nothing more is expected here{hint}")
        low, high = self.low, self.high
        if low is not None and high is not None and (low.value, low.strict or high.strict) > (high.value, False):
            problem = "nothing lies between these limits: the first is not below the second"
            raise ConditionError(problem, self.values[-1].offset)
        return MetricCondition(self.text, metric.text, metric.offset, low, high, tuple(self.values))

    def after_metric(self) -> _Token:
        metric = self.rest.pop(0)
        if self.rest[0].text == "between":
            self.limit(">=", self.value(self.rest.pop(0).text))
            if self.rest[0].text != "and":
                self.fail(self.rest[0], "expected `and`, as in `between 2m and 6m`")
            self.limit("<=", self.value(self.rest.pop(0).text))
            return metric
        compare = self.compare(f"after the metric {metric.text!r}")
        value = self.value(compare)
        self.limit(compare, value, self.tolerance(compare, value) if self.rest[0].kind == "tolerance" else 0.0)
        return metric

    def tolerance(self, compare: str, value: WrittenValue) -> float:
        if compare != "==":
            self.fail(self.rest[0], f"a tolerance goes with ==, not with {compare}")
        allowed = self.value(self.rest.pop(0).text)
        if allowed.number < 0:
            raise ConditionError("a tolerance cannot be negative", allowed.offset)
        if allowed.form != value.form:
            message = f"the tolerance is a {allowed.form} and the value a {value.form}: write both the same way"
            raise ConditionError(message, allowed.offset)
        return allowed.number

    def after_value(self) -> _Token:
        value, sign = self.value(""), self.rest[0]
        compare = self.compare("after the value")
        metric = self.rest[0]
        if metric.kind != "word" or _is_value(metric):
            self.fail(metric, f"expected a metric after {compare!r}")
        self.rest.pop(0)
        self.limit(_TURNED[compare], value)
        other_sign = self.rest[0]
        if other_sign.kind:
            other = self.compare(f"or nothing after the metric {metric.text!r}")
            if "==" in {compare, other} or compare[0] != other[0]:
                wrong = sign if compare == "==" else other_sign
                self.fail(wrong, "two limits need comparisons that point the same way, as in `0.4 <= METRIC <= 0.5`")
            self.limit(other, self.value(other))
        return metric

    def limit(self, compare: str, value: WrittenValue, tolerance: float = 0.0) -> None:
        """Set the ends of what the metric may be: it stands before the comparison."""
        if compare in {">", ">=", "=="}:
            self.low = Limit(value.number - tolerance, strict=compare == ">")
        if compare in {"<", "<=", "=="}:
            self.high = Limit(value.number + tolerance, strict=compare == "<")

    def compare(self, where: str) -> str:
        sign = self.rest[0]
        if sign.kind != "compare":
            self.fail(sign, f"expected <, <=, >, >=, == or `between` {where}")
        if sign.text not in _TURNED:
            known = "; known are <, <=, >, >= and =="
            hint = f"; did you mean {_MEANT[sign.text]!r}?" if sign.text in _MEANT else known
            raise ConditionError(f"{sign.text!r} is no comparison{hint}", sign.offset)
        return self.rest.pop(0).text

    def value(self, after: str) -> WrittenValue:
        token = self.rest[0]
        if not _is_value(token):
            self.fail(token, f"expected a number, a percentage or a duration after {after!r}")
        self.values.append(_read_value(self.rest.pop(0)))
        return self.values[-1]

    def fail(self, token: _Token, message: str) -> NoReturn:
        found = f", not {token.text[:40]!r}" if token.kind else ", but the condition ends"
        raise ConditionError(message + found, token.offset)


def _is_value(token: _Token) -> bool:
    # ISO 8601 durations are the only values that begin with a letter; names of metrics have dots between words.
    if token.kind == "word":
        try:
            parse_duration(token.text)
        except ValueError:
            return False
    return token.kind in {"value", "word"}


def _read_value(token: _Token) -> WrittenValue:
    written = token.text
    number = written.removesuffix("%")
    if _NUMBER.fullmatch(number):
        amount = float(number.replace("_", "")) / (100 if written.endswith("%") else 1)
        if not math.isfinite(amount):
            raise ConditionError(f"{written[:40]!r} is too large", token.offset)
        return WrittenValue(amount, "percentage" if written.endswith("%") else "number", token.offset)
    sign = -1.0 if written.startswith("-") else 1.0
    try:
        return WrittenValue(sign * parse_duration(written.lstrip("+-")), "duration", token.offset)
    except ValueError:
        message = f"{written[:40]!r} is not a number, a percentage such as 10% or a duration such as 90s or 6m"
        raise ConditionError(message, token.offset) from None
