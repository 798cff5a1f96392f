"""How a metric is named and written in sentences, tables and charts: by its entry in the registry of metrics."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from math import floor, log10
from typing import Self

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.formatting import SCALED, duration, fixed, minus, number, percent, quantity, signed
from fedsim.measure.grammar import ConditionError, MetricCondition, parse_condition
from fedsim.measure.metrics import split
from fedsim.trials.contrasts import Contrasts, Standing
from fedsim.trials.decision import TAKEN, UPDATES, without_noise

_DAILY = {UPDATES: "pace", TAKEN: "pace in reports", "rounds.per_day": "pace in rounds"}
_SMALL, _MOST_DECIMALS = 0.1, 6
_PLAIN = re.compile(r"[+\N{MINUS SIGN}]?[\d,]+(?:\.(\d+))?")  # a number without a unit of its own
_FLAG = "0 or 1"  # the unit of metrics whose label is what holds where they are 1
_EVEN = {f"participation.{of}{kind}_uniform" for of in ("", "reported_", "pull_") for kind in ("l1", "tv")}


def figure(value: float) -> str:
    """Write a value of any metric."""
    return number(value) if abs(value) >= 10 or float(value).is_integer() else fixed(value)


def tv(l1: float) -> str:
    """Write an L1 distance from uniform as a total variation distance."""
    return percent(l1 / 2 if l1 > 1e-9 else 0.0)


def _decimals(decimals: int, value: float) -> str:
    return minus(f"{round(value, decimals) or 0.0:.{decimals}f}")


def _points(scale: float, share: float) -> str:
    return number(scale * share, 2) if abs(scale * share) < 0.05 else fixed(scale * share, 1)


@dataclass(frozen=True)
class MetricWording:
    """How a metric is named and formatted."""

    metric: str  # its name
    words: str  # what it is called, without an article: its label, else the beginning of its meaning, else its name
    axis: str  # its name on the axis of a chart, with the unit
    write: Callable[[float], str] = figure  # writes a value
    apart: Callable[[float], str] = figure  # writes a difference, without its unit
    unit: str = ""  # of a difference: `` points``
    scale: float = 1.0  # what it is multiplied by on the axis of a chart
    less_is_better: bool | None = None  # None where neither is
    head: str = ""  # over a column, with the unit that its cells leave out

    def difference(self, value: float, half: float = np.nan, *, sign: bool = True) -> str:
        """Write a difference, and half of its interval where there is one."""
        text = signed(value, self.apart) if sign else self.apart(abs(value))
        spread = self.half(text, value, half) if np.isfinite(half) else ""
        # What rounding leaves where every seed says the same is nothing.
        spread = "0" if half < 1e-9 * max(abs(value), 1e-3) else spread
        return f"{text} ± {spread}{self.unit}" if spread else f"{text}{self.unit}"

    def mean(self, value: float, margin: Floats | float = np.nan) -> str:
        """Write a mean, and half of its interval where there is one; or its ends, where these are not as far off."""
        down, up = np.broadcast_to(margin, 2).tolist()
        if not np.isfinite(up) or up <= 1e-9 * abs(value):
            return self.write(value)
        if down != up:
            return f"{self.write(value)} [seeds: {self.write(value - down)} to {self.write(value + up)}]"
        text = self.write(value).removesuffix(self.unit)
        return f"{text} ± {self.half(text, value, up)}{self.unit}"

    def half(self, text: str, value: float, half: float) -> str:
        """Write half of the interval of a value that is written as `text`: to its decimals, where that leaves some."""
        plain, size = _PLAIN.fullmatch(text), half * self.scale
        if plain is None or not size < abs(value * self.scale):
            return self.apart(half)
        decimals = len(plain[1] or "")
        return fixed(max(size, 10.0**-decimals), decimals)

    def cell(self, value: float, margin: Floats | float = np.nan) -> str:
        """Write a mean in a column under its `head`, and half of its interval, or its ends in brackets."""
        down, up = np.broadcast_to(margin, 2).tolist()
        if np.isfinite(up) and down != up:
            return f"{self.cell(value)} [{self.cell(value - down)} to {self.cell(value + up)}]"
        if not self.unit:
            return self.mean(value, up)
        sure = up if up > 1e-9 * abs(value) else np.nan
        return self.difference(value, sure, sign=False).removesuffix(self.unit)

    def of_column(self, largest: float) -> Self:
        """Return the wording of a column: values with their signs, and small ones all to the same decimals."""
        if self.apart is not figure or not 0 < largest < _SMALL:
            return self
        write = partial(_decimals, min(2 - floor(log10(largest)), _MOST_DECIMALS))
        return replace(self, write=write, apart=write)

    @property
    def from_uniform(self) -> str:
        """What is written behind a distance of participation from uniform; "" of others."""
        noise = ", noise removed" if self.metric.endswith(without_noise("")) else ""
        return f" from uniform{noise}" if self.metric.removesuffix(without_noise("")) in _EVEN else ""

    def extreme(self, contrast: Contrasts) -> str:
        """Name what the best of the compared settings has."""
        if contrast.less_is_better and self.from_uniform:
            return "the most even participation"
        return f"the {'lowest' if contrast.less_is_better else 'highest'} {self.words}"

    def contrast(self, contrast: Contrasts, row: int = 1) -> str:
        """Write by how much a setting lies above the reference, with the interval and what the test says."""
        by = self.difference(float(contrast.difference[row]), float(contrast.tested_half[row]))
        state = contrast.standing(row)
        return ", ".join(filter(None, (by, _STATES.get(state or Standing.SAME))))


_STATES = {
    Standing.DIFFERS: "significant",
    Standing.TIED: "not significant",
    Standing.FEW: "too few seeds to test",
    Standing.UNTESTED: "not tested",
}
"""What the test of a difference says."""


@cache
def wording_of(metric: str) -> MetricWording:
    """Return how a metric is named and formatted."""
    entry, parts = split(metric)
    if entry is None:
        return MetricWording(metric, metric, metric, head=metric)
    words, less, short = entry.words, entry.better == "lower" if entry.better else None, entry.short or entry.words
    for key, name in reversed(parts.items()):
        place, kind = key.upper(), "" if key == "optimizer" else f"{key} "
        # A label has its names in capitals, as the name of the metric has.
        words, short = (
            f"“{name}”".join(text.split(place)) if place in text else f"{text} of {kind}“{name}”"
            for text in (words, short)
        )
    unit = {"L1": " (TV, %)", "share": " (%)"}.get(entry.unit, "")
    make = partial(MetricWording, metric, less_is_better=less, head=f"{short}{unit}")
    if metric in _DAILY:
        unit = f" {metric.removesuffix('.per_day')} per day"
        make = partial(make, head=unit.strip())
        return make(_DAILY[metric], entry.label, partial(_daily, unit), partial(number, digits=3), unit)
    if entry.unit == "L1":
        return make(f"{words} (TV)", f"{words} (TV, %)", tv, partial(_points, 50.0), " points", 50.0)
    if entry.unit == "share":
        return make(words, f"{words} (%)", percent, partial(_points, 100.0), " points", 100.0)
    if entry.unit == "s":
        return make(words, words, duration, duration)
    if entry.unit in SCALED:
        write = partial(quantity, unit=entry.unit)
        return make(words, f"{words} ({entry.unit})", write, write)
    axis = f"{words} ({entry.unit})" if entry.unit and entry.unit != _FLAG else words
    return make(words, axis)


def _daily(unit: str, value: float) -> str:
    text = number(value, 3)
    return f"{'1.0' if text == '1' else text}{unit}"


def read_condition(text: str) -> tuple[str, Callable[[float], str]]:
    """Say a condition in words, as it is written where it cannot be read; and return what writes values of its metric.

    L1 distances are written as TV in per cent, others in the form that the condition has.
    """
    try:
        condition = parse_condition(text)
    except ConditionError:
        return " ".join(text.split()), figure
    wording = wording_of(condition.metric)
    write = wording.write
    if wording.apart is figure:
        form = condition.values[0].form
        write = {"percentage": percent, "duration": duration, "number": number}[form]
    entry, ends = split(condition.metric)[0], {end and end.value for end in (condition.low, condition.high)}
    if entry is not None and entry.unit == _FLAG and ends in ({0.0}, {1.0}):
        return f"{'not so: ' if ends == {0.0} else ''}{wording.words}", write
    return f"{wording.words} {_limits(condition, write)}", write


def _limits(condition: MetricCondition, write: Callable[[float], str]) -> str:
    low, high = condition.low, condition.high
    if low is not None and high is not None:
        ends = dict.fromkeys((write(low.value), write(high.value)))
        return f"{'from' if len(ends) > 1 else 'at'} {' to '.join(ends)}"
    end, beyond, words = (high, "below", "most") if low is None else (low, "above", "least")
    return "" if end is None else f"{beyond if end.strict else f'of at {words}'} {write(end.value)}"
