"""The cool-down: from when a client that has taken part can be selected again."""

from typing import NamedTuple

import numpy as np

from fedsim.common.arrays import Ints
from fedsim.common.instants import each_to_ms
from fedsim.population import Population
from fedsim.scenario.server import BufferedServer, Server


class Cooldown(NamedTuple):
    """Until when clients are kept out: arrays (n,).

    Attributes
    ----------
    until_round
        The first round, of a buffered server the first version, in which their separation lets them in.
    until
        The instant from which their wall-clock cool-down lets them in.
    """

    until_round: Ints
    until: Ints


def cooldown(server: Server, population: Population, clients: Ints, number: int, since: Ints | int) -> Cooldown:
    """Return the cool-down of clients.

    Parameters
    ----------
    server, population
        Whose separations and wall-clock cool-downs are taken, and what counts as a round.
    clients
        (n,) who has taken part.
    number
        The round in which they were selected; the version at which the cool-down begins.
    since
        (n,) instants at which it begins, or one for all.

    Notes
    -----
    `free_round` tells the rule of separation.
    """
    until_round = free_round(server, population.separation[clients], number)
    return Cooldown(until_round, since + each_to_ms(population.cooldown_s[clients]))


def cools(server: Server, population: Population) -> bool:
    """Say whether taking part ever keeps a client out, beside the session itself."""
    if isinstance(server, BufferedServer) or population.most is not None:
        return True
    return bool(population.separation.any() or population.cooldown_s.any())


def free_round(server: Server, separation: Ints, number: Ints | int) -> Ints:
    """Return the first round, of a buffered server the first version, that may select those who took part in `number`.

    R_i rounds are waited in full: whoever takes part in round t is free again in round t + 1 + R_i. A round selects
    once, so where R_i = 0 nothing is left to wait for; a buffered server selects again and again, and R_i = 0 still
    means once in a version.
    """
    free = number + 1 + separation
    return free if isinstance(server, BufferedServer) else np.where(separation == 0, number, free)
