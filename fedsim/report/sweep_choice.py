"""Which setting of a sweep is the best: by its objective, by bias and pace, and by the loss of each optimizer."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.errors import RunError
from fedsim.findings.finding import MODEL, Finding
from fedsim.findings.finished_sweep import FinishedSweep
from fedsim.findings.formatting import capitalized, count, listing, listing_of, number, percent
from fedsim.limits.grammar import ConditionError, MetricCondition, parse_condition
from fedsim.report.sweep_figures import (
    BIAS_WORDING,
    L1,
    PACE,
    PACE_UNIT,
    PACE_WORDING,
    MetricWording,
    difference,
    wording_of,
)
from fedsim.sweeps.decision import Feasible, Front, Ranking, feasible, front, interval, rank

_CHOOSE = "What to choose"  # the question that a sweep is for
_NAMED = 3  # settings that a sentence names at most


_SAME = 0.01  # device-hours that differ by no more than this share are called the same


@dataclass(frozen=True, eq=False)
class SweepChoice:
    """What to choose among the settings."""

    names: tuple[str, ...]  # of the settings
    wording: MetricWording  # of the metric to choose by
    maximize: bool  # whether more of it is better
    conditions: tuple[MetricCondition, ...]  # what a setting must keep
    feasible: Feasible  # which settings keep them
    asked: bool  # whether the scenario says so; else it is bias that is made small
    values: Floats  # the metric, (settings, seeds)
    ranking: Ranking  # the settings that keep the conditions, the best first
    bias: Floats  # (settings, seeds)
    pace: Floats  # (settings, seeds)
    front: Front | None  # of bias and pace; None where one of them has no value
    spent: Floats  # device-hours a round, (settings,)

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
        return self.wording.most if self.maximize else self.wording.least

    def at(self, row: int) -> str:
        """Write the metric at a setting."""
        return self.wording.write(float(self.mean[row]))

    def standing(self, row: int) -> str:
        """Say in a word how a setting stands."""
        if not np.isfinite(self.mean[row]):
            return "no result"
        if not self.feasible.kept[row]:
            return "misses a condition"
        if self.open and self.front is not None:
            if row in self.front.rows:
                return {self.front.rows[-1]: "most even", self.front.rows[0]: "fastest"}.get(row, "in between")
            return "beaten" if self.front.dominated[row] else "too close to tell"
        return "best" if row == self.ranking.best else "tied" if self.ranking.tied[row] else ""


def choice_of(sweep: FinishedSweep) -> SweepChoice:
    """Compute what to choose, by `decide` of the scenario or, without it, by bias and pace.

    Raises
    ------
    RunError
        `decide` in `sweep.json` is not what fedsim writes there.
    """
    decide = sweep.scenario.decide
    metric, maximize = (L1, False) if decide is None else (decide.metric, decide.minimize is None)
    try:
        conditions = tuple(parse_condition(each) for each in ([] if decide is None else decide.subject_to))
    except ConditionError as error:
        raise RunError(f"sweep.json: its scenario's `decide` cannot be read: {error}") from None
    values, bias, pace = sweep.samples(metric), sweep.samples(L1), sweep.samples(PACE)
    kept = feasible(conditions, [sweep.samples(each.metric) for each in conditions], len(sweep.points))
    both = (np.isfinite(bias) & np.isfinite(pace)).any()
    return SweepChoice(
        names=tuple(name or "the one setting" for name in sweep.point_names()),
        wording=wording_of(metric),
        maximize=maximize,
        conditions=conditions,
        feasible=kept,
        asked=decide is not None,
        values=values,
        ranking=rank(values, kept.kept, maximize=maximize),
        bias=bias,
        pace=pace,
        front=front(bias, pace) if both else None,
        spent=interval(sweep.samples("sessions.device_hours") / np.maximum(sweep.samples("rounds.count"), 1))[0],
    )


def choice_words(found: SweepChoice) -> tuple[str, list[Finding]]:
    """Say what to choose: as a title, empty where no run tells, and in sentences, with what comes next."""
    ranking, names, best = found.ranking, found.names, found.ranking.best
    if not np.isfinite(found.mean).any():
        nothing = f"No run has a value of {found.wording.metric}: there is nothing to choose by."
        return "", [Finding(nothing, _CHOOSE, warns=True)]
    if best is None:
        return "No setting keeps every condition", list(_conditions(found))
    value = found.at(best)
    if len(names) == 1:
        return f"{capitalized(found.wording.words)}: {value}", []
    if found.open and found.front is not None:
        return _trade_off(found, found.front)
    beside = _beside(found, best)
    title = f"{names[best]}: {found.superlative} ({value}){beside}"
    if tied := np.flatnonzero(ranking.tied).tolist():
        several = f"{names[best]} and {count(len(tied))} others"
        who = listing([names[row] for row in [best, *tied]]) if len(tied) < _NAMED else several
        title = f"{who} tie for the {found.superlative} ({value})"
    first = Finding(f"{names[best]} has the {found.superlative}: {value}{beside}.", _CHOOSE)
    return title, [first, *_next(found), *_conditions(found)]


def _beside(found: SweepChoice, best: int) -> str:
    """Say what the best setting leaves nothing to be desired in, or what it was chosen from."""
    if found.conditions:
        kept = len(found.ranking.order)
        alone = ", and no other setting keeps the conditions"
        return alone if kept == 1 else f" of the {count(kept)} settings that keep the conditions"
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
    if spent[best] == spent.min():
        return " and for the least device-hours a round" if np.ptp(spent) > _SAME * spent.max() else ""
    times = float(spent[best] / spent.min())
    text = f" but for {number(times, 2)} times the device-hours a round of the thriftiest"
    return text if times > 1 + _SAME else ""


def _next(found: SweepChoice) -> Iterator[Finding]:
    ranking, names = found.ranking, found.names
    tied = [int(row) for row in ranking.order[1:] if ranking.tied[row]]
    others = [int(row) for row in ranking.order[1:] if not ranking.tied[row]]
    if tied:
        shown = listing_of([f"{names[row]} ({found.at(row)})" for row in tied], _NAMED, "more setting")
        verb = "ties" if len(tied) == 1 else "tie"
        why = "these seeds do not tell which is better" if np.isfinite(ranking.half[tied]).any() else "it is the same"
        yield Finding(f"{shown} {verb} with it: {why}.", _CHOOSE)
    if others:
        row = others[0]
        apart = difference(found.wording, float(ranking.difference[row]), float(ranking.half[row]))
        yield Finding(f"Next best is {names[row]} with {found.at(row)} ({apart}).", _CHOOSE)


def _trade_off(found: SweepChoice, pareto: Front) -> tuple[str, list[Finding]]:
    """Name both ends of the front in a title, and say in sentences what lies between and behind them."""
    rows: list[int] = pareto.rows.tolist()
    bias, pace = interval(found.bias)[0].tolist(), interval(found.pace)[0].tolist()
    (fast, quick, fast_bias), (even, slow, even_bias) = (
        (found.names[row], PACE_WORDING.write(pace[row]), BIAS_WORDING.write(bias[row])) for row in (rows[0], rows[-1])
    )
    first = f"{fast_bias} misplaced turns at {quick} ({fast})"
    title = f"Evenness costs pace: {first}, {even_bias} at {slow.removesuffix(PACE_UNIT)} ({even})"
    texts = [
        f"The fastest is {fast}: {quick}, and {fast_bias} of all turns misplaced. "
        f"The most even is {even}: {even_bias} at {slow}."
    ]
    if (inner := len(rows) - 2) > 0:
        texts[0] += f" {count(inner)} more {'lies' if inner == 1 else 'lie'} between."
    beaten = int(pareto.dominated.sum())
    close = int(np.isfinite([bias, pace]).all(axis=0).sum()) - beaten - len(rows)
    if beaten:
        worse = (
            f"{count(beaten, 'setting')} {'is' if beaten == 1 else 'are'} worse than one of these in bias or in pace"
        )
        texts.append(f"{worse}, and better in neither.")
    if close:
        lie = f"{count(close, 'other setting')} {'lies' if close == 1 else 'lie'}"
        texts.append(f"{lie} so close that these seeds do not tell.")
    texts.append("Which of them is the best, the scenario can say under the key decide.")
    return title, [Finding(text, _CHOOSE) for text in texts]


def _conditions(found: SweepChoice) -> Iterator[Finding]:
    """Say how sure it is that the best setting keeps the conditions, and which would be the best without them."""
    best, shown = found.ranking.best, listing([" ".join(each.text.split()) for each in found.conditions])
    if best is None:
        yield Finding(f"No setting keeps {shown}: there is nothing to choose from.", _CHOOSE, warns=True)
    elif not found.feasible.sure[best]:
        text = f"Whether {found.names[best]} keeps {shown} is not sure: an interval reaches beyond a limit."
        yield Finding(text, _CHOOSE, warns=True)
    free = rank(found.values, np.ones(len(found.names), dtype=bool), maximize=found.maximize).best
    if free is not None and not found.feasible.kept[free]:
        name, value = found.names[free], found.at(free)
        instead = f"it would be {name} with {value}, which misses a condition ({shown})"
        text = instead if best is not None else f"{name} has the {found.superlative}: {value}"
        yield Finding(f"Without the conditions {text}.", _CHOOSE)


_TOTAL = "above_optimum"
_PARTS = ("bias", "participation noise", "privacy noise")  # what they are called, as are their metrics
_OPTIMIZERS = 4  # optimizers described at most


@dataclass(frozen=True, eq=False)
class LossParts:
    """The loss of one optimizer above the optimum, and its parts."""

    name: str  # of the optimizer
    # (settings, seeds), NaN where there is no value; parts by what they are called
    total: Floats
    parts: dict[str, Floats]
    # Simulated time to the target, s; without a value where it was not reached, None where there was no target
    time: Floats | None
    ranking: Ranking  # of the settings by the total


def loss_parts(sweep: FinishedSweep) -> tuple[LossParts, ...]:
    """Return the parts of every optimizer that has them."""
    known, found = sweep.metrics, []
    names = [each[1] for name in known if (each := re.fullmatch(rf"learning\.(.+)\.{_TOTAL}", name))]
    for name in names[:_OPTIMIZERS]:
        prefix = f"learning.{name}."
        total = sweep.samples(prefix + _TOTAL)
        parts = {part: sweep.samples(f"{prefix}{part.replace(' ', '_')}_loss") for part in _PARTS}
        has_target = any(prefix + each in known for each in ("time_to_target", "rounds_to_target"))
        time = sweep.samples(f"{prefix}time_to_target") if has_target else None
        found.append(LossParts(name, total, parts, time, rank(total, np.ones(len(total), dtype=bool))))
    return tuple(found)


def parts_sentences(sweep: FinishedSweep, found: tuple[LossParts, ...]) -> Iterator[Finding]:
    """Say where each optimizer ends closest to the optimum, how sure that is, and which part is the largest."""
    names, keys = sweep.point_names(), [axis.x for axis in sweep.axes]
    along = np.lexsort(keys[::-1]) if keys else np.arange(len(names))
    for each in found:
        best, means = each.ranking.best, interval(each.total)[0]
        if best is None or len(names) < 2:
            continue
        half = float(interval(each.total)[1][best])
        margin = f" ± {number(half, 2)}" if np.isfinite(half) else ""
        order: list[int] = [row for row in along.tolist() if np.isfinite(means[row])]
        text = f"{each.name} ends closest to the optimum at {names[best]}: its loss is {number(float(means[best]), 3)}"
        yield Finding(f"{text}{margin} above it; {_how_sure(each.ranking, names, order)}.", MODEL)
        shown = [_largest(each, row, names[row]) for row in dict.fromkeys((order[0], best, order[-1]))]
        if largest := [text for text in shown if text]:
            yield Finding(f"The largest part of it is {listing(largest)}.", MODEL)


def _how_sure(ranking: Ranking, names: Sequence[str], order: list[int]) -> str:
    """Say which settings may be as good as the best; `order` has those with a value in the order of the axes."""
    others = len(ranking.order) - 1
    if not np.isfinite(ranking.half[ranking.order[1:]]).any():
        return "one seed does not tell whether another is as good"
    tied = np.flatnonzero(ranking.tied).tolist()
    if not tied:
        return f"these seeds tell {'the other' if others == 1 else 'all others'} from it"
    if len(tied) == others:
        return "these seeds tell no other setting from it"
    among = [row for row in order if row in tied or row == ranking.best]
    if len(among) > 2 and order.index(among[-1]) - order.index(among[0]) + 1 == len(among):
        return f"these seeds do not tell apart what lies from {names[among[0]]} to {names[among[-1]]}"
    return f"these seeds do not tell it from {listing_of([names[row] for row in tied], _NAMED, 'more setting')}"


def _largest(each: LossParts, row: int, where: str) -> str:
    """Name the largest part at a setting, and its share of the whole; empty where a part is negative or unknown."""
    means = {words: float(interval(values)[0][row]) for words, values in each.parts.items()}
    total = float(interval(each.total)[0][row])
    if not all(0 <= value <= total for value in means.values()) or total <= 0:
        return ""
    words = max(means, key=means.__getitem__)
    return f"{words} at {where} ({percent(means[words] / total)})"
