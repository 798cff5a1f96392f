"""The errors that fedsim raises for a person to read, and how a mistake is shown.

Each is a `FedsimError`, `LearningError` of `fedsim.learning` included; the command line shows it without a traceback.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from traceback import extract_tb
from typing import TypeAlias

from fedsim.common.printable import printable

KeyPath: TypeAlias = tuple[str | int, ...]
_LONGEST_PLACE, _LONGEST_PATH = 500, 200  # characters that are shown


def dotted(path: KeyPath) -> str:
    """Write a path the way a person would: ``population[0].weight.kind``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def where(error: BaseException) -> str:
    """Say what was raised and where, in a line."""
    step = extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {' '.join(str(error).split())} ({step.filename}:{step.lineno})"


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


class StalledError(FedsimError):
    """The federation can never make progress again; the message says what everyone is waiting for."""


class ChainError(FedsimError):
    """A question to the theory that has no answer, or none by the method asked for."""


class PluginError(FedsimError):
    """Something that a person brought (a law, a model, a metric, ...) that is incomplete or fails; told with how."""


class RunError(FedsimError):
    """A run directory that cannot be written or read."""


class AfterwardsError(FedsimError):
    """What follows a simulation has failed; its tables are kept, and the message says what goes on from there."""


class SweepError(FedsimError):
    """A sweep that cannot go on; what is done stays, and the same command does the rest."""
