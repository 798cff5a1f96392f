"""Charts of several runs over each other: who took part how often, and how the loss fell."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from fedsim.findings.bias import tenth_shares
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.formatting import aligned_numbers, count, fixed, listing, number, percent
from fedsim.report.charts import Absent, Chart, marks
from fedsim.report.charts.learning import curves
from fedsim.report.tables import thinned

NAMES = ("frequencies", "losses")

_LINES = len(marks.SERIES)
_FLATTER = "1 is uniform. The flatter the line, the more evenly clients took part; chance alone tilts it a little."


@dataclass(frozen=True)
class RunCurve:
    """A curve of one run: its clients' frequencies, or the loss of one of its optimizers."""

    letter: str
    points: marks.Binned
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
            found.append(RunCurve(letter, marks.binned(share, frequency, marks.edges(len(frequency)))))
    return tuple(found)


def frequency_chart(runs: Sequence[FinishedRun], letters: str) -> Chart | Absent:
    """Make the chart of frequencies."""
    name, title = NAMES[0], "How evenly clients took part"
    data = frequency_data(runs, letters)
    if not data:
        return Absent(name, title, "Nobody took part in any of these runs.")
    tenths = [(letter, tenth_shares(run)) for letter, run in zip(letters, runs, strict=False)]
    busiest = [f"{percent(each.most)} of the turns in {letter}" for letter, each in tenths if each is not None]
    ways = [f"{each.letter} from {fixed(each.points.mean[0], 2)} to {fixed(each.points.mean[-1], 2)}" for each in data]
    rows = [
        (each.letter, percent(x), fixed(mean))
        for each in data
        for x, mean in zip(each.points.x, each.points.mean, strict=True)
    ]
    return Chart(
        name=name,
        title=f"The busiest tenth takes {listing(busiest)}" if len(busiest) == len(runs) else title,
        description=f"Frequencies of clients in multiples of uniform, most frequent first: {listing(ways)}.",
        notes=(
            "1 is uniform. The flatter the line, the more evenly clients took part; chance alone tilts it a little.",
        ),
        table=thinned("Frequency in multiples of uniform", ("Run", "Share of clients", "Frequency"), rows),
        draw=partial(_draw_frequencies, data),
    )


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
        for curve in curves(run)
        if len(curve.points.x) and not curve.reference
    )


def loss_chart(runs: Sequence[FinishedRun], letters: str) -> Chart | Absent:
    """Make the chart of losses."""
    name, title = NAMES[1], "Loss"
    data = loss_data(runs, letters)
    if not data:
        return Absent(name, title, "Nothing was trained in these runs.")
    shown = data[: 2 * _LINES]
    ends = [(f"{each.letter} {each.optimizer}", each.points.mean) for each in shown]
    ways = [f"{name} from {number(mean[0])} to {number(mean[-1])}" for name, mean in ends]
    rows = [
        (each.letter, each.optimizer, count(x), number(mean))
        for each in shown
        for x, mean in zip(each.points.first, each.points.mean, strict=True)
    ]
    best: dict[str, RunCurve] = {}
    for each in data:
        if each.letter not in best or each.points.mean[-1] < best[each.letter].points.mean[-1]:
            best[each.letter] = each
    lowest = aligned_numbers([float(each.points.mean[-1]) for each in best.values()], 3)
    named = zip((marks.shortened(each.optimizer, 24) for each in best.values()), lowest, best, strict=True)
    left = len(data) - len(shown)
    more = (f"{count(left, 'more curve')} in the reports of the runs.",) if left else ()
    return Chart(
        name=name,
        title=f"Lowest loss at the end: {', '.join(f'{name} {end} in {letter}' for name, end, letter in named)}",
        description=f"Loss over rounds: {listing(ways)}.",
        notes=("Colours go with optimizers; the first run is drawn solid, the others dashed.", *more),
        table=replace(thinned("Loss by rounds done", ("Run", "Optimizer", "Rounds done", "Loss"), rows), words=2),
        draw=partial(_draw_losses, shown),
    )


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
