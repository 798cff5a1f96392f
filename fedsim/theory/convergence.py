"""From a stated start to stationarity: the law of the participants, round by round."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import ChainError
from fedsim.theory.cohorts import ChainTooLargeError
from fedsim.theory.question import Question, ask, per_client, reduced, whole_number
from fedsim.theory.replicas import rounds_of
from fedsim.theory.result import Stationary
from fedsim.theory.stationary import stationary
from fedsim.theory.windows import enumerate_windows

_METHODS = ("auto", "exact", "monte-carlo")
_EXACT_UP_TO = 20_000  # states
_CELLS = 1 << 19  # replicas x clients advanced at once


@dataclass(frozen=True)
class Convergence:
    """The law of a participant of round t, and its distance from the stationary one.

    Parameters
    ----------
    eta
        (T, N) eta_R(t)[i] = P(i in S_t) / E abs(S_t), rows t = 0..T-1, or its estimate.
    tv
        (T,) TV distance between eta_R(t) and `limit`. This is the distance of the law of *participants* from one start,
        not of the chain's state from the worst start: see `fedsim.theory.mixing` for that.
    noise_floor
        (T,) TV distance that sampling noise alone would give at that round, on average; ``None`` when exact. A measured
        `tv` near it says only that the distance is no larger.
    start
        (N,) rounds that each client still had to wait at round 0.
    limit
        The stationary law compared with; its `separation`, `cohort` and `law` are those of the question.
    method
        ``exact`` or ``monte-carlo``.
    replicas
        How many, for Monte Carlo; 0 when exact.
    """

    eta: Floats
    tv: Floats
    noise_floor: Floats | None
    start: Ints
    limit: Stationary
    method: str
    replicas: int


def convergence(
    weights: ArrayLike,
    separation: ArrayLike,
    cohort: int = 1,
    law: str = "midzuno",
    method: str = "auto",
    *,
    rounds: int = 200,
    start: ArrayLike | None = None,
    replicas: int = 4_096,
    seed: int = 0,
    limit: Stationary | None = None,
) -> Convergence:
    """Law of the participants of rounds 0 to `rounds` - 1 from a stated start, and its TV distance from stationarity.

    Parameters
    ----------
    weights, separation, cohort, law
        As in `fedsim.theory.stationary`.
    method
        ``exact``: multiply the start by the transition matrix; ``monte-carlo``: average over replicas; ``auto``: exact
        up to 20,000 states that can be reached from "all ready", else Monte Carlo.
    rounds
        Number of rounds, T, at least 1.
    start
        (N,) rounds that each client still has to wait at round 0, between 0 and R_i; 0 is ready. All ready by default.
        For ``groups``, equal inside a group.
    replicas
        For Monte Carlo, at least 2.
    seed
        Seed of Monte Carlo.
    limit
        Stationary law to compare with; by default that of `fedsim.theory.stationary`.

    Raises
    ------
    ChainError
        If the question makes no sense, the method cannot answer it, or the chain can stall. ``exact`` refuses a start
        that cannot follow from "all ready".

    Notes
    -----
    Appendix of Sun et al. 2025: N = 100, B = 1, several R. Monte Carlo averages P(i in S_t | past) over replicas rather
    than counting, where the law gives it, which has the same mean and less variance. The noise floor is
    (1/2) sum_i sqrt(2/pi) s_i(t), with s_i(t) the standard error of eta(t)[i].
    """
    if method not in _METHODS:
        raise ChainError(f"there is no method {method!r} for convergence: choose one of {', '.join(_METHODS)}")
    question = ask(weights, separation, cohort, law)
    count = whole_number(rounds, "the number of rounds", least=1)
    waits = _start(question, start)
    if limit is None:
        limit = stationary(weights, separation, cohort, law, seed=seed)
    if limit.clients != question.clients:
        raise ChainError(
            f"the stationary law to compare with is of {limit.clients} clients and there are {question.clients}: "
            f"give the law of the same clients"
        )
    of_units = waits[:: question.cohort] if question.law == "groups" else waits
    eta: Floats | None = None
    noise: Floats | None = None
    if method != "monte-carlo":
        try:
            eta = _exact(reduced(question), count, of_units)
        except ChainTooLargeError:
            if method == "exact":
                raise
    if eta is None:
        replicas = whole_number(replicas, "the number of replicas", least=2)
        eta, noise = _averaged(reduced(question), count, of_units, replicas, seed)
    eta = np.stack([per_client(question, row) for row in eta])
    return Convergence(
        eta=eta,
        tv=np.abs(eta - limit.pi).sum(axis=1) / 2.0,
        noise_floor=noise,
        start=waits,
        limit=limit,
        method="exact" if noise is None else "monte-carlo",
        replicas=0 if noise is None else replicas,
    )


def _start(question: Question, start: ArrayLike | None) -> Ints:
    if start is None:
        return np.zeros(question.clients, dtype=np.int64)
    waits = np.asarray(start)
    if waits.shape != (question.clients,) or waits.dtype.kind not in "iu":
        raise ChainError(
            f"the start has shape {waits.shape} of {waits.dtype}: give each of the {question.clients} clients the "
            f"whole number of rounds that it still has to wait"
        )
    bad = np.flatnonzero((waits < 0) | (waits > question.separations))
    if bad.size:
        raise ChainError(
            f"at the start client {bad[0]} has to wait {waits[bad[0]]} rounds: it must be between 0 and its "
            f"separation, {question.separations[bad[0]]}"
        )
    if question.law == "groups" and np.ptp(waits.reshape(-1, question.cohort), axis=1).any():
        raise ChainError("at the start the clients of a group have different waits: a group takes part as a whole")
    return waits.astype(np.int64)


def _exact(units: Question, count: int, waits: Ints) -> Floats:
    if units.law == "cyclic":
        eta = np.zeros((count, units.clients))
        turns = np.arange(count)[:, None] * units.cohort + np.arange(units.cohort)
        np.put_along_axis(eta, turns % units.clients, 1.0 / units.cohort, axis=1)
        return eta
    windows = enumerate_windows(units, _EXACT_UP_TO)
    here = np.flatnonzero((windows.waits == waits).all(axis=1))
    if not here.size:
        raise ChainError(
            f"the start {waits[:12].tolist()} cannot follow from 'all ready': use a start that can, or 'monte-carlo'"
        )
    forward = windows.matrix().T.tocsr()
    law = np.zeros(windows.count)
    law[here[0]] = 1.0
    eta = np.empty((count, units.clients))
    for now in range(count):
        chances = windows.participation(law[windows.source] * windows.chance)
        eta[now] = chances / chances.sum() if chances.sum() > 0.0 else chances
        law = np.asarray(forward @ law)
    return eta


def _averaged(units: Question, count: int, waits: Ints, replicas: int, seed: int) -> tuple[Floats, Floats]:
    """Return the estimate of eta, and the noise floor of its TV distance."""
    total = np.zeros((count, units.clients))
    squares = np.zeros_like(total)
    batch = max(1, _CELLS // units.clients)
    for first in range(0, replicas, batch):
        play = rounds_of(units, range(first, min(first + batch, replicas)), seed, waits)
        for now in range(count):
            step = next(play)
            chances = step.chosen.astype(np.float64) if step.chances is None else step.chances
            total[now] += chances.sum(axis=0)
            squares[now] += (chances**2).sum(axis=0)
    mean = total / replicas
    variance = np.maximum(squares / replicas - mean**2, 0.0) * (replicas / (replicas - 1.0))
    size = mean.sum(axis=1, keepdims=True)
    size = np.where(size > 0.0, size, 1.0)
    floor = np.sqrt(variance / replicas / (2.0 * np.pi)) / size
    return mean / size, np.asarray(floor.sum(axis=1))
