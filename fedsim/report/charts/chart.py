"""What every chart is made of: its data as words and as a table, and a function that draws it.

A chart's module has three parts: a frozen dataclass with the data, a function that computes it from a run,
and one that draws it. The data is what tests pin; the drawing is looked at.
"""

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.axes import Axes

from fedsim.report.tables import Table


@dataclass(frozen=True)
class Chart:
    """A chart that is ready to be drawn.

    Parameters
    ----------
    name
        Its anchor in the page and its file under `figures/`.
    title
        What it shows.
    description
        What is to be seen in it, for who cannot see it.
    notes
        How to read it: what a mark stands for, what was averaged or left out.
    table
        Its data.
    draw
        Draws it on empty axes.
    height
        How tall it is, relative to the usual height.
    """

    name: str
    title: str
    description: str
    notes: tuple[str, ...]
    table: Table
    draw: Callable[[Axes], None]
    height: float = 1.0


@dataclass(frozen=True)
class Absent:
    """A chart that this run has no data for, and why."""

    name: str
    title: str
    reason: str
