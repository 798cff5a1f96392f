"""What every chart is made of: its data as words and as a table, and a function that draws it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from matplotlib.axes import Axes

from fedsim.report.finished_run import FinishedRun
from fedsim.report.tables import Table


@dataclass(frozen=True)
class Chart:
    """A chart that is ready to be drawn."""

    name: str  # its anchor in the page and its file under `figures/`
    title: str  # its finding, or what it shows
    description: str  # its finding for readers who cannot see it
    notes: tuple[str, ...]  # how to read it: what a mark stands for, what was averaged or left out
    table: Table | None  # its data; None where it has none to show
    draw: Callable[[Axes], None]  # draws it on empty axes
    height: float = 1.0  # how tall it is, relative to the usual height


@dataclass(frozen=True)
class Absent:
    """A chart that this run has no data for, and why."""

    name: str
    title: str
    reason: str


class RunChart(Protocol):
    """Draws a chart of a run.

    It may have a method ``prepare(run)``, which returns the data to draw; or a text that says why there are none; or
    None where the page without this chart lacks nothing. Without it, the data are the `FinishedRun` itself. It may have
    ``title``, a text or a method of the run, and ``finding``, a method of the data: what is to be seen, in about 80
    characters, which becomes the title. It may have ``description``, ``notes`` (texts), ``table`` and ``height``, each
    a value or a method of the data; and ``section``: bias, devices, rounds or learning.
    """

    def draw(self, data: Any, axes: Axes) -> None:
        """Draw the data on empty axes, on which the style of the page is set."""
        ...


def chart_of(name: str, kind: RunChart, run: FinishedRun) -> Chart | Absent | None:
    """Compute what a chart shows of a run; None where a page without it lacks nothing."""
    prepare = getattr(kind, "prepare", None)
    data = run if prepare is None else prepare(run)
    title = _part_of(kind, "title", type(kind).__name__, run)
    if data is None:
        return None
    if isinstance(data, str):
        return Absent(name, title, data)
    notes = _part_of(kind, "notes", (), data)
    return Chart(
        name=name,
        title=_part_of(kind, "finding", title, data),
        description=_part_of(kind, "description", title, data),
        notes=(notes,) if isinstance(notes, str) else tuple(notes),
        table=_part_of(kind, "table", None, data),
        draw=partial(kind.draw, data),
        height=_part_of(kind, "height", 1.0, data),
    )


def _part_of(kind: RunChart, what: str, otherwise: Any, data: object) -> Any:
    """Return an attribute of a chart: a value, or what its method returns for the data."""
    found = getattr(kind, what, otherwise)
    return found(data) if callable(found) else found
