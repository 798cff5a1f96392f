"""Charts of several runs over each other: who took part how often, and how the loss fell."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from fedsim.report.binning import POINTS, Binned, binned, edges
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.learning import Loss as LossChart
from fedsim.report.charts.learning import curves
from fedsim.report.charts.marks import SERIES, finish, line, linear, rule, scaled, series_color, spans_decades
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, fixed, listing, number, percent
from fedsim.report.tables import Table, thinned

NAMES = ("frequencies", "losses")

LINES = len(SERIES)


@dataclass(frozen=True)
class Sorted:
    """One run's frequencies in multiples of uniform, the most frequent client first; x is the share of the clients."""

    letter: str
    points: Binned


@dataclass(frozen=True)
class Loss:
    """One optimizer's loss over the rounds of one run."""

    letter: str
    optimizer: str
    points: Binned


def frequency_data(runs: Sequence[FinishedRun], letters: str) -> tuple[Sorted, ...]:
    """Compute the curves of the runs in which anybody took part."""
    found = []
    for letter, run in zip(letters, runs, strict=False):
        if run.clients["participations"].sum():
            frequency = run.clients["frequency"].sort(descending=True).to_numpy() * len(run.clients)
            share = (np.arange(len(frequency)) + 0.5) / len(frequency)
            found.append(Sorted(letter, binned(share, frequency, edges(len(frequency), POINTS))))
    return tuple(found)


def frequency_chart(runs: Sequence[FinishedRun], letters: str) -> Chart | Absent:
    """Make the chart of frequencies."""
    name, title = NAMES[0], "How evenly clients took part"
    data = frequency_data(runs, letters)
    if not data:
        return Absent(name, title, "Nobody took part in any of these runs.")
    ways = [f"{each.letter} from {fixed(each.points.mean[0], 2)} to {fixed(each.points.mean[-1], 2)}" for each in data]
    return Chart(
        name=name,
        title=title,
        description=f"Frequencies of clients in multiples of uniform, most frequent first: {listing(ways)}.",
        notes=(
            "1 is uniform. The flatter the line, the more evenly clients took part; chance alone tilts it a little.",
        ),
        table=_frequency_table(data),
        draw=partial(draw_frequencies, data),
    )


def _frequency_table(data: tuple[Sorted, ...]) -> Table:
    rows = [
        (each.letter, percent(x), fixed(mean))
        for each in data
        for x, mean in zip(each.points.x, each.points.mean, strict=True)
    ]
    return thinned("Frequency in multiples of uniform", ("Run", "Share of clients", "Frequency"), rows)


def draw_frequencies(data: tuple[Sorted, ...], axes: Axes) -> None:
    """Draw one line for each run."""
    entries = [(line(axes, each.points, series_color(index)), each.letter) for index, each in enumerate(data)]
    uniform = rule(axes, y=1)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.08 * max(float(each.points.mean.max()) for each in data))
    linear(axes, "y")
    axes.xaxis.set_major_formatter(lambda share, _: percent(float(share)))
    finish(axes, "clients, most frequent first", "frequency, in multiples of uniform", [*entries, (uniform, "uniform")])


def loss_data(runs: Sequence[FinishedRun], letters: str) -> tuple[Loss, ...]:
    """Compute the loss curves of all runs; references are left out."""
    return tuple(
        Loss(letter, curve.optimizer, curve.points)
        for letter, run in zip(letters, runs, strict=False)
        for curve in curves(run, LossChart())
        if len(curve.points.x) and not curve.reference
    )


def loss_chart(runs: Sequence[FinishedRun], letters: str) -> Chart | Absent:
    """Make the chart of losses."""
    name, title = NAMES[1], "Loss"
    data = loss_data(runs, letters)
    if not data:
        return Absent(name, title, "Nothing was trained in these runs.")
    shown = data[: 2 * LINES]
    ways = [
        f"{each.letter} {each.optimizer} from {number(each.points.mean[0])} to {number(each.points.mean[-1])}"
        for each in shown
    ]
    notes = ["Colours go with optimizers; the first run is drawn solid, the others dashed."]
    if len(data) > len(shown):
        notes.append(f"{count(len(data) - len(shown), 'more curve')} in the reports of the runs.")
    return Chart(
        name=name,
        title=title,
        description=f"Loss over rounds: {listing(ways)}.",
        notes=tuple(notes),
        table=_loss_table(shown),
        draw=partial(draw_losses, shown),
    )


def _loss_table(data: tuple[Loss, ...]) -> Table:
    rows = [
        (each.letter, each.optimizer, count(x), number(mean))
        for each in data
        for x, mean in zip(each.points.first, each.points.mean, strict=True)
    ]
    table = thinned("Loss by rounds done", ("Run", "Optimizer", "Rounds done", "Loss"), rows)
    return Table(table.caption, table.header, table.rows, words=2, note=table.note)


def draw_losses(data: tuple[Loss, ...], axes: Axes) -> None:
    """Draw one line for each optimizer of each run."""
    optimizers = list(dict.fromkeys(each.optimizer for each in data))
    entries = [
        (
            line(
                axes, each.points, series_color(optimizers.index(each.optimizer)), dashed=each.letter != data[0].letter
            ),
            f"{each.letter}: {each.optimizer}",
        )
        for each in data
    ]
    scaled(axes, "y", spans_decades(np.concatenate([each.points.mean for each in data]), ratio=4))
    linear(axes, "x", whole=True)
    finish(axes, "rounds done", "loss", entries)
