"""Parts of the clients beside each other: groups, the heaviest and the lightest, those that took part most and least.

Groups are compared with what equal chances would give them. The heaviest and the lightest have an interval from batch
means: the rounds are cut into 20 spans in order, and a ratio differs from span to span as chance makes it (ratio
estimator; Law, *Simulation Modeling and Analysis*, ch. 9).
"""

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats
from fedsim.experiment.cautions import drawn_together
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, cut, number
from fedsim.report.gathered import SPANS, TENTH

NORMAL = 1.96
"""Half of a 95 % interval, in standard deviations of the normal law."""

FEWEST = 10 * SPANS
"""With fewer rounds than these a span is too short to tell anything."""

MOST_GROUPS = 1_000
"""More groups than these are not compared."""

LONGEST = 40
"""Characters of a group's name that are shown."""


@dataclass(frozen=True)
class Part:
    """A group, and how often it takes part.

    Parameters
    ----------
    name
        As a person wrote it.
    times
        Its share of the participations over its share of the clients: 1 is even.
    margin
        How far from 1 equal chances for everybody would put that, in 95 of 100 runs.
    """

    name: str
    times: float
    margin: float

    @property
    def apart(self) -> bool:
        """Whether it differs from even by more than chance."""
        return abs(self.times - 1) > self.margin


@dataclass(frozen=True)
class Ends:
    """Two parts of the clients, of which one takes part more often, client for client, and by more than chance.

    Parameters
    ----------
    high, low
        What they are, in words.
    times
        How many times as often; None where the lower one never does.
    margin
        Half of a 95 % interval of that; None for groups, which are compared with equal chances.
    least
        The lower one, named alone.
    """

    high: str
    low: str
    times: float | None
    margin: float | None
    least: str

    @property
    def words(self) -> str:
        """Who takes part how much more often than whom, to the digits that are known."""
        if self.times is None:
            return f"{self.least} never trains"
        if self.margin is not None and self.margin > self.times / 4:
            return f"{self.high} trains at least {number(self.times - self.margin, 2)} times as often as {self.low}"
        many = count(self.times) if self.times >= TENTH else number(self.times, 2)
        return f"{self.high} trains {many} times as often as {self.low}"


def groups_of(run: FinishedRun) -> tuple[Part, ...]:
    """Compare groups with their size, in the order of the scenario; none where there is one, or nobody took part."""
    taken = int(run.clients["participations"].sum())
    if not 1 < run.groups <= MOST_GROUPS or not taken:
        return ()
    groups = run.clients.group_by("group", maintain_order=True).agg(pl.len(), pl.col("participations").sum())
    draws = taken / drawn_together(run.scenario)
    size = groups["len"].to_numpy() / len(run.clients)
    times = groups["participations"].to_numpy() / taken / size
    margin = NORMAL * np.sqrt((1 - size) / (size * draws))
    return tuple(map(Part, map(str, groups["group"]), times.tolist(), margin.tolist()))


def ends_of(run: FinishedRun) -> Ends | None:
    """Find the two parts that differ most for a reason: groups, or the heaviest and the lightest clients.

    None where nobody took part, or there are neither groups nor weights, or they make no difference beyond chance.
    """
    found = [each for each in (_group_ends(run), _weight_ends(run)) if each is not None]
    return max(found, key=lambda each: math.inf if each.times is None else each.times, default=None)


def _group_ends(run: FinishedRun) -> Ends | None:
    groups = groups_of(run)
    if not groups:
        return None
    from scipy.special import ndtri  # takes long to import

    # The more groups there are, the farther chance puts the farthest of them.
    wider = float(-ndtri(0.025 / len(groups))) / NORMAL
    if not any(abs(group.times - 1) > wider * group.margin for group in groups):
        return None
    high, low = (ends(groups, key=lambda group: group.times) for ends in (max, min))
    one, other = f"a device of {cut(high.name, LONGEST)}", f"one of {cut(low.name, LONGEST)}"
    times = high.times / low.times if low.times else None
    return Ends(one, other, times, None, f"a device of {cut(low.name, LONGEST)}")


def _weight_ends(run: FinishedRun) -> Ends | None:
    turns, weight, clients = run.gathered.turns, run.clients["weight"], len(run.clients)
    if turns is None or weight.max() == weight.min() or not run.clients["participations"].sum():
        return None
    noun = "group" if drawn_together(run.scenario) > 1 else "tenth" if clients >= 2 * TENTH else "client"
    high, low = turns.astype(np.float64).T
    if not low.any():
        return Ends(f"the heaviest {noun}", "the lightest", None, None, f"the lightest {noun}")
    times, margin = _ratio(high, low)
    apart = len(run.rounds) >= FEWEST and times - margin > 1
    return Ends(f"the heaviest {noun}", "the lightest", times, margin, f"the lightest {noun}") if apart else None


def _ratio(above: Floats, below: Floats) -> tuple[float, float]:
    """Return sum(above) / sum(below) over the spans, and half of its 95 % interval (Student's t)."""
    from scipy.special import stdtrit  # takes long to import

    ratio = above.sum() / below.sum()
    spread = math.sqrt(float(np.square(above - ratio * below).sum()) * SPANS / (SPANS - 1))
    return float(ratio), float(stdtrit(SPANS - 1, 0.975) * spread / below.sum())


@dataclass(frozen=True)
class Tenths:
    """Shares of all participations that go to the tenth of the clients that took part most, and to the least.

    Parameters
    ----------
    most, least
        Of this run.
    most_by_chance, least_by_chance
        Under equal chances for everybody, which also put some clients above others.
    """

    most: float
    least: float
    most_by_chance: float
    least_by_chance: float


def tenths_of(run: FinishedRun) -> Tenths | None:
    """Compare the tenths of the clients at both ends; None below 20 clients, or where nobody took part."""
    counts = np.sort(run.clients["participations"].to_numpy())
    size, taken = len(counts) // TENTH, int(counts.sum())
    if size < 2 or not taken:
        return None
    share = size / len(counts)
    most, least = (_share_by_chance(taken, len(counts), share, upper) for upper in (True, False))
    return Tenths(float(counts[-size:].sum() / taken), float(counts[:size].sum() / taken), most, least)


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
