"""Every state that the chain can reach, its transitions, and the law of one round.

The order of past cohorts matters only through the rounds that each client still has to wait, so a state is that (N,)
vector. It starts at zero, all ready, and a round takes it to R_i for the chosen clients and one less for the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, log10
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bools, Floats
from fedsim.common.errors import CannotAnswerError, ChainError
from fedsim.common.keyed import Purpose, stream
from fedsim.common.later import sparse, special
from fedsim.selection.rules import rule_of
from fedsim.theory.question import AnyRule, Question

LARGEST = 100_000  # states
_TRANSITIONS_PER_STATE = 20  # on average
_INSTEAD = (
    "use the method 'mean-field' (many clients) or 'monte-carlo' (any), or 'closed-form' where the separation is common"
)


class _Choice(NamedTuple):
    """What a round can do when the same clients are ready: the cohorts, their numbers, and the waits that follow."""

    members: Bools
    chances: Floats
    waits: NDArray[np.int32]
    numbers: NDArray[np.intp]


@dataclass(frozen=True)
class Windows:
    """The reachable states, numbered from 0 (all ready), and one entry per transition."""

    waits: NDArray[np.int32]  # (states, N) rounds that each client still has to wait
    source: NDArray[np.intp]  # (transitions,) numbers of the states
    target: NDArray[np.intp]
    chance: Floats  # (transitions,)
    cohort: NDArray[np.intp]  # (transitions,) rows of `members`
    members: Bools  # (cohorts, N) who takes part

    @property
    def count(self) -> int:
        """Number of states."""
        return len(self.waits)

    def matrix(self) -> "sparse.csr_array[np.float64, tuple[int, int]]":
        """Transition matrix, (states, states), rows summing to 1."""
        shape = (self.count, self.count)
        return sparse.coo_array((self.chance, (self.source, self.target)), shape=shape).tocsr()

    def participation(self, flow: Floats) -> Floats:
        """Sum over transitions of `flow` times who takes part, (N,)."""
        weight = np.bincount(self.cohort, weights=flow, minlength=len(self.members))
        return np.asarray(weight @ self.members)


def enumerate_windows(question: Question, limit: int = LARGEST) -> Windows:
    """Visit every state that can follow from "all ready"; the question is a reduced one.

    Raises a `ChainError` if there are more states than `limit` (or more than 20 times as many transitions), or the
    chain can stall: a state can be reached in which fewer than B clients are ready. A rule of no fixed size takes all
    that are ready, and never stalls.
    """
    _refuse_above(limit, "states", _log_windows(question, limit))
    if question.rule.fixed_size:  # all are ready at first: before anything of 10^6 clients is sorted
        first_cohorts = _log_cohorts(question.clients, question.cohort)
        _refuse_above(limit * _TRANSITIONS_PER_STATE, "transitions", first_cohorts)
    keys = stream(0, 0, Purpose.CHAIN).bits(np.arange(question.clients), 0)
    number = {0: 0}
    fresh = np.zeros((1, question.clients), dtype=np.int32)
    waits = [fresh]
    choices: dict[bytes, _Choice] = {}
    pieces: list[tuple[NDArray[np.intp], NDArray[np.intp], Floats, NDArray[np.intp]]] = []
    first = transitions = 0
    while len(fresh):
        unseen: list[NDArray[np.int32]] = []
        for here, name in _alike(fresh == 0):
            if name not in choices:
                choices[name] = _choice(question, fresh[here[0]], choices, limit)
            choice = choices[name]
            transitions += here.size * len(choice.members)
            _refuse_above(limit * _TRANSITIONS_PER_STATE, "transitions", log10(transitions))
            after = np.maximum(fresh[here] - 1, 0)[:, None, :] + choice.waits
            target = _numbered(after.reshape(-1, question.clients), keys, number, unseen)
            _refuse_above(limit, "states", log10(len(number)))
            source = np.repeat(first + here, len(choice.members))
            pieces.append((source, target, np.tile(choice.chances, here.size), np.tile(choice.numbers, here.size)))
        first += len(fresh)
        fresh = np.concatenate(unseen) if unseen else fresh[:0]
        waits.append(fresh)
    source, target, chance, cohort = (np.concatenate(part) for part in zip(*pieces, strict=True))
    members = np.concatenate([choice.members for choice in choices.values()])
    return Windows(np.concatenate(waits), source, target, chance, cohort, members)


def _alike(ready: Bools) -> Iterator[tuple[NDArray[np.intp], bytes]]:
    """Group states by who is ready: the rows of each group, and a name for it."""
    patterns, of, counts = np.unique(np.packbits(ready, axis=1), axis=0, return_inverse=True, return_counts=True)
    rows = np.split(np.argsort(of.ravel(), kind="stable"), np.cumsum(counts)[:-1])
    return zip(rows, (pattern.tobytes() for pattern in patterns), strict=True)


def _choice(question: Question, waits: NDArray[np.int32], choices: dict[bytes, _Choice], limit: int) -> _Choice:
    ready = np.flatnonzero(waits == 0)
    _refuse_stall(question, ready, waits)
    if question.rule.fixed_size:
        _refuse_above(limit * _TRANSITIONS_PER_STATE, "transitions", _log_cohorts(ready.size, question.cohort))
    among, chances = cohorts(question.rule, question.weights[ready], question.cohort)
    members = np.zeros((len(among), question.clients), dtype=np.bool_)
    members[:, ready] = among
    waits_after = np.where(members, question.separations, 0).astype(np.int32)
    first = sum(len(each.members) for each in choices.values())
    return _Choice(members, chances, waits_after, np.arange(first, first + len(among)))


def _numbered(
    states: NDArray[np.int32], keys: NDArray[np.uint64], number: dict[int, int], unseen: list[NDArray[np.int32]]
) -> NDArray[np.intp]:
    """Number states by their random 64-bit fingerprint, appending those not seen before to `found`."""
    prints = (states.astype(np.uint64) * keys).sum(axis=1, dtype=np.uint64)
    distinct, where, of = np.unique(prints, return_index=True, return_inverse=True)
    if not np.array_equal(states[where][of], states):  # pragma: no cover - chance 1e-9
        raise AssertionError("two states have the same fingerprint")
    before = len(number)
    numbers = [number.setdefault(value, len(number)) for value in distinct.tolist()]
    new = np.array(numbers) >= before
    if new.any():
        unseen.append(states[where[new]])
    return np.array(numbers, dtype=np.intp)[of]


def _log_cohorts(clients: int, size: int) -> float:
    """Return log10 of the number of cohorts among so many ready clients."""
    ways = special.gammaln(clients + 1.0) - special.gammaln(size + 1.0) - special.gammaln(clients - size + 1.0)
    return float(ways) / log(10.0)


def _log_windows(question: Question, limit: int) -> float:
    """Return log10 of the number of windows of R disjoint cohorts, or of enough of them to exceed the limit.

    Zero where the separation is not common, and where cohorts have no fixed size: those are counted on the way.
    """
    total = 0.0
    if isinstance(question.separation, int) and question.rule.fixed_size:
        for k in range(question.separation):
            total += _log_cohorts(question.clients - k * question.cohort, question.cohort)
            if total > 2.0 * log10(limit) + 12.0:
                break
    return total


def _refuse_above(most: int, what: str, log_count: float) -> None:
    if log_count > log10(most) + 1e-9:
        count = f"{10.0**log_count:.6g}" if log_count < 300.0 else f"10^{log_count:.0f}"
        raise CannotAnswerError(
            f"the chain has {count} {what} or more, and {most} is the limit of the exact method: {_INSTEAD}"
        )


def _refuse_stall(question: Question, ready: NDArray[np.intp], waits: NDArray[np.int32]) -> None:
    if ready.size >= question.cohort or not question.rule.fixed_size:
        return
    waiting = np.flatnonzero(waits)
    listed = ", ".join(f"client {i} for {waits[i]}" for i in waiting[:8]) + (", ..." if waiting.size > 8 else "")
    raise ChainError(
        f"the chain stalls: it can reach a state in which {ready.size} of {question.clients} clients are "
        f"ready and a cohort takes {question.cohort} (still waiting, in rounds: {listed}). No round can start, "
        f"so none of them ever comes back: lower the cohort or the longest separations"
    )


def cohorts(rule: AnyRule, weights: Floats, size: int) -> tuple[Bools, Floats]:
    """Return which ready clients each cohort of a round holds, (cohorts, n), and the cohorts' probabilities, of sum 1.

    Weights, (n,), are those of the ready clients; n is at least B, the `size`, where cohorts have a fixed one. Raises a
    `CannotAnswerError` if there are too many cohorts to enumerate, or the rule does not say.
    """
    members, chances = rule_of(rule).cohorts(weights, size)
    possible = chances > 0.0  # a product of tiny weights can underflow
    return members[possible], chances[possible] / chances.sum()
