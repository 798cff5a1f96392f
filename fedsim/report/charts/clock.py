"""Simulated time on an axis: in days, hours, minutes or seconds since the start, whichever suits its length."""

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedsim.report.charts.marks import plain
from fedsim.report.formatting import time_unit

_NAMES = {"d": "days", "h": "hours", "min": "minutes", "s": "seconds"}
_STEPS = {"d": [1, 2, 5, 10], "h": [1, 2, 3, 6, 10], "min": [1, 1.5, 2, 3, 6, 10], "s": [1, 1.5, 2, 3, 6, 10]}


def time_scale(longest_s: float) -> tuple[float, str]:
    """Choose the unit for times up to so many seconds: its length in seconds, and its name in the plural."""
    size, unit = time_unit(longest_s)
    return size, _NAMES[unit]


def time_axis(axes: Axes, unit: str, longest: float) -> str:
    """Set up the x axis for times from 0 up to `longest` units; returns its title."""
    axes.set_xlim(0, longest or 1.0)
    short = next(short for short, name in _NAMES.items() if name == unit)
    # Steps that suit a clock are no steps for a few hours or minutes: 0.6 of an hour is nobody's mark.
    steps = _STEPS[short] if longest > 9 else [1, 2, 5, 10]
    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, steps=steps))
    axes.xaxis.set_major_formatter(FuncFormatter(plain))
    return f"simulated time ({unit} since the start)"
