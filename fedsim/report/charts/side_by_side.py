"""Charts of several runs over each other: who took part how often, and how the loss fell."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from fedsim.report.binning import POINTS, Binned, binned, edges
from fedsim.report.charts import marks
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.learning import Loss, curves
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import aligned_numbers, count, fixed, listing, number, percent
from fedsim.report.parts import tenth_shares
from fedsim.report.tables import thinned

NAMES = ("frequencies", "losses")

_LINES = len(marks.SERIES)


@dataclass(frozen=True)
class RunCurve:
    """A curve of one run: its clients' frequencies, or the loss of one of its optimizers."""

    letter: str
    points: Binned
    optimizer: str = ""


def frequency_data(runs: Sequence[FinishedRun], letters: str) -> tuple[RunCurve, ...]:
    """Compute the curves of the runs in which anybody took part.

    Frequencies are in multiples of uniform, the most frequent client first; x is the share of the clients.
    """
    found = []
    for letter, run in zip(letters, runs, strict=False):
        if run.clients["participations"].sum():
            frequency = run.clients["frequency"].sort(descending=True).to_numpy() * len(run.clients)
            share = (np.arange(len(frequency)) + 0.5) / len(frequency)
            found.append(RunCurve(letter, binned(share, frequency, edges(len(frequency), POINTS))))
    return tuple(found)


def frequency_chart(runs: Sequence[FinishedRun], letters: str) -> Chart | Absent:
    """Make the chart of frequencies."""
    name, title = NAMES[0], "How evenly clients took part"
    data = frequency_data(runs, letters)
    if not data:
        return Absent(name, title, "Nobody took part in any of these runs.")
    ways = [f"{each.letter} from {fixed(each.points.mean[0], 2)} to {fixed(each.points.mean[-1], 2)}" for each in data]
    rows = [
        (each.letter, percent(x), fixed(mean))
        for each in data
        for x, mean in zip(each.points.x, each.points.mean, strict=True)
    ]
    note = "1 is uniform. The flatter the line, the more evenly clients took part; chance alone tilts it a little."
    return Chart(
        name=name,
        title=_busiest(runs, letters) or title,
        description=f"Frequencies of clients in multiples of uniform, most frequent first: {listing(ways)}.",
        notes=(note,),
        table=thinned("Frequency in multiples of uniform", ("Run", "Share of clients", "Frequency"), rows),
        draw=partial(_draw_frequencies, data),
    )


def _busiest(runs: Sequence[FinishedRun], letters: str) -> str | None:
    tenths = [(letter, tenth_shares(run)) for letter, run in zip(letters, runs, strict=False)]
    words = [f"{percent(each.most)} of the turns in {letter}" for letter, each in tenths if each is not None]
    return f"The busiest tenth takes {listing(words)}" if len(words) == len(runs) else None


def _draw_frequencies(data: tuple[RunCurve, ...], axes: Axes) -> None:
    """Draw one line for each run."""
    entries = [
        (marks.line(axes, each.points, marks.series_color(index)), each.letter) for index, each in enumerate(data)
    ]
    entries.append((marks.rule(axes, y=1), "uniform"))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.08 * max(float(each.points.mean.max()) for each in data))
    marks.linear(axes, "y")
    axes.xaxis.set_major_formatter(lambda share, _: percent(float(share)))
    marks.finish(axes, "clients, most frequent first", "frequency, in multiples of uniform", entries)


def loss_data(runs: Sequence[FinishedRun], letters: str) -> tuple[RunCurve, ...]:
    """Compute the loss curves of all runs over the rounds; references are left out."""
    return tuple(
        RunCurve(letter, curve.points, curve.optimizer)
        for letter, run in zip(letters, runs, strict=False)
        for curve in curves(run, Loss())
        if len(curve.points.x) and not curve.reference
    )


def loss_chart(runs: Sequence[FinishedRun], letters: str) -> Chart | Absent:
    """Make the chart of losses."""
    name, title = NAMES[1], "Loss"
    data = loss_data(runs, letters)
    if not data:
        return Absent(name, title, "Nothing was trained in these runs.")
    shown = data[: 2 * _LINES]
    ways = [
        f"{each.letter} {each.optimizer} from {number(each.points.mean[0])} to {number(each.points.mean[-1])}"
        for each in shown
    ]
    rows = [
        (each.letter, each.optimizer, count(x), number(mean))
        for each in shown
        for x, mean in zip(each.points.first, each.points.mean, strict=True)
    ]
    left = len(data) - len(shown)
    more = (f"{count(left, 'more curve')} in the reports of the runs.",) if left else ()
    return Chart(
        name=name,
        title=_lowest(data),
        description=f"Loss over rounds: {listing(ways)}.",
        notes=("Colours go with optimizers; the first run is drawn solid, the others dashed.", *more),
        table=replace(thinned("Loss by rounds done", ("Run", "Optimizer", "Rounds done", "Loss"), rows), words=2),
        draw=partial(_draw_losses, shown),
    )


def _lowest(data: Sequence[RunCurve]) -> str:
    best: dict[str, RunCurve] = {}
    for each in data:
        if each.letter not in best or each.points.mean[-1] < best[each.letter].points.mean[-1]:
            best[each.letter] = each
    ends = aligned_numbers([float(each.points.mean[-1]) for each in best.values()], 3)
    words = [
        f"{marks.shortened(best[letter].optimizer, 24)} {end} in {letter}"
        for letter, end in zip(best, ends, strict=True)
    ]
    return f"Lowest loss at the end: {', '.join(words)}"


def _draw_losses(data: tuple[RunCurve, ...], axes: Axes) -> None:
    """Draw one line for each optimizer of each run."""
    optimizers = list(dict.fromkeys(each.optimizer for each in data))
    colors = [marks.series_color(optimizers.index(each.optimizer)) for each in data]
    entries = [
        (marks.line(axes, each.points, color, dashed=each.letter != data[0].letter), f"{each.letter}: {each.optimizer}")
        for each, color in zip(data, colors, strict=True)
    ]
    marks.set_scale(axes, "y", marks.spans_decades(np.concatenate([each.points.mean for each in data]), ratio=4))
    marks.linear(axes, "x", whole=True)
    marks.finish(axes, "rounds done", "loss", entries)
