"""How each optimizer learned: loss and gradient norm over rounds, whole run and last half, and over time.

Where the problem knows its optimum, also where each optimizer ends, predicted and measured: the distance from it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from fedsim.findings.finished_run import INITIAL_ROUND, FinishedRun
from fedsim.findings.formatting import aligned_numbers, count, listing, number
from fedsim.findings.methods import optimizers, references
from fedsim.report.charts import marks
from fedsim.report.tables import Table, thinned

_MOST_DRAWN = 1e100  # axes with larger values cannot be laid out


@dataclass(frozen=True)
class Curve:
    """One optimizer's values over the number of rounds done, 0 being the initial model, or over simulated seconds."""

    optimizer: str
    reference: bool  # whether it was trained under uniform participation, to compare with
    color: int  # which colour of the palette: a reference shares that of its optimizer
    points: marks.Binned  # its finite values
    lost: int  # values that are not finite and therefore not drawn
    first_lost: float | None  # x of the first of them; None without any


def curves(run: FinishedRun, view: "LearningChart") -> tuple[Curve, ...]:
    """Compute the curves of a view, one for each optimizer."""
    if run.learning is None or run.learning.is_empty():
        return ()
    names = optimizers(run)
    pairs = references(names)
    own = [name for name in names if name not in pairs]
    colors = {name: own.index(pairs.get(name, name)) for name in names}
    x = pl.col("closed_s") / unit_of(run, view)[0] if view.over_time else pl.col("round") - INITIAL_ROUND
    frame = run.learning.select(x.alias("x"), "optimizer", pl.col(view.column).alias("value")).drop_nulls("x").sort("x")
    if view.last_half:
        frame = frame.filter(pl.col("x") > pl.col("x").max() / 2)
    parts = frame.partition_by("optimizer", as_dict=True)
    return tuple(curve_of(name, name in pairs, colors[name], parts.get((name,), frame.clear())) for name in names)


_STEADY = 0.03  # rounds go with time where none closes further from its place than this part of the run


def in_step(run: FinishedRun) -> bool:
    """Tell whether simulated time goes with the rounds, so that a chart over it would repeat the one over rounds."""
    closed = run.rounds["closed_s"].drop_nulls().to_numpy()
    if len(closed) < 2 or closed[-1] <= 0:
        return True
    return bool(np.abs(closed / closed[-1] - np.arange(1, len(closed) + 1) / len(closed)).max() <= _STEADY)


def unit_of(run: FinishedRun, view: "LearningChart") -> tuple[float, str]:
    """Return the unit in which a view goes along: its size, and its name in the plural."""
    return marks.time_scale(run.simulated_s) if view.over_time else (1.0, "rounds")


def curve_of(name: str, reference: bool, color: int, frame: pl.DataFrame) -> Curve:
    """Compute a curve from its points, in the columns ``x`` and ``value``."""
    finite = (pl.col("value").is_finite() & (pl.col("value").abs() < _MOST_DRAWN)).fill_null(value=False)
    kept, lost = frame.filter(finite), frame.filter(~finite)
    points = marks.binned(kept["x"].to_numpy().astype(np.float64), kept["value"].to_numpy(), marks.edges(len(kept)))
    return Curve(name, reference, color, points, len(lost), float(lost["x"][0]) if len(lost) else None)


@dataclass(frozen=True)
class Curves:
    """One curve for each optimizer, the unit in which they go along, and levels to compare their ends with."""

    all: tuple[Curve, ...]
    unit: str
    levels: Mapping[str, float] = field(default_factory=dict)

    @property
    def shown(self) -> list[Curve]:
        """Those that have a finite value."""
        return [curve for curve in self.all if len(curve.points.x)]


@dataclass(frozen=True)
class LearningChart:
    """A column of the learning table over rounds or time, over the whole run or its last half."""

    column: str = "loss"
    axis: str = "loss"
    last_half: bool = False
    over_time: bool = False
    section = "learning"

    def title(self, run: FinishedRun) -> str:
        if run.learning is None:
            return "Loss and gradient norm"
        where = " over simulated time" if self.over_time else ", last half" if self.last_half else ", whole run"
        return f"{self.axis.capitalize()}{where}"

    def prepare(self, run: FinishedRun) -> Curves | str | None:
        if run.learning is None and self == LearningChart():
            return "This scenario has no learning: it asks only who takes part."
        if run.learning is None or (self.over_time and in_step(run)):
            return None
        data = Curves(curves(run, self), unit_of(run, self)[1])
        return data if data.shown else f"No optimizer has a finite {self.axis} here."

    def finding(self, data: Curves) -> str:
        means = {curve.optimizer: curve.points.mean for curve in data.shown}
        level = {name: float(mean.mean() if self.last_half else mean[-1]) for name, mean in means.items()}
        ranked = sorted(level, key=lambda name: level[name])
        names = list(dict.fromkeys((ranked[0], ranked[-1])))
        texts = aligned_numbers([level[name] for name in names], 3)
        levels = [f"{marks.shortened(name, 24)} {text}" for name, text in zip(names, texts, strict=True)]
        return f"{self.axis.capitalize()}, {'last half' if self.last_half else 'at the end'}: {', '.join(levels)}"

    def description(self, data: Curves) -> str:
        means = [(curve.optimizer, curve.points.mean) for curve in data.shown]
        ways = [f"{name} from {number(mean[0])} to {number(mean[-1])}" for name, mean in means]
        over = "simulated time" if self.over_time else "rounds"
        return f"{self.axis.capitalize()} over {over}: {listing(ways)}."

    def notes(self, data: Curves) -> Iterator[str]:
        if (size := max(curve.points.size for curve in data.all)) > 1:
            bins = f"bins of up to {count(size)} evaluations"
            yield f"Lines are means over {bins}; bands go from the least to the greatest."
        if paired := list(references([curve.optimizer for curve in data.all]).values()):
            yield f"Dashed: {listing(paired)} under uniform participation, drawn without a band."
        for curve in data.all:
            if not len(curve.points.x):
                yield f"{curve.optimizer} has no finite value here."
            elif curve.first_lost is not None:
                lost = f"{count(curve.lost, 'value')}, first after {number(curve.first_lost)} {data.unit}"
                yield f"{curve.optimizer}: what is not finite, or above {_MOST_DRAWN:.0e}, is not drawn ({lost})."

    def table(self, data: Curves) -> Table:
        points = [curve.points for curve in data.shown]
        means = [dict(zip(each.first.tolist(), each.mean.tolist(), strict=True)) for each in points]
        grid = sorted({x for column in means for x in column})
        write = number if self.over_time else count
        rows = [(write(x), *(number(column.get(x)) for column in means)) for x in grid]
        along = f"simulated {data.unit}" if self.over_time else "rounds done"
        caption = f"{self.axis.capitalize()} by {along}, mean of the bin that starts there"
        return thinned(caption, (along.capitalize(), *(curve.optimizer for curve in data.shown)), rows)

    def draw(self, data: Curves, axes: Axes) -> None:
        """Draw one line for each optimizer, references dashed, and the levels dotted."""
        colors = {curve.optimizer: marks.series_color(curve.color) for curve in data.all}
        # A level far below what noise leaves would only stretch the axis.
        means = np.concatenate([curve.points.mean for curve in data.shown])
        known = [(colors[name], level) for name, level in data.levels.items() if level >= means.min() / 10]
        levels = [axes.axhline(level, color=color, linewidth=1.2, linestyle=":") for color, level in known]
        entries = [
            (marks.line(axes, curve.points, colors[curve.optimizer], dashed=curve.reference), curve.optimizer)
            for curve in data.shown
        ]
        marks.set_scale(axes, "y", marks.spans_decades(means, ratio=4))
        if self.over_time:
            title = marks.time_axis(axes, data.unit, max(float(curve.points.last[-1]) for curve in data.shown))
        else:
            marks.linear(axes, "x", whole=True)
            title = "rounds done"
        marks.finish(axes, title, self.axis, [*entries, *((each, "predicted") for each in levels[:1])])


@dataclass(frozen=True)
class LossLastHalf(LearningChart):
    """The loss over the last half of the run."""

    last_half: bool = True


@dataclass(frozen=True)
class LossOverTime(LearningChart):
    """The loss over simulated time."""

    over_time: bool = True


@dataclass(frozen=True)
class Gradient(LearningChart):
    """The norm of the gradient over the whole run."""

    column: str = "grad_norm"
    axis: str = "gradient norm"


@dataclass(frozen=True)
class GradientLastHalf(Gradient):
    """The norm of the gradient over the last half of the run."""

    last_half: bool = True


@dataclass(frozen=True)
class GradientOverTime(Gradient):
    """The norm of the gradient over simulated time."""

    over_time: bool = True


@dataclass(frozen=True)
class OptimumChart(LearningChart):
    """The distance over the last half of the run, with what was predicted for each optimizer."""

    column: str = "distance"
    axis: str = "distance from the optimum"
    last_half: bool = True

    def title(self, run: FinishedRun) -> str:  # noqa: ARG002  it is the same for every run
        return "Distance from the optimum, predicted and measured"

    def prepare(self, run: FinishedRun) -> Curves | str | None:
        if run.learning is None or self.column not in run.learning.columns:
            return None
        data = super().prepare(run)
        if not isinstance(data, Curves):
            return data
        names = [curve.optimizer for curve in data.all]
        foreseen = {name: run.metrics.get(f"learning.{name}.bias_predicted", 0.0) for name in names}
        return replace(data, levels={name: level for name, level in foreseen.items() if level > 0})

    def notes(self, data: Curves) -> Iterator[str]:
        yield from super().notes(data)
        if data.levels:
            ways = [f"{number(level)} for {name}" for name, level in data.levels.items()]
            levels = f"where the frequencies lead the mean model, {listing(ways)}"
            yield f"Dotted: {levels}; noise keeps each model further away."
