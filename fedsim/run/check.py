"""A check: one reason to trust a result or not, and what became of it."""

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
