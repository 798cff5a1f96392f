"""From "all ready" to stationarity: the running frequencies of participation, of which debiasing weights are made."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats
from fedsim.common.errors import ChainError
from fedsim.theory.question import ask, reduced, whole_number
from fedsim.theory.replicas import rounds_of
from fedsim.theory.result import Stationary
from fedsim.theory.stationary import stationary

_CELLS = 1 << 19  # replicas x clients advanced at once


@dataclass(frozen=True)
class RunningFrequencies:
    """How far the frequencies counted so far are from the stationary law, round by round.

    Parameters
    ----------
    l1
        (T,) estimate of E sum_i abs(lambda_i(t) - pi_i), rows t = 1..T, where lambda_i(t) is the share of client i in
        the participations of the first t rounds: what a server that counts has at hand after t rounds.
    standard_error
        (T,) of that estimate, over replicas.
    limit
        The stationary law compared with.
    replicas
        How many.
    """

    l1: Floats
    standard_error: Floats
    limit: Stationary
    replicas: int


def running_frequencies(
    weights: ArrayLike,
    separation: ArrayLike,
    cohort: int = 1,
    law: str = "midzuno",
    *,
    rounds: int = 200,
    replicas: int = 256,
    seed: int = 0,
    limit: Stationary | None = None,
) -> RunningFrequencies:
    """Distance of the running frequencies from stationarity after 1 to `rounds` rounds, everyone ready at round 0.

    Parameters
    ----------
    weights, separation, cohort, law
        As in `fedsim.theory.stationary`.
    rounds
        T, at least 1.
    replicas
        Independent chains, at least 2.
    seed
        Seed of all draws.
    limit
        Stationary law to compare with; by default that of `fedsim.theory.stationary`.

    Raises
    ------
    ChainError
        If the question makes no sense, or a replica stalls.

    Notes
    -----
    Not the distance of *one round's* law, which `fedsim.theory.convergence` follows: a longer separation makes a cohort
    remember its predecessors for longer, and for that very reason the counts more regular. Where nobody has taken part
    yet (law ``bernoulli``), every lambda_i is 0. Cost O(replicas x rounds x N).
    """
    question = ask(weights, separation, cohort, law)
    count = whole_number(rounds, "the number of rounds", least=1)
    replicas = whole_number(replicas, "the number of replicas", least=2)
    if limit is None:
        limit = stationary(weights, separation, cohort, law, seed=seed)
    if limit.clients != question.clients:
        raise ChainError(
            f"the stationary law to compare with is of {limit.clients} clients and there are {question.clients}: "
            f"give the law of the same clients"
        )
    units = reduced(question)
    pi = limit.pi.reshape(units.clients, -1).sum(axis=1)  # of a group, where groups take part as a whole
    total, squares = np.zeros(count), np.zeros(count)
    batch = max(1, _CELLS // units.clients)
    for first in range(0, replicas, batch):
        play = rounds_of(units, range(first, min(first + batch, replicas)), seed)
        seen: Floats = np.zeros((1, units.clients))
        for now in range(count):
            seen = seen + next(play).chosen
            everyone = seen.sum(axis=1, keepdims=True)
            away = np.abs(seen / np.maximum(everyone, 1.0) - pi).sum(axis=1)
            total[now] += away.sum()
            squares[now] += (away**2).sum()
    mean = total / replicas
    variance = np.maximum(squares / replicas - mean**2, 0.0) * (replicas / (replicas - 1.0))
    return RunningFrequencies(mean, np.sqrt(variance / replicas), limit, replicas)
