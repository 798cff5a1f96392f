"""(n, b, k)-participation: what matrix mechanisms assume about who takes part, and what a scenario enforces of it.

Only what is enforced counts: the most rounds there can be, the smallest separation, the largest cap. A log that happens
to show better bounds proves nothing; it can only confirm that a promise was kept.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from fedsim.common.arrays import Ints
from fedsim.common.errors import ScenarioError
from fedsim.measure.contributions import Contributions, reports
from fedsim.population import Population
from fedsim.privacy.independence import broken
from fedsim.scenario import Scenario
from fedsim.selection.rules import poisson_chances


class Sampling(NamedTuple):
    """Each client is drawn with a chance q at most, by itself, in every `cycle`-th round alone."""

    chance: float
    cycle: int

    def steps(self, rounds: int) -> int:
        """Return in how many of some rounds one client may be drawn."""
        return -(-rounds // self.cycle)


@dataclass(frozen=True)
class ParticipationBounds:
    """n rounds; two participations of a client are at least b rounds apart, and it has at most k.

    Where clients differ, b is the least and k the most of all, and `pairs` the (b_i, k_i) of clients, of which those
    that others allow too are left out. A `ValueError` is raised if a bound is less than 1.
    """

    rounds: int  # n
    min_separation: int = 1  # b: rounds t < t' have t' - t >= b; an enforced separation R gives b = R + 1
    most: int | None = None  # k; None for no cap
    pairs: tuple[tuple[int, int], ...] = ()  # empty where b and k are those of one client
    sampling: "Sampling | None" = None  # what a secret coin decides; None where epsilon does not count on one

    def __post_init__(self) -> None:
        for name in ("rounds", "min_separation", "most"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")

    @property
    def of_clients(self) -> "tuple[ParticipationBounds, ...]":
        """The bounds of single clients, one of which is the worst for any mechanism."""
        return tuple(ParticipationBounds(self.rounds, b, k) for b, k in self.pairs) or (self,)

    @property
    def participations(self) -> int:
        """Most participations that are possible: min(k, ceil(n / b))."""
        return self._fitting if self.most is None else min(self.most, self._fitting)

    @property
    def capped(self) -> bool:
        """Whether k allows fewer participations than n and b alone would."""
        return self.most is not None and self.most < self._fitting

    @property
    def _fitting(self) -> int:
        return -(-self.rounds // self.min_separation)


def enforced_bounds(scenario: Scenario, population: Population) -> ParticipationBounds:
    """Return n, b and k; a `ScenarioError` is raised if the scenario enforces too little for any promise.

    With synchronous rounds a report is taken in the round of its selection, so b is the smallest R_i + 1. A buffered
    server takes it s versions later. If cool-downs begin with a report, b is the same; if they begin with the
    selection, the next report can be nearer by s, and b is the smallest R_i + 1 less `max_staleness`. With caps on
    participations, k is the most that one client can have by its own cap and separation, and each client is held to its
    own b and k.
    """
    server, most_rounds = scenario.server, scenario.stop.most_rounds
    # From one round in which a client may be drawn to the next so many pass.
    cycle = int(server.selection.options["groups"]) if server.selection.kind == "cyclic_poisson" else 1
    apart = -(-(population.separation + 1) // cycle) * cycle
    least, lag = int(apart.min()), 0
    if mistakes := broken(scenario, population):
        raise ScenarioError(mistakes)
    rounds = int(most_rounds)
    if server.staleness is None and server.cooldown_from == "selected":
        lag = server.max_staleness or 0
    sampling = None
    if scenario.privacy is not None and scenario.privacy.amplification != "none":
        # A client that is drawn may still send nothing: its coin makes no difference to what others send.
        sampling = Sampling(float(poisson_chances(population.weight, server.wanted * cycle).max()), cycle)
    if population.most is None:
        return ParticipationBounds(rounds, least - lag, sampling=sampling)
    most = np.minimum(-(-rounds // (apart - lag)), population.most)
    pairs = widest(apart - lag, most)
    return ParticipationBounds(rounds, least - lag, int(most.max()), pairs if len(pairs) > 1 else (), sampling)


def widest(b: Ints, k: Ints) -> tuple[tuple[int, int], ...]:
    """Return the pairs of b and k (N,) that no other pair allows: none has a smaller or equal b and as large a k."""
    order = np.lexsort((-k, b))
    before = np.maximum.accumulate(np.concatenate([[0], k[order][:-1]]))
    return tuple((int(b[each]), int(k[each])) for each in order[k[order] > before])


def broken_by_clients(
    bounds: ParticipationBounds, separation: Ints, most: Ints, participations: pl.DataFrame | pl.LazyFrame
) -> list[str]:
    """Return a sentence on the first client that a log has too soon or too often for its own R_i and cap (N,).

    Nothing where no client is promised bounds of its own.
    """
    if not bounds.pairs:
        return []
    table = reports(participations).sort("client", "at").collect()
    client, number, texts = table["client"].to_numpy(), table["at"].to_numpy(), list[str]()
    least = separation + 1 - (int(separation.min()) + 1 - bounds.min_separation)
    soon = np.flatnonzero((client[1:] == client[:-1]) & (np.diff(number) < least[client[1:]]))
    if len(soon):
        whom, when = int(client[soon[0] + 1]), number[soon[0] : soon[0] + 2].tolist()
        texts.append(
            f"client {whom} contributed in round {when[0]:,} and again in round {when[1]:,}, and its own b = "
            f"{int(least[whom]):,} was promised"
        )
    times = np.bincount(client, minlength=len(most))
    if len(often := np.flatnonzero(times > most)):
        whom = int(often[0])
        texts.append(f"client {whom} contributed {times[whom]:,} times, and its own k = {most[whom]:,} was promised")
    return texts


def broken_promises(promised: ParticipationBounds, seen: Contributions) -> list[str]:
    """Return a sentence for each part of a promise that a log broke."""
    texts = []
    if seen.last_round >= promised.rounds:
        texts.append(f"round {seen.last_round:,} took reports, and {promised.rounds:,} rounds were promised")
    apart = seen.least_separation
    if apart is not None and apart < promised.min_separation:
        texts.append(
            f"client {seen.least_client} contributed in round {seen.least_round - apart:,} and again in round "
            f"{seen.least_round:,}: {apart:,} apart, and b = {promised.min_separation:,} was promised"
        )
    if seen.most > promised.participations:
        texts.append(
            f"client {seen.most_client} contributed {seen.most:,} times, and k = {promised.participations:,} was "
            "promised"
        )
    return texts
