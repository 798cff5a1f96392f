"""What a run shows of bias: how far from uniform, and whether equal chances for everybody would do that too."""

from dataclasses import dataclass
from enum import Enum

from fedsim.analysis.participation import by_chance
from fedsim.analysis.tally import BATCHES
from fedsim.common.intervals import half_width
from fedsim.experiment.cautions import FEW, beyond_chance, drawn_together, more_even
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import percent

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
    error: float | None  # standard error of `measured`, from batch means; None where there are too few rounds

    @property
    def misplaced(self) -> float:
        """The share of the participations that would have to go to others for all to take part equally."""
        return self.measured / 2

    @property
    def margin(self) -> float | None:
        """Half of the 95 % interval of `misplaced`."""
        return None if self.error is None else half_width(self.error, BATCHES) / 2

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
    elif not beyond_chance(measured, taken, clients, together):
        seen = Seen.TOO_SHORT if few and not narrower else Seen.NONE
    elif few and measured < 2 * fair:
        seen = Seen.UNCLEAR
    elif measured < SLIGHT * fair:
        seen = Seen.SLIGHT
    else:
        seen = Seen.BIAS
    return Bias(seen, measured, fair, narrower and measured > ROUNDING, run.metrics.get("participation.l1_uniform_se"))


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
