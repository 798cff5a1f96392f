"""What a sweep says to choose: the best setting by the scenario's objective, else what bias and pace have to offer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.errors import RunError
from fedsim.limits.grammar import Condition, ConditionError, parse_condition
from fedsim.report.answer import Sentence
from fedsim.report.finished_sweep import FinishedSweep, point_names
from fedsim.report.formatting import capitalized, count, listing, number
from fedsim.report.sweep_figures import BIAS_TOLD, L1, PACE, PACE_TOLD, PACE_UNIT, Told, difference, told_of
from fedsim.sweeps.decision import Feasible, Front, Ranking, feasible, front, interval, rank, samples

CHOOSE = "What to choose"
"""The question that a sweep is for."""

NAMED = 3
"""Settings that a sentence names at most."""


SAME = 0.01
"""Device-hours that differ by no more than this share are called the same."""


@dataclass(frozen=True, eq=False)
class Choice:
    """What to choose among the settings.

    Parameters
    ----------
    names
        Of the settings.
    told, maximize
        The metric to choose by, and whether more of it is better.
    conditions, feasible
        What must be kept, and who keeps it.
    asked
        Whether the scenario says so; else it is bias that is made small.
    values
        The metric, (settings, seeds).
    ranking
        The settings that keep the conditions, the best first.
    bias, pace, front
        (settings, seeds) of both, and the front of the two; None where one of them has no value.
    spent
        Device-hours a round, (settings,).
    """

    names: tuple[str, ...]
    told: Told
    maximize: bool
    conditions: tuple[Condition, ...]
    feasible: Feasible
    asked: bool
    values: Floats
    ranking: Ranking
    bias: Floats
    pace: Floats
    front: Front | None
    spent: Floats

    @property
    def mean(self) -> Floats:
        """The metric at every setting."""
        return interval(self.values)[0]

    @property
    def open(self) -> bool:
        """Whether nothing says which of several settings on the front is the best."""
        return not self.asked and self.front is not None and len(self.front.rows) > 1

    @property
    def chosen(self) -> int | None:
        """The row of the setting to choose; None where there is none, or it depends on what pace is worth."""
        return None if self.open else self.ranking.best

    @property
    def superlative(self) -> str:
        """What the best one has, as in ``fewest misplaced turns``."""
        return self.told.most if self.maximize else self.told.least

    def at(self, row: int) -> str:
        """Write the metric at a setting."""
        return self.told.write(float(self.mean[row]))

    def standing(self, row: int) -> str:
        """Say in a word how a setting stands."""
        if not np.isfinite(self.mean[row]):
            return "no result"
        if not self.feasible.kept[row]:
            return "misses a condition"
        if self.open and self.front is not None:
            ends = {int(self.front.rows[0]): "fastest", int(self.front.rows[-1]): "most even"}
            on = (
                "in between"
                if row in self.front.rows
                else "beaten"
                if self.front.dominated[row]
                else "too close to tell"
            )
            return ends.get(row, on)
        return "best" if row == self.ranking.best else "tied" if self.ranking.tied[row] else ""


def choice(sweep: FinishedSweep) -> Choice:
    """Compute what to choose, by `decide` of the scenario or, without it, by bias and pace.

    Raises
    ------
    RunError
        `decide` in `sweep.json` is not what fedsim writes there.
    """
    points, seeds = sweep.points["point"].to_list(), sorted(set(sweep.runs["seed"].to_list()))

    def of(metric: str) -> Floats:
        return samples(sweep.results, metric, points, seeds)

    objective = _objective(sweep)
    metric, maximize, conditions = objective or (L1, False, ())
    values = of(metric)
    kept = feasible(conditions, [of(each.metric) for each in conditions], len(points))
    bias, pace = of(L1), of(PACE)
    both = (np.isfinite(bias) & np.isfinite(pace)).any()
    return Choice(
        names=tuple(name or "the one setting" for name in point_names(sweep)),
        told=told_of(metric),
        maximize=maximize,
        conditions=conditions,
        feasible=kept,
        asked=objective is not None,
        values=values,
        ranking=rank(values, kept.kept, maximize=maximize),
        bias=bias,
        pace=pace,
        front=front(bias, pace) if both else None,
        spent=interval(of("sessions.device_hours") / np.maximum(of("rounds.count"), 1))[0],
    )


def _objective(sweep: FinishedSweep) -> tuple[str, bool, tuple[Condition, ...]] | None:
    scenario = sweep.meta.get("scenario")
    decide = scenario.get("decide") if isinstance(scenario, dict) else None
    if decide is None:
        return None
    try:
        maximize = decide["minimize"] is None
        metric = decide["maximize"] if maximize else decide["minimize"]
        return str(metric), maximize, tuple(map(parse_condition, decide["subject_to"]))
    except (TypeError, KeyError, ConditionError) as error:
        raise RunError(f"sweep.json: its scenario's `decide` cannot be read: {error}") from None


def finding(found: Choice) -> str:
    """Say in one line what to choose; empty where no run tells."""
    ranking, names = found.ranking, found.names
    if not np.isfinite(found.mean).any():
        return ""
    best = ranking.best
    if best is None:
        return "No setting keeps every condition"
    if len(names) == 1:
        return f"{capitalized(found.told.words)}: {found.at(best)}"
    if found.open and found.front is not None:
        fast, even = int(found.front.rows[0]), int(found.front.rows[-1])
        (slow_bias, slow), (fast_bias, quick) = (_both(found, row) for row in (even, fast))
        first = f"{fast_bias} misplaced turns at {quick} ({names[fast]})"
        return f"Evenness costs pace: {first}, {slow_bias} at {slow.removesuffix(PACE_UNIT)} ({names[even]})"
    tied = np.flatnonzero(ranking.tied).tolist()
    if tied:
        who = (
            listing([names[row] for row in [best, *tied]])
            if len(tied) < NAMED
            else f"{names[best]} and {count(len(tied))} others"
        )
        return f"{who} tie for the {found.superlative} ({found.at(best)})"
    return f"{names[best]}: {found.superlative} ({found.at(best)}){_beside(found, best)}"


def _both(found: Choice, row: int) -> tuple[str, str]:
    bias, pace = (float(interval(values)[0][row]) for values in (found.bias, found.pace))
    return BIAS_TOLD.write(bias), PACE_TOLD.write(pace)


def _beside(found: Choice, best: int) -> str:
    """Say what the best setting leaves nothing to be desired in, or what it was chosen from."""
    if found.conditions:
        kept = len(found.ranking.order)
        return (
            ", and no other setting keeps the conditions"
            if kept == 1
            else f" of the {count(kept)} settings that keep the conditions"
        )
    pace = interval(found.pace)[0]
    if found.asked or not np.isfinite(pace).all():
        return ""
    if np.ptp(pace) <= 1e-9 * np.abs(pace).max():
        return f", at the same pace as all others{_spending(found.spent, best)}"
    return ", and none is faster" if pace[best] == pace.max() else ""


def _spending(spent: Floats, best: int) -> str:
    """Say what a setting costs in time of devices, where settings differ in that."""
    if not np.isfinite(spent).all() or not spent.min() > 0:
        return ""
    times, least = spent[best] / spent.min(), bool(spent[best] == spent.min())
    if least:
        return " and for the least device-hours a round" if np.ptp(spent) > SAME * spent.max() else ""
    return (
        f" but for {number(float(times), 2)} times the device-hours a round of the thriftiest"
        if times > 1 + SAME
        else ""
    )


def sentences(found: Choice) -> Iterator[Sentence]:
    """Say what to choose, what comes next, and how sure that is."""
    if not np.isfinite(found.mean).any():
        yield Sentence(f"No run has a value of {found.told.metric}: there is nothing to choose by.", CHOOSE, warns=True)
        return
    best = found.ranking.best
    if best is None:
        yield from _nothing(found)
        return
    if len(found.names) == 1:
        return
    if found.open and found.front is not None:
        yield from _front(found, found.front)
        return
    yield Sentence(f"{found.names[best]} has the {found.superlative}: {found.at(best)}{_beside(found, best)}.", CHOOSE)
    yield from _next(found)
    if found.conditions:
        yield from _conditions(found, best)


def _next(found: Choice) -> Iterator[Sentence]:
    ranking, names = found.ranking, found.names
    tied = [int(row) for row in ranking.order[1:] if ranking.tied[row]]
    others = [int(row) for row in ranking.order[1:] if not ranking.tied[row]]
    if tied:
        shown = [f"{names[row]} ({found.at(row)})" for row in tied[:NAMED]]
        more = [count(len(tied) - NAMED, "more setting")] if len(tied) > NAMED else []
        verb = "ties" if len(tied) == 1 else "tie"
        why = "these seeds do not tell which is better" if np.isfinite(ranking.half[tied]).any() else "it is the same"
        yield Sentence(f"{listing([*shown, *more])} {verb} with it: {why}.", CHOOSE)
    if others:
        row = others[0]
        apart = difference(found.told, float(ranking.difference[row]), float(ranking.half[row]))
        yield Sentence(f"Next best is {names[row]} with {found.at(row)} ({apart}).", CHOOSE)


def _front(found: Choice, pareto: Front) -> Iterator[Sentence]:
    names, rows = found.names, [int(row) for row in pareto.rows]
    fast, even = rows[0], rows[-1]
    inner = len(rows) - 2
    between = f" {count(inner)} more {'lies' if inner == 1 else 'lie'} between." if inner > 0 else ""
    (fast_bias, quick), (even_bias, slow) = (_both(found, row) for row in (fast, even))
    text = f"The fastest is {names[fast]}: {quick}, and {fast_bias} of all turns misplaced. The most even is "
    text += f"{names[even]}: {even_bias} at {slow}."
    yield Sentence(f"{text}{between}", CHOOSE)
    beaten = int(pareto.dominated.sum())
    known = int((np.isfinite(found.bias).any(axis=1) & np.isfinite(found.pace).any(axis=1)).sum())
    close = known - beaten - len(rows)
    if beaten:
        text = f"{count(beaten, 'setting')} {'is' if beaten == 1 else 'are'} worse than one of these in bias or in pace"
        yield Sentence(f"{text}, and better in neither.", CHOOSE)
    if close:
        text = (
            f"{count(close, 'other setting')} {'lies' if close == 1 else 'lie'} so close that these seeds do not tell."
        )
        yield Sentence(text, CHOOSE)
    yield Sentence("Which of them is the best, the scenario can say under the key decide.", CHOOSE)


def _conditions(found: Choice, best: int) -> Iterator[Sentence]:
    if not found.feasible.sure[best]:
        text = f"Whether {found.names[best]} keeps {_listed(found.conditions)} is not sure"
        yield Sentence(f"{text}: an interval reaches beyond a limit.", CHOOSE, warns=True)
    free = rank(found.values, np.ones(len(found.names), dtype=bool), maximize=found.maximize)
    if free.best is not None and not found.feasible.kept[free.best]:
        without = f"Without the conditions it would be {found.names[free.best]} with {found.at(free.best)}"
        yield Sentence(f"{without}, which misses a condition ({_listed(found.conditions)}).", CHOOSE)


def _nothing(found: Choice) -> Iterator[Sentence]:
    yield Sentence(
        f"No setting keeps {_listed(found.conditions)}: there is nothing to choose from.", CHOOSE, warns=True
    )
    free = rank(found.values, np.ones(len(found.names), dtype=bool), maximize=found.maximize)
    if free.best is not None:
        text = f"Without the conditions {found.names[free.best]} has the {found.superlative}: {found.at(free.best)}."
        yield Sentence(text, CHOOSE)


def _listed(conditions: Sequence[Condition]) -> str:
    return listing([" ".join(each.text.split()) for each in conditions])
