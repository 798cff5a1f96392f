"""How metrics of a sweep are called and written: bias as the share of misplaced turns, shares in per cent, times."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fedsim.analysis.metrics import describe
from fedsim.findings.finding import BIAS, COST, MODEL
from fedsim.findings.formatting import duration, fixed, number, percent, signed

L1, L1_THEORY = "participation.l1_uniform", "participation.l1_uniform_theory"
PACE = "rounds.per_day"
_LOSS = re.compile(r"learning\.(.+)\.(loss|excess_loss|above_optimum)")
_ABOVE = {"excess_loss": " above the one under uniform participation", "above_optimum": " above the optimum"}
_POINTS = " points"
PACE_UNIT = " rounds per day"
PACE_SHORT = "rounds per simulated day"


def figure(value: float) -> str:
    """Write a value of any metric."""
    return fixed(value) if abs(value) < 10 else number(value)


def misplaced(l1: float) -> str:
    """Write a distance from uniform as the share of the turns that would have to go to others."""
    return percent(l1 / 2)


def _half_points(l1: float) -> str:
    return f"{number(50 * l1, 2) if abs(50 * l1) < 0.05 else fixed(50 * l1, 1)}{_POINTS}"


def _points(share: float) -> str:
    return _half_points(2 * share)


@dataclass(frozen=True)
class MetricWording:
    """How a metric is named and formatted in sentences and charts."""

    metric: str  # its name
    words: str  # what it is called
    least: str  # what the setting has that has least of it
    most: str  # what the setting has that has most of it
    about: str  # the question to which it belongs
    write: Callable[[float], str] = figure  # writes a value
    apart: Callable[[float], str] = figure  # writes a difference
    scale: float = 1.0  # what it is multiplied by on the axis of a chart
    short: str = ""  # its name on the axis, with the unit


BIAS_WORDING = MetricWording(
    L1,
    "the share of misplaced turns",
    "fewest misplaced turns",
    "most misplaced turns",
    BIAS,
    misplaced,
    _half_points,
    50.0,
    "misplaced turns (% of all)",
)
PACE_WORDING = MetricWording(
    PACE,
    "the pace",
    "fewest rounds per day",
    "most rounds per day",
    COST,
    lambda pace: f"{number(pace, 3)}{PACE_UNIT}",
    lambda pace: number(pace, 3),
    short=PACE_SHORT,
)


def wording_of(metric: str) -> MetricWording:
    """Return how a metric is named and formatted."""
    for known in (BIAS_WORDING, PACE_WORDING):
        if known.metric == metric:
            return known
    found = describe(metric)
    unit = "" if found is None else found.unit
    about = MODEL if metric.startswith("learning.") else ""
    words, least, most = metric, f"lowest {metric}", f"highest {metric}"
    if end := _LOSS.fullmatch(metric):
        words = f"the loss of {end[1]}{_ABOVE.get(end[2], '')}"
        if end[2] == "above_optimum":
            least, most = (f"{each} {words.removeprefix('the ')}" for each in ("lowest", "highest"))
    wording = MetricWording(metric, words, least, most, about, short=f"{metric} ({unit})" if unit else metric)
    if unit == "s":
        return replace(wording, write=duration, apart=duration)
    if unit == "share":
        return replace(wording, write=percent, apart=_points, scale=100.0, short=f"{metric} (%)")
    return wording


def difference(wording: MetricWording, mean: float, half: float) -> str:
    """Write a difference with its sign, and half of its interval where there is one."""
    text = signed(mean, wording.apart)
    if not np.isfinite(half):
        return text
    # What rounding leaves where every seed says the same is nothing.
    spread = "0" if half < 1e-9 * max(abs(mean), 1e-3) else wording.apart(half)
    unit = _POINTS if text.endswith(_POINTS) else ""
    return f"{text.removesuffix(unit)} ± {spread.removesuffix(unit)}{unit}"
