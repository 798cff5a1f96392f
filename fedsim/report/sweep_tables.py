"""The tables of a sweep's report, a row for each setting; and what became of the limits (`expect`) at every setting."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.findings.expectations import ConditionOutcome, Verdict, verdict_of
from fedsim.findings.finished_sweep import COMPLETE, Estimates, FinishedSweep, names_of
from fedsim.findings.formatting import NO_VALUE, capitalized, count, duration, listing_of, number
from fedsim.limits.grammar import parse_condition
from fedsim.privacy.guarantee import SECRET, UNIT
from fedsim.report.sweep_choice import LossParts, SweepChoice
from fedsim.report.sweep_figures import L1, PACE, difference, misplaced, wording_of
from fedsim.report.tables import Table
from fedsim.sweeps.decision import differs, interval

SETTINGS = 60  # settings in a table at most
_FAILURES = 20  # runs without a result named at most
_METRICS = 5  # metrics in a table at most
_LIMITS = 6  # limits in a table at most
_GROUPS = 8  # groups in a table at most
_NAMED = 3  # settings that a line names at most

_Column: TypeAlias = tuple[str, Sequence[str]]

_INTERVAL = "mean ± half of the 95 % interval"


def moves(sweep: FinishedSweep, metric: str) -> bool:
    """Tell whether a metric differs between settings beyond chance, as far as the seeds tell."""
    mean = sweep.estimates(metric).mean
    known = np.flatnonzero(np.isfinite(mean))
    if len(known) < 2 or not np.ptp(mean[known]) > 1e-12 * np.abs(mean[known]).max():
        return False
    apart = sweep.differences(metric, int(known[np.argmin(mean[known])]))
    # Without a seed in common there is no difference to judge: what the means say is all there is.
    return not np.isfinite(apart.mean).any() or bool(differs(apart.mean, apart.half).any())


def _setting_table(
    sweep: FinishedSweep,
    caption: str,
    columns: Sequence[_Column],
    *,
    words: int = 0,
    note: str = "",
    order: Sequence[int] | None = None,
) -> Table:
    """Make a table of columns (head, cells), after those with the values that name each setting.

    The first `words` of the columns hold words. `order` is that of the settings, by default that of the sweep.
    """
    values = [sweep.values(name) for name in sweep.parameters]
    rows = tuple(zip(*values, *(cells for _, cells in columns), strict=True))
    rows = rows if order is None else tuple(rows[row] for row in order)
    left = len(rows) - SETTINGS
    more = f"The first {SETTINGS} settings; {count(left)} more are in the results of the sweep." if left > 0 else ""
    header = (*names_of(sweep.parameters).values(), *(head for head, _ in columns))
    return Table(caption, header, rows[:SETTINGS], len(sweep.parameters) + words, " ".join(filter(None, (note, more))))


def _with_halves(found: Estimates, digits: int = 4) -> list[str]:
    return [
        f"{number(mean, digits)} ± {number(half, 2)}" if np.isfinite([mean, half]).all() else number(mean, digits)
        for mean, half in zip(found.mean.tolist(), found.half.tolist(), strict=True)
    ]


def choice_table(sweep: FinishedSweep, found: SweepChoice) -> Table | None:
    """Show the settings from the best to the worst, and how far each is from the best; None where there is no best."""
    ranking, settings = found.ranking, range(len(found.names))
    best = ranking.best
    if best is None or len(settings) < 2:
        return None
    objective = [found.at(row) if np.isfinite(found.mean[row]) else NO_VALUE for row in settings]
    apart = [
        difference(found.wording, float(mean), float(half)) if row != best and np.isfinite(mean) else NO_VALUE
        for row, (mean, half) in enumerate(zip(ranking.difference, ranking.half, strict=True))
    ]
    columns = [
        ("Standing", [found.standing(row) for row in settings]),
        *([(found.wording.metric, objective)] if found.wording.metric not in {L1, PACE} else []),
        ("From the most even" if found.open else "From the best", apart),
        ("Misplaced turns", [misplaced(float(value)) for value in interval(found.bias)[0]]),
        ("Rounds per day", [number(float(value)) for value in interval(found.pace)[0]]),
    ]
    order = [*ranking.order.tolist(), *(row for row in settings if row not in ranking.order)]
    return _setting_table(sweep, f"Settings by {found.wording.words}", columns, words=1, order=order)


def point_table(sweep: FinishedSweep, chosen: Sequence[str]) -> Table:
    """Show the means at every point."""
    columns = [(metric, _with_halves(sweep.estimates(metric))) for metric in chosen[:_METRICS]]
    return _setting_table(sweep, f"Settings of the sweep: {_INTERVAL}", columns)


def difference_table(sweep: FinishedSweep, chosen: Sequence[str]) -> Table | None:
    """Show the paired differences of every point from the first; None where there is but one point."""
    if len(sweep.points) < 2 or not chosen:
        return None
    columns = [(metric, ["first", *_with_halves(sweep.differences(metric))[1:]]) for metric in chosen[:_METRICS]]
    return _setting_table(sweep, "Differences from the first setting, paired by seed", columns)


def group_ratio_table(sweep: FinishedSweep) -> Table | None:
    """Show how often groups take part at every setting; None where there are none, or no setting changes it."""
    ratios = [name for name in sweep.metrics if re.fullmatch(r"group\..+(?<!\.participation)\.ratio", name)]
    if not any(moves(sweep, name) for name in ratios):
        return None
    columns = [
        (name.removeprefix("group.").removesuffix(".ratio"), _with_halves(sweep.estimates(name)))
        for name in ratios[:_GROUPS]
    ]
    left = len(ratios) - len(columns)
    note = f"{count(left, 'more group')} in the results." if left > 0 else ""
    caption = f"How often groups take part, in multiples of their share of the devices: {_INTERVAL}"
    return _setting_table(sweep, caption, columns, note=note)


def tuned_table(sweep: FinishedSweep) -> Table | None:
    """Show what was tuned for each setting; None where nothing was."""
    if not sweep.tuned:
        return None
    names = names_of((*sweep.parameters, *sweep.tuned))
    columns = [(names[name], sweep.values(name)) for name in sweep.tuned]
    return _setting_table(sweep, "What was tuned for each setting", columns)


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
    names, note = sweep.point_names(), ""
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


def limit_table(sweep: FinishedSweep, limits: Sequence[LimitOutcome]) -> Table | None:
    """Show every limit at every setting; None where none is judged."""
    judged = [limit for limit in limits if limit.status != "unjudged"][:_LIMITS]
    if not judged:
        return None

    def cell(limit: LimitOutcome, row: int) -> str:
        done, missed = int(limit.done[row]), int(limit.missed[row])
        kept = f"missed in {missed} of {count(done, 'run')}" if missed else "met"
        return f"{kept}: {limit.worst[row]}" if done else NO_VALUE

    columns = [(limit.check, [cell(limit, row) for row in range(len(sweep.points))]) for limit in judged]
    return _setting_table(sweep, "Limits at every setting, in the worst of its runs", columns, words=len(columns))


_PROMISES: tuple[tuple[str, str, Callable[[Floats], float], Callable[[float], str]], ...] = (
    ("n promised", "privacy.rounds", np.max, count),
    ("n observed", "rounds.count", np.max, count),
    ("b promised", "privacy.separation", np.min, count),
    ("b observed", "participation.separation.least", np.min, count),
    ("k promised", "privacy.most", np.max, count),
    ("k observed", "participation.most", np.max, count),
    ("Sensitivity", "privacy.sensitivity", np.max, number),
    ("Noise multiplier", "privacy.noise_multiplier", np.min, number),
    ("Epsilon", "privacy.epsilon", np.max, number),
)
_KNOWN = (("Epsilon if the schedule is known", "privacy.epsilon_if_known", np.max, number),)


def privacy_table(sweep: FinishedSweep) -> Table | None:
    """Show n, b and k as promised and as observed, and the noise, at every setting; None without ``privacy``.

    Observed are the most rounds and participations and the least distance of any run of a setting: the values that
    would break the promise first.
    """
    if "privacy.epsilon" not in sweep.metrics:
        return None

    columns: list[_Column] = []
    secret = "privacy.epsilon_if_known" in sweep.metrics
    for head, metric, over, write in _PROMISES + _KNOWN * secret:
        known = [row[np.isfinite(row)] for row in sweep.samples(metric)]
        columns.append((head, [write(over(row)) if len(row) else NO_VALUE for row in known]))
    note = (
        "n rounds, at least b rounds from one participation of a client to its next, at most k of them. Only what is "
        "promised, because the server enforces it, counts for epsilon; what was observed is luck where it is better. "
        f"Epsilon is for {UNIT}, at the scenario's delta{f'; {SECRET}, this page included' * secret}."
    )
    return _setting_table(sweep, "What is promised to privacy, and what the runs had", columns, note=note)


def parts_table(sweep: FinishedSweep, loss: LossParts) -> Table:
    """Show the parts of the loss of one optimizer at every setting."""
    every = loss.parts | {"together": loss.total}
    columns = [(capitalized(words), _with_halves(Estimates(*interval(values)), 3)) for words, values in every.items()]
    if loss.time is not None:
        # The mean of the seeds that reached the target, and how many did where not all
        reached, seeds = np.isfinite(loss.time).sum(axis=1).tolist(), loss.time.shape[1]
        times = [
            "not reached" if not n else duration(mean) + ("" if n == seeds else f" ({n} of {seeds} seeds)")
            for mean, n in zip(interval(loss.time)[0].tolist(), reached, strict=True)
        ]
        columns.append(("Time to target", times))
    return _setting_table(sweep, f"Loss of {loss.name} above the optimum: {_INTERVAL}", columns)


def failure_table(sweep: FinishedSweep) -> Table | None:
    """Show the runs without a result; None where there are none."""
    failed = sweep.failed
    if failed.is_empty():
        return None
    names = sweep.names_by_point
    shown = failed.head(_FAILURES).iter_rows()
    rows = tuple((run, names[point], str(seed), status) for run, point, seed, status in shown)
    left = len(failed) - len(rows)
    note = f"{count(left, 'more run')} without a result." if left else ""
    return Table("Runs without a result", ("Run", "Setting", "Seed", "Status"), rows, words=4, note=note)
