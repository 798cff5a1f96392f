"""What the loss above the optimum is made of along a sweep: its parts as lines, and their sum."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.common.arrays import Floats, Ints
from fedsim.report.charts.chart import Chart
from fedsim.report.charts.marks import INK, label_axes, legend, logarithmic, series_color, shortened
from fedsim.report.charts.sweep_lines import mark_values
from fedsim.report.finished_sweep import FinishedSweep
from fedsim.report.formatting import listing, number
from fedsim.report.sweep_axes import Axis, axis_of, followed
from fedsim.report.sweep_parts import PARTS, LossParts
from fedsim.report.tables import Table, thinned
from fedsim.sweeps.decision import interval

NAME = "parts"


@dataclass(frozen=True, eq=False)
class PartLines:
    """The means and halves of their 95 % intervals, (settings,) each, by what they are called; in the order of x."""

    along: Axis
    x: Floats
    lines: dict[str, tuple[Floats, Floats]]


def part_lines(sweep: FinishedSweep, parts: LossParts) -> PartLines | None:
    """Compute the lines; None where nothing goes along one axis alone, or fewer than two settings have a value."""
    along, known = axis_of(sweep), np.isfinite(interval(parts.total)[0])
    ways: list[tuple[str, Ints]] = [] if along is None else list(followed(sweep, along, known))
    if along is None or len(ways) != 1 or len(ways[0][1]) < 2:
        return None
    rows = ways[0][1]
    named = {"together": parts.total} | {words: parts.parts[part] for part, words in PARTS.items()}
    lines = {}
    for words, values in named.items():
        mean, half = interval(values)
        lines[words] = mean[rows], half[rows]
    return PartLines(along, along.x[rows], lines)


def parts_chart(sweep: FinishedSweep, parts: LossParts) -> Chart | None:
    """Make the chart of an optimizer; None where there are no lines to draw."""
    data = part_lines(sweep, parts)
    if data is None:
        return None
    best = int(np.nanargmin(data.lines["together"][0]))
    ways = [
        f"{words} from {number(mean[0], 3)} at {data.along.at(data.x[0])} to {number(mean[-1], 3)} at "
        f"{data.along.at(data.x[-1])}"
        for words, (mean, _) in data.lines.items()
    ]
    hidden = any((mean <= 0).any() for mean, _ in data.lines.values())
    notes = ["Each part is the difference of two runs over the same log, of which one has one thing less."]
    if hidden:
        notes.append("What is zero or less is not on a logarithmic axis; the table has it.")
    if any(((half >= mean) & (mean > 0)).any() for mean, half in data.lines.values()):
        notes.append("An interval that reaches zero is cut off at a tenth of the mean.")
    return Chart(
        name=f"{NAME}-{parts.name}",
        title=f"{parts.name} ends closest to the optimum at {data.along.named(float(data.x[best]))}",
        description=f"Loss of {parts.name} above the optimum along {data.along.name}: {listing(ways)}.",
        notes=tuple(notes),
        table=_table(data),
        draw=partial(draw_parts, data),
    )


def _table(data: PartLines) -> Table:
    columns = [
        [
            f"{number(mean)} ± {number(half, 2)}" if np.isfinite(half) else number(mean)
            for mean, half in zip(*pair, strict=True)
        ]
        for pair in data.lines.values()
    ]
    rows = [(data.along.at(x), *cells) for x, *cells in zip(data.x.tolist(), *columns, strict=True)]
    return thinned("Loss above the optimum and its parts", (data.along.name, *data.lines), rows)


def draw_parts(data: PartLines, axes: Axes) -> None:
    """Draw a line for each part and one for their sum, on a logarithmic scale, with intervals."""
    entries: list[tuple[Artist, str]] = []
    for index, (words, (mean, half)) in enumerate(data.lines.items()):
        color, shown = (INK if index == 0 else series_color(index - 1)), mean > 0
        low = np.minimum(np.where(np.isfinite(half), half, 0.0), 0.9 * np.abs(mean))
        high = np.where(np.isfinite(half), half, 0.0)
        axes.errorbar(
            data.x[shown],
            mean[shown],
            yerr=np.stack([low, high])[:, shown],
            linestyle="",
            color=color,
            capsize=2.5,
            linewidth=1,
        )
        (drawn,) = axes.plot(
            data.x[shown], mean[shown], color=color, marker="o", markersize=4.2, linewidth=2.2 if index == 0 else 1.2
        )
        entries.append((drawn, words))
    logarithmic(axes, "y")
    mark_values(data.along, axes)
    label_axes(axes, shortened(data.along.label, 44), "loss above the optimum")
    legend(axes, entries)
