"""What became of the conditions that a person wrote, in a run or at every setting of a sweep, for the first screen."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from fedsim.common.errors import ScenarioError
from fedsim.common.files import portable
from fedsim.common.formatting import NO_VALUE, count, cut, listing, listing_of
from fedsim.common.json_files import Json
from fedsim.measure.grammar import parse_condition
from fedsim.pages.metric_wording import read_condition
from fedsim.trials.decision import misses
from fedsim.trials.trials import Trials

SHOWN = 40  # conditions of one kind shown at most
_LONGEST = 120  # characters of a place shown at most
_NAMED = 3  # settings that a line names at most
_WORDS = {"fail": "missed", "warn": "warning", "unjudged": "not judged", "pass": "met"}
_SUMMED = {"warn": "missed with a warning"}


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
    listed = entries if isinstance(entries, list) else []
    outcomes = [_condition(entry) for entry in listed if isinstance(entry, Mapping)]
    return _verdict_of(outcomes, "manifest.json") if outcomes else None


def _verdict_of(outcomes: Sequence[ConditionOutcome], file: str) -> Verdict:
    """Sum conditions up, the worst first; those that are left out are in the `file`."""
    ordered = sorted(outcomes, key=lambda each: list(_WORDS).index(each.status))
    met = [each for each in ordered if each.status == "pass"]
    attention = [each for each in ordered if each.status != "pass"]
    left = max(0, len(attention) - SHOWN) + max(0, len(met) - SHOWN)
    omitted = f"{count(left, 'more condition')} in {file}." if left else ""
    numbers = Counter(each.status for each in ordered).items()
    ways = [f"{many:,} {_SUMMED.get(status, _WORDS[status])}" for status, many in numbers]
    headline = f"Of {count(len(ordered), 'expectation')}, {listing(ways)}."
    return Verdict(ordered[0].status, headline, tuple(attention[:SHOWN]), tuple(met[:SHOWN]), omitted)


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
    """Judge every limit on every complete run, and sum up; None where there are none, or no run completed.

    Limits are of the file's own setting: where that is among those of a sweep, they are judged there alone.
    """
    if not trials.scenario.expect or not trials.metrics:
        return None
    outcomes, base = list[ConditionOutcome](), _own(trials)
    alone = "" if base is None else f"judged at {trials.names[base]} alone, the setting of the file"
    for each in trials.scenario.expect:
        if each.over != "every":
            why = "speaks of replicates, which `fedsim replay` runs"
            outcomes.append(ConditionOutcome("unjudged", each.check, each.why, "", "", why))
            continue
        write, notes, judged = read_condition(each.check)[1], list[str](), misses(trials, parse_condition(each.check))
        for row, (missed, runs, worst) in enumerate(judged):
            if missed and base in {None, row}:
                shown = NO_VALUE if worst is None else write(worst)
                notes.append(f"{trials.names[row]} ({missed} of {count(runs, 'run')}, worst {shown})")
        status = "pass" if not notes else "warn" if each.severity == "warn" else "fail"
        note = f"missed at {listing_of(notes, _NAMED, 'more setting')}" if notes else alone
        outcomes.append(ConditionOutcome(status, each.check, each.why, "", "", note))
    return _verdict_of(outcomes, "sweep.json")


def _own(trials: Trials) -> int | None:
    """Return the setting that the file itself describes; None where it is not among those of a sweep."""
    base = trials.scenario.with_values({"sweep": None})
    for row, point in enumerate(trials.meta.get("points", ()) if trials.scenario.sweep is not None else ()):
        with suppress(ScenarioError):
            if trials.scenario.with_values({"sweep": None, **point["values"]}) == base:
                return row
    return None
