"""Charts of two runs over each other: who took part how often, and how the loss fell."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from fedsim.findings.bias import tenth_shares
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.formatting import aligned_numbers, count, listing, percent
from fedsim.report.charts import Absent, Chart, marks, plot
from fedsim.report.charts.learning import Curve, curves

NAMES = ("frequencies", "losses", "differences")
_MOST = 12  # curves drawn at most


def frequency_data(runs: Sequence[FinishedRun], letters: str) -> dict[str, marks.Binned]:
    """Compute the clients' shares of the runs in which anybody took part, by letter.

    Shares are in multiples of a fair share, the most frequent client first; x is the share of the clients.
    """
    found = {}
    for letter, run in zip(letters, runs, strict=False):
        if run.clients["participations"].sum():
            frequency = run.clients["frequency"].sort(descending=True).to_numpy() * len(run.clients)
            share = (np.arange(len(frequency)) + 0.5) / len(frequency)
            found[letter] = marks.binned(share, frequency, marks.edges(len(frequency)))
    return found


def frequency_chart(runs: Sequence[FinishedRun], letters: str) -> Chart | Absent:
    """Make the chart of participation shares."""
    name, title, data = NAMES[0], "Participation shares of clients", frequency_data(runs, letters)
    if not data:
        return Absent(name, title, "Nobody took part in any of these runs.")
    tenths = [(letter, tenth_shares(run)) for letter, run in zip(letters, runs, strict=False)]
    busiest = [f"{percent(each.most)} in {letter}" for letter, each in tenths if each is not None]
    what = "participations" if all(run.selected is None for run in runs) else "reports"

    def after(axes: Axes) -> None:
        axes.set(xlim=(0, 1), ylim=(0, 1.08 * max(float(each.mean.max()) for each in data.values())))
        axes.xaxis.set_major_formatter(marks.percent_tick)

    return plot.line_plot(
        name,
        f"The busiest tenth of clients gives {listing(busiest)} of the {what}" if busiest else title,
        [plot.Series.of(*each, marks.series_color(index)) for index, each in enumerate(data.items())],
        ("clients, most frequent first", "linear"),
        ("participation share", "linear"),
        rules=[plot.Rule("fair share", 1.0)],
        notes=("1 is a fair share. The flatter the line, the more even; chance alone tilts it a little.",),
        after=after,
    )


def loss_data(runs: Sequence[FinishedRun], letters: str) -> tuple[tuple[str, Curve], ...]:
    """Compute the loss curves of all runs over the rounds, each with the letter of its run; references are left out."""
    return tuple(
        (letter, curve)
        for letter, run in zip(letters, runs, strict=False)
        for curve in curves(run)
        if len(curve.points.x) and not curve.reference
    )


def loss_chart(runs: Sequence[FinishedRun], letters: str) -> Chart | Absent:
    """Make the chart of losses."""
    name, data = NAMES[1], loss_data(runs, letters)
    if not data:
        return Absent(name, "Loss", "No model was trained in these runs.")
    shown, kinds = data[:_MOST], list(dict.fromkeys(curve.optimizer for _, curve in data))
    best = dict[str, Curve]()
    for letter, curve in data:
        best[letter] = min(best.get(letter, curve), curve, key=lambda each: float(each.points.mean[-1]))
    lowest = aligned_numbers([float(each.points.mean[-1]) for each in best.values()], 3)
    named = zip((marks.shortened(each.optimizer, 24) for each in best.values()), lowest, best, strict=True)
    more = (f"{count(left, 'more curve')} in the reports of the runs.",) if (left := len(data) - _MOST) > 0 else ()
    far = marks.spans_decades(np.concatenate([curve.points.mean for _, curve in shown]), ratio=4)
    color = {kind: marks.series_color(index) for index, kind in enumerate(kinds)}
    first = data[0][0]
    return plot.line_plot(
        name,
        f"Lowest loss at the end: {', '.join(f'“{name}” {end} in {letter}' for name, end, letter in named)}",
        [
            plot.Series.of(f"{letter}: {curve.optimizer}", curve.points, color[curve.optimizer], letter != first)
            for letter, curve in shown
        ],
        ("rounds done", "whole"),
        ("loss", "log" if far else "linear"),
        notes=("Colours go with optimizers; the first run is drawn solid, the second dashed.", *more),
    )
