"""What a run shows of bias: how far from uniform, and whether equal chances for everybody would do that too."""

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
import polars as pl

from fedsim.analysis.noise import DEGREES, by_chance
from fedsim.common.arrays import Floats, Ints
from fedsim.common.intervals import half_width
from fedsim.experiment.cautions import FEW, beyond_chance, drawn_together, more_even
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.formatting import count, cut, number, percent
from fedsim.findings.gathered import TENTH

ROUNDING = 1e-9  # distances below are zero, written with the rounding errors of their sums
SLIGHT = 1.5  # a distance of less than so many times that of equal chances is chance for the most part


class Seen(Enum):
    """What there is to be seen of a bias."""

    NO_ROUNDS = "the run has no rounds"
    NOBODY = "nobody took part"
    ALONE = "there is one client"
    UNMEASURED = "the distance from uniform was not measured"
    EVEN = "all took part equally often"
    ONCE = "nobody took part twice, and some did not at all"
    TOO_SHORT = "equal chances would do as much, and the run is short"
    NONE = "equal chances would do as much"
    UNCLEAR = "equal chances would do half of it, and the run is short"
    SLIGHT = "equal chances would do most of it"
    BIAS = "far beyond what equal chances would do"


@dataclass(frozen=True)
class Bias:
    """The distance of a run's frequencies from uniform, beside that of equal chances."""

    seen: Seen  # what it comes to
    measured: float  # L1 distance of this run from uniform; 0 where it was not measured
    fair: float  # the same of as many participations with equal chances for everybody
    more_even: bool  # whether participations are more even than equal chances would make them, by more than chance
    error: float | None  # standard error of `measured`, None where too few rounds or days tell
    # The same without noise, and the ends of its 95 % interval; None where that is not known
    lasting: tuple[float, float, float] | None = None
    told: bool = False  # whether it is this that the run tells: chance has much of `measured`, but not all

    @property
    def misplaced(self) -> float:
        """The share of the participations that would have to go to others for all to take part equally."""
        return self.measured / 2

    @property
    def margin(self) -> float | None:
        """Half of the 95 % interval of `misplaced`."""
        return None if self.error is None else half_width(self.error, DEGREES + 1) / 2

    @property
    def titled(self) -> tuple[float, float]:
        """The share that a title names, without noise where that has much of it, and half of its interval."""
        if self.told and self.lasting is not None:
            corrected, low, high = self.lasting
            return corrected / 2, (high - low) / 4
        return self.misplaced, self.margin or 0.0

    @property
    def misplaced_by_chance(self) -> float:
        """That share under equal chances."""
        return self.fair / 2


def bias_of(run: FinishedRun) -> Bias:
    """Compare the distance from uniform with what equal chances for everybody would give."""
    taken, clients = int(run.clients["participations"].sum()), len(run.clients)
    known = run.metrics.get("participation.l1_uniform")
    fair, measured = by_chance(taken, clients), known or 0.0
    few = taken < FEW * clients
    together = drawn_together(run.scenario)
    narrower = more_even(measured, taken, clients, together)
    lasting = [run.metrics.get(f"participation.l1_uniform_{name}") for name in ("corrected", "low", "high")]
    told = few and not narrower and (lasting[1] or 0.0) > ROUNDING
    if run.rounds.is_empty():
        seen = Seen.NO_ROUNDS
    elif not taken:
        seen = Seen.NOBODY
    elif clients < 2:
        seen = Seen.ALONE
    elif known is None:
        seen = Seen.UNMEASURED
    elif measured <= ROUNDING:
        seen = Seen.EVEN
    elif run.clients["participations"].max() == 1:
        seen = Seen.ONCE
    elif told:
        seen = Seen.BIAS
    elif not beyond_chance(measured, taken, clients, together):
        seen = Seen.TOO_SHORT if few and not narrower else Seen.NONE
    elif few and measured < 2 * fair:
        seen = Seen.UNCLEAR
    elif measured < SLIGHT * fair:
        seen = Seen.SLIGHT
    else:
        seen = Seen.BIAS
    corrected, low, high = lasting
    return Bias(
        seen,
        measured,
        fair,
        narrower and measured > ROUNDING,
        run.metrics.get("participation.l1_uniform_se"),
        None if corrected is None or low is None or high is None else (corrected, low, high),
        told and seen is Seen.BIAS,
    )


def turn_share(l1: float) -> str:
    """Write a distance from uniform as the share of the turns that would have to go to others."""
    return percent(l1 / 2 if l1 > ROUNDING else 0.0)


def chance_words(bias: Bias) -> str:
    """Say how the spread of the frequencies compares with that of equal chances; nothing where it was not measured."""
    theirs = f"of equal chances for everybody, which would misplace {percent(bias.misplaced_by_chance)} of the turns"
    own = f"these misplace {turn_share(bias.measured)}"
    if bias.seen in {Seen.BIAS, Seen.SLIGHT, Seen.UNCLEAR}:
        return f"Their spread is wider than that {theirs}: {own}."
    if bias.more_even or bias.seen is Seen.EVEN:
        return f"Their spread is narrower than that {theirs}: {own}."
    return f"Their spread is that {theirs}: {own}." if bias.seen in {Seen.NONE, Seen.TOO_SHORT} else ""


NORMAL = 1.96  # half of a 95 % interval, in standard deviations of the normal law
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
    if (spans := len(turns)) < 2:
        return None
    spread = math.sqrt(float(np.square(high - times * low).sum()) * spans / (spans - 1))
    margin = half_width(spread, spans) / float(low.sum())
    if times - margin <= 1:
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


def fair_counts(taken: int, clients: int) -> tuple[Ints, Floats]:
    """Return the counts that a client can have in a fair lottery, and the probabilities of no more than each."""
    share = 1 / clients
    mean = taken * share
    far = 12 * np.sqrt(mean) + 40
    counts = np.arange(max(0, int(mean - far)), min(taken, int(mean + far)) + 1)
    more = np.log((taken - counts[:-1]) / (counts[:-1] + 1) * share / (1 - share)) if clients > 1 else np.zeros(0)
    logarithms = np.concatenate([[0.0], np.cumsum(more)])
    weights = np.exp(logarithms - logarithms.max())
    return counts, np.cumsum(weights) / weights.sum()


def _share_by_chance(taken: int, clients: int, share: float, upper: bool) -> float:
    """Return the share of the participations that the upper or lower part of the counts of a fair lottery holds."""
    counts, reached = fair_counts(taken, clients)
    step = -1 if upper else 1
    within = np.minimum(np.cumsum(np.diff(reached, prepend=0.0)[::step]), share)
    return float(counts[::step] @ np.diff(within, prepend=0.0) * clients / taken)


def never_by_chance(taken: int, clients: int) -> float:
    """Return the share of N clients that as many participations with equal chances would leave out."""
    return math.exp(taken * math.log1p(-1 / clients)) if clients > 1 else float(not taken)
