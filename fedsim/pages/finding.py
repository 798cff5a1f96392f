"""Findings: each one fact, its interval, test and sentence, from which pages, summaries and JSON are made."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import groupby
from math import isfinite
from shlex import join, split
from typing import TypeAlias

from fedsim.common.formatting import cut

# What findings are about: the questions of a reader, in their order
WHAT, BIAS, MODEL = "What happens", "How biased", "To the model"
COST, TRUST, NEXT = "At what cost", "Can I trust it", "Do this next"

LONGEST = 88
"""Characters of a line of the first screen: with five of them, that of a phone shows all."""

Plain: TypeAlias = str | float | bool | None


class Certainty(StrEnum):
    """What a test says of a finding."""

    TOLD = "told from chance"
    NOT_TOLD = "not told from chance"
    UNTESTED = "not tested"  # too few rounds, days or seeds for a test
    EXACT = "no chance in it"  # counted, or computed


@dataclass(frozen=True)
class Finding:
    """One fact. The first finding about a question is the line of that question on the first screen."""

    text: str  # its sentence
    about: str = ""  # the question that it answers
    warns: bool = False  # whether it asks the reader to be careful
    name: str = ""  # what tells it from the others of a page: ``group.europe``
    quantity: str = ""  # the metric, or what else was measured
    scope: str = ""  # of what: a group, a setting, an optimizer; empty where it is of the whole
    value: float | None = None  # in the unit of the quantity
    # Ends of the 95 % interval of the value; None where there is none
    low: float | None = None
    high: float | None = None
    reference: float | None = None  # what the value is compared with
    against: str = ""  # what that is, in words
    test: str = ""  # how it was judged: the test, its level, and for how many looks it is corrected
    certainty: Certainty = Certainty.EXACT
    visible: float | None = None  # the least difference from the reference that the test sees four times in five
    command: str = ""  # what does what the sentence says, for a shell
    brief: str = ""  # the same in a line of the first screen, where the sentence is too long for that

    @property
    def line(self) -> str:
        """What the first screen says: the sentence, or of one too long the first clauses of its brief form."""
        text = self.text if len(self.text) <= LONGEST else self.brief or self.text
        while len(text) > LONGEST and (shorter := _without_last_clause(text)) != text:
            text = shorter
        return cut(text, LONGEST)


def _without_last_clause(text: str) -> str:
    """Return a sentence without its last clause or its last brackets, so that it stays a sentence."""
    places = [each.start() for each in re.finditer(r"[;:] |, (?:and|with) | \([^()]*\)\.?$", text)]
    whole = [place for place in places if text.count("(", 0, place) == text.count(")", 0, place)]
    return f"{text[: whole[-1]]}." if whole else text


@dataclass(frozen=True)
class Tile:
    """A key figure: its value, what it is, and what to compare it with."""

    value: str
    label: str
    detail: str = ""


_VERBS = {"run": {"run", "sweep"}, "sweep": {"run", "sweep"}, "decide": {"run", "decide"}}


def command_of(known: Mapping[str, object], verb: str, *settings: str) -> str:
    """Return the command of a manifest or `sweep.json` with another verb and more settings; "" where it has none.

    A sweep is no decision, nor a decision a sweep; a run of either has a folder of its own.
    """
    with suppress(ValueError):  # what a shell cannot read
        words = split(str(known.get("command") or ""))
        if words[:1] == ["fedsim"] and len(words) > 2 and verb in _VERBS.get(words[1], ()):
            if verb != words[1] and "--out" in words:
                del words[words.index("--out") : words.index("--out") + 2]
            return join(["fedsim", verb, *words[2:], *(word for each in settings for word in ("--set", each))])
    return ""


def with_seeds(known: Mapping[str, object], seeds: int) -> str:
    """Return the command of a sweep or decision with so many seeds; "" where it has none."""
    return command_of(known, "sweep", f"sweep.seeds={seeds}") or command_of(known, "decide", f"decide.seeds={seeds}")


def with_half(half: float, finding: Finding) -> Finding:
    """Return a finding with the interval of its value, of which this is half; without one where it is not known."""
    if finding.value is None or not isfinite(half):
        return replace(finding, certainty=Certainty.UNTESTED)
    return replace(finding, low=finding.value - half, high=finding.value + half)


def lines(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the first finding about each question: what the first screen says."""
    for _, same in groupby(findings, lambda each: each.about):
        yield next(same)


def spoken(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield what a terminal prints of the first screen: each line with its question, and the command that it names."""
    for each in lines(findings):
        yield f"{each.about}: {each.text}"
        if each.command:
            yield f"  {each.command}"


def as_plain(finding: Finding) -> Mapping[str, Plain]:
    """Return a finding for JSON, without what it does not have."""
    brief = "" if finding.line == finding.text else finding.line
    known = {key: value for key, value in asdict(replace(finding, brief=brief)).items() if value not in ("", None)}
    return {key: value for key, value in known.items() if not isinstance(value, float) or isfinite(value)}
