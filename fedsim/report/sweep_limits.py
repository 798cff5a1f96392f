"""What became of a scenario's limits (`expect`) at every setting of its sweep."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsim.common.arrays import Ints
from fedsim.limits.grammar import parse_condition
from fedsim.report.finished_sweep import COMPLETE, FinishedSweep, point_names
from fedsim.report.formatting import NO_VALUE, count, listing_of
from fedsim.report.sweep_figures import wording_of
from fedsim.report.verdict import ConditionOutcome, Verdict, verdict_of

_NAMED = 3  # settings that a line names at most


@dataclass(frozen=True, eq=False)
class LimitOutcome:
    """One limit, judged on every run."""

    check: str  # as the scenario has it
    why: str  # as the scenario has it
    status: Literal["pass", "warn", "fail", "unjudged"]  # ``unjudged`` where it speaks of replicates
    # Over the settings
    missed: Ints  # how many runs miss it
    done: Ints  # how many runs there are
    worst: tuple[str, ...]  # the value of the run that is farthest beyond the limit, or nearest to it, as text


def limits_of(sweep: FinishedSweep) -> tuple[LimitOutcome, ...]:
    """Judge every limit of the scenario on every run that completed."""
    complete = Counter(sweep.runs.filter(status=COMPLETE)["point"].to_list())
    done = np.array([complete[point] for point in sweep.points["point"].to_list()], dtype=np.int64)
    found = []
    for each in sweep.scenario.expect:
        condition = parse_condition(each.check)
        rows = sweep.samples(condition.metric).tolist()
        missed = done - np.array([sum(map(condition.holds, row)) for row in rows], dtype=np.int64)
        write, finite = wording_of(condition.metric).write, [list(filter(math.isfinite, row)) for row in rows]
        worst = tuple(write(min(row, key=condition.margin)) if row else NO_VALUE for row in finite)
        wrong: Literal["warn", "fail"] = "warn" if each.severity == "warn" else "fail"
        status = "unjudged" if each.over != "every" else wrong if missed.any() else "pass"
        found.append(LimitOutcome(each.check, each.why, status, missed, done, worst))
    return tuple(found)


def sweep_verdict(sweep: FinishedSweep, limits: Sequence[LimitOutcome]) -> Verdict | None:
    """Sum limits up over the settings; None where there are none, or no run completed."""
    if not any(limit.done.any() for limit in limits):
        return None
    headline = _headline([limit for limit in limits if limit.status != "unjudged"])
    return verdict_of([_outcome(sweep, limit) for limit in limits], headline, "more limit", "sweep.json")


def _headline(judged: Sequence[LimitOutcome]) -> str:
    if not judged:
        return "No limit is judged: all speak of replicates, which `fedsim replay` runs."
    some = judged[0].done > 0
    whole = some & np.all([limit.missed == 0 for limit in judged], axis=0)
    kept, settings, left = int(whole.sum()), int(some.sum()), int((~some).sum())
    if not kept:
        keep = "No setting keeps"
    elif kept == settings:
        keep = f"All {count(kept)} settings keep" if kept > 1 else "The setting keeps"
    else:
        keep = f"{count(kept)} of {count(settings, 'setting')} {'keeps' if kept == 1 else 'keep'}"
    without = f"; {count(left)} without a result" if left else ""
    return f"{keep} {'every' if len(judged) > 1 else 'the'} limit in every run{without}."


def _outcome(sweep: FinishedSweep, limit: LimitOutcome) -> ConditionOutcome:
    bad = np.flatnonzero(limit.missed > 0)
    names, note = point_names(sweep), ""
    if limit.status == "unjudged":
        note = "speaks of replicates, which `fedsim replay` runs"
    elif len(bad):
        missed = [
            f"{names[row] or 'the one setting'} ({limit.missed[row]} of {count(int(limit.done[row]), 'run')}, "
            f"worst {limit.worst[row]})"
            for row in bad.tolist()
        ]
        note = f"missed at {listing_of(missed, _NAMED, 'more setting')}"
    return ConditionOutcome(limit.status, limit.check, limit.why, "", (), note)
