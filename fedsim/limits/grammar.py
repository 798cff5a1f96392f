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

Form = Literal["number", "percentage", "duration"]

_TOKEN = re.compile(
    r"\s*(?:(?P<value>[+-]?(?:\d[\w.]*(?:(?<=\d[eE])[+-]\d+)?|\.\d[\w.]*(?:(?<=\d[eE])[+-]\d+)?)%?)"
    r"|(?P<word>[A-Za-z_][\w.-]*)|(?P<tolerance>\+/?-|±)|(?P<compare><=|>=|==|=<|=>|!=|<>|[<>=])|(?P<other>\S))",
    re.ASCII,
)
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?", re.ASCII)
_MEANT = {"=": "==", "=<": "<=", "=>": ">="}


class ConditionError(ValueError):
    """A condition that cannot be read.

    Attributes
    ----------
    offset
        The character of the text at which it goes wrong, counted from 0.
    """

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True)
class Value:
    """A number as it was written.

    Attributes
    ----------
    number
        A percentage over 100; a duration in seconds.
    form
        How it was written.
    offset
        Where it stands in the text.
    """

    number: float
    form: Form
    offset: int


@dataclass(frozen=True)
class Limit:
    """One end of what a metric may be; `strict` leaves the end itself out."""

    value: float
    strict: bool = False


@dataclass(frozen=True)
class Condition:
    """A condition, read.

    Attributes
    ----------
    text
        As it was written.
    metric, offset
        The metric's name, and where it stands in the text.
    low, high
        The ends of what it may be; None where it is free. For ``==`` both are the value, less and plus the tolerance.
    values
        The numbers as they were written, in order.
    """

    text: str
    metric: str
    offset: int
    low: Limit | None
    high: Limit | None
    values: tuple[Value, ...]

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


def parse_condition(text: str) -> Condition:
    """Read a condition.

    Raises
    ------
    ConditionError
        If it is none; the error says where, and what would be right.
    """
    return _Parser(text).condition()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    offset: int


class _Parser:
    """Goes through the tokens of one condition."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [
            _Token(str(match.lastgroup), match[str(match.lastgroup)], match.start(str(match.lastgroup)))
            for match in _TOKEN.finditer(text)
        ]
        self.at = 0

    def condition(self) -> Condition:
        first = self.peek()
        if first.kind == "word" and not _is_duration(first.text):
            return self.after_metric()
        if first.kind not in {"value", "word"}:
            self.fail(first, "expected a metric, as in `participation.l1_chain < 0.05`")
        return self.after_value()

    def after_metric(self) -> Condition:
        metric = self.take()
        sign = self.peek()
        if sign.kind == "word" and sign.text == "between":
            self.take()
            low = self.value("between")
            joint = self.peek()
            if joint.text != "and":
                self.fail(joint, "expected `and`, as in `between 2m and 6m`")
            self.take()
            high = self.value("and")
            self.end()
            return self.interval(metric, Limit(low.number), Limit(high.number), (low, high))
        compare = self.compare(f"after the metric {metric.text!r}")
        value = self.value(compare)
        if compare == "==":
            return self.equality(metric, value)
        extra = self.peek()
        if extra.kind == "tolerance":
            self.fail(extra, f"a tolerance goes with ==, not with {compare}")
        self.end()
        low_end, high_end = _ends(compare, value)
        return Condition(self.text, metric.text, metric.offset, low_end, high_end, (value,))

    def equality(self, metric: _Token, value: Value) -> Condition:
        values: tuple[Value, ...] = (value,)
        tolerance = 0.0
        if self.peek().kind == "tolerance":
            sign = self.take()
            allowed = self.value(sign.text)
            if allowed.number < 0:
                raise ConditionError("a tolerance cannot be negative", allowed.offset)
            if allowed.form != value.form:
                message = f"the tolerance is a {allowed.form} and the value a {value.form}: write both the same way"
                raise ConditionError(message, allowed.offset)
            values, tolerance = (value, allowed), allowed.number
        self.end()
        low, high = Limit(value.number - tolerance), Limit(value.number + tolerance)
        return Condition(self.text, metric.text, metric.offset, low, high, values)

    def after_value(self) -> Condition:
        first = self.value("")
        sign = self.peek()
        compare = self.compare("after the value")
        metric = self.peek()
        if metric.kind != "word" or _is_duration(metric.text):
            self.fail(metric, f"expected a metric after {compare!r}")
        self.take()
        if self.peek().kind == "":
            if compare == "==":
                return self.interval(metric, Limit(first.number), Limit(first.number), (first,))
            high_end, low_end = _ends(compare, first)  # turned round: value < METRIC bounds it from below
            return Condition(self.text, metric.text, metric.offset, low_end, high_end, (first,))
        other_sign = self.peek()
        other = self.compare(f"or nothing after the metric {metric.text!r}")
        if "==" in {compare, other} or compare[0] != other[0]:
            wrong = sign if compare == "==" else other_sign
            self.fail(wrong, "two limits need comparisons that point the same way, as in `0.4 <= METRIC <= 0.5`")
        second = self.value(other)
        self.end()
        bounds = [Limit(first.number, len(compare) == 1), Limit(second.number, len(other) == 1)]
        low_end, high_end = bounds if compare[0] == "<" else bounds[::-1]
        return self.interval(metric, low_end, high_end, (first, second))

    def interval(self, metric: _Token, low: Limit, high: Limit, values: tuple[Value, ...]) -> Condition:
        empty = low.value > high.value or (low.value == high.value and (low.strict or high.strict))
        if empty:
            raise ConditionError(
                "nothing lies between these limits: the first is not below the second", values[-1].offset
            )
        return Condition(self.text, metric.text, metric.offset, low, high, values)

    def compare(self, where: str) -> str:
        sign = self.peek()
        if sign.kind != "compare":
            self.fail(sign, f"expected <, <=, >, >=, == or `between` {where}")
        if sign.text not in {"<", "<=", ">", ">=", "=="}:
            hint = (
                f"; did you mean {_MEANT[sign.text]!r}?" if sign.text in _MEANT else "; known are <, <=, >, >= and =="
            )
            self.fail(sign, f"{sign.text!r} is no comparison{hint}", plain=True)
        return self.take().text

    def value(self, after: str) -> Value:
        token = self.peek()
        form = "a number, a percentage or a duration"
        if token.kind not in {"value", "word"} or (token.kind == "word" and not _is_duration(token.text)):
            self.fail(token, f"expected {form} after {after!r}")
        self.take()
        return _read_value(token)

    def end(self) -> None:
        token = self.peek()
        if token.kind:
            hint = "; write each condition as an item of its own" if token.text in {"and", "or"} else ""
            self.fail(token, f"nothing more is expected here{hint}")

    def peek(self) -> _Token:
        return self.tokens[self.at] if self.at < len(self.tokens) else _Token("", "", len(self.text.rstrip()))

    def take(self) -> _Token:
        token = self.peek()
        self.at += 1
        return token

    def fail(self, token: _Token, message: str, *, plain: bool = False) -> NoReturn:
        found = f", not {token.text[:40]!r}" if token.kind else ", but the condition ends"
        raise ConditionError(message if plain else message + found, token.offset)


def _ends(compare: str, value: Value) -> tuple[Limit | None, Limit | None]:
    limit = Limit(value.number, strict=len(compare) == 1)
    return (None, limit) if compare[0] == "<" else (limit, None)


def _is_duration(word: str) -> bool:
    # ISO 8601 durations are the only values that begin with a letter; names of metrics have dots between words.
    try:
        parse_duration(word)
    except ValueError:
        return False
    return True


def _read_value(token: _Token) -> Value:
    written = token.text
    number = written.removesuffix("%")
    if _NUMBER.fullmatch(number):
        amount = float(number.replace("_", "")) / (100 if written.endswith("%") else 1)
        if not math.isfinite(amount):
            raise ConditionError(f"{written[:40]!r} is too large", token.offset)
        return Value(amount, "percentage" if written.endswith("%") else "number", token.offset)
    sign = -1.0 if written.startswith("-") else 1.0
    try:
        return Value(sign * parse_duration(written.lstrip("+-")), "duration", token.offset)
    except ValueError:
        message = f"{written[:40]!r} is not a number, a percentage such as 10% or a duration such as 90s or 6m"
        raise ConditionError(message, token.offset) from None
