"""Monte Carlo: independent replicas of the chain, advanced together, and participation counted over them.

Every array has one row per replica. All draws are keyed by (replica, round, client), so the rounds do not depend on how
many replicas there are or how they are split into batches.
"""

from collections.abc import Iterator
from itertools import count, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.errors import ChainError
from fedsim.common.keyed import Purpose, stream
from fedsim.selection.rules import MIDZUNO
from fedsim.theory.question import AnyRule, Question, Stationary, ask, per_client, reduced, whole_number

CELLS = 1 << 19
"""Replicas times clients that are advanced at once, where chances are kept."""
_REPLICAS = 64
_STEPS = 50_000_000  # replicas x rounds x clients, by default
_COUNTED_CELLS = 1 << 21  # replicas x clients advanced at once


def monte_carlo(
    weights: ArrayLike,
    separation: ArrayLike,
    cohort: int = 1,
    law: AnyRule = MIDZUNO,
    *,
    seed: int = 0,
    replicas: int = _REPLICAS,
    rounds: int | None = None,
    burn_in: int | None = None,
) -> Stationary:
    """Estimate stationary participation by simulation, for any question of `stationary`, in O(replicas x rounds x N).

    In each of the `replicas`, 2 or more independent chains, so many `rounds` are counted, 1 or more (by default what
    makes 5e7 steps of one client, within 500 and 20,000), after the `burn_in`: rounds from "all ready" on, by default a
    quarter of `rounds`, and at least four times the longest separation.

    `standard_error` of the result is the spread of the replicas' shares over the square root of their number: replicas
    are independent, so it holds whatever the correlation between rounds. What the burn-in leaves of the start is not
    part of it. It is never below the share of one participation, which is all that is known of a client never seen.

    Raises a `ChainError` if the question makes no sense, or a replica stalls.
    """
    question = ask(weights, separation, cohort, law)
    units = reduced(question)
    replicas = whole_number(replicas, "the number of replicas", least=2)
    if rounds is None:
        rounds = int(np.clip(_STEPS // (replicas * units.clients), 500, 20_000))
    rounds = whole_number(rounds, "the number of rounds", least=1)
    enough = max(rounds // 4, 4 * (int(question.separations.max()) + 1))
    skip = enough if burn_in is None else whole_number(burn_in, "the burn-in")

    # Sums over replicas of each client's count, its square and its product with the total; exact, being integers.
    sums, total, total_square, pulled = np.zeros((3, units.clients)), 0.0, 0.0, np.zeros(units.clients)
    for batch in batches(replicas, units.clients, _COUNTED_CELLS):
        counts, weights = counted(units, batch, seed, skip, rounds)
        pulled += weights
        totals = counts.sum(axis=1)
        sums += [counts.sum(axis=0), (counts**2).sum(axis=0), totals @ counts]
        total, total_square = total + float(totals.sum()), total_square + float(totals @ totals)
    # The ratio of sums, and its standard error by the delta method (the total varies where cohorts have no fixed size).
    shares = sums[0] / total
    residual = sums[1] - 2.0 * shares * sums[2] + shares**2 * total_square
    spread = np.sqrt(np.maximum(residual, 0.0) / (replicas - 1.0) * replicas)
    error = per_client(question, np.maximum(spread, 1.0) / total)
    pi, pull = per_client(question, shares), None if units.rule.fixed_size else pulled / pulled.sum()
    return Stationary(*question.asked, pi, method="monte-carlo", standard_error=error, pull=pull)


def batches(replicas: int, clients: int, cells: int) -> Iterator[range]:
    """Yield the numbers of replicas that are advanced at once, so that memory is bounded."""
    step = max(1, cells // clients)
    return (range(first, min(first + step, replicas)) for first in range(0, replicas, step))


class ReplicaRound(NamedTuple):
    """One round of every replica: who takes part, (replicas, N), and with which probability given the past."""

    chances: Floats | None  # None where the rule knows none
    chosen: Bools


def rounds_of(units: Question, replicas: range, seed: int, start: Ints | None = None) -> Iterator[ReplicaRound]:
    """Yield the rounds 0, 1, 2, ... of the replicas with these numbers, of a reduced question.

    `start`, (N,), is how many rounds each client still has to wait at round 0; all are ready by default.

    Raises a `ChainError` if a replica stalls: fewer than B clients are ready in a round (only where cohorts have a
    fixed size).
    """
    draws = stream(seed, 0, Purpose.CHAIN)
    names = np.asarray(replicas, dtype=np.uint64)[:, None]
    waits = np.zeros(units.clients, dtype=np.int64) if start is None else start
    free_from = np.tile(waits, (len(replicas), 1))
    back = 1 + units.separations
    for now in count():
        ready = free_from <= now
        if units.rule.fixed_size:
            _refuse_stall(units, ready, now)

        def draw(place: int | NDArray[np.uint64], first: int = now * (units.clients + 1)) -> Floats:
            return draws.uniforms(names, first + place)

        if units.rule.in_turn:
            chosen = np.zeros_like(ready)
            chosen[:, (now * units.cohort + np.arange(units.cohort)) % units.clients] = True
            played = ReplicaRound(chosen.astype(np.float64), chosen)
        else:
            played = ReplicaRound(*units.rule.play(units.weights, ready, units.cohort, draw))
        yield played
        free_from = np.where(played.chosen, now + back, free_from)


def counted(units: Question, replicas: range, seed: int, skip: int, rounds: int) -> tuple[Floats, Floats]:
    """Return how often each client takes part in `rounds` rounds after the first `skip`, (replicas, N).

    With it, the sums of 1/|S| over these, (N,); zeros where cohorts have one size.
    """
    counts, weights = np.zeros((len(replicas), units.clients)), np.zeros(units.clients)
    for played in islice(rounds_of(units, replicas, seed), skip, skip + rounds):
        counts += played.chosen
        if not units.rule.fixed_size:
            weights += (1.0 / np.maximum(played.chosen.sum(axis=1), 1)) @ played.chosen
    return counts, weights


def _refuse_stall(units: Question, ready: Bools, now: int) -> None:
    enough = ready.sum(axis=1)
    if enough.min() < units.cohort:
        replica = int(enough.argmin())
        waiting = np.flatnonzero(~ready[replica])[:8].tolist()
        raise ChainError(
            f"the chain stalls: by round {now} of replica {replica}, {enough[replica]} of {units.clients} are ready "
            f"and a cohort takes {units.cohort} (among those waiting: {waiting}). No round can start, so none of "
            f"them ever comes back: lower the cohort or the longest separations"
        )
