"""What became of the conditions that a person wrote, in a run or at every setting of a sweep, for the first screen."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.common.files import portable
from fedsim.common.formatting import NO_VALUE, count, cut, listing_of
from fedsim.common.json_files import Json
from fedsim.measure.grammar import parse_condition
from fedsim.pages.metric_wording import read_condition
from fedsim.trials.trials import COMPLETE, Trials

SHOWN = 40  # conditions of one kind shown at most
_LONGEST = 120  # characters of a place shown at most
_NAMED = 3  # settings that a line names at most
_HEADLINE = 144  # characters of the line that names what is met
_WORDS = {"fail": "missed", "warn": "warning", "unjudged": "not judged", "pass": "met"}


@dataclass(frozen=True)
class ConditionOutcome:
    """One condition and what became of it."""

    status: str  # ``pass``, ``warn``, ``fail`` or ``unjudged``
    check: str  # the condition as the scenario has it
    why: str  # the reason that the scenario gives
    place: str  # ``FILE:LINE:COLUMN``
    observed: str  # the value; empty where there is none
    note: str  # what else there is to say

    @property
    def words(self) -> str:
        """The condition in words."""
        return read_condition(self.check)[0]

    @property
    def outcome(self) -> str:
        """The status in a word: met, warning, missed, not judged."""
        return _WORDS[self.status]


@dataclass(frozen=True)
class Verdict:
    """All conditions: the sentence that sums them up, those that need attention, those that are met."""

    status: str  # the worst that there is: ``fail``, ``warn``, ``unjudged`` or ``pass``
    headline: str  # the sentence
    attention: tuple[ConditionOutcome, ...]  # at most `SHOWN`
    met: tuple[ConditionOutcome, ...]  # at most `SHOWN`
    omitted: str  # what was left out; empty where nothing was


def verdict(entries: Json) -> Verdict | None:
    """Read the verdict of a manifest; None where there is none, since the scenario has no conditions."""
    found = [_condition(entry) for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
    return verdict_of(found, _headline(found), "more condition", "manifest.json") if found else None


def verdict_of(outcomes: Sequence[ConditionOutcome], headline: str, noun: str, file: str) -> Verdict:
    """Sum conditions up, the worst first; those that are left out are so many of the `noun` in the `file`."""
    ordered = sorted(outcomes, key=lambda each: list(_WORDS).index(each.status))
    attention, met = ([each for each in ordered if (each.status == "pass") == passed] for passed in (False, True))
    left = max(0, len(attention) - SHOWN) + max(0, len(met) - SHOWN)
    omitted = f"{count(left, noun)} in {file}." if left else ""
    return Verdict(ordered[0].status, headline, tuple(attention[:SHOWN]), tuple(met[:SHOWN]), omitted)


def kept(text: str, checks: Sequence[str]) -> str:
    """Say which conditions are met, as far as a line has room for them."""
    every = [read_condition(each)[0] for each in checks]
    ways = (listing_of(every, most) for most in range(len(every), 0, -1))
    return next((line for way in ways if len(line := f"{text}: {way}.") <= _HEADLINE), f"{text}.")


def _headline(conditions: Sequence[ConditionOutcome]) -> str:
    numbers, whole = Counter(condition.status for condition in conditions), len(conditions)
    if numbers["pass"] == whole:
        words = {1: "The one expectation is", 2: "Both expectations are"}
        who = words.get(whole, f"All {count(whole)} expectations are")
        return kept(f"{who} met", [each.check for each in conditions])
    missed, of_all = numbers["fail"], count(whole, "expectation")
    verb = "is" if missed == 1 else "are"
    parts = [f"{count(missed)} of {of_all} {verb} missed" if missed else f"{count(numbers['pass'])} of {of_all} met"]
    if numbers["warn"]:
        parts.append(count(numbers["warn"], "warning"))
    if numbers["unjudged"]:
        parts.append(f"{count(numbers['unjudged'])} not judged")
    return f"{', '.join(parts)}."


def _condition(entry: Mapping[str, Json]) -> ConditionOutcome:
    check, status = _text(entry.get("check")), _text(entry.get("status"))
    status = status if status in _WORDS else "unjudged"
    observed = entry.get("observed")
    return ConditionOutcome(
        status=status,
        check=check,
        why=_text(entry.get("why")),
        # One that is no place in a file is a whole override.
        place=cut(portable(_text(entry.get("place"))), _LONGEST),
        observed=read_condition(check)[1](observed) if isinstance(observed, int | float) else "",
        note=_text(entry.get("note")),
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def sweep_verdict(trials: Trials) -> Verdict | None:
    """Judge every limit on every complete run, and sum up; None where there are none, or no run completed."""
    complete = Counter(trials.runs.filter(status=COMPLETE)["setting"].to_list())
    done = [complete[point] for point in trials.settings["setting"].to_list()]
    if not trials.scenario.expect or not any(done):
        return None
    outcomes, missed_by, checks = [], [], []
    for each in trials.scenario.expect:
        if each.over != "every":
            note = "speaks of replicates, which `fedsim replay` runs"
            outcomes.append(ConditionOutcome("unjudged", each.check, each.why, "", "", note))
            continue
        condition = parse_condition(each.check)
        write, notes, missed = read_condition(each.check)[1], [], []
        for name, runs, values in zip(trials.names, done, trials.samples(condition.metric).tolist(), strict=True):
            missed.append(runs - sum(map(condition.holds, values)))
            if missed[-1]:
                worst = min(filter(math.isfinite, values), key=condition.margin, default=None)
                told = NO_VALUE if worst is None else write(worst)
                notes.append(f"{name} ({missed[-1]} of {count(runs, 'run')}, worst {told})")
        missed_by.append(missed)
        checks.append(each.check)
        status = "pass" if not notes else "warn" if each.severity == "warn" else "fail"
        note = f"missed at {listing_of(notes, _NAMED, 'more setting')}" if notes else ""
        outcomes.append(ConditionOutcome(status, each.check, each.why, "", "", note))
    return verdict_of(outcomes, _settings_headline(np.array(done) > 0, missed_by, checks), "more limit", "sweep.json")


def _settings_headline(done: np.ndarray, missed_by: Sequence[Sequence[int]], checks: Sequence[str]) -> str:
    if not missed_by:
        return "No limit is judged: all speak of replicates, which `fedsim replay` runs."
    keeping, settings = int((done & (np.array(missed_by) == 0).all(axis=0)).sum()), int(done.sum())
    if not keeping:
        keep = "No setting keeps"
    elif keeping == settings:
        keep = f"All {count(keeping)} settings keep" if keeping > 1 else "The setting keeps"
    else:
        keep = f"{count(keeping)} of {count(settings, 'setting')} {'keeps' if keeping == 1 else 'keep'}"
    without = f"; {count(left)} without a result" if (left := len(done) - settings) else ""
    text = f"{keep} {'every' if len(missed_by) > 1 else 'the'} limit in every run{without}"
    return kept(text, checks) if keeping == settings else f"{text}."
