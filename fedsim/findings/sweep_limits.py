"""What became of the limits (`expect`) of a sweep's scenario at every setting."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from fedsim.findings.expectations import ConditionOutcome, Verdict, verdict_of
from fedsim.findings.expectations import kept as shown
from fedsim.findings.finished_sweep import COMPLETE, FinishedSweep
from fedsim.findings.formatting import NO_VALUE, count, listing_of
from fedsim.findings.metric_wording import read_condition
from fedsim.limits.grammar import parse_condition

_NAMED = 3  # settings that a line names at most


def sweep_verdict(sweep: FinishedSweep) -> Verdict | None:
    """Judge every limit on every complete run, and sum up; None where there are none, or no run completed."""
    complete = Counter(sweep.runs.filter(status=COMPLETE)["point"].to_list())
    done = [complete[point] for point in sweep.points["point"].to_list()]
    if not sweep.scenario.expect or not any(done):
        return None
    outcomes, missed_by, checks = [], [], []
    for each in sweep.scenario.expect:
        if each.over != "every":
            note = "speaks of replicates, which `fedsim replay` runs"
            outcomes.append(ConditionOutcome("unjudged", each.check, each.why, "", "", note))
            continue
        condition = parse_condition(each.check)
        write, notes, missed = read_condition(each.check)[1], [], []
        for name, runs, values in zip(sweep.names, done, sweep.samples(condition.metric).tolist(), strict=True):
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
    return verdict_of(outcomes, _headline(np.array(done) > 0, missed_by, checks), "more limit", "sweep.json")


def _headline(done: np.ndarray, missed_by: Sequence[Sequence[int]], checks: Sequence[str]) -> str:
    if not missed_by:
        return "No limit is judged: all speak of replicates, which `fedsim replay` runs."
    kept, settings = int((done & (np.array(missed_by) == 0).all(axis=0)).sum()), int(done.sum())
    if not kept:
        keep = "No setting keeps"
    elif kept == settings:
        keep = f"All {count(kept)} settings keep" if kept > 1 else "The setting keeps"
    else:
        keep = f"{count(kept)} of {count(settings, 'setting')} {'keeps' if kept == 1 else 'keep'}"
    without = f"; {count(left)} without a result" if (left := len(done) - settings) else ""
    text = f"{keep} {'every' if len(missed_by) > 1 else 'the'} limit in every run{without}"
    return shown(text, checks) if kept == settings else f"{text}."
