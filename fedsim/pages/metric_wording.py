"""How metrics of sweeps and comparisons are called and written: distances from uniform as TV in per cent, times."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedsim.common.formatting import duration, fixed, number, percent, signed
from fedsim.measure.grammar import ConditionError, MetricCondition, parse_condition
from fedsim.measure.metrics import describe
from fedsim.pages.finding import BIAS, COST, MODEL
from fedsim.trials.decision import PACE

PACE_UNIT = " rounds per day"
_UNIFORM = re.compile(r"participation\.(reported_|pull_|)(l1|tv)_uniform")
_OF = {"": "participation", "reported_": "reports", "pull_": "the pull on the model"}
_LEARNING = re.compile(r"learning\.(.+)\.([a-z_]+)")
_LOSSES = {
    "loss": "the loss of {}",
    "average_loss": "the loss of the mean model of {}",
    "excess_loss": "the loss of {} above the one under uniform participation",
    "above_optimum": "the loss of {} above the optimum",
    "bias": "the distance of the mean model of {} from the optimum",
}
_POINTS = " points"


def figure(value: float) -> str:
    """Write a value of any metric."""
    return fixed(value) if abs(value) < 10 else number(value)


def tv(l1: float) -> str:
    """Write an L1 distance from uniform as a total variation distance."""
    return percent(l1 / 2 if l1 > 1e-9 else 0.0)


@dataclass(frozen=True)
class MetricWording:
    """How a metric is named and formatted in sentences and charts."""

    metric: str  # its name
    words: str  # what it is called
    about: str = ""  # the question to which it belongs
    write: Callable[[float], str] = figure  # writes a value
    apart: Callable[[float], str] = figure  # writes a difference
    scale: float = 1.0  # what it is multiplied by on the axis of a chart
    short: str = ""  # its name on the axis, with the unit

    def bare(self, value: float) -> str:
        """Write a value where its unit stands beside it."""
        return self.apart(value) if self.metric == PACE else self.write(value)

    def extreme(self, most: bool) -> str:
        """Name the most or the least of it."""
        if self.about == BIAS and not most:
            return "the most even participation"
        return f"the {'highest' if most else 'lowest'} {self.words.removeprefix('the ')}"


def _in_points(scale: float) -> Callable[[float], str]:
    def write(share: float) -> str:
        return f"{number(scale * share, 2) if abs(scale * share) < 0.05 else fixed(scale * share, 1)}{_POINTS}"

    return write


def wording_of(metric: str) -> MetricWording:
    """Return how a metric is named and formatted."""
    if metric == PACE:
        apart = partial(number, digits=3)

        def pace(value: float) -> str:
            return f"{'1.0' if apart(value) == '1' else apart(value)}{PACE_UNIT}"

        return MetricWording(metric, "the pace", COST, pace, apart, short="rounds per simulated day")
    if found := _UNIFORM.fullmatch(metric):
        words, scale = f"the distance of {_OF[found[1]]} from uniform (TV)", 50.0 if found[2] == "l1" else 100.0
        write = tv if found[2] == "l1" else percent
        return MetricWording(metric, words, BIAS, write, _in_points(scale), scale, "distance from uniform (TV, %)")
    known, trained = describe(metric), _LEARNING.fullmatch(metric)
    unit, about = "" if known is None else known.unit, MODEL if trained else ""
    words = _LOSSES[trained[2]].format(f"“{trained[1]}”") if trained and trained[2] in _LOSSES else metric
    short = words.removeprefix("the ") if words != metric else f"{metric} ({unit})" if unit else metric
    if unit == "s":
        return MetricWording(metric, words, about, duration, duration, short=short)
    if unit == "L1":
        return MetricWording(metric, words, BIAS, tv, _in_points(50.0), 50.0, f"{short} (TV, %)")
    if unit == "share":
        return MetricWording(metric, words, about, percent, _in_points(100.0), 100.0, f"{metric} (%)")
    return MetricWording(metric, words, about, short=short)


def read_condition(text: str) -> tuple[str, Callable[[float], str]]:
    """Say a condition in words, as it is written where it cannot be read; and return what writes values of its metric.

    L1 distances are written as TV in per cent, others in the form that the condition has.
    """
    try:
        condition = parse_condition(text)
    except ConditionError:
        return " ".join(text.split()), figure
    wording, known = wording_of(condition.metric), describe(condition.metric)
    form, what = condition.values[0].form, wording.words.removeprefix("the ")
    write = wording.write
    if write is figure:
        write = {"percentage": percent, "duration": duration, "number": lambda value: number(value, 4)}[form]
    if what == condition.metric and known is not None:
        what = known.words
        what += " (TV)" if known.unit == "L1" else ""
    return f"{what} {_limits(condition, write)}", write


def _limits(condition: MetricCondition, write: Callable[[float], str]) -> str:
    low, high = condition.low, condition.high
    if low is not None and high is not None:
        ends = dict.fromkeys((write(low.value), write(high.value)))
        return f"{'from' if len(ends) > 1 else 'at'} {' to '.join(ends)}"
    end, beyond, words = (high, "below", "most") if low is None else (low, "above", "least")
    return "" if end is None else f"{beyond if end.strict else f'of at {words}'} {write(end.value)}"


def difference(wording: MetricWording, mean: float, half: float, *, sign: bool = True) -> str:
    """Write a difference with its sign, and half of its interval where there is one."""
    text = signed(mean, wording.apart) if sign else wording.apart(mean)
    if not np.isfinite(half):
        return text
    # What rounding leaves where every seed says the same is nothing.
    spread = "0" if half < 1e-9 * max(abs(mean), 1e-3) else wording.apart(half)
    unit = _POINTS if text.endswith(_POINTS) else ""
    return f"{text.removesuffix(unit)} ± {spread.removesuffix(unit)}{unit}"
