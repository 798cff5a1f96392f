"""What became of a scenario's limits (`expect`) at every setting of its sweep."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsim.common.arrays import Ints
from fedsim.limits.grammar import ConditionError, parse_condition
from fedsim.report.finished_sweep import COMPLETE, FinishedSweep, names_of, point_names, values_of
from fedsim.report.formatting import NOTHING, count, listing
from fedsim.report.sweep_figures import told_of
from fedsim.report.tables import Table
from fedsim.report.verdict import SHOWN, Condition, Verdict
from fedsim.sweeps.decision import samples

NAMED = 3
"""Settings that a line names at most."""

COLUMNS = 6
"""Limits in the table at most."""

POINTS = 60
"""Settings in the table at most."""

_OUTCOMES = {"pass": "met", "warn": "warning", "fail": "missed", "unjudged": "not judged"}


@dataclass(frozen=True, eq=False)
class Limit:
    """One limit, judged on every run.

    Parameters
    ----------
    check, why
        As the scenario has them.
    status
        ``pass``, ``warn``, ``fail``; ``unjudged`` where it speaks of replicates.
    missed, done
        Over the settings: how many runs miss it, and how many there are.
    worst
        Over the settings: the value of the run that is farthest beyond the limit, or nearest to it, as text.
    """

    check: str
    why: str
    status: Literal["pass", "warn", "fail", "unjudged"]
    missed: Ints
    done: Ints
    worst: tuple[str, ...]


def limits_of(sweep: FinishedSweep) -> tuple[Limit, ...]:
    """Judge every limit of the scenario on every run that completed."""
    scenario = sweep.meta.get("scenario")
    entries = scenario.get("expect") if isinstance(scenario, dict) else None
    if not isinstance(entries, list):
        return ()
    found = [_limit(sweep, entry) for entry in entries if isinstance(entry, dict)]
    return tuple(limit for limit in found if limit is not None)


def _limit(sweep: FinishedSweep, entry: dict[str, object]) -> Limit | None:
    check, why = str(entry.get("check", "")), str(entry.get("why", ""))
    try:
        condition = parse_condition(check)
    except ConditionError:
        return None
    points, seeds = sweep.points["point"].to_list(), sorted(set(sweep.runs["seed"].to_list()))
    values = samples(sweep.results, condition.metric, points, seeds)
    complete = sweep.runs.filter(status=COMPLETE)["point"].to_list()
    done = np.array([complete.count(point) for point in points], dtype=np.int64)
    held = np.array([[condition.holds(float(value)) for value in row] for row in values], dtype=bool).reshape(
        values.shape
    )
    missed = done - held.sum(axis=1)
    write, worst = told_of(condition.metric).write, []
    for row in values:
        known = [float(value) for value in row if np.isfinite(value)]
        worst.append(write(min(known, key=condition.margin)) if known else NOTHING)
    if entry.get("over") in {"mean", "p95"}:
        return Limit(check, why, "unjudged", missed, done, tuple(worst))
    wrong: Literal["warn", "fail"] = "warn" if entry.get("severity") == "warn" else "fail"
    return Limit(check, why, wrong if missed.any() else "pass", missed, done, tuple(worst))


def sweep_verdict(sweep: FinishedSweep, limits: Sequence[Limit]) -> Verdict | None:
    """Sum limits up over the settings; None where there are none, or no run completed."""
    judged = [limit for limit in limits if limit.status != "unjudged"]
    if not limits or not any(limit.done.any() for limit in limits):
        return None
    order = ("fail", "warn", "unjudged", "pass")
    ordered = sorted((_condition(sweep, limit) for limit in limits), key=lambda each: order.index(each.status))
    attention = [each for each in ordered if each.status != "pass"]
    met = [each for each in ordered if each.status == "pass"]
    left = max(0, len(attention) - SHOWN) + max(0, len(met) - SHOWN)
    return Verdict(
        status=ordered[0].status,
        headline=_headline(judged),
        attention=tuple(attention[:SHOWN]),
        met=tuple(met[:SHOWN]),
        omitted=f"{count(left, 'more limit')} in sweep.json." if left else "",
    )


def _headline(judged: Sequence[Limit]) -> str:
    if not judged:
        return "No limit is judged: all speak of replicates, which `fedsim replay` runs."
    some = judged[0].done > 0
    whole = some & np.all([limit.missed == 0 for limit in judged], axis=0)
    limits = "every limit" if len(judged) > 1 else "the limit"
    settings = f"{count(int(whole.sum()))} of {count(int(some.sum()), 'setting')}"
    if whole.sum() == some.sum():
        settings = f"All {count(int(some.sum()))} settings" if some.sum() > 1 else "The setting"
    if not whole.any():
        settings = "No setting"
    without = f"; {count(int((~some).sum()))} without a result" if not some.all() else ""
    verb = "keeps" if settings.startswith(("1 of", "The", "No ")) else "keep"
    return f"{settings} {verb} {limits} in every run{without}."


def _condition(sweep: FinishedSweep, limit: Limit) -> Condition:
    bad = np.flatnonzero(limit.missed > 0)
    names, note = point_names(sweep), ""
    if limit.status == "unjudged":
        note = "speaks of replicates, which `fedsim replay` runs"
    elif len(bad):
        told = [
            f"{names[row] or 'the one setting'} ({limit.missed[row]} of {count(int(limit.done[row]), 'run')}, "
            f"worst {limit.worst[row]})"
            for row in bad[:NAMED].tolist()
        ]
        more = [count(len(bad) - NAMED, "more setting")] if len(bad) > NAMED else []
        note = f"missed at {listing([*told, *more])}"
    return Condition(limit.status, _OUTCOMES[limit.status], limit.check, limit.why, "", (), note)


def limit_table(sweep: FinishedSweep, limits: Sequence[Limit]) -> Table | None:
    """Show every limit at every setting; None where none is judged."""
    judged = [limit for limit in limits if limit.status != "unjudged"][:COLUMNS]
    if not judged:
        return None
    names = names_of(sweep.parameters)
    values = [values_of(sweep, name) for name in sweep.parameters]
    cells = [[_cell(limit, row) for row in range(len(sweep.points))] for limit in judged]
    rows = tuple(zip(*values, *cells, strict=True))
    left = len(rows) - POINTS
    note = f"The first {POINTS} settings; {count(left)} more are in the results of the sweep." if left > 0 else ""
    header = (*names.values(), *(limit.check for limit in judged))
    return Table(
        "Limits at every setting, in the worst of its runs", header, rows[:POINTS], words=len(header), note=note
    )


def _cell(limit: Limit, row: int) -> str:
    done, missed = int(limit.done[row]), int(limit.missed[row])
    if not done:
        return NOTHING
    if not missed:
        return f"met: {limit.worst[row]}"
    return f"missed in {missed} of {count(done, 'run')}: {limit.worst[row]}"
