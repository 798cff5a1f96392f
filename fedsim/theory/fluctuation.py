"""How much a client's measured frequency fluctuates, and how many rounds until it is known well enough.

The frequency lambda_i(T) = (participations of i in T rounds) / (T E abs(S)) has variance sigma_i^2 / T for large T, by
the central limit theorem for Markov chains. The debiasing weights of Sun et al. (2025, algorithm 1) are
1 / (N lambda_i), so to first order their relative error is that of lambda_i: sigma_i / (pi_i sqrt T).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsim.common.arrays import Floats
from fedsim.common.errors import ChainError
from fedsim.theory.exact import recurrent_classes, stationary_vector
from fedsim.theory.monte_carlo import counted
from fedsim.theory.question import ChainTooLargeError, Question, ask, per_client, reduced, whole_number
from fedsim.theory.stationary import stationary
from fedsim.theory.windows import Windows, enumerate_windows

_LARGEST = 1_500  # recurrent states whose dense matrix is inverted
_METHODS = ("auto", "exact", "mean-field", "monte-carlo")


@dataclass(frozen=True)
class Fluctuation:
    """Asymptotic variance of every client's frequency, per round.

    `pi`, (N,), are the limits of the frequencies, and `variance`, (N,), is sigma_i^2, the limit of T Var lambda_i(T).
    The method is ``exact``; ``mean-field``: renewal theory, which leaves out how clients depend on one another; or
    ``monte-carlo``, for which alone there is a `standard_error`, (N,), of the variance.
    """

    pi: Floats
    variance: Floats
    method: str
    standard_error: Floats | None = None


def asymptotic_variance(
    weights: ArrayLike,
    separation: ArrayLike,
    cohort: int = 1,
    law: str = "midzuno",
    method: str = "auto",
    *,
    seed: int = 0,
    replicas: int = 256,
    rounds: int = 1_000,
) -> Fluctuation:
    """Asymptotic variance of each client's participation frequency, per round.

    The question is as in `stationary`. The method is ``exact`` (up to 1,500 recurrent states), ``mean-field``,
    ``monte-carlo``, which takes the variance, over the replicas, of the frequency in so many rounds after as many of
    burn-in, or ``auto``: exact where it can be, else the mean field.

    Raises
    ------
    ChainError
        If the question makes no sense, or the method that is named cannot answer it.

    Notes
    -----
    Exact: with X_t = 1 if i is in S_t, h(y) = P(i in S_t given state y), P_i its mean, and g the solution of Poisson's
    equation (I - P) g = h - P_i with mean 0, E|S|^2 sigma_i^2 = P_i (1 - P_i) + 2 E[X_0 g(Y_1)]; g by the fundamental
    matrix (Kemeny and Snell 1960, chapter 4). Mean field: a cycle is R_i rounds and a geometric wait of chance h_i, so
    E|S|^2 sigma_i^2 = P_i^3 (1 - h_i) / h_i^2 = P_i (1 - h_i) w_i^2 with w_i = 1 - R_i P_i = P_i / h_i (renewal central
    limit theorem), P_i being that of the best method for `pi`. With no separation, Midzuno and Bernoulli rounds are
    independent and it is exact.
    """
    if method not in _METHODS:
        raise ChainError(f"there is no method {method!r} for the variance: choose one of {', '.join(_METHODS)}")
    question = ask(weights, separation, cohort, law)
    if method == "monte-carlo":
        return _counted(question, seed, replicas, rounds)
    if method == "mean-field":
        return _renewal(question, seed)
    try:
        return _exact(question)
    except ChainTooLargeError:
        if method == "exact":
            raise
        return _renewal(question, seed)


def rounds_needed(fluctuation: Fluctuation, precision: float = 0.05, confidence: float = 0.95) -> Floats:
    """Return how many rounds it takes until each client's frequency, and its weight, is within a relative `precision`.

    These are (N,) whole numbers, T_i = (z sigma_i / (precision pi_i))^2 rounded up, at least 1, with z the normal
    quantile of (1 + confidence) / 2, a probability per client; infinite for a client that was never seen. The bias of
    the start comes on top.

    Raises
    ------
    ChainError
        If `precision` or `confidence` is out of range.
    """
    if not (np.isfinite(precision) and precision > 0.0):
        raise ChainError(f"the precision is {precision}: it is a relative error, such as 0.05, above 0")
    if not 0.0 < confidence < 1.0:
        raise ChainError(f"the confidence is {confidence}: it must lie strictly between 0 and 1")
    from scipy.special import ndtri  # takes long to import

    z = float(ndtri((1.0 + confidence) / 2.0))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        needed = fluctuation.variance * (z / (precision * fluctuation.pi)) ** 2
    return np.where(fluctuation.pi > 0.0, np.maximum(1.0, np.ceil(needed)), np.inf)


def _exact(question: Question) -> Fluctuation:
    if question.law == "cyclic":
        uniform = np.full(question.clients, 1.0 / question.clients)
        return Fluctuation(uniform, np.zeros_like(uniform), "exact")
    units = reduced(question)
    windows = enumerate_windows(units)
    matrix = windows.matrix()
    found = []
    for states in recurrent_classes(matrix):
        if len(states) > _LARGEST:
            raise ChainTooLargeError(
                f"the chain has {len(states)} recurrent states, more than {_LARGEST}: too many for the exact "
                f"variance; use the method 'mean-field' or 'monte-carlo'"
            )
        inside = matrix[states][:, states]
        found.append(_in_class(windows, states, inside.toarray(), stationary_vector(inside).law))
    pi, variance = found[0]
    if any(np.abs(other - pi).max() > 1e-9 or np.abs(v - variance).max() > 1e-9 for other, v in found[1:]):
        raise ChainError(
            f"the chain has {len(found)} recurrent classes that fluctuate differently: which one it ends up in is "
            f"chance, so there is no one asymptotic variance; lower the separations or the cohort"
        )
    return Fluctuation(per_client(question, pi), _spread_out(question, variance), "exact")


def _spread_out(question: Question, variance: Floats) -> Floats:
    """Give every client of a group the group's variance, over the squared cohort that frequencies are divided by."""
    return np.repeat(variance, question.cohort) / question.cohort**2 if question.law == "groups" else variance


def _in_class(windows: Windows, states: NDArray[np.intp], dense: Floats, law: Floats) -> tuple[Floats, Floats]:
    number = np.full(windows.count, -1)
    number[states] = np.arange(len(states))
    held = np.flatnonzero(number[windows.source] >= 0)
    source, target = number[windows.source[held]], number[windows.target[held]]
    chance, cohort = windows.chance[held], windows.cohort[held]
    variance = np.empty(windows.waits.shape[1])
    chances = np.empty_like(variance)
    fundamental = np.linalg.inv(np.eye(len(states)) - dense + law)
    for client in range(variance.size):
        takes_part = windows.members[cohort, client] * chance
        h = np.bincount(source, weights=takes_part, minlength=len(states))
        mean = float(law @ h)
        g = fundamental @ (h - mean)
        follow = float((law[source] * takes_part) @ g[target])
        chances[client] = mean
        variance[client] = max(0.0, mean * (1.0 - mean) + 2.0 * follow)
    size = float(chances.sum())
    return chances / size, variance / size**2


def _renewal(question: Question, seed: int) -> Fluctuation:
    pi = stationary(question.weights, question.separation, question.cohort, question.law, seed=seed).pi
    taken = pi * question.cohort
    waiting = 1.0 - question.separations * taken  # share of rounds in which the client is ready
    chance = np.minimum(1.0, taken / waiting)
    variance = taken * (1.0 - chance) * waiting**2 / question.cohort**2
    return Fluctuation(pi, variance, "mean-field")


def _counted(question: Question, seed: int, replicas: int, rounds: int) -> Fluctuation:
    replicas = whole_number(replicas, "the number of replicas", least=3)
    rounds = whole_number(rounds, "the number of rounds", least=1)
    counts, _ = counted(reduced(question), range(replicas), seed, rounds, rounds)
    size = float(counts.sum(axis=1).mean()) / rounds
    frequency = counts / (rounds * size)
    variance = rounds * frequency.var(axis=0, ddof=1)
    spread = _spread_out(question, variance)
    error = spread * np.sqrt(2.0 / (replicas - 1))
    return Fluctuation(per_client(question, frequency.mean(axis=0)), spread, "monte-carlo", error)
