"""What a sweep says in words: how a figure goes along it, and what is missing of it."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from fedsim.analysis.participation import by_chance
from fedsim.common.arrays import Floats
from fedsim.experiment.cautions import FEW
from fedsim.report.answer import TRUST, Sentence
from fedsim.report.charts.sweep_lines import Line, Lines, line_data
from fedsim.report.finished_sweep import COMPLETE, FinishedSweep, estimates, paired, point_names
from fedsim.report.formatting import capitalized, count, listing
from fedsim.report.sweep_figures import L1, Told, difference, misplaced
from fedsim.report.sweep_setting import devices_of

NAMED = 4
"""Settings without a result that are named at most; the table has more."""


def way(sweep: FinishedSweep, told: Told) -> str | None:
    """Tell how a metric goes from one end of each of the outer lines to the other; None where nothing is known."""
    data = line_data(sweep, told.metric)
    if data is None:
        return None
    lines = list(dict.fromkeys((data.lines[0], data.lines[-1])))
    same = {told.write(float(mean)) for line in data.lines for mean in line.mean}
    if len(same) == 1 and not data.omitted:
        known = sum(len(line.points) for line in data.lines)
        return f"{capitalized(told.words)} is {same.pop()} at every setting{_known(known, sweep)}."
    ways = [_along(sweep, told, data, line) for line in lines]
    return f"{capitalized('; '.join(ways))}."


def extremes(sweep: FinishedSweep, told: Told, name: str) -> str | None:
    """Say where a metric, by its name in words, is least and most; None where nothing is known."""
    mean = estimates(sweep, told.metric).mean
    known = np.flatnonzero(np.isfinite(mean))
    if not len(known):
        return None
    least, most = mean[known].min(), mean[known].max()
    texts = [told.write(float(value)) for value in (least, most)]
    if texts[0] == texts[1]:
        return f"{name}: {texts[0]} at every setting{_known(len(known), sweep)}"
    ways = [f"{text} at {_where(sweep, mean, value)}" for text, value in zip(texts, (least, most), strict=True)]
    return f"{name}: {', '.join(ways)}"


def _where(sweep: FinishedSweep, mean: Floats, value: float) -> str:
    rows = np.flatnonzero(mean == value)
    return point_names(sweep)[rows[0]] if len(rows) == 1 else count(len(rows), "setting")


def _known(known: int, sweep: FinishedSweep) -> str:
    return "" if known == len(sweep.points) else " that has it"


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


def chance(sweep: FinishedSweep) -> Iterator[Sentence]:
    """Warn of settings with so few turns that chance alone would misplace at least half as many of them."""
    devices = devices_of(sweep)
    if not devices:
        return
    turns, bias = estimates(sweep, "sessions.count").mean, estimates(sweep, L1).mean
    fair = np.array([by_chance(round(each), devices) if np.isfinite(each) else 0.0 for each in turns.tolist()])
    few = np.flatnonzero((bias > 0) & (bias < 2 * fair) & (turns < FEW * devices))
    if len(few):
        names = point_names(sweep)
        told = [
            f"{misplaced(fair[row])} at {names[row] or 'this setting'} ({misplaced(bias[row])} are)"
            for row in few[:NAMED].tolist()
        ]
        more = [f"as much at {count(len(few) - NAMED, 'more setting')}"] if len(few) > NAMED else []
        text = f"Runs are short: of as few turns, a fair lottery would misplace {listing([*told, *more])}"
        yield Sentence(f"{text}. Part or all of this bias may be chance.", TRUST, warns=True)


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
