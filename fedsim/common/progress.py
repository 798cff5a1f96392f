"""Progress on stderr: a bar on a terminal; off one, a line per 10 % or 30 s, and once the time left is known."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

from fedsim.common.interrupts import look_for_interrupt
from fedsim.common.messages import complain
from fedsim.common.printable import printable

_SECONDS_BETWEEN_LINES = 30.0
_STEPS = 1_000_000  # of a bar
_BAR, _OTHERS = 10, 28  # cells of a bar at least, and of what stands around it but for the text beside it
_SOON = 1.0  # seconds after which the pace tells something about the time that is left


class Report(Protocol):
    """Takes the name of what is being done, the share of it that is done, 0 to 1, and what else a person may know."""

    def __call__(self, what: str, share: float, beside: str = "", /) -> None:
        """Report, as often as one likes."""
        ...


def silent(_what: str, _share: float, _beside: str = "", /) -> None:
    """Report nothing."""


#: Takes reports of work that begins deep below, where none is passed.
current: ContextVar[Report] = ContextVar("current", default=silent)


@contextmanager
def on_stderr(*, quiet: bool = False) -> Iterator[Report]:
    """Report progress to a person, the way stderr can show it; nothing where they want it quiet.

    Each report also looks whether the process has been interrupted.
    """
    with _bar() if sys.stderr.isatty() and not quiet else nullcontext(silent if quiet else _lines()) as progress:

        def looking(what: str, share: float, beside: str = "", /) -> None:
            look_for_interrupt()
            progress(what, share, beside)

        before = current.set(progress)
        try:
            yield looking
        finally:
            current.reset(before)


@contextmanager
def in_notebooks() -> Iterator[Report]:
    """Report progress below a cell, if this process is the kernel of a notebook; nothing elsewhere."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    bars = _bar() if find_spec("ipywidgets") else nullcontext(_lines())  # rich warns where it lacks them
    with nullcontext(silent) if getattr(shell, "kernel", None) is None else bars as progress:
        yield progress


@contextmanager
def _bar() -> Iterator[Report]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    tasks: dict[str, TaskID] = {}
    console = Console(stderr=True)
    width = min(40, max(_BAR, console.width - 70))
    room = Column(no_wrap=True, overflow="ellipsis", max_width=max(1, console.width - width - _OTHERS))
    beside_it = TextColumn("{task.fields[beside]}", table_column=room)
    columns = "{task.description}", BarColumn(width), TaskProgressColumn(), beside_it, TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bars:

        def progress(what: str, share: float, beside: str = "", /) -> None:
            done = int(_STEPS * share)
            if what not in tasks:
                tasks[what] = bars.add_task(escape(printable(what)), total=_STEPS, completed=done, beside=beside)
            bars.update(tasks[what], completed=done, beside=beside)

        yield progress


@dataclass
class _Task:
    """Where something began, and what was said of it last."""

    began: float
    first: float
    tenth: int
    printed: float
    foreseen: bool = False  # whether the time that is left was said
    beside: bool = False  # whether what else may be known was said


def _lines() -> Report:
    from fedsim.common.instants import readable_time  # loads numpy, which help does without

    tasks: dict[str, _Task] = {}

    def progress(what: str, share: float, beside: str = "", /) -> None:
        now, tenth = time.monotonic(), int(share * 10)
        task = tasks.setdefault(what, _Task(now, share, -1, now))
        foreseen, left = task.first < share < 1.0 and now - task.began >= _SOON, ""
        news = foreseen > task.foreseen or (beside != "") > task.beside
        if tenth > task.tenth or now - task.printed >= _SECONDS_BETWEEN_LINES or news:
            task.tenth, task.printed, task.foreseen, task.beside = tenth, now, foreseen, beside != ""
            if foreseen:
                left_s = (1.0 - share) * (now - task.began) / (share - task.first)
                left = f"{readable_time(max(left_s, 1.0))} left"
            parts = [f"{share:.0%}", beside, left]
            complain(f"{what}: {', '.join(part for part in parts if part)}")

    return progress
