"""From a stated start to stationarity: the law of the participants of each round, and frequencies counted so far."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import CannotAnswerError, ChainError
from fedsim.selection.rules import MIDZUNO
from fedsim.theory.monte_carlo import CELLS, batches, rounds_of
from fedsim.theory.question import AnyRule, Question, Stationary, ask, per_client, reduced, whole_number
from fedsim.theory.stationary import EXACT_UP_TO, stationary
from fedsim.theory.windows import enumerate_windows

_METHODS = ("auto", "exact", "monte-carlo")


@dataclass(frozen=True)
class Convergence:
    """The law of a participant of round t, and its distance from the stationary one."""

    eta: Floats = field(repr=False)  # (T, N) eta_R(t)[i] = P(i in S_t) / E abs(S_t), rows t = 0..T-1, or its estimate
    # (T,) TV distance between eta_R(t) and `limit`. This is the distance of the law of *participants* from one start,
    # not of the chain's state from the worst start: see `fedsim.theory.mixing` for that.
    tv: Floats = field(repr=False)
    # (T,) TV distance that sampling noise alone would give at that round, on average; ``None`` when exact. A measured
    # `tv` near it says only that the distance is no larger.
    noise_floor: Floats | None = field(repr=False)
    start: Ints = field(repr=False)  # (N,) rounds that each client still had to wait at round 0
    # The stationary law compared with; its `separation`, `cohort` and `law` are those of the question
    limit: Stationary
    method: str  # ``exact`` or ``monte-carlo``
    replicas: int  # how many, for Monte Carlo; 0 when exact


def convergence(
    weights: ArrayLike,
    separation: ArrayLike,
    cohort: int = 1,
    law: AnyRule = MIDZUNO,
    method: str = "auto",
    *,
    rounds: int = 200,
    start: ArrayLike | None = None,
    replicas: int = 4_096,
    seed: int = 0,
    limit: Stationary | None = None,
) -> Convergence:
    """Law of the participants of rounds 0 to `rounds` - 1 from a stated start, and its TV distance from stationarity.

    The question is as in `stationary`, whose answer is the `limit` that is compared with unless another is given.
    `start`, (N,), is how many rounds each client still has to wait at round 0, between 0 and R_i and equal inside a
    group; all are ready by default. The method is ``exact``: multiply the start by the transition matrix;
    ``monte-carlo``: average over 2 replicas or more; or ``auto``: exact up to 20,000 states that can be reached from
    "all ready", else Monte Carlo.

    Raises a `ChainError` if the question makes no sense, the method cannot answer it, or the chain can stall. ``exact``
    refuses a start that cannot follow from "all ready".

    Appendix of Sun et al. 2025: N = 100, B = 1, several R. Monte Carlo averages P(i in S_t | past) over replicas rather
    than counting, where the law gives it, which has the same mean and less variance. The noise floor is
    (1/2) sum_i sqrt(2/pi) s_i(t), with s_i(t) the standard error of eta(t)[i].
    """
    if method not in _METHODS:
        raise ChainError(f"there is no method {method!r} for convergence: choose one of {', '.join(_METHODS)}")
    question, count = ask(weights, separation, cohort, law), whole_number(rounds, "the number of rounds", least=1)
    waits, units, limit = _start(question, start), reduced(question), _limit(question, limit, seed)
    of_units = waits[:: question.clients // units.clients]
    eta, noise, averaged = None, None, 0
    if method != "monte-carlo":
        try:
            eta = _exact(units, count, of_units)
        except CannotAnswerError:
            if method == "exact":
                raise
    if eta is None:
        averaged = whole_number(replicas, "the number of replicas", least=2)
        eta, noise = _averaged(units, count, of_units, averaged, seed)
    eta = np.stack([per_client(question, row) for row in eta])
    tv = np.abs(eta - limit.pi).sum(axis=1) / 2.0
    return Convergence(eta, tv, noise, waits, limit, "monte-carlo" if averaged else "exact", averaged)


@dataclass(frozen=True)
class RunningFrequencies:
    """How far the frequencies counted so far are from the stationary law, round by round.

    `l1`, (T,), estimates E sum_i abs(lambda_i(t) - pi_i), rows t = 1..T, where lambda_i(t) is the share of client i in
    the participations of the first t rounds: what a server that counts has at hand after t rounds. `standard_error`,
    (T,), is that of the estimate over so many replicas, and `limit` the stationary law compared with.
    """

    l1: Floats = field(repr=False)
    standard_error: Floats = field(repr=False)
    limit: Stationary
    replicas: int


def running_frequencies(
    weights: ArrayLike,
    separation: ArrayLike,
    cohort: int = 1,
    law: AnyRule = MIDZUNO,
    *,
    rounds: int = 200,
    replicas: int = 256,
    seed: int = 0,
    limit: Stationary | None = None,
) -> RunningFrequencies:
    """Distance of the running frequencies from stationarity after 1 to `rounds` rounds, everyone ready at round 0.

    Parameters are as in `convergence`, always by Monte Carlo; cost O(replicas x rounds x N). Where nobody has taken
    part yet (where cohorts may be empty), every lambda_i is 0.

    Raises a `ChainError` if the question makes no sense, or a replica stalls.
    """
    question, count = ask(weights, separation, cohort, law), whole_number(rounds, "the number of rounds", least=1)
    replicas = whole_number(replicas, "the number of replicas", least=2)
    units, limit = reduced(question), _limit(question, limit, seed)
    pi = limit.pi.reshape(units.clients, -1).sum(axis=1)  # of a group, where groups take part as a whole

    def away(batch: range) -> Iterator[Floats]:
        seen: Floats = np.zeros((1, units.clients))
        for played in islice(rounds_of(units, batch, seed), count):
            seen = seen + played.chosen
            yield np.abs(seen / np.maximum(seen.sum(axis=1, keepdims=True), 1.0) - pi).sum(axis=1)

    mean, variance = _moments(away, replicas, units.clients)
    return RunningFrequencies(mean, np.sqrt(variance / replicas), limit, replicas)


def _limit(question: Question, limit: Stationary | None, seed: int) -> Stationary:
    limit = limit or stationary(*question.asked, seed=seed)
    if limit.clients != question.clients:
        raise ChainError(
            f"the stationary law to compare with is of {limit.clients} clients and there are {question.clients}: "
            f"give the law of the same clients"
        )
    return limit


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
    if question.rule.in_blocks and np.ptp(waits.reshape(-1, question.cohort), axis=1).any():
        raise ChainError("at the start the clients of a group have different waits: a group takes part as a whole")
    return waits.astype(np.int64)


def _exact(units: Question, count: int, waits: Ints) -> Floats:
    eta = np.zeros((count, units.clients))
    if units.rule.in_turn:
        turns = np.arange(count)[:, None] * units.cohort + np.arange(units.cohort)
        np.put_along_axis(eta, turns % units.clients, 1.0 / units.cohort, axis=1)
        return eta
    windows = enumerate_windows(units, EXACT_UP_TO)
    here = np.flatnonzero((windows.waits == waits).all(axis=1))
    if not here.size:
        raise ChainError(
            f"the start {waits[:12].tolist()} cannot follow from 'all ready': use a start that can, or 'monte-carlo'"
        )
    forward = windows.matrix().T.tocsr()
    distribution = np.zeros(windows.count)
    distribution[here[0]] = 1.0
    for now in range(count):
        chances = windows.participation(distribution[windows.source] * windows.chance)
        eta[now] = chances / chances.sum() if chances.sum() > 0.0 else chances
        distribution = np.asarray(forward @ distribution)
    return eta


def _averaged(units: Question, count: int, waits: Ints, replicas: int, seed: int) -> tuple[Floats, Floats]:
    """Return the estimate of eta, and the noise floor of its TV distance."""

    def chances(batch: range) -> Iterator[Floats]:
        for played in islice(rounds_of(units, batch, seed, waits), count):
            yield played.chosen.astype(np.float64) if played.chances is None else played.chances

    mean, variance = _moments(chances, replicas, units.clients)
    size = mean.sum(axis=1, keepdims=True)
    size = np.where(size > 0.0, size, 1.0)
    floor = np.sqrt(variance / replicas / (2.0 * np.pi)) / size
    return mean / size, np.asarray(floor.sum(axis=1))


def _moments(series: Callable[[range], Iterator[Floats]], replicas: int, clients: int) -> tuple[Floats, Floats]:
    """Return mean and variance over replicas, by round, of what is had for a batch of replicas in each round."""
    sums = [
        [(each.sum(axis=0), (each**2).sum(axis=0)) for each in series(batch)]
        for batch in batches(replicas, clients, CELLS)
    ]
    total, squares = np.moveaxis(np.sum(sums, axis=0), 1, 0)
    mean = total / replicas
    return mean, np.maximum(squares / replicas - mean**2, 0.0) * (replicas / (replicas - 1.0))
