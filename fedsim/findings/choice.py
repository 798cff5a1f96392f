"""Which setting of a sweep to choose: by its objective, else by bias and pace; at what price, and how sure that is."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fedsim.common.arrays import Bools, Floats
from fedsim.common.errors import RunError
from fedsim.common.formatting import capitalized, count, listing, listing_of, number, percent
from fedsim.findings.finding import (
    BIAS,
    COST,
    MODEL,
    NEXT,
    TRUST,
    Certainty,
    Finding,
    command_of,
    with_half,
    with_seeds,
)
from fedsim.findings.finished_sweep import CRASHED, Axis, FinishedSweep
from fedsim.findings.metric_wording import PACE, MetricWording, difference, wording_of
from fedsim.findings.tournament import several_seeds
from fedsim.limits.grammar import ConditionError, MetricCondition, parse_condition
from fedsim.trials.decision import (
    Feasible,
    Front,
    Ranking,
    detectable,
    feasible,
    front,
    interval,
    rank,
    reached,
    seeds_needed,
)

_NAMED = 3  # settings that a sentence names at most
_TITLE = 100  # characters of a title that names all that tie
_SHORT = 24  # characters of a name in a title
_SAME = 0.01  # device-hours that differ by no more than this share are called the same
_SLOWER = 0.9  # of the fastest pace: the condition of the example of `decide`
SETTINGS_TEST = "paired t test over seeds, 5\N{NARROW NO-BREAK SPACE}% with Holm's correction"


@dataclass(frozen=True, eq=False)
class SweepChoice:
    """What to choose among the settings."""

    sweep: FinishedSweep
    wording: MetricWording  # of the metric to choose by
    maximize: bool  # whether more of it is better
    conditions: tuple[MetricCondition, ...]  # what a setting must keep
    feasible: Feasible  # which settings keep them
    asked: bool  # whether the scenario says so; else it is bias that is made small
    # Arrays (settings, seeds): the metric, bias as L1, pace
    values: Floats
    bias: Floats
    pace: Floats
    ranking: Ranking  # the settings that keep the conditions, the best first; of a decision those that are open
    front: Front | None  # of bias and pace; None where one of them has no value
    dropped: Bools | None  # the settings that a decision gave no further seeds; None where it is a sweep

    @property
    def names(self) -> tuple[str, ...]:
        """The settings by name."""
        return self.sweep.names

    @cached_property
    def mean(self) -> Floats:
        """The metric at every setting."""
        return interval(self.values)[0]

    @cached_property
    def paces(self) -> Floats:
        """The pace at every setting."""
        return interval(self.pace)[0]

    @cached_property
    def paces_differ(self) -> bool:
        """Whether settings differ in pace by more than rounding."""
        pace = self.paces[np.isfinite(self.paces)]
        return len(pace) > 1 and bool(np.ptp(pace) > 1e-6 * np.abs(pace).max())

    @property
    def open(self) -> bool:
        """Whether the most even setting costs pace, and nothing says what that is worth."""
        return not self.asked and self.front is not None and len(self.front.rows) > 1

    @cached_property
    def chosen(self) -> int | None:
        """The row of the best setting; the fastest, where no slower one is more even beyond chance; None without."""
        if self.open and self.front is not None and self.ranking.tied[self.front.rows[0]]:
            return int(self.front.rows[0])
        return self.ranking.best

    @cached_property
    def seeds(self) -> int:
        """How many seeds the difference of the best from the next is over."""
        return int(np.isfinite(self.values[self.ranking.order[:2]]).all(axis=0).sum()) if len(self.ranking.order) else 0

    @property
    def order(self) -> list[int]:
        """The settings from the best to the worst: those that are ranked, then the others by their means."""
        ranked, sign = self.ranking.order.tolist(), -1 if self.maximize else 1
        others = np.argsort(sign * self.mean, kind="stable").tolist()  # those without a mean come last
        return [*ranked, *(row for row in others if row not in set(ranked))]

    @property
    def looks(self) -> int:
        """How many differences from the best are tested."""
        return max(1, len(self.ranking.order) - 1)

    def at(self, row: int) -> str:
        """Write the metric at a setting."""
        return self.wording.write(float(self.mean[row]))

    @cached_property
    def standings(self) -> tuple[str, ...]:
        """How each setting stands, in a word."""
        return tuple(map(self._standing, range(len(self.names))))

    def _standing(self, row: int) -> str:
        if not np.isfinite(self.mean[row]):
            return "no result"
        if not self.feasible.kept[row]:
            return "misses a condition"
        if self.open and self.front is not None:
            if row in self.front.rows:
                return {self.front.rows[-1]: "most even", self.front.rows[0]: "fastest"}.get(row, "in between")
            return "beaten" if self.front.dominated[row] else "not told apart"
        if row == self.ranking.best or self.ranking.tied[row]:
            return "best" if row == self.ranking.best else "tied"
        return "" if self.dropped is None else "dropped" if self.dropped[row] else "worse"

    @property
    def tied(self) -> list[int]:
        """The settings that tie with the best, in the order of the ranking."""
        return [row for row in self.ranking.order[1:].tolist() if self.ranking.tied[row]]

    @property
    def limits(self) -> str:
        """The conditions as they are written."""
        return listing([f"`{' '.join(each.text.split())}`" for each in self.conditions])


def choice_of(sweep: FinishedSweep, dropped: Bools | None = None) -> SweepChoice:
    """Compute what to choose, by `decide` of the scenario or, without it, by bias and pace.

    A decision has `dropped` some settings, which cannot be the best, nor can those that miss a target in some runs.

    Raises
    ------
    RunError
        `decide` in `sweep.json` is not what fedsim writes there.
    """
    decide = sweep.scenario.decide
    metric, maximize = (sweep.bias_metric, False) if decide is None else (decide.metric, decide.minimize is None)
    try:
        conditions = tuple(parse_condition(each) for each in ([] if decide is None else decide.subject_to))
    except ConditionError as error:
        raise RunError(f"sweep.json: its scenario's `decide` cannot be read: {error}") from None
    values, bias, pace = sweep.samples(metric), sweep.samples(sweep.bias_metric), sweep.samples(PACE)
    kept = feasible(conditions, [sweep.samples(each.metric) for each in conditions], len(sweep.points))
    # Those that are open have the same seeds: what one saw before others were dropped is compared with nothing.
    eligible = kept.kept if dropped is None else kept.kept & ~dropped
    eligible = eligible if dropped is None else eligible & reached(metric, values, eligible)
    return SweepChoice(
        sweep=sweep,
        wording=wording_of(metric),
        maximize=maximize,
        conditions=conditions,
        feasible=kept,
        asked=decide is not None,
        values=values,
        bias=bias,
        pace=pace,
        ranking=rank(values, eligible, maximize=maximize),
        front=front(bias, pace) if (np.isfinite(bias) & np.isfinite(pace)).any() else None,
        dropped=dropped,
    )


def choice_title(found: SweepChoice) -> str:
    """Say what to choose, why, and at what price in pace."""
    names, best, chosen = found.names, found.ranking.best, found.chosen
    if not np.isfinite(found.mean).any():
        return f"Nothing to choose by: no run has a value of {found.wording.metric}"
    if best is None or chosen is None:
        return "No setting keeps every condition"
    if len(names) == 1:
        return f"{capitalized(found.wording.words)} is {found.at(best)}"
    value = f"({found.at(best)}{' from uniform' if found.wording.about == BIAS else ''})"
    if found.open and chosen != best:
        return f"{names[chosen]} is the fastest, and no setting is more even beyond chance"
    untested = " (one seed, not tested)" if found.seeds < 2 and len(found.ranking.order) > 1 else ""
    if found.open and found.front is not None:
        fast = int(found.front.rows[0])
        lost = percent(1 - found.paces[best] / found.paces[fast])
        rival = names[fast] if len(names[fast]) <= _SHORT else "the fastest"
        return f"{names[best]} is the most even {value} and {lost} slower than {rival}{untested}"
    tied = np.flatnonzero(found.ranking.tied).tolist()
    extreme = found.wording.extreme(found.maximize)
    if not tied:
        return f"{names[best]} has {extreme} {value}{_beside(found, best)}{untested}"
    title = f"{listing([names[row] for row in [best, *tied]])} tie for {extreme} {value}"
    if len(tied) < _NAMED and len(title) <= _TITLE:
        return title
    return f"{names[best]} has {extreme} {value}, and {count(len(tied))} others tie with it"


def _beside(found: SweepChoice, best: int) -> str:
    """Say what the best setting was chosen from, and at what price in pace."""
    if found.conditions:
        kept = len(found.ranking.order)
        alone = ", and no other setting keeps the conditions"
        return alone if kept == 1 else f" of {count(kept)} settings that keep the conditions"
    if found.wording.metric == PACE or not np.isfinite(found.paces).all():
        return ""
    if not found.paces_differ:
        return ", at the same pace as all others"
    lost = 1 - found.paces[best] / found.paces.max()
    return ", and none is faster" if lost <= 0 else f", {percent(lost)} slower than the fastest"


def cost_findings(found: SweepChoice) -> Iterator[Finding]:
    """Say what the chosen setting costs in pace and in time of devices."""
    row, names, paces = found.chosen, found.names, found.paces
    if row is None or not np.isfinite(paces[row]):
        return
    fast, write = int(np.nanargmax(paces)), wording_of(PACE).write
    pace = write(float(paces[row]))
    beside = "none is faster"
    if not found.paces_differ:
        text, beside = f"Every setting runs {pace}", "the same at every setting"
    elif fast == row:
        text = f"The pace at {names[row]} is {pace}, and {beside}"
    else:
        beside = f"{percent(1 - paces[row] / paces[fast])} less than the fastest"
        text = f"The pace at {names[row]} is {pace}, {beside}"
        text += f" ({number(float(paces[fast]), 3)} at {names[fast]})"
    hours = found.sweep.samples("sessions.device_hours") / np.maximum(found.sweep.samples("rounds.count"), 1)
    spent = interval(hours)[0]
    if np.isfinite(spent[row]) and np.nanmin(spent) > 0 and np.nanmax(spent) > (1 + _SAME) * np.nanmin(spent):
        times = float(spent[row] / np.nanmin(spent))
        how = "twice" if abs(times - 2) < 0.05 else f"{percent(times)} of"
        more = f"{how} the device-hours per round of the cheapest setting"
        more = more if times > 1 + _SAME else "the fewest device-hours per round"
        text += f"; {names[row]} spends {more}"
        beside += f"; {more}"
    brief = f"Pace: {pace}, {beside}."
    yield Finding(
        f"{text}.", COST, name="cost.pace", quantity=PACE, scope=names[row], value=float(paces[row]), brief=brief
    )
    if found.open and found.front is not None and len(found.front.rows) > 2:
        between = found.front.rows[1:-1].tolist()
        ways = [
            f"{names[row]} ({wording_of(found.sweep.bias_metric).write(float(interval(found.bias)[0][row]))} at "
            f"{write(float(paces[row]))})"
            for row in between
        ]
        lies = "lies" if len(between) == 1 else "lie"
        yield Finding(f"Between the fastest and the most even {lies} {listing_of(ways, _NAMED)}.", COST)


def over_common(both: Bools | None) -> str:
    """Say over how many seeds a difference is, where `common_seeds` tells that these are not all; else nothing."""
    return "" if both is None else f" over {count(int(both.sum()), 'seed')} that both have"


def common_seeds(one: Floats, other: Floats) -> Bools | None:
    """Say which seeds two settings share, (seeds,); None where both have the same ones, or none together."""
    first, second = np.isfinite(one), np.isfinite(other)
    return None if (first == second).all() or not (first & second).any() else np.asarray(first & second)


def sure_findings(found: SweepChoice) -> Iterator[Finding]:
    """Say which settings tie with the best, how small a difference these seeds see, and whether conditions are kept."""
    ranking, names, best = found.ranking, found.names, found.ranking.best
    if best is None:
        return
    shown, tied = found.limits, found.tied
    if not found.feasible.sure[best]:
        text = f"Whether {names[best]} keeps {shown} is not sure: an interval reaches beyond a limit."
        brief = f"Whether {names[best]} keeps every condition is not sure: an interval reaches beyond a limit."
        yield Finding(text, TRUST, warns=True, brief=brief)
    others = [row for row in ranking.order[1:].tolist() if not ranking.tied[row]]
    if tied:
        apart_by = [difference(found.wording, float(ranking.difference[row]), float(ranking.half[row])) for row in tied]
        ways = listing_of([f"{names[k]} ({by})" for k, by in zip(tied, apart_by, strict=True)], _NAMED, "more setting")
        verb, same = "ties" if len(tied) == 1 else "tie", not np.nan_to_num(ranking.difference[tied]).any()
        why = "it is the same" if same else "these seeds do not tell them apart"
        if (np.abs(ranking.difference[tied]) > ranking.half[tied]).any():  # an interval of its own would
            why += f" once corrected for {count(found.looks, 'difference')} (Holm)"
        row = tied[0]
        half = float(ranking.half[row])
        least = detectable(half, found.seeds, found.looks) if np.isfinite(half) else None
        of = f" of {names[row]}" if len(tied) > 1 else ""
        seen = f"; they would have seen {found.wording.apart(least)}{of}" if least and not same else ""
        tie = _apart(found, row, f"{ways} {verb} with {names[best]}: {why}{seen}.", Certainty.NOT_TOLD, least)
        who = names[tied[0]] if len(tied) == 1 else count(len(tied), "setting")
        why = why.replace("these seeds", count(found.seeds, "seed")) + (" (paired t test)" if not same else "")
        yield replace(tie, brief=f"{who} {verb} with {names[best]}: {why}.")
    if others:
        row = others[0]
        apart = difference(found.wording, float(ranking.difference[row]), float(ranking.half[row]))
        less = apart.lstrip("+\N{MINUS SIGN}")
        tested = bool(np.isfinite(ranking.half[row]))
        seeds = over_common(common_seeds(found.bias[row], found.bias[best]))
        text = f"Next best is {names[row]} with {found.at(row)} ({apart}{seeds})."
        if tested and not tied:
            by = f"by {less} (paired t test over {count(found.seeds, 'seed')})"
            text = f"{names[best]} is better than {names[row]}, the next best with {found.at(row)}, {by}."
        told = _apart(found, row, text, Certainty.TOLD if tested else Certainty.UNTESTED)
        brief = f"Better than the next best by {less} (paired t test)."
        yield replace(told, brief=brief if tested and not tied else "")
    if not found.asked and found.front is not None and (beaten := int(found.front.dominated.sum())):
        text = f"{count(beaten, 'setting')} {'is' if beaten == 1 else 'are'} worse than another in bias or pace"
        yield Finding(f"{text}, and better in neither.", TRUST)


def _apart(found: SweepChoice, row: int, text: str, told: Certainty, least: float | None = None) -> Finding:
    """Return a finding about how a setting differs from the best."""
    apart, half = float(found.ranking.difference[row]), float(found.ranking.half[row])
    named = ("choice.difference", found.wording.metric, found.names[row], apart)
    finding = Finding(text, TRUST, False, *named, reference=0.0, test=SETTINGS_TEST, certainty=told, visible=least)
    return with_half(half, replace(finding, against=found.names[found.ranking.best or 0]))


def next_findings(found: SweepChoice) -> Iterator[Finding]:
    """Say what to do next: run what is missing, more seeds, a finer grid, an objective."""
    sweep, ranking, names, best = found.sweep, found.ranking, found.names, found.ranking.best
    failed = int((sweep.runs["status"] == CRASHED).sum())
    if missing := len(sweep.failed) - failed:
        text = f"Run the same command again: it does the {count(missing, 'run')} that are missing."
        yield Finding(text, NEXT, command=command_of(sweep.meta, "sweep") or command_of(sweep.meta, "decide"))
    if failed:
        text = f"Read in runs/*.crashed.json why {count(failed, 'run')} failed: the same command tries anew"
        yield Finding(f"{text} those that did not stall.", NEXT)
    if best is None or len(names) < 2:
        yield from _without_conditions(found)
        return
    if found.seeds < 2 and len(ranking.order) > 1:
        yield several_seeds(sweep.meta)
    tied = [row for row in found.tied if ranking.difference[row]]
    if tied and np.isfinite(ranking.half[tied[-1]]):
        row = tied[-1]
        apart, half = float(ranking.difference[row]), float(ranking.half[row])
        needed = seeds_needed(apart, half, found.seeds, found.looks)
        what = f"tell {names[row]} from {names[best]} ({found.wording.apart(abs(apart))})"
        text = f"About {count(needed)} seeds would {what}." if needed else f"Not even 1,000 seeds would {what}."
        more, brief = with_seeds(sweep.meta, needed) if needed else "", "No 1,000 seeds would tell what ties."
        brief = f"About {count(needed)} seeds would tell one of the ties from the best." if needed else brief
        yield Finding(text, NEXT, command=more, brief=brief)
    further = [*_decide(found), *_finer(found), *_without_conditions(found)]
    if not further and not tied and found.chosen is not None and found.seeds > 1:
        text = f"Confirm {names[found.chosen]} with twice as many seeds before you set it."
        brief = "Confirm the choice with twice as many seeds before you set it."
        yield Finding(text, NEXT, command=with_seeds(sweep.meta, 2 * found.seeds), brief=brief)
    yield from further


def _decide(found: SweepChoice) -> Iterator[Finding]:
    """Say what `decide` would choose, where nothing says what pace is worth."""
    if not found.open or found.chosen != found.ranking.best:
        return
    least = float(f"{_SLOWER * np.nanmax(found.paces):.3g}")
    row = rank(found.bias, np.nan_to_num(found.paces) >= least).best
    if row is not None:
        chosen = f"{{minimize: {found.wording.metric}, subject_to: [{PACE} >= {least:g}]}}"
        text = f"Say what pace you need: `decide: {chosen}` chooses {found.names[row]} ({found.at(row)})."
        again = command_of(found.sweep.meta, "sweep", f"decide={chosen}")
        yield Finding(
            text,
            NEXT,
            command=again,
            brief=f"Say what pace you need; for {least:g} rounds a day, {found.names[row]} is best.",
        )


def _finer(found: SweepChoice) -> Iterator[Finding]:
    """Say which values to try next along an axis of numbers."""
    along, row, swept = found.sweep.axis, found.chosen, found.sweep.scenario.sweep
    if along is None or row is None or along.ticks or along.size < 3 or (swept is not None and swept.zip):
        return
    values = np.unique(along.x)
    place = int(np.searchsorted(values, along.x[row]))
    if 0 < place < len(values) - 1:
        low, middle, high = values[place - 1 : place + 2]
        text = f"Try values of {along.name} around {along.at(middle)}, from {along.at(low)} to {along.at(high)}"
        command = _grid(found.sweep, along, (low + middle) / 2, middle, (middle + high) / 2)
        if found.sweep.tuned:
            text = f"Confirm it with more seeds, or tune {along.name} from {along.at(low)} to {along.at(high)} anew"
            command = with_seeds(found.sweep.meta, 2 * found.seeds)
        yield Finding(f"{text}.", NEXT, command=command)
    elif place:
        text = f"The choice is at the end of the grid: try {along.name} above {along.at(values[-1])}."
        yield Finding(text, NEXT, command=_grid(found.sweep, along, values[-1], 2 * values[-1] - values[-2]))


def _grid(sweep: FinishedSweep, along: Axis, *values: float) -> str:
    """Return the command that sweeps one parameter over other values; "" where more is swept, or tuned."""
    swept = sweep.scenario.sweep
    whole = bool((along.x == along.x.astype(int)).all())
    shown = ", ".join(f"{round(each) if whole else each:g}" for each in values)
    grid = f"sweep.grid={{{along.parameters[0]}: [{shown}]}}"
    alone = swept is not None and swept.paths == list(swept.grid) == [along.parameters[0]]
    return command_of(sweep.meta, "sweep", grid) if alone else ""


def _without_conditions(found: SweepChoice) -> Iterator[Finding]:
    """Say which setting would be the best without the conditions."""
    best, shown = found.ranking.best, found.limits
    free = rank(found.values, np.ones(len(found.names), dtype=bool), maximize=found.maximize).best
    if best is None and found.conditions and free is not None:
        yield Finding(f"No setting keeps {shown}: there is nothing to choose from.", TRUST, warns=True)
    if free is not None and not found.feasible.kept[free]:
        name, value = found.names[free], found.at(free)
        yield Finding(f"Without the conditions ({shown}) it would be {name} with {value}.", NEXT)


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


def parts_findings(sweep: FinishedSweep, parts: tuple[LossParts, ...]) -> Iterator[Finding]:
    """Say where each optimizer ends closest to the optimum, how sure that is, and which part is the largest."""
    names = sweep.names
    for each in parts:
        best, (means, halves) = each.ranking.best, interval(each.total)
        if best is None or len(names) < 2:
            continue
        mean, half = float(means[best]), float(halves[best])
        margin = f" ± {number(half, 2)}" if np.isfinite(half) else ""
        largest = largest_part(each, best)
        text = f"“{each.name}” ends closest to the optimum at {names[best]} (loss {number(mean, 3)}{margin} above it)"
        named = (f"closest.{each.name}", f"learning.{each.name}.{_TOTAL}", names[best], mean)
        worst = int(np.nanargmax(means))
        brief = f"“{each.name}”: loss {number(mean, 3)} above the optimum at {names[best]}"
        brief += f", {number(float(means[worst]), 3)} at {names[worst]}" * (worst != best)
        brief += f"; largest part {largest}" * bool(largest)
        told = Certainty.NOT_TOLD if each.ranking.tied.any() else Certainty.TOLD
        told = told if np.isfinite(each.ranking.half[each.ranking.order[1:]]).any() else Certainty.UNTESTED
        sure = {Certainty.TOLD: ", all others are worse (paired)", Certainty.NOT_TOLD: ", others tie with it"}
        text += sure.get(told, "")
        text += f"; the largest part is {largest}." if largest else "."
        found = Finding(text, MODEL, False, *named, test=SETTINGS_TEST, certainty=told)
        yield with_half(half, replace(found, brief=f"{brief}."))


def largest_part(each: LossParts, row: int) -> str:
    """Name the largest part at a setting, and its share of the whole; empty where a part is negative or unknown."""
    means = {words: float(interval(values)[0][row]) for words, values in each.parts.items()}
    total = float(interval(each.total)[0][row])
    if not all(0 <= value <= total for value in means.values()) or total <= 0:
        return ""
    words = max(means, key=means.__getitem__)
    return f"{words} ({percent(means[words] / total)})"
