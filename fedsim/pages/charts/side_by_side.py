"""Charts of two runs over each other: who took part how often, and how the loss fell."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes

from fedsim.common.formatting import count, listing, number, percent
from fedsim.pages.bias import tenth_shares
from fedsim.pages.charts import Chart, marks, plot
from fedsim.pages.charts.learning import Curve, curve_chart, curves
from fedsim.run.run import Run

NAMES = ("frequencies", "losses", "differences")
_LETTERS = "AB"
_MOST = 12  # curves drawn at most


def frequency_data(runs: Sequence[Run]) -> dict[str, marks.Binned]:
    """Compute the clients' shares of the runs in which anybody took part, by letter: A and B.

    Shares are in multiples of a fair share, the most frequent client first; x is the share of the clients.
    """
    found = {}
    for letter, run in zip(_LETTERS, runs, strict=False):
        if run.clients["reported"].sum():
            counts = run.clients["reported"].sort(descending=True).to_numpy()
            frequency = counts / counts.sum() * len(run.clients)
            share = (np.arange(len(frequency)) + 0.5) / len(frequency)
            found[letter] = marks.binned(share, frequency, marks.edges(len(frequency)))
    return found


def frequency_chart(runs: Sequence[Run]) -> Chart | None:
    """Make the chart of participation shares; None where nobody took part."""
    if not (data := frequency_data(runs)):
        return None
    tenths = [(letter, tenth_shares(run)) for letter, run in zip(_LETTERS, runs, strict=False)]
    busiest = [f"{percent(each.most)} in {letter}" for letter, each in tenths if each is not None]
    what = "participations" if all(run.all_reported for run in runs) else "reports"

    def after(axes: Axes) -> None:
        axes.set(xlim=(0, 1), ylim=(0, 1.08 * max(float(each.mean.max()) for each in data.values())))
        axes.xaxis.set_major_formatter(marks.percent_tick)

    return plot.line_plot(
        NAMES[0],
        f"The busiest tenth of clients gives {listing(busiest)} of the {what}" if busiest else "Who takes part",
        [plot.Series.of(*each, marks.series_color(index)) for index, each in enumerate(data.items())],
        ("clients, most frequent first", "linear"),
        ("participation share", "linear"),
        rules=[plot.Rule("fair share", 1.0)],
        notes=("1 is a fair share. The flatter the line, the more even; chance alone tilts it a little.",),
        after=after,
    )


def loss_data(runs: Sequence[Run]) -> tuple[tuple[str, Curve], ...]:
    """Compute the loss curves of all runs over the rounds, each with the letter of its run; references are left out."""
    return tuple(
        (letter, curve)
        for letter, run in zip(_LETTERS, runs, strict=False)
        for curve in curves(run)
        if len(curve.points.x) and not curve.reference
    )


def loss_chart(runs: Sequence[Run]) -> Chart | None:
    """Make the chart of losses; None where no model was trained."""
    if not (data := loss_data(runs)):
        return None
    kinds, best = list(dict.fromkeys(curve.optimizer for _, curve in data)), dict[str, Curve]()
    for letter, curve in data:
        best[letter] = min(best.get(letter, curve), curve, key=lambda each: float(each.points.mean[-1]))
    ends = [
        f"“{marks.shortened(each.optimizer, 24)}” {number(float(each.points.mean[-1]), 3)} in {letter}"
        for letter, each in best.items()
    ]
    shown = [
        replace(curve, optimizer=f"{letter}: {curve.optimizer}", color=kinds.index(curve.optimizer), reference=dashed)
        for letter, curve in data[:_MOST]
        for dashed in [letter != data[0][0]]
    ]
    notes = ["Colours go with optimizers; the first run is drawn solid, the second dashed."]
    notes += [f"{count(left, 'more curve')} in the reports of the runs."] if (left := len(data) - _MOST) > 0 else []
    title = f"Lowest loss at the end: {', '.join(ends)}"
    return curve_chart(NAMES[1], title, shown, "rounds done", "loss", notes)
