"""A check: one reason to trust a result or not, and what became of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """What became of a check."""

    OK = "ok"
    CAUTION = "caution"
    BAD = "bad"
    NONE = "does not apply"


@dataclass(frozen=True)
class Check:
    """One reason to trust a result or not, and what became of it."""

    name: str  # of the list of checks: ``settled``
    state: Grade
    text: str  # what is so, in a sentence
    of: str = ""  # the optimizer, group, job or setting that it is about; empty where it is about the whole
    facts: tuple[str, ...] = ()  # keys of the facts that the sentence names
    remedy: str = ""  # what to do about it, in a sentence; empty where there is nothing to do
    command: str = ""  # what does that, for a shell


EXIT_CODES = {
    ("ended", Grade.BAD): 3,
    ("reports", Grade.BAD): 3,
    ("failed", Grade.CAUTION): 3,
    ("failed", Grade.BAD): 3,
    ("expectations", Grade.BAD): 1,
    ("comparable", Grade.BAD): 1,
    ("conditions", Grade.BAD): 1,
}
"""The codes of checks that end a command without success: 3 where runs failed, 1 where an answer is not as wanted."""


def exit_code(checks: Iterable[Check]) -> int:
    """Return the code with which a command ends: the greatest of its checks, 0 without any."""
    return max((EXIT_CODES.get((each.name, each.state), 0) for each in checks), default=0)
