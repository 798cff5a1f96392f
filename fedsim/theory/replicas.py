"""Independent replicas of the chain, advanced together, one round at a time.

Every array has one row per replica. All draws are keyed by (replica, round, client), so the rounds do not
depend on how many replicas there are or how they are split into batches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.errors import ChainError
from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.theory.question import Question


@dataclass(frozen=True)
class ReplicaRound:
    """One round of every replica.

    Parameters
    ----------
    chances
        (replicas, N) probability of taking part given the past, or ``None`` where the law has no simple one
        (successive draws of several clients).
    chosen
        (replicas, N) who takes part.
    """

    chances: Floats | None
    chosen: Bools


def rounds_of(units: Question, replicas: range, seed: int, start: Ints | None = None) -> Iterator[ReplicaRound]:
    """Yield the rounds 0, 1, 2, ... of the replicas named.

    Parameters
    ----------
    units
        A reduced question: law ``midzuno``, ``successive``, ``bernoulli`` or ``cyclic``.
    replicas
        Their numbers; each has its own draws.
    seed
        Seed of all draws.
    start
        (N,) rounds that each client still has to wait at round 0; all ready by default.

    Raises
    ------
    ChainError
        If a replica stalls: fewer than B clients are ready in a round (never with law ``bernoulli``).
    """
    draws = stream(seed, 0, Purpose.CHAIN)
    names = np.asarray(replicas, dtype=np.uint64)[:, None]
    waits = np.zeros(units.clients, dtype=np.int64) if start is None else start
    free_from = np.tile(waits, (len(replicas), 1))
    back = 1 + units.separations
    law = _LAWS[units.law]
    now = 0
    while True:
        ready = free_from <= now
        if units.law != "bernoulli":
            _refuse_stall(units, ready, now)
        played = law(units, ready, _Draws(draws, names, now, units.clients))
        yield played
        free_from = np.where(played.chosen, now + back, free_from)
        now += 1


def participations(units: Question, replicas: range, seed: int, skip: int, rounds: int) -> Floats:
    """Return how often each client takes part in `rounds` rounds after the first `skip`, (replicas, N)."""
    counts = np.zeros((len(replicas), units.clients))
    for played in islice(rounds_of(units, replicas, seed), skip, skip + rounds):
        counts += played.chosen
    return counts


@dataclass(frozen=True)
class _Draws:
    """The draws of one round, addressed by kind: 0 for the leader, 1 + i for client i."""

    draws: Stream
    replicas: NDArray[np.uint64]
    now: int
    clients: int

    def one(self) -> Floats:
        return self.draws.uniforms(self.replicas, self.now * (self.clients + 1))

    def each(self) -> Floats:
        return self.draws.uniforms(
            self.replicas, self.now * (self.clients + 1) + 1 + np.arange(self.clients, dtype=np.uint64)
        )


def _midzuno(units: Question, ready: Bools, draws: _Draws) -> ReplicaRound:
    """One client in proportion to its weight, then B - 1 uniformly among the others that are ready."""
    mass = np.where(ready, units.weights, 0.0)
    total = mass.cumsum(axis=1)
    first = mass / total[:, -1:]
    leader = (total > draws.one() * total[:, -1:]).argmax(axis=1)
    chosen = np.zeros_like(ready)
    rows = np.arange(len(ready))
    if units.cohort > 1:
        keys = np.where(ready, draws.each(), 2.0)
        keys[rows, leader] = 2.0
        chosen = _smallest(keys, units.cohort - 1)
        fill = (units.cohort - 1) / (ready.sum(axis=1, keepdims=True) - 1.0)
        first = np.where(ready, first + (1.0 - first) * fill, 0.0)
    chosen[rows, leader] = True
    return ReplicaRound(first, chosen)


def _successive(units: Question, ready: Bools, draws: _Draws) -> ReplicaRound:
    """Take the B first of independent exponential clocks of rates p_i: Plackett-Luce (Efraimidis-Spirakis 2006)."""
    clocks = np.where(ready, -np.log(draws.each()) / units.weights, np.inf)
    return ReplicaRound(None, _smallest(clocks, units.cohort))


def _bernoulli(units: Question, ready: Bools, draws: _Draws) -> ReplicaRound:
    """Each with probability min(1, s p_i): in order of weight, client j is certain when s p_j would reach 1."""
    order = np.argsort(-units.weights, kind="stable")
    here = ready[:, order]
    mass = np.where(here, units.weights[order], 0.0)
    tail = mass[:, ::-1].cumsum(axis=1)[:, ::-1]
    left = units.cohort - (here.cumsum(axis=1) - here)
    certain = here & (mass * left >= tail)
    spare = units.cohort - certain.sum(axis=1, keepdims=True)
    rest = np.where(certain, 0.0, mass)
    free = rest.sum(axis=1, keepdims=True)
    chances = np.where(certain, 1.0, rest * (np.maximum(spare, 0) / np.where(free > 0.0, free, 1.0)))
    few = here.sum(axis=1, keepdims=True) <= units.cohort
    chances = np.where(few, here.astype(np.float64), np.minimum(chances, 1.0))
    in_order = np.empty_like(chances)
    in_order[:, order] = chances
    return ReplicaRound(in_order, draws.each() < in_order)


def _cyclic(units: Question, ready: Bools, draws: _Draws) -> ReplicaRound:
    chosen = np.zeros_like(ready)
    chosen[:, (draws.now * units.cohort + np.arange(units.cohort)) % units.clients] = True
    return ReplicaRound(chosen.astype(np.float64), chosen)


_LAWS = {"midzuno": _midzuno, "successive": _successive, "bernoulli": _bernoulli, "cyclic": _cyclic}


def _smallest(keys: Floats, count: int) -> Bools:
    """Mark the `count` smallest keys of each row."""
    places = np.argpartition(keys, count - 1, axis=1)[:, :count]
    marked = np.zeros(keys.shape, dtype=np.bool_)
    np.put_along_axis(marked, places, values=True, axis=1)
    return marked


def _refuse_stall(units: Question, ready: Bools, now: int) -> None:
    count = ready.sum(axis=1)
    if count.min() < units.cohort:
        replica = int(count.argmin())
        waiting = np.flatnonzero(~ready[replica])[:8].tolist()
        raise ChainError(
            f"the chain stalls: by round {now} of replica {replica}, {count[replica]} of {units.clients} are ready "
            f"and a cohort takes {units.cohort} (among those waiting: {waiting}). No round can start, so none of "
            f"them ever comes back: lower the cohort or the longest separations"
        )
