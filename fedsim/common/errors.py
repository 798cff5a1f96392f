"""The errors that fedsim raises for a person to read, and how a mistake is shown.

Each is a `FedsimError`, `LearningError` of `fedsim.learning` included; the command line shows it without a traceback.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import extract_tb, walk_tb
from typing import Any, TypeAlias

from fedsim.common.printable import printable

KeyPath: TypeAlias = tuple[str | int, ...]
_LONGEST_PLACE, _LONGEST_PATH = 500, 200  # characters that are shown
_NOT_USERS = (Path(__file__).parent.parent, Path(os.__file__).parent)


def dotted(path: KeyPath) -> str:
    """Write a path the way a person would: ``population[0].weight.kind``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def where(error: BaseException) -> str:
    """Say what was raised and where, in a line: of a user's own code, if there was any."""
    step = extract_tb(error.__traceback__)[-1]
    place = users_line(error) or f"{step.filename}:{step.lineno}"
    return f"{type(error).__name__}: {' '.join(_text(error).split())} ({place})"


def told(error: BaseException, asked: Any = None) -> str:
    """Say what went wrong in a user's own code, with `users_line`: ``IndexError: index out of range (FILE:LINE)``.

    Such code may raise anything, as by ``sys.exit()``; an interrupt is nothing wrong with it, and is raised again.
    """
    text = _text(error)
    place = users_line(error, asked)
    new = place and f"{place.rpartition(':')[0]}:" not in text
    kind = "" if isinstance(error, FedsimError) else type(error).__name__
    return ": ".join(part for part in (kind, text) if part) + (f" ({place})" if new else "")


def _text(error: BaseException) -> str:
    """Return what an error says; raise an interrupt again."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    if isinstance(error, SystemExit):
        return f"it ends the process, as by sys.exit({error.code!r})"
    try:
        return (error.msg if isinstance(error, SyntaxError) else "") or str(error)
    except Exception:  # noqa: BLE001  an error of a user's own
        return "its text fails"


def users_line(error: BaseException, asked: Any = None) -> str:
    """Return ``FILE:LINE`` of the innermost line of a user's own code that was running; "" where there was none.

    Where none was running, for what it returned is wrong, it is the line of `asked`, as in `line_of`, whose file counts
    as the user's even if it is installed.
    """
    begins = line_of(asked)
    asked_file = begins.rpartition(":")[0]
    cause: BaseException | None = error
    while cause is not None:
        steps = [(frame.f_code.co_filename, line) for frame, line in walk_tb(cause.__traceback__)]
        if isinstance(cause, SyntaxError):
            steps.append((cause.filename or "<string>", cause.lineno or 1))
        for file, line in reversed(steps):
            if (asked_file and _shown(file) == asked_file) or is_users(file):
                return f"{_shown(file)}:{line}"
        cause = cause.__cause__
    return begins


def line_of(asked: Any) -> str:
    """Return ``FILE:LINE`` of where a function or class begins, or a generator stands; "" for those of fedsim."""
    code, line = getattr(asked, "gi_code", None) or getattr(asked, "__code__", None), 0
    file = getattr(code, "co_filename", "")
    if (frame := getattr(asked, "gi_frame", None)) is not None:
        line = frame.f_lineno
    elif code is not None:
        line = code.co_firstlineno
    elif isinstance(asked, type):
        import inspect

        with suppress(OSError, TypeError):
            file, line = inspect.getfile(asked), inspect.findsource(asked)[1] + 1
    return f"{_shown(file)}:{line}" if line and not _lies_in(file, _NOT_USERS[:1]) else ""


def is_users(file: str | Path) -> bool:
    """Say whether a source is neither Python's, nor fedsim's, nor that of an installed package."""
    not_installed = {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)
    return not_installed and not (str(file).startswith("<") or _lies_in(file, _NOT_USERS))


def _lies_in(file: str | Path, folders: Sequence[Path]) -> bool:
    return any(map(Path(file).is_relative_to, folders))


def _shown(file: str) -> str:
    """Return the name of a file, relative to the working folder if it is in there."""
    with suppress(OSError, ValueError):
        return str(Path(file).relative_to(Path.cwd()))
    return file


class FedsimError(Exception):
    """Something that the user can put right."""


@dataclass(frozen=True, order=True)
class Mistake:
    """One thing that is wrong in a scenario."""

    place: str  # ``FILE:LINE:COLUMN``, or what stands for it (``--set server.cohort``); empty while it is not known
    path: KeyPath  # from the root of the scenario; empty for the file as a whole
    message: str  # what is wrong, with the value and the remedy

    def __str__(self) -> str:
        place, path = printable(self.place, _LONGEST_PLACE), printable(dotted(self.path), _LONGEST_PATH)
        return ": ".join(part for part in (place, "error", path, printable(self.message)) if part)


class ScenarioError(FedsimError):
    """The scenario file, or an override, is wrong; `mistakes` holds every one that was found."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))

    def __reduce__(self) -> tuple[type["ScenarioError"], tuple[tuple[Mistake, ...]]]:
        """Pickle the mistakes, of which the message is made."""
        return type(self), (self.mistakes,)

    def in_job(self, job: str) -> "ScenarioError":
        """Return it with the name of a job in each message; a scenario of one server has none."""
        return ScenarioError([replace(each, message=of_job(job, each.message)) for each in self.mistakes])


def of_job(job: str, text: str) -> str:
    """Say of which job a text is; a scenario of one server has none."""
    return f"job {job!r}: {text}" if job else text


class MissingScenarioError(ScenarioError, FileNotFoundError):
    """A scenario file that is not there."""


class StalledError(FedsimError):
    """The federation can never make progress again; the message says what everyone is waiting for.

    `ended_s` is when that was clear, in seconds of simulated time. `log` is the log until then, with
    its tables as attributes, where the simulation kept it in memory.
    """

    ended_s: float = 0.0
    log: Any = None


class ChainError(FedsimError):
    """A question to the theory that has no answer, or none by the method asked for."""


class CannotAnswerError(ChainError):
    """A question that one method cannot answer; the message says which one may."""


class PluginError(FedsimError):
    """Something that a person brought (a law, a model, a metric, ...) that is incomplete or fails; told with how."""


class RunError(FedsimError):
    """A run directory that cannot be written or read."""


class MissingRunError(RunError, FileNotFoundError):
    """A run directory, or a file of it, that is not there."""


class AfterwardsError(FedsimError):
    """What follows a simulation has failed; its tables are kept, and the message says what goes on from there."""


class SweepError(FedsimError):
    """A sweep that cannot go on; what is done stays, and the same command does the rest."""


class TimeIsOverError(SweepError):
    """The time that was given is over."""
