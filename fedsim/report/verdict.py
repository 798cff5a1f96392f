"""What became of the conditions that a person wrote: observed, limit, margin, place, as text for the first screen."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedsim.common.files import portable
from fedsim.report.finished_run import Json
from fedsim.report.formatting import NOTHING, count, cut, duration, fixed, number, percent

SHOWN = 40
"""Conditions of one kind shown at most."""

LONGEST = 120
"""Characters of a place shown at most."""

_WORDS = {"fail": "missed", "warn": "warning", "unjudged": "not judged", "pass": "met"}
_ORDER = tuple(_WORDS)
_DURATION = re.compile(r"\d\s*(?:ms|s|m|h|d|w)\b")


@dataclass(frozen=True)
class Condition:
    """One condition and what became of it; every figure is text.

    Parameters
    ----------
    status
        ``pass``, ``warn``, ``fail`` or ``unjudged``.
    outcome
        That in a word: met, warning, missed, not judged.
    check, why, place
        As the scenario has them: the condition, its reason, ``FILE:LINE:COLUMN``.
    figures
        (what, value) pairs: observed, limit, margin.
    note
        What else there is to say.
    """

    status: str
    outcome: str
    check: str
    why: str
    place: str
    figures: tuple[tuple[str, str], ...]
    note: str


@dataclass(frozen=True)
class Verdict:
    """All conditions: the sentence that sums them up, those that need attention, those that are met.

    Parameters
    ----------
    status
        The worst that there is: ``fail``, ``warn``, ``unjudged`` or ``pass``.
    headline
        The sentence.
    attention, met
        The conditions, at most `SHOWN` of each.
    omitted
        What was left out; empty where nothing was.
    """

    status: str
    headline: str
    attention: tuple[Condition, ...]
    met: tuple[Condition, ...]
    omitted: str


def verdict(entries: Json) -> Verdict | None:
    """Read the verdict of a manifest; None where there is none, since the scenario has no conditions."""
    found = [_condition(entry) for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
    if not found:
        return None
    found.sort(key=lambda condition: _ORDER.index(condition.status))
    attention = [condition for condition in found if condition.status != "pass"]
    met = [condition for condition in found if condition.status == "pass"]
    left = max(0, len(attention) - SHOWN) + max(0, len(met) - SHOWN)
    return Verdict(
        status=found[0].status,
        headline=_headline(found),
        attention=tuple(attention[:SHOWN]),
        met=tuple(met[:SHOWN]),
        omitted=f"{count(left, 'more condition')} in manifest.json." if left else "",
    )


def _headline(conditions: Sequence[Condition]) -> str:
    numbers, whole = Counter(condition.status for condition in conditions), len(conditions)
    if numbers["pass"] == whole:
        who = {1: "The one expectation is", 2: "Both expectations are"}
        return f"{who.get(whole, f'All {count(whole)} expectations are')} met."
    missed, of_all = numbers["fail"], count(whole, "expectation")
    verb = "is" if missed == 1 else "are"
    parts = [f"{count(missed)} of {of_all} {verb} missed" if missed else f"{count(numbers['pass'])} of {of_all} met"]
    if numbers["warn"]:
        parts.append(count(numbers["warn"], "warning"))
    if numbers["unjudged"]:
        parts.append(f"{count(numbers['unjudged'])} not judged")
    return f"{', '.join(parts)}."


def _condition(entry: Mapping[str, Json]) -> Condition:
    check, status = _text(entry.get("check")), _text(entry.get("status"))
    status = status if status in _WORDS else "unjudged"
    figures = [(name.capitalize(), _value(entry.get(name), check)) for name in ("observed", "limit", "margin")]
    return Condition(
        status=status,
        outcome=_WORDS[status],
        check=check,
        why=_text(entry.get("why")),
        # One that is no place in a file is a whole override.
        place=cut(portable(_text(entry.get("place"))), LONGEST),
        figures=tuple((name, value) for name, value in figures if value != NOTHING),
        note=_text(entry.get("note")),
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _value(value: Json, check: str) -> str:
    """Write a figure in the form in which the condition has it: as a percentage, a time, or a number."""
    if isinstance(value, list):
        return " to ".join(_value(each, check) for each in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NOTHING
    if "%" in check:
        return percent(value)
    if _DURATION.search(check):
        return duration(value)
    return fixed(value, 4) if 1e-3 <= abs(value) < 10 and value != round(value) else number(value, 5)
