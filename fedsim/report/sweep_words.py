"""What a sweep says in words: how a figure goes along it, and what is missing of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from fedsim.report.answer import BIAS, COST, TRUST, Sentence
from fedsim.report.charts.sweep_lines import L1, Line, Lines, line_data
from fedsim.report.charts.trade_off import PACE
from fedsim.report.finished_sweep import COMPLETE, FinishedSweep, paired, point_names
from fedsim.report.formatting import count, fixed, listing, number, percent, signed

POINTS = " points"
NAMED = 4
"""Settings without a result that are named at most; the table has more."""


def figure(value: float) -> str:
    """Write a value of any metric."""
    return fixed(value) if abs(value) < 10 else number(value)


def misplaced(l1: float) -> str:
    """Write a distance from uniform as the share of the turns that would have to go to others."""
    return percent(l1 / 2)


def misplaced_apart(l1: float) -> str:
    """Write a difference of such shares, in points of a hundred."""
    return f"{fixed(50 * l1, 1)}{POINTS}"


@dataclass(frozen=True)
class Told:
    """A metric that is told in words.

    Parameters
    ----------
    metric
        Its name.
    words
        What it is called.
    about
        The question to which it belongs.
    write, apart
        Write a value of it, and a difference.
    """

    metric: str
    words: str
    about: str
    write: Callable[[float], str] = figure
    apart: Callable[[float], str] = figure


TOLD = (
    Told(L1, "the share of misplaced turns", BIAS, misplaced, misplaced_apart),
    Told(PACE, "the number of rounds per simulated day", COST),
)
"""What an answer tells of, in this order."""


def difference(told: Told, mean: float, half: float) -> str:
    """Write a difference with its sign, and half of its interval where there is one."""
    text = signed(mean, told.apart)
    half = 0.0 if half < 1e-9 * abs(mean) else half  # what rounding leaves where every seed says the same
    if not np.isfinite(half):
        return text
    if told.apart is misplaced_apart:
        return f"{text.removesuffix(POINTS)} ± {number(50 * half, 2)}{POINTS}"
    return f"{text} ± {number(half, 2)}"


def way(sweep: FinishedSweep, told: Told) -> str | None:
    """Tell how a metric goes from one end of each of the outer lines to the other; None where nothing is known."""
    data = line_data(sweep, told.metric)
    if data is None:
        return None
    lines = list(dict.fromkeys((data.lines[0], data.lines[-1])))
    same = {told.write(float(mean)) for line in data.lines for mean in line.mean}
    if len(same) == 1 and not data.omitted:
        return f"{_capital(told.words)} is {same.pop()} at every setting{_known(sweep, data)}."
    ways = [_along(sweep, told, data, line) for line in lines]
    return f"{_capital('; '.join(ways))}."


def _known(sweep: FinishedSweep, data: Lines) -> str:
    known = sum(len(line.points) for line in data.lines)
    return "" if known == len(sweep.points) else " that has it"


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _along(sweep: FinishedSweep, told: Told, data: Lines, line: Line) -> str:
    first, last = int(line.points[0]), int(line.points[-1])
    where = f" with {line.name}" if line.name else ""
    start, end = told.write(float(line.mean[0])), told.write(float(line.mean[-1]))
    x, y = data.along.named(float(line.x[0])), data.along.named(float(line.x[-1]))
    if first == last:
        return f"{told.words} is {start} at {x}{where}"
    apart = paired(sweep, told.metric, first)
    mean, half = float(apart.mean[last]), float(apart.half[last])
    change = f" ({difference(told, mean, half)})" if np.isfinite(mean) else ""
    if start == end and (mean == 0 or not change):
        return f"{told.words} is {start} at {x} and at {y}{where}"
    return f"from {x} to {y}{where}, {told.words} goes from {start} to {end}{change}"


def trust(sweep: FinishedSweep) -> Iterator[Sentence]:
    """Say what is missing of what was planned, and what that does to intervals and differences."""
    runs = sweep.runs
    without = runs.filter(pl.col("status") != COMPLETE)
    seeds = runs.group_by("point").agg(
        planned=pl.col("seed").sort(), done=pl.col("seed").filter(pl.col("status") == COMPLETE).sort()
    )
    done = [len(each) for each in seeds["done"].to_list()]
    if len(without):
        told = f"{count(len(without))} of {count(len(runs), 'run')} {'has' if len(without) == 1 else 'have'} no result"
        yield Sentence(f"{told}: {_missing(sweep, without)}.", TRUST, warns=True)
    least, most = min(done, default=0), max(done, default=0)
    if most < 2:
        alone = "With one seed at a setting there are no intervals: chance cannot be told from effect."
        yield Sentence(alone, TRUST, warns=True)
        return
    half = "± is half of a 95\N{NARROW NO-BREAK SPACE}% interval"
    if seeds["done"].n_unique() > 1:
        have = f"{count(least)} to {count(most, 'seed')}" if least < most else f"{count(least, 'seed')}, not the same"
        text = f"Settings have {have}: means are over the seeds that each has, differences over those that both have"
        yield Sentence(f"{text}; {half}.", TRUST, warns=True)
        return
    every = "Every run completed. " if without.is_empty() else ""
    text = f"{every}Every setting has the same {count(most, 'seed')}, so differences are paired by seed"
    yield Sentence(f"{text}; {half}.", TRUST)


def _missing(sweep: FinishedSweep, without: pl.DataFrame) -> str:
    names = dict(zip(sweep.points["point"].to_list(), point_names(sweep), strict=True))
    groups = without.group_by("point", "status", maintain_order=True).agg("seed")
    told = []
    for point, status, seeds in groups.head(NAMED).iter_rows():
        shown = [str(seed) for seed in seeds[:NAMED]]
        more = [f"{count(len(seeds) - NAMED)} more"] if len(seeds) > NAMED else []
        which = f"seed{'' if len(seeds) == 1 else 's'} {listing([*shown, *more])}"
        told.append(f"{names[point] + ', ' if names[point] else ''}{which} ({status})")
    left = len(groups) - len(told)
    return "; ".join(told) + (f"; {count(left, 'more setting')} in the table below" if left else "")
