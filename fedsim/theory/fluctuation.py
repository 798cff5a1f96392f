"""How much a client's measured frequency fluctuates, and how many rounds until it is known well enough.

The frequencies lambda_i(T) = (participations of i in T rounds) / (T E abs(S)) are jointly normal for large T, by the
central limit theorem for Markov chains: sqrt(T) (lambda(T) - pi) has a covariance, whose diagonal is sigma_i^2. The
debiasing weights of Sun et al. (2025, algorithm 1) are 1 / (N lambda_i), so to first order their relative error is that
of lambda_i, and that of the count itself: sigma_i / (pi_i sqrt T).
"""

from dataclasses import dataclass, field
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsim.common.arrays import Floats
from fedsim.common.errors import CannotAnswerError, ChainError
from fedsim.common.intervals import normal_quantile
from fedsim.common.later import optimize, special
from fedsim.selection.rules import MIDZUNO
from fedsim.theory.exact import recurrent_classes, stationary_vector
from fedsim.theory.question import AnyRule, Question, ask, per_client, reduced
from fedsim.theory.stationary import stationary
from fedsim.theory.windows import Windows, enumerate_windows

_LARGEST = 1_500  # recurrent states, or clients, that have a dense matrix
_UNIFORM = 1e-18  # of squares: rounding
_METHODS = ("auto", "closed-form", "exact", "mean-field")


@dataclass(frozen=True)
class Fluctuation:
    """Asymptotic variance of every client's frequency, per round.

    `pi`, (N,), are the limits of the frequencies, and `variance`, (N,), is sigma_i^2, the limit of T Var lambda_i(T).
    The method is ``exact``, ``closed-form`` or ``mean-field``: renewal theory, which leaves out how clients depend on
    one another. `covariance`, (N, N), is the limit of T Cov(lambda_i(T), lambda_j(T)): not of ``mean-field``, and up to
    1,500 clients.
    """

    pi: Floats = field(repr=False)
    variance: Floats = field(repr=False)
    method: str
    covariance: Floats | None = field(default=None, repr=False)


def asymptotic_variance(
    weights: ArrayLike,
    separation: ArrayLike,
    cohort: int = 1,
    law: AnyRule = MIDZUNO,
    method: str = "auto",
    *,
    seed: int = 0,
) -> Fluctuation:
    """Asymptotic variance of each client's participation frequency, per round.

    The question is as in `stationary`, `seed` included. The method is ``closed-form`` (R = 1 for all, and one client
    or group a round), ``exact`` (up to 1,500 recurrent states and clients), ``mean-field``, or ``auto``: the first of
    these that can answer.

    Raises a `ChainError` if the question makes no sense, or the method that is named cannot answer it.

    Exact and closed form: theorems 7 and 8 of ``docs/theory/README.md``, with E|S| in place of B, and Poisson's
    equation solved by the fundamental matrix (Kemeny and Snell 1960, chapter 4). Mean field: a cycle is R_i rounds and
    a geometric wait of chance h_i, so E|S|^2 sigma_i^2 = P_i^3 (1 - h_i) / h_i^2 = P_i (1 - h_i) w_i^2 with w_i = 1 -
    R_i P_i = P_i / h_i (renewal central limit theorem), P_i being that of the best method for `pi`. With no separation,
    Midzuno and Bernoulli rounds are independent and it is exact.
    """
    if method not in _METHODS:
        raise ChainError(f"there is no method {method!r} for the variance: choose one of {', '.join(_METHODS)}")
    question = ask(weights, separation, cohort, law)
    units = reduced(question)
    closed = units.rule.one_by_weight and units.cohort == 1 and bool((units.separations == 1).all())
    if closed and method in {"auto", "closed-form"}:
        return _closed(question, units)
    if method == "closed-form":
        raise ChainError("the variance has a closed form where all wait 1 round, and one is chosen by weight a round")
    if method != "mean-field":
        try:
            return _exact(question, units)
        except CannotAnswerError:
            if method == "exact":
                raise
    return _renewal(question, seed)


def rounds_needed(fluctuation: Fluctuation, precision: float = 0.05, confidence: float = 0.95) -> Floats:
    """Return how many rounds it takes until each client's frequency, and its weight, is within a relative `precision`.

    These are (N,) whole numbers, T_i = (z sigma_i / (precision pi_i))^2 rounded up, at least 1, with z the normal
    quantile of (1 + confidence) / 2, a probability per client; infinite for a client that was never seen. The bias of
    the start comes on top.

    Raises a `ChainError` if `precision` or `confidence` is out of range.
    """
    if not (np.isfinite(precision) and precision > 0.0):
        raise ChainError(f"the precision is {precision}: it is a relative error, such as 0.05, above 0")
    if not 0.0 < confidence < 1.0:
        raise ChainError(f"the confidence is {confidence}: it must lie strictly between 0 and 1")
    z = float(normal_quantile((1.0 + confidence) / 2.0))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        needed = fluctuation.variance * (z / (precision * fluctuation.pi)) ** 2
    return np.where(fluctuation.pi > 0.0, np.maximum(1.0, np.ceil(needed)), np.inf)


def rounds_for_all(fluctuation: Fluctuation, precision: float = 0.05, confidence: float = 0.95) -> float:
    """Return how many rounds it takes until the counts of all clients at once are within a relative `precision`.

    It is the least whole T, up to rounding, with prod_i P(abs(Z) <= precision pi_i sqrt(T) / sigma_i) >= confidence, Z
    standard normal: by Sidak's inequality (1967) a bound on the joint probability, however clients depend on one
    another. It is infinite if a client was never seen.

    Raises a `ChainError` if `precision` or `confidence` is out of range.
    """
    most = float(rounds_needed(fluctuation, precision, confidence).max())
    if not np.isfinite(most):
        return most
    moving = fluctuation.variance > 0.0
    apart = precision * fluctuation.pi[moving] / np.sqrt(2.0 * fluctuation.variance[moving])

    def missing(log_rounds: float) -> float:
        return log(confidence) - float(np.log(special.erf(np.exp(log_rounds / 2.0) * apart)).sum())

    if missing(log(most)) <= 0.0:
        return most
    end = log(most) + 40.0
    return float(np.ceil(np.exp(optimize.brentq(missing, log(most), end, xtol=1e-14))))


def best_prior(fluctuation: Fluctuation, cohort: int) -> float:
    """Return how many participations of each client are best counted in advance, the `prior` of Debiased FedAvg.

    With k of each, lambda_i = (n_i + k) / (T B + N k) has the mean squared relative errors [k^2 (1 / pi_i - N)^2 + T
    B^2 sigma_i^2 / pi_i^2] / (T B + N k)^2, whose sum is least at k = (B / N) sum_i (sigma_i / pi_i)^2 / sum_i (1 / (N
    pi_i) - 1)^2, whatever T is. Infinite where participation is uniform, and where a client was never seen.
    """
    if not fluctuation.pi.all():
        return np.inf
    apart = float(((1.0 / (fluctuation.pi.size * fluctuation.pi) - 1.0) ** 2).sum())
    noise = float((fluctuation.variance / fluctuation.pi**2).mean())
    return cohort * noise / apart if apart > _UNIFORM else np.inf


def _exact(question: Question, units: Question) -> Fluctuation:
    if question.rule.in_turn:
        uniform = np.full(question.clients, 1.0 / question.clients)
        return _answer(question, uniform, np.broadcast_to(0.0, (uniform.size, uniform.size)), "exact")
    if units.clients > _LARGEST:
        raise CannotAnswerError(f"the exact variance goes up to {_LARGEST} clients: use the method 'mean-field'")
    windows = enumerate_windows(units)
    matrix = windows.matrix()
    classes = []
    for states in recurrent_classes(matrix):
        if len(states) > _LARGEST:
            raise CannotAnswerError(
                f"the chain has {len(states)} recurrent states, more than {_LARGEST}: too many for the exact "
                f"variance; use the method 'mean-field'"
            )
        inside = matrix[states][:, states]
        classes.append(_in_class(windows, states, inside.toarray(), stationary_vector(inside)[0]))
    pi, covariance = classes[0]
    if any(np.abs(other - pi).max() > 1e-9 or np.abs(v - covariance).max() > 1e-9 for other, v in classes[1:]):
        raise ChainError(
            f"the chain has {len(classes)} recurrent classes that fluctuate differently: which one it ends up in is "
            f"chance, so there is no one asymptotic variance; lower the separations or the cohort"
        )
    return _answer(question, pi, covariance, "exact")


def _answer(question: Question, pi: Floats, variance: Floats, method: str) -> Fluctuation:
    """Give every client of a group the group's variance, over the squared cohort that frequencies are divided by.

    The variance is that of units, (n,), or their covariance, (n, n).
    """
    per, members = (question.cohort if question.rule.in_blocks else 1), np.arange(question.clients)
    if question.clients > _LARGEST and variance.ndim > 1:
        variance = variance.diagonal()
    variance = variance[np.ix_(*[members // per] * variance.ndim)] / per**2
    diagonal, covariance = (variance, None) if variance.ndim == 1 else (variance.diagonal(), variance)
    return Fluctuation(per_client(question, pi), np.maximum(diagonal, 0.0), method, covariance)


def _in_class(windows: Windows, states: NDArray[np.intp], dense: Floats, distribution: Floats) -> tuple[Floats, Floats]:
    number = np.full(windows.count, -1)
    number[states] = np.arange(len(states))
    held = np.flatnonzero(number[windows.source] >= 0)
    source, target = number[windows.source[held]], number[windows.target[held]]
    chance, cohort = windows.chance[held], windows.cohort[held]
    flow = distribution[source] * chance
    takes_part, leads_to = np.zeros((2, windows.waits.shape[1], len(states)))
    for client, (taking, after) in enumerate(zip(takes_part, leads_to, strict=True)):
        member = windows.members[cohort, client]
        taking[:] = np.bincount(source, weights=member * chance, minlength=len(states))
        after[:] = np.bincount(target, weights=member * flow, minlength=len(states))
    chances = takes_part @ distribution
    solved = np.linalg.solve(np.eye(len(states)) - dense + distribution, (takes_part - chances[:, None]).T)
    follow = leads_to @ solved
    each = np.bincount(cohort, weights=flow, minlength=len(windows.members))
    together = windows.members.T @ (each[:, None] * windows.members) - np.multiply.outer(chances, chances)
    size = float(chances.sum())
    return chances / size, (together + follow + follow.T) / size**2


def _closed(question: Question, units: Question) -> Fluctuation:
    p = units.weights
    pi = p * (1.0 - p) / float((p * (1.0 - p)).sum())
    diagonal, common = pi * (1.0 - 2.0 * p), 1.0 + 2.0 * float(pi @ p)
    if question.clients > _LARGEST:
        return _answer(question, pi, diagonal - pi**2 * (common - 4.0 * p), "closed-form")
    together = np.multiply.outer(pi, pi) * (common - 2.0 * np.add.outer(p, p))
    return _answer(question, pi, np.diag(diagonal) - together, "closed-form")


def _renewal(question: Question, seed: int) -> Fluctuation:
    pi = stationary(*question.asked, seed=seed).pi
    taken = pi * question.cohort
    waiting = 1.0 - question.separations * taken  # share of rounds in which the client is ready
    chance = np.minimum(1.0, taken / waiting)
    variance = taken * (1.0 - chance) * waiting**2 / question.cohort**2
    return Fluctuation(pi, variance, "mean-field")
