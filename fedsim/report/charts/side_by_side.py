"""Charts of two runs over each other: who took part how often, and how the loss fell."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from fedsim.findings.bias import tenth_shares
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.formatting import aligned_numbers, count, listing, percent
from fedsim.report.charts import Absent, Chart, marks, plot
from fedsim.report.charts.learning import curves

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
    what = "participations" if all(run.selected is None for run in runs) else "reports"

    def after(axes: Axes) -> None:
        axes.set(xlim=(0, 1), ylim=(0, 1.08 * max(float(each.points.mean.max()) for each in data)))
        axes.xaxis.set_major_formatter(marks.percent_tick)

    return plot.line_plot(
        name,
        f"The busiest tenth of clients gives {listing(busiest)} of the {what}" if busiest else title,
        [plot.Series.of(each.letter, each.points, marks.series_color(index)) for index, each in enumerate(data)],
        ("clients, most frequent first", "linear"),
        ("participation share", "linear"),
        rules=[plot.Rule("fair share", 1.0)],
        notes=("1 is a fair share. The flatter the line, the more even; chance alone tilts it a little.",),
        after=after,
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
    shown, kinds = data[:_MOST], list(dict.fromkeys(each.optimizer for each in data))
    best = {
        letter: min((each for each in data if each.letter == letter), key=lambda each: float(each.points.mean[-1]))
        for letter in dict.fromkeys(each.letter for each in data)
    }
    lowest = aligned_numbers([float(each.points.mean[-1]) for each in best.values()], 3)
    named = zip((marks.shortened(each.optimizer, 24) for each in best.values()), lowest, best, strict=True)
    more = (f"{count(left, 'more curve')} in the reports of the runs.",) if (left := len(data) - _MOST) > 0 else ()
    far = marks.spans_decades(np.concatenate([each.points.mean for each in shown]), ratio=4)
    color = {kind: marks.series_color(index) for index, kind in enumerate(kinds)}
    return plot.line_plot(
        name,
        f"Lowest loss at the end: {', '.join(f'“{name}” {end} in {letter}' for name, end, letter in named)}",
        [
            plot.Series.of(
                f"{each.letter}: {each.optimizer}", each.points, color[each.optimizer], each.letter != data[0].letter
            )
            for each in shown
        ],
        ("rounds done", "whole"),
        ("loss", "log" if far else "linear"),
        notes=("Colours go with optimizers; the first run is drawn solid, the second dashed.", *more),
    )
