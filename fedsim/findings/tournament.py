"""Which optimizer of a sweep is the best over all its settings: by mean rank, tested over seeds."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np

from fedsim.common.arrays import Bools, Floats
from fedsim.common.formatting import count, cut, listing, listing_of, number
from fedsim.findings.finding import COST, MODEL, NEXT, TRUST, Certainty, Finding, Tile, with_half, with_seeds
from fedsim.findings.finished_sweep import FinishedSweep
from fedsim.trials.decision import holm, interval, p_values, seeds_needed, told_apart

if TYPE_CHECKING:
    from fedsim.learning.optimizers.optimizer import Footprint

# What optimizers are compared by, the first that is known: distance of the mean model from the optimum, and losses
_FIGURES = {
    "bias": "the distance of the mean model from the optimum",
    "excess_loss": "the loss above the one under uniform participation",
    "loss": "the loss",
}
_EFFECTS = {
    "bias": "ends {} from the optimum",
    "excess_loss": "ends {} above the loss under uniform participation",
    "loss": "ends at a loss of {}",
}
_SHORT = 20  # characters of a name in a line
_FEWEST = 3  # optimizers of one run; two are compared at every setting
_NAMED = 3
_WORLDS = {"population", "server", "learning.problem", "name"}  # keys whose values are cases, and no choice
RANKS_TEST = "paired t test of mean ranks over seeds, 5 % with Holm's correction for all optimizers"


MEMORY = ("Any memory", "Nothing kept on the device", "A few numbers kept of each client")
"""What the columns of a table of winners allow, each more than the next."""
_COSTS = ("rounds_to_target", "time_to_target", "sent_mb_to_target")


@dataclass(frozen=True, eq=False)
class Tournament:
    """Optimizers over the same cases, which are the settings of a sweep, by what differs besides the optimizer."""

    figure: str  # what they are compared by
    names: tuple[str, ...]  # of the optimizers
    cases: tuple[str, ...]
    values: Floats  # (optimizers, cases, seeds), NaN where a run has none, infinity where it diverged
    kinds: Mapping[str, str] = field(default_factory=dict)  # of optimizers with names of their own
    costs: Mapping[str, Floats] = field(default_factory=dict)  # of `_COSTS`, as the values

    @property
    def finite(self) -> Floats:
        """The values, NaN where a run diverged too."""
        return np.where(np.isfinite(self.values), self.values, np.nan)

    @property
    def words(self) -> str:
        """What the figure is called."""
        return _FIGURES[self.figure]


def ranks(values: Floats) -> Floats:
    """Return the mean rank of each optimizer over the cases that it has, by seed: 1 is the least.

    An optimizer without a value is last, and has no rank in a case for which it is NaN with all seeds.
    """
    there: Bools = np.asarray(~np.isnan(values).all(axis=2, keepdims=True))
    own = np.where(np.isfinite(values), values, np.inf)
    less, equal = ((compare(own[None], own[:, None]) & there[None]).sum(axis=1) for compare in (np.less, np.equal))
    found: Floats = np.where(there, less + (equal + 1) / 2, 0).sum(axis=1) / np.maximum(1, there.sum(axis=1))
    return found


def leaders(values: Floats) -> tuple[list[int], list[int]]:
    """Return the optimizers by mean rank, and those that a test does not tell from the first, which is among them."""
    by_seed = ranks(values)
    order = np.argsort(by_seed.mean(axis=1), kind="stable").tolist()
    told = told_apart((by_seed - by_seed[order[0]])[order[1:]])
    return order, [order[0], *(row for row, apart in zip(order[1:], told, strict=True) if not apart)]


def tied(values: Floats) -> list[tuple[int, int]]:
    """Return the first and last place of each stretch, by mean rank, of optimizers that no test tells apart.

    All pairs are tested together at 5 %, and the first and the others as in `leaders` too, so that equal ones are told
    apart in at most one table of ten. A stretch within another is left out. Demsar 2006, but with paired t tests.
    """
    order, first = leaders(values)
    by_seed, pairs = ranks(values)[order], list(combinations(range(len(order)), 2))
    told = told_apart(np.stack([by_seed[late] - by_seed[early] for early, late in pairs]))
    apart = {
        pair for pair, each in zip(pairs, told, strict=True) if each or (not pair[0] and order[pair[1]] not in first)
    }
    found = list[tuple[int, int]]()
    for begin in range(len(order)):
        end = begin
        while end + 1 < len(order) and all((place, end + 1) not in apart for place in range(begin, end + 1)):
            end += 1
        if end > begin and (not found or end > found[-1][1]):
            found.append((begin, end))
    return found


def allowed(found: Tournament) -> Bools:
    """Say which optimizers stay within each of `MEMORY`, (columns, optimizers), by what they tell of themselves.

    One that tells nothing of its memory is in the first column; one that is told all frequencies is in none.
    """
    rows = []
    for kind in (found.kinds.get(name, name) for name in found.names):
        needs = _footprint(kind)
        off_device, of_each = (False, False) if needs is None else (not needs.client, bool(needs.per_participant))
        rows.append([kind != "oracle_weighted", off_device, off_device and not of_each])
    columns = np.array(rows).T
    return np.asarray(columns & columns[0])


def winners(found: Tournament) -> list[list[list[int]]]:
    """Return by case, and in it for each of `MEMORY`, the best optimizer, and those that no test tells from it.

    The best has the least geometric mean, of those with a value for every seed. Each other one is tested against it by
    paired t tests of logarithms, since figures differ in size from seed to seed; Holm's correction is for all tests of
    the table together. Figures below a millionth of the case's median count as equal; some that are not positive are
    compared as they are.
    """
    columns, cells, tests = allowed(found), list[list[int]](), list[Floats]()
    for case, column in product(range(len(found.cases)), columns):
        own = found.values[:, case]
        if (np.isnan(own) | (own >= 0)).all() and np.isfinite(own).any():
            own = np.log(np.maximum(own, max(1e-6 * float(np.median(own[np.isfinite(own)])), 1e-300)))
        rows = np.flatnonzero(column & np.isfinite(own).all(axis=1))
        rows = rows[np.argsort(own[rows].mean(axis=1), kind="stable")]
        cells.append(rows.tolist())
        tests.append(p_values(own[rows[1:]] - own[rows[:1]]))
    told = iter(holm(np.concatenate(tests)))
    tied = [[row for k, row in enumerate(rows) if not k or not next(told)] for rows in cells]
    return [tied[first : first + len(columns)] for first in range(0, len(tied), len(columns))]


def tournament_of(sweep: FinishedSweep) -> Tournament | None:
    """Return the optimizers of a sweep over optimizers, or whose runs train several; None where it is about others."""
    for figure in _FIGURES:
        metrics = {
            each[1]: each[0] for name in sweep.metrics if (each := re.fullmatch(rf"learning\.(.+)\.{figure}", name))
        }
        names = [name for name in metrics if not name.endswith("_uniform")]
        swept = [axis for axis in sweep.axes if axis.size > 1 and _of_optimizers(axis.parameters)]
        if names:
            break
    else:
        return None
    lost = np.stack([sweep.samples(f"learning.{name}.diverged") == 1 for name in names])
    values = np.where(lost, np.inf, np.stack([sweep.samples(metrics[name]) for name in names]))
    if figure == "bias":  # where no optimum is known, models are told by their losses
        losses = np.stack([sweep.samples(f"learning.{name}.average_loss") for name in names])
        values = np.where(np.isnan(values).all(axis=(0, 2), keepdims=True), losses, values)
    tables = {what: np.stack([sweep.samples(f"learning.{name}.{what}") for name in names]) for what in _COSTS}
    known = ~np.isnan(values)
    others = [name for name in sweep.parameters if not _of_optimizers((name,))]
    cases = sweep.point_names([name for name in others if len(set(sweep.values(name))) > 1])
    if swept:
        every = list(dict.fromkeys(cases))
        rows = [[row for row, case in enumerate(cases) if case == each] for each in every]
        if any((known[:, own].any(axis=2).sum(axis=1) > 1).any() for own in rows):
            return None  # an optimizer has several settings of its own in one case
        # Each row of a case that an optimizer has: the one setting in which it is
        tables |= {"": values}
        for what, table in tables.items():
            there = [np.where(known[:, own].any(axis=2, keepdims=True), table[:, own], np.nan) for own in rows]
            tables[what] = np.stack([np.fmin.reduce(own, axis=1) for own in there], axis=1)
        values, cases = tables.pop(""), tuple(every)
    elif len(names) < _FEWEST or sweep.scenario.decide is not None or not _WORLDS & {*sweep.parameters}:
        return None
    return Tournament(figure, tuple(names), cases, values, _kinds(sweep), tables) if len(names) > 1 else None


def _kinds(sweep: FinishedSweep) -> dict[str, str]:
    """Return the kinds of the optimizers of all settings, by name."""
    learning, points = sweep.scenario.learning, sweep.points
    found = {each.label: each.kind for each in (() if learning is None else learning.optimizers)}
    for own in points["learning.optimizers"].to_list() if "learning.optimizers" in points.columns else ():
        found |= {each["name"]: each["kind"] for each in json.loads(own) if isinstance(each, dict) and "name" in each}
    return found


def _of_optimizers(parameters: Sequence[str]) -> bool:
    return any(re.fullmatch(r"learning\.optimizers(\.\d+(\.kind)?)?", name) for name in parameters)


def _typical(found: Tournament) -> Floats:
    """Return the figure of each optimizer: the median over the cases of the means over the seeds."""
    means = [row[np.isfinite(row)] for row in interval(found.finite)[0]]
    return np.array([np.median(row) if len(row) else np.nan for row in means])


def tournament_tiles(found: Tournament) -> Iterator[Tile]:
    """Return the figures of the first, and of FedAvg or, without it, of the last."""
    order, typical = leaders(found.values)[0], _typical(found)
    places = {order.index(row): row for row in (order[0], *(_usual(found, order) or [order[-1]]))}
    for place, row in places.items():
        label = found.words.removeprefix("the ").replace("distance of the mean model", "distance")
        detail = f"“{found.names[row]}”, rank {place + 1} of {count(len(order))}"
        yield Tile(number(typical[row], 2), label, f"{detail}; median case" if len(found.cases) > 1 else detail)


def _usual(found: Tournament, order: Sequence[int]) -> list[int]:
    """Return FedAvg, where it is neither the first nor the last."""
    return [row for row in order[1:-1] if found.names[row] == "fedavg"]


def tournament_title(found: Tournament) -> str:
    """Say which optimizers lead."""
    first = leaders(found.values)[1]
    named = [f"“{found.names[row]}”" for row in first]
    of = f"of {count(len(found.names))}"
    if len(found.cases) > 1:
        of = f"by mean rank over {count(len(found.cases), 'case')}"
    if len(first) == 1:
        does = "ends nearest to the optimum" if found.figure == "bias" else "has the lowest loss"
        return f"{named[0]} {does}, {of}"
    if len(first) > _NAMED:
        return f"No optimizer leads: {named[0]} and {count(len(first) - 1)} others are not told apart, {of}"
    return f"{listing(named)} lead, {of}, and are not told apart"


def tournament_findings(found: Tournament) -> Iterator[Finding]:
    """Say who leads, how sure that is, and who is worst."""
    by_seed, (order, first) = ranks(found.values), leaders(found.values)
    mean, half = interval(by_seed)
    best, last, typical = order[0], order[-1], _typical(found)
    names = [f"“{cut(found.names[row], _SHORT)}”" for row in (best, last)]
    effect = f"{names[0]} {_EFFECTS[found.figure].format(number(typical[best], 2))}"
    in_case = "In the median case " if len(found.cases) > 1 else ""
    usual = "".join(f"; “fedavg” {number(typical[row], 2)}" for row in _usual(found, order))
    text = f"{in_case}{effect}{usual}; {names[1]}, the last, {number(typical[last], 2)}."
    ends = usual or f"; {names[1]}, the last, {number(typical[last], 2)}"
    brief = f"{effect}{' (median case)' * bool(in_case)}{ends}."
    yield Finding(text, MODEL, name="tournament.effect", brief=brief)
    ways = listing_of([f"“{found.names[row]}” {mean[row]:.1f}" for row in first], _NAMED, "more optimizer")
    seeds = by_seed.shape[1]
    tied = "" if len(first) == 1 else ", not told apart" if seeds > 1 else ", not tested"
    least = f"the least mean rank of {count(len(found.names))} optimizers"
    text = f"By {found.words}, {least} have {ways}{tied}"
    if len(first) == 1:
        text = f"By {found.words}, “{found.names[best]}” has {least} ({mean[best]:.1f})"
    told = Certainty.TOLD if len(first) == 1 else Certainty.NOT_TOLD
    named = ("tournament", f"learning.*.{found.figure}", found.names[best], float(mean[best]))
    text = f"{text}; last is “{found.names[last]}” ({mean[last]:.1f})."
    yield with_half(float(half[best]), Finding(text, MODEL, False, *named, test=RANKS_TEST, certainty=told))
    shown = [found.names[row] for row in (*first[:1], *_usual(found, order))]
    if needs := [(name, own) for name in shown if (own := _footprint(name)) is not None]:
        kept = [(f"“{name}”", own.sent, own.per_participant + own.client) for name, own in needs]
        said = ["{} sends {} models a report, and keeps {} per client".format(*kept[0])]
        said += ["{} {} and {}".format(*each) for each in kept[1:]]
        yield Finding(f"{'; '.join(said)}.", COST)
    if seeds > 1:
        worse, lead = len(found.names) - len(first), "1 leads" if len(first) == 1 else f"{count(len(first))} lead"
        text = f"Paired t test of ranks over {count(seeds, 'seed')} (5\N{NARROW NO-BREAK SPACE}%, Holm): {lead}"
        text += f", {count(worse)} {'is' if worse == 1 else 'are'} worse." if worse else ", none is worse."
        yield Finding(text, TRUST, test=RANKS_TEST)
    there: Bools = np.asarray(~np.isnan(found.values).all(axis=2, keepdims=True))
    without = np.asarray((~np.isfinite(found.values) & there).any(axis=(1, 2)))
    if lost := [name for name, own in zip(found.names, without, strict=True) if own]:
        yield Finding(f"Without a value in some runs, and last there: {listing_of(lost, _NAMED)}.", MODEL, warns=True)


def _footprint(kind: str) -> "Footprint | None":
    """Return what an optimizer tells of what it sends and keeps; None of one that tells nothing, or is not built in."""
    from fedsim.learning.optimizers import OPTIMIZERS

    return getattr(OPTIMIZERS.find(kind), "footprint", None) if kind in OPTIMIZERS.built_in else None


def several_seeds(known: Mapping[str, object]) -> Finding:
    """Say of a sweep that one seed is too few."""
    command = with_seeds(known, 5)
    return Finding("Sweep several seeds: one tells nothing of chance.", NEXT, command=command)


def tournament_next(found: Tournament, meta: Mapping[str, object]) -> Iterator[Finding]:
    """Say how many seeds would tell the leaders apart."""
    by_seed, first = ranks(found.values), leaders(found.values)[1]
    seeds, looks = by_seed.shape[1], len(found.names) - 1
    if seeds < 2:
        yield several_seeds(meta)
    elif len(first) > 1:
        mean, half = (float(each[0]) for each in interval((by_seed[first[1]] - by_seed[first[0]])[None]))
        needed = seeds_needed(mean, half, seeds, looks) if mean else None
        names = " or ".join(f"“{found.names[row]}”" for row in first[:2])
        many = f"{count(needed)} seeds" if needed else "not even 1,000 seeds"
        text = f"Take {names}, which these seeds do not tell apart: {many} would."
        brief = f"Take either; {many} tell them apart."
        yield Finding(text, NEXT, command=with_seeds(meta, needed) if needed else "", brief=brief)
