"""Parts of the clients compared: groups, the heaviest and the lightest, those that took part most and least.

Groups are compared with what equal chances would give them. The heaviest and the lightest have an interval from batch
means: the rounds are cut into 20 spans in order, and a ratio differs from span to span as chance makes it (ratio
estimator; Law, *Simulation Modeling and Analysis*, ch. 9).
"""

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from fedsim.common.intervals import half_width
from fedsim.experiment.cautions import drawn_together
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, cut, number
from fedsim.report.gathered import SPANS, TENTH

NORMAL = 1.96  # half of a 95 % interval, in standard deviations of the normal law
_FEWEST = 10 * SPANS  # with fewer rounds than these a span is too short to tell anything
_MOST_GROUPS = 1_000  # more groups than these are not compared
_LONGEST = 40  # characters of a group's name that are shown


@dataclass(frozen=True)
class GroupRate:
    """A group, and how often it takes part."""

    name: str  # as a person wrote it
    times: float  # its share of the participations over its share of the clients: 1 is even
    margin: float  # how far from 1 equal chances for everybody would put that, in 95 of 100 runs

    @property
    def apart(self) -> bool:
        """Whether it differs from even by more than chance."""
        return abs(self.times - 1) > self.margin


@dataclass(frozen=True)
class LargestContrast:
    """Two parts of the clients, of which one takes part more often, client for client, and by more than chance."""

    high: str  # what takes part more often, in words
    low: str  # what takes part less often, in words
    times: float | None  # how many times as often; None where the lower one never does
    margin: float | None  # half of a 95 % interval of that; None for groups, which are compared with equal chances
    least: str  # the lower one, named alone

    @property
    def words(self) -> str:
        """Who takes part how much more often than whom, to the digits that are known."""
        if self.times is None:
            return f"{self.least} never trains"
        if self.margin is not None and self.margin > self.times / 4:
            return f"{self.high} trains at least {number(self.times - self.margin, 2)} times as often as {self.low}"
        many = count(self.times) if self.times >= TENTH else number(self.times, 2)
        return f"{self.high} trains {many} times as often as {self.low}"


def group_rates(run: FinishedRun) -> tuple[GroupRate, ...]:
    """Compare groups with their size, in the order of the scenario; none where there is one, or nobody took part."""
    taken = int(run.clients["participations"].sum())
    if not 1 < run.groups <= _MOST_GROUPS or not taken:
        return ()
    groups = run.clients.group_by("group", maintain_order=True).agg(pl.len(), pl.col("participations").sum())
    draws = taken / drawn_together(run.scenario)
    size = groups["len"].to_numpy() / len(run.clients)
    times = groups["participations"].to_numpy() / taken / size
    margin = NORMAL * np.sqrt((1 - size) / (size * draws))
    return tuple(map(GroupRate, map(str, groups["group"]), times.tolist(), margin.tolist()))


def largest_contrast(run: FinishedRun) -> LargestContrast | None:
    """Find the two parts that differ most for a reason: groups, or the heaviest and the lightest clients.

    None where nobody took part, or there are neither groups nor weights, or they make no difference beyond chance.
    """
    found = [each for each in (_group_contrast(run), _weight_contrast(run)) if each is not None]
    return max(found, key=lambda each: math.inf if each.times is None else each.times, default=None)


def _group_contrast(run: FinishedRun) -> LargestContrast | None:
    groups = group_rates(run)
    if not groups:
        return None
    from scipy.special import ndtri  # takes long to import

    # The more groups there are, the farther chance puts the farthest of them.
    wider = float(-ndtri(0.025 / len(groups))) / NORMAL
    if not any(abs(group.times - 1) > wider * group.margin for group in groups):
        return None
    high, low = (choose(groups, key=lambda group: group.times) for choose in (max, min))
    one, other = f"a device of {cut(high.name, _LONGEST)}", f"one of {cut(low.name, _LONGEST)}"
    times = high.times / low.times if low.times else None
    return LargestContrast(one, other, times, None, f"a device of {cut(low.name, _LONGEST)}")


def _weight_contrast(run: FinishedRun) -> LargestContrast | None:
    turns, weight, clients = run.gathered.turns, run.clients["weight"], len(run.clients)
    if turns is None or weight.max() == weight.min() or not run.clients["participations"].sum():
        return None
    noun = "group" if drawn_together(run.scenario) > 1 else "tenth" if clients >= 2 * TENTH else "client"
    high, low = turns.astype(np.float64).T
    ends = f"the heaviest {noun}", "the lightest"
    if not low.any():
        return LargestContrast(*ends, None, None, f"the lightest {noun}")
    times = float(high.sum() / low.sum())
    spread = math.sqrt(float(np.square(high - times * low).sum()) * SPANS / (SPANS - 1))
    margin = half_width(spread, SPANS) / float(low.sum())
    if len(run.rounds) < _FEWEST or times - margin <= 1:
        return None
    return LargestContrast(*ends, times, margin, f"the lightest {noun}")


@dataclass(frozen=True)
class TenthShares:
    """Shares of all participations that go to the tenth of the clients that took part most, and to the least."""

    # Of this run
    most: float
    least: float
    # Under equal chances for everybody, which also put some clients above others
    most_by_chance: float
    least_by_chance: float


def tenth_shares(run: FinishedRun) -> TenthShares | None:
    """Compare the tenths of the clients at both ends; None below 20 clients, or where nobody took part."""
    counts = np.sort(run.clients["participations"].to_numpy())
    size, taken = len(counts) // TENTH, int(counts.sum())
    if size < 2 or not taken:
        return None
    share = size / len(counts)
    most, least = (_share_by_chance(taken, len(counts), share, upper) for upper in (True, False))
    return TenthShares(float(counts[-size:].sum() / taken), float(counts[:size].sum() / taken), most, least)


def _share_by_chance(taken: int, clients: int, share: float, upper: bool) -> float:
    """Return the share of n participations that the upper or lower part of binomial(n, 1 / N) counts holds."""
    mean = taken / clients
    reach = 12 * math.sqrt(mean) + 12
    count = np.arange(max(0, math.floor(mean - reach)), min(taken, math.ceil(mean + reach)) + 1, dtype=np.float64)
    # Not by `scipy.special`, which takes longer to import than all else here takes.
    ways = math.lgamma(taken + 1) - np.array([math.lgamma(k + 1) + math.lgamma(taken - k + 1) for k in count.tolist()])
    chance = np.exp(ways + count * math.log(1 / clients) + (taken - count) * math.log1p(-1 / clients))
    count, chance = (count[::-1], chance[::-1]) if upper else (count, chance)
    within = np.minimum(np.cumsum(chance), share)
    return float(count @ np.diff(within, prepend=0.0) / mean)


def never_by_chance(taken: int, clients: int) -> float:
    """Return the share of N clients that as many participations with equal chances would leave out."""
    return math.exp(taken * math.log1p(-1 / clients)) if clients > 1 else float(not taken)
