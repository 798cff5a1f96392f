"""From which round, and which instant, clients may be selected again."""

from typing import Final, NamedTuple

import numpy as np

from fedsim.common.arrays import Ints
from fedsim.common.instants import each_to_ms
from fedsim.population import Population
from fedsim.scenario.server import Server
from fedsim.selection.law import Remembers

NEVER: Final = 1 << 62
"""The round from which a client may be selected again that has taken part as often as it may."""


class Cooldown(NamedTuple):
    """The first round (or version), and the first instant, that may select each client again: arrays (n,)."""

    from_round: Ints
    from_instant: Ints


def free_round(server: Server, separation: Ints, number: Ints | int) -> Ints:
    """Return the first round, of a buffered server the first version, that may select those who took part in `number`.

    R_i rounds are waited in full: a client of round t is free again in round t + 1 + R_i. A round selects once, so
    where R_i = 0 nothing is left to wait for; a buffered server selects again and again, and R_i = 0 still means once
    in a version.
    """
    free = number + 1 + separation
    return np.where(separation == 0, number, free) if server.selects_once else free


class Cooldowns(Remembers):
    """Begins cool-downs by a scenario's server, and counts participations where clients have a cap on them."""

    remembered = ("_taken",)

    def __init__(self, server: Server, population: Population) -> None:
        self._server, self._population = server, population
        self._taken = np.zeros(0 if population.most is None else len(population), dtype=np.int64)
        kept_out = population.most is not None or population.separation.any() or population.cooldown_s.any()
        self.exclude = bool(kept_out or not server.selects_once)
        """Whether taking part ever keeps a client out, beside the session itself."""

    def begin(self, clients: Ints, number: int, since: Ints | int) -> Cooldown:
        """Count a participation of clients (n,), and return their cool-downs, which begin at the instants `since`.

        `number` is the round in which they were selected; of a buffered server the version at which the cool-down
        begins.
        """
        population = self._population
        from_round = free_round(self._server, population.separation[clients], number)
        if population.most is not None:
            self._taken[clients] += 1
            from_round = np.where(self._taken[clients] >= population.most[clients], NEVER, from_round)
        return Cooldown(from_round, since + each_to_ms(population.cooldown_s[clients]))

    def spent(self) -> Ints:
        """Return the clients that have taken part as often as they may."""
        most = self._population.most
        return np.empty(0, dtype=np.int64) if most is None else np.flatnonzero(self._taken >= most)
