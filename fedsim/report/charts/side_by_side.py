"""Charts of two runs over each other: who took part how often, and how the loss fell."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from fedsim.findings.bias import tenth_shares
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.formatting import aligned_numbers, count, fixed, from_to, listing, number, percent
from fedsim.report.charts import Absent, Chart, marks
from fedsim.report.charts.learning import curves
from fedsim.report.tables import thinned

NAMES = ("frequencies", "losses", "differences")
_MOST = 12  # curves drawn at most


@dataclass(frozen=True)
class RunCurve:
    """A curve of one run: its clients' shares, or the loss of one of its optimizers."""

    letter: str
    points: marks.Binned
    optimizer: str = ""


def frequency_data(runs: Sequence[FinishedRun], letters: str) -> tuple[RunCurve, ...]:
    """Compute the curves of the runs in which anybody took part.

    Shares are in multiples of a fair share, the most frequent client first; x is the share of the clients.
    """
    found = []
    for letter, run in zip(letters, runs, strict=False):
        if run.clients["participations"].sum():
            frequency = run.clients["frequency"].sort(descending=True).to_numpy() * len(run.clients)
            share = (np.arange(len(frequency)) + 0.5) / len(frequency)
            found.append(RunCurve(letter, marks.binned(share, frequency, marks.edges(len(frequency)))))
    return tuple(found)


def frequency_chart(runs: Sequence[FinishedRun], letters: str) -> Chart | Absent:
    """Make the chart of participation shares."""
    name, title, data = NAMES[0], "Participation shares of clients", frequency_data(runs, letters)
    if not data:
        return Absent(name, title, "Nobody took part in any of these runs.")
    tenths = [(letter, tenth_shares(run)) for letter, run in zip(letters, runs, strict=False)]
    busiest = [f"{percent(each.most)} in {letter}" for letter, each in tenths if each is not None]
    ways = [f"{each.letter} from {fixed(each.points.mean[0], 2)} to {fixed(each.points.mean[-1], 2)}" for each in data]
    rows = [
        (each.letter, percent(x), fixed(mean))
        for each in data
        for x, mean in zip(each.points.x, each.points.mean, strict=True)
    ]
    what = "participations" if all(run.selected is None for run in runs) else "reports"
    return Chart(
        name=name,
        title=f"The busiest tenth of clients gives {listing(busiest)} of the {what}" if busiest else title,
        description=f"Participation shares in multiples of a fair share, most frequent first: {listing(ways)}.",
        notes=("1 is a fair share. The flatter the line, the more even; chance alone tilts it a little.",),
        table=thinned("Participation shares", ("Run", "Share of clients", "Times a fair share"), rows),
        draw=partial(_draw, data, False),
    )


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
    name, data = NAMES[1], loss_data(runs, letters)
    if not data:
        return Absent(name, "Loss", "No model was trained in these runs.")
    shown = data[:_MOST]
    ends = [(f"{each.letter} {each.optimizer}", each.points.mean) for each in shown]
    ways = [f"{name} {from_to(number(mean[0]), number(mean[-1]))}" for name, mean in ends]
    rows = [
        (each.letter, each.optimizer, count(x), number(mean))
        for each in shown
        for x, mean in zip(each.points.first, each.points.mean, strict=True)
    ]
    best = {
        letter: min((each for each in data if each.letter == letter), key=lambda each: float(each.points.mean[-1]))
        for letter in dict.fromkeys(each.letter for each in data)
    }
    lowest = aligned_numbers([float(each.points.mean[-1]) for each in best.values()], 3)
    named = zip((marks.shortened(each.optimizer, 24) for each in best.values()), lowest, best, strict=True)
    more = (f"{count(left, 'more curve')} in the reports of the runs.",) if (left := len(data) - _MOST) > 0 else ()
    return Chart(
        name=name,
        title=f"Lowest loss at the end: {', '.join(f'“{name}” {end} in {letter}' for name, end, letter in named)}",
        description=f"Loss over rounds: {listing(ways)}.",
        notes=("Colours go with optimizers; the first run is drawn solid, the second dashed.", *more),
        table=replace(thinned("Loss by rounds done", ("Run", "Optimizer", "Rounds done", "Loss"), rows), words=2),
        draw=partial(_draw, shown, True),
    )


def _draw(data: tuple[RunCurve, ...], losses: bool, axes: Axes) -> None:
    """Draw one line for each run, or for each optimizer of each run."""
    kinds = list(dict.fromkeys(each.optimizer if losses else each.letter for each in data))
    entries = []
    for each in data:
        color = marks.series_color(kinds.index(each.optimizer if losses else each.letter))
        dashed = losses and each.letter != data[0].letter
        name = f"{each.letter}: {each.optimizer}" if losses else each.letter
        entries.append((marks.line(axes, each.points, color, dashed=dashed), name))
    if losses:
        marks.set_scale(axes, "y", marks.spans_decades(np.concatenate([each.points.mean for each in data]), ratio=4))
        marks.linear(axes, "x", whole=True)
        marks.finish(axes, "rounds done", "loss", entries)
        return
    entries.append((marks.rule(axes, y=1), "fair share"))
    axes.set(xlim=(0, 1), ylim=(0, 1.08 * max(float(each.points.mean.max()) for each in data)))
    marks.linear(axes, "y")
    axes.xaxis.set_major_formatter(lambda share, _: percent(float(share)))
    marks.finish(axes, "clients, most frequent first", "participation share", entries)
