"""How numbers, tables and paragraphs are written in Markdown."""

import textwrap
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common import markup
from fedsim.trials.contrasts import interval

NAMES = {"fedavg": "FedAvg", "debiased_fedavg": "Debiased FedAvg", "fedvarp": "FedVARP"}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, with blank lines around it."""
    return f"\n{markup.table(head, rows)}\n\n"


def wrap(text: str, width: int) -> str:
    """Break a paragraph into lines, at spaces and hyphens of wide paragraphs and at spaces of others."""
    return textwrap.fill(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=width > 120) + "\n"


def signed(value: float, digits: int = 5) -> str:
    """Write a number with a minus sign, and no sign for what rounds to zero."""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0.0 else text.replace("-", "\N{MINUS SIGN}")


def mean_and_half(values: np.ndarray) -> list[float]:
    """Return the mean of some values, and half of its 95 % interval."""
    return [float(each) for each in interval(values)]


def with_interval(values: ArrayLike, digits: int = 5) -> str:
    """Write the mean of some values, and half of its 95 % interval."""
    return with_error(mean_and_half(np.asarray(values, dtype=float)), digits)


def with_error(pair: Sequence[float], digits: int) -> str:
    """Write a mean and half of its interval."""
    half = f"{pair[1]:.{digits}f}"
    return f"{signed(pair[0], digits)} ± {half if float(half) else f'<{10.0**-digits:.{digits}f}'}"


def with_range(values: np.ndarray, digits: int = 5) -> str:
    """Write the median, and the lowest and highest value in brackets."""
    low, middle, high = (signed(value, digits) for value in (values.min(), np.median(values), values.max()))
    return f"{middle} ({low} to {high})"


def rounds_taken(values: Sequence[int | None]) -> str:
    """Write median, lowest and highest number of rounds; None is a run that never got there."""
    reached = np.sort([np.inf if value is None else value for value in values])
    ends = (reached[0], np.median(reached), reached[-1])
    low, middle, high = (f"{value:.0f}" if np.isfinite(value) else "never" for value in ends)
    return middle if low == "never" else f"{middle} ({low}\N{EN DASH}{high})"
