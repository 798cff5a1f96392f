"""Every state that the chain can reach, and its transitions.

The order of past cohorts matters only through the rounds that each client still has to wait, so a state is
that (N,) vector. It starts at zero, all ready, and a round takes it to R_i for the chosen clients and one
less for the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, log10
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bools, Floats
from fedsim.common.errors import ChainError
from fedsim.common.keyed import Purpose, stream
from fedsim.theory.cohorts import ChainTooLargeError, cohorts
from fedsim.theory.question import Question

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LARGEST = 100_000  # states
_TRANSITIONS_PER_STATE = 20  # on average
_INSTEAD = (
    "use the method 'mean-field' (many clients) or 'monte-carlo' (any), or 'closed-form' where the separation is common"
)


@dataclass(frozen=True)
class _Choice:
    """What a round can do when the same clients are ready: the cohorts, and the waits that they begin."""

    members: Bools
    chances: Floats
    waits: NDArray[np.int32]
    offset: int

    @property
    def count(self) -> int:
        return len(self.members)


_Transitions: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp], Floats, NDArray[np.intp]]


@dataclass(frozen=True)
class Windows:
    """The reachable states, numbered from 0 (all ready), and one entry per transition.

    Parameters
    ----------
    waits
        (states, N) rounds that each client still has to wait.
    source, target
        (transitions,) numbers of the states.
    chance
        (transitions,) probabilities.
    cohort
        (transitions,) rows of `members`.
    members
        (cohorts, N) who takes part.
    """

    waits: NDArray[np.int32]
    source: NDArray[np.intp]
    target: NDArray[np.intp]
    chance: Floats
    cohort: NDArray[np.intp]
    members: Bools

    @property
    def count(self) -> int:
        """Number of states."""
        return len(self.waits)

    def matrix(self) -> "csr_array[np.float64, tuple[int, int]]":
        """Transition matrix, (states, states), rows summing to 1."""
        from scipy.sparse import coo_array

        shape = (self.count, self.count)
        return coo_array((self.chance, (self.source, self.target)), shape=shape).tocsr()

    def participation(self, flow: Floats) -> Floats:
        """Sum over transitions of `flow` times who takes part, (N,)."""
        weight = np.bincount(self.cohort, weights=flow, minlength=len(self.members))
        return np.asarray(weight @ self.members)


def _log_cohorts(clients: int, size: int) -> float:
    """Return log10 of the number of cohorts among so many ready clients."""
    from scipy.special import gammaln  # takes long to import

    return float(gammaln(clients + 1.0) - gammaln(size + 1.0) - gammaln(clients - size + 1.0)) / log(10.0)


def _log_windows(question: Question, limit: int) -> float:
    """Return log10 of the number of windows of R disjoint cohorts, or of enough of them to exceed the limit.

    Zero where the separation is not common, and for ``bernoulli``: those are counted on the way.
    """
    total = 0.0
    if isinstance(question.separation, int) and question.law != "bernoulli":
        for k in range(question.separation):
            total += _log_cohorts(question.clients - k * question.cohort, question.cohort)
            if total > 2.0 * log10(limit) + 12.0:
                break
    return total


def enumerate_windows(question: Question, limit: int = LARGEST) -> Windows:
    """Visit every state that can follow from "all ready".

    Parameters
    ----------
    question
        Law ``midzuno``, ``successive`` or ``bernoulli``.
    limit
        Most states to visit.

    Raises
    ------
    ChainError
        If there are more states than `limit` (or more than 20 times as many transitions), or if a state can
        be reached in which fewer than B clients are ready. Waiting is counted in rounds, so that round would
        wait for ever: the chain stalls. Law ``bernoulli`` never does, because it takes whoever is ready.
    """
    _refuse_above(limit, "states", _log_windows(question, limit))
    keys = stream(0, 0, Purpose.CHAIN).bits(np.arange(question.clients), 0)
    number = {0: 0}
    fresh = np.zeros((1, question.clients), dtype=np.int32)
    waits = [fresh]
    choices: dict[bytes, _Choice] = {}
    pieces: list[_Transitions] = []
    first = transitions = 0
    while len(fresh):
        found: list[NDArray[np.int32]] = []
        for here, name in _alike(fresh == 0):
            choice = choices.get(name)
            if choice is None:
                choice = _choice(question, fresh[here[0]], choices, limit)
                choices[name] = choice
            transitions += here.size * choice.count
            _refuse_above(limit * _TRANSITIONS_PER_STATE, "transitions", log10(transitions))
            after = np.maximum(fresh[here] - 1, 0)[:, None, :] + choice.waits
            target = _numbered(after.reshape(-1, question.clients), keys, number, found)
            _refuse_above(limit, "states", log10(len(number)))
            cohort = np.arange(choice.offset, choice.offset + choice.count)
            pieces.append(
                (
                    np.repeat(first + here, choice.count),
                    target,
                    np.tile(choice.chances, here.size),
                    np.tile(cohort, here.size),
                )
            )
        first += len(fresh)
        fresh = np.concatenate(found) if found else fresh[:0]
        waits.append(fresh)
    source, target, chance, cohort = (np.concatenate(part) for part in zip(*pieces, strict=True))
    return Windows(
        waits=np.concatenate(waits),
        source=source,
        target=target,
        chance=chance,
        cohort=cohort,
        members=np.concatenate([choice.members for choice in choices.values()]),
    )


def _alike(ready: Bools) -> Iterator[tuple[NDArray[np.intp], bytes]]:
    """Group states by who is ready: the rows of each group, and a name for it."""
    patterns, of = np.unique(np.packbits(ready, axis=1), axis=0, return_inverse=True)
    order = np.argsort(of.ravel(), kind="stable")
    bounds = np.searchsorted(of.ravel()[order], np.arange(len(patterns) + 1))
    for k, pattern in enumerate(patterns):
        yield order[bounds[k] : bounds[k + 1]], pattern.tobytes()


def _choice(question: Question, waits: NDArray[np.int32], known: dict[bytes, _Choice], limit: int) -> _Choice:
    ready = np.flatnonzero(waits == 0)
    _refuse_stall(question, ready, waits)
    if question.law != "bernoulli":
        _refuse_above(limit * _TRANSITIONS_PER_STATE, "transitions", _log_cohorts(ready.size, question.cohort))
    among, chances = cohorts(question.law, question.weights[ready], question.cohort)
    members = np.zeros((len(among), question.clients), dtype=np.bool_)
    members[:, ready] = among
    return _Choice(
        members=members,
        chances=chances,
        waits=np.where(members, question.separations, 0).astype(np.int32),
        offset=sum(choice.count for choice in known.values()),
    )


def _numbered(
    states: NDArray[np.int32],
    keys: NDArray[np.uint64],
    number: dict[int, int],
    found: list[NDArray[np.int32]],
) -> NDArray[np.intp]:
    """Number states by their random 64-bit fingerprint, appending those not seen before to `found`."""
    prints = (states.astype(np.uint64) * keys).sum(axis=1, dtype=np.uint64)
    distinct, where, of = np.unique(prints, return_index=True, return_inverse=True)
    if not np.array_equal(states[where][of], states):  # pragma: no cover - chance 1e-9
        raise AssertionError("two states have the same fingerprint")
    known = len(number)
    numbers = [number.setdefault(value, len(number)) for value in distinct.tolist()]
    new = np.array(numbers) >= known
    if new.any():
        found.append(states[where[new]])
    return np.array(numbers, dtype=np.intp)[of]


def _refuse_above(most: int, what: str, log_count: float) -> None:
    if log_count > log10(most) + 1e-9:
        count = f"{10.0**log_count:.6g}" if log_count < 300.0 else f"10^{log_count:.0f}"
        raise ChainTooLargeError(
            f"the chain has {count} {what} or more, and {most} is the limit of the exact method: {_INSTEAD}"
        )


def _refuse_stall(question: Question, ready: NDArray[np.intp], waits: NDArray[np.int32]) -> None:
    if ready.size >= question.cohort or question.law == "bernoulli":
        return
    waiting = np.flatnonzero(waits)
    listed = ", ".join(f"client {i} for {waits[i]}" for i in waiting[:8]) + (", ..." if waiting.size > 8 else "")
    raise ChainError(
        f"the chain stalls: it can reach a state in which {ready.size} of {question.clients} clients are "
        f"ready and a cohort takes {question.cohort} (still waiting, in rounds: {listed}). No round can start, "
        f"so none of them ever comes back: lower the cohort or the longest separations"
    )
