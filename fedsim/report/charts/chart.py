"""What every chart is made of: its data as words and as a table, and a function that draws it.

The chart of a run is a class with one method, `draw`. What else it has is looked at where it is there; the data that
`prepare` computes is what tests pin, and the drawing is looked at.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from matplotlib.axes import Axes

from fedsim.report.finished_run import FinishedRun
from fedsim.report.tables import Table


@dataclass(frozen=True)
class Chart:
    """A chart that is ready to be drawn.

    Parameters
    ----------
    name
        Its anchor in the page and its file under `figures/`.
    title
        What is to be seen in it, or what it shows.
    description
        What is to be seen in it, for who cannot see it.
    notes
        How to read it: what a mark stands for, what was averaged or left out.
    table
        Its data; None where it has none to show.
    draw
        Draws it on empty axes.
    height
        How tall it is, relative to the usual height.
    """

    name: str
    title: str
    description: str
    notes: tuple[str, ...]
    table: Table | None
    draw: Callable[[Axes], None]
    height: float = 1.0


@dataclass(frozen=True)
class Absent:
    """A chart that this run has no data for, and why."""

    name: str
    title: str
    reason: str


class RunChart(Protocol):
    """Draws a chart of a run.

    It can have a method ``prepare(run)``, which returns the data to draw, a text that says why there are none, or None
    where a page without this chart lacks nothing; the data are the `FinishedRun` itself, where it has none such. It can
    have ``title``, a text or a method of the run, and ``finding``, a method of the data: what is to be seen, in 80
    characters or so, which is the title then. It can have ``description``, ``notes`` (texts), ``table`` and ``height``,
    each a value or a method of the data; and ``section``, which is bias, devices, rounds or learning.
    """

    def draw(self, data: Any, axes: Axes) -> None:
        """Draw the data on empty axes, on which the style of the page is set."""
        ...


def chart_of(name: str, kind: RunChart, run: FinishedRun) -> Chart | Absent | None:
    """Compute what a chart shows of a run; None where a page without it lacks nothing."""
    prepare = getattr(kind, "prepare", None)
    data = run if prepare is None else prepare(run)
    title = _told(kind, "title", type(kind).__name__, run)
    if data is None:
        return None
    if isinstance(data, str):
        return Absent(name, title, data)
    notes = _told(kind, "notes", (), data)
    return Chart(
        name=name,
        title=_told(kind, "finding", title, data),
        description=_told(kind, "description", title, data),
        notes=(notes,) if isinstance(notes, str) else tuple(notes),
        table=_told(kind, "table", None, data),
        draw=partial(kind.draw, data),
        height=_told(kind, "height", 1.0, data),
    )


def _told(kind: RunChart, what: str, otherwise: Any, data: object) -> Any:
    """Return what a chart says of itself, as a value or by a method of its data."""
    found = getattr(kind, what, otherwise)
    return found(data) if callable(found) else found
