"""The closed form of the stationary law, for one common separation.

With a common separation R, the stationary law of R + 1 consecutive cohorts under Midzuno selection is
proportional to the product of their weights, so their *leaders* are a conditional Poisson sample of n = R + 1
clients and the others fill the cohorts uniformly. With c_i the inclusion probability of that sample,

    B pi_i = c_i / n + (1 - c_i) (B - 1) / (N - n),    equivalently
    pi_i - 1/N = (c_i - n/N) (N - n B) / (n (N - n) B).

The proof stands in ``docs/closed-form.md``; the chain is that of Sun et al., *Debiasing Federated Learning
with Correlated Client Participation*, ICLR 2025 (arXiv:2410.01209), section 3.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats
from fedsim.common.errors import ChainError
from fedsim.theory.poisson import inclusion
from fedsim.theory.question import Question, ask, ask_common, per_client, reduced
from fedsim.theory.recurrence import spreads
from fedsim.theory.result import Stationary

_ROUNDING = 1e-12  # measured against extended precision: see tests/theory/test_closed_form.py


def has_closed_form(question: Question) -> bool:
    """Tell whether the closed form answers this question."""
    if question.law == "cyclic":
        return True
    if not isinstance(question.separation, int):
        return False
    if question.law == "successive":
        return question.cohort == 1
    return question.law != "bernoulli"


def closed_form(weights: ArrayLike, separation: ArrayLike, cohort: int = 1, law: str = "midzuno") -> Stationary:
    """Stationary participation under one common separation, in O(N) time and memory.

    Parameters
    ----------
    weights, cohort
        As in `fedsim.theory.stationary`.
    separation
        Common separation R in rounds, 0 <= R <= floor(N / B) - 1. Law ``cyclic`` also takes one per client.
    law
        ``midzuno`` (any B); ``successive`` with B = 1, which is the same law; ``groups``, in which the N
        clients are N / B consecutive groups and one whole group takes part, chosen in proportion to its total
        weight: the chain on groups with B = 1, and pi_i = pi_group / B; ``uniform``, which ignores the
        weights; ``cyclic``, in which all take their turn in index order. The last two give 1/N.

    Returns
    -------
    Stationary
        Method ``closed-form``; `error_bound` covers rounding, a relative error per client.

    Raises
    ------
    ChainError
        If the question makes no sense, or has no closed form (see `has_closed_form`).

    Notes
    -----
    The formula of this module; inclusion probabilities by `fedsim.theory.poisson.inclusion`.
    """
    question = (ask if law == "cyclic" else ask_common)(weights, separation, cohort, law)
    _require(question)
    pi, error = _participation(question)
    return Stationary(pi, *question.asked, method="closed-form", error_bound=error)


def distances(weights: ArrayLike, separations: Sequence[int], cohort: int = 1, law: str = "midzuno") -> Floats:
    """L1 distance of pi_R from uniform, for many common separations R at once.

    Parameters
    ----------
    weights, cohort, law
        As in `closed_form`.
    separations
        The values of R, each between 0 and floor(N / B) - 1, in any order.

    Returns
    -------
    numpy.ndarray
        The distances, each between 0 and 2, in the order of `separations`.

    Raises
    ------
    ChainError
        As `closed_form`, for any of the separations.

    Notes
    -----
    Many separations share the O(N^2) recurrences of `fedsim.theory.recurrence`; a few are answered one by one.
    """
    questions = [ask_common(weights, rounds, cohort, law) for rounds in _widest(separations)]
    if not questions:
        return np.zeros(0)
    question = questions[0]
    _require(question)
    chosen = np.asarray(separations, dtype=np.int64)
    units = reduced(question)
    p, size = units.weights, units.cohort
    if _is_uniform(units):
        return np.zeros(chosen.size)
    if p.size > 16 * chosen.size + 256:
        return np.array([closed_form(weights, int(rounds), cohort, law).l1_uniform for rounds in chosen])
    n = chosen + 1
    spread = spreads(p)[n - 1]
    room = p.size - n * size
    return np.asarray(np.where(room > 0, spread * room / (n * np.maximum(p.size - n, 1) * size), 0.0))


def _widest(separations: Sequence[int]) -> Sequence[int]:
    """Return the separations to check: of integers, the extremes are as good as all of them."""
    values = np.asarray(separations)
    if values.size and values.dtype.kind in "iu" and values.ndim == 1:
        return [int(values.max()), int(values.min())]
    return separations


def _require(question: Question) -> None:
    if not has_closed_form(question):
        raise ChainError(
            f"law {question.law!r} with a cohort of {question.cohort} has no closed form: use the method "
            f"'exact' (small systems), 'mean-field' or 'monte-carlo'"
        )


def _is_uniform(units: Question) -> bool:
    return units.law == "cyclic" or bool(units.weights.min() == units.weights.max())


def _participation(question: Question) -> tuple[Floats, float]:
    """Return pi and its error bound."""
    units = reduced(question)
    count, size, rounds = units.clients, units.cohort, units.separation
    uniform = np.full(question.clients, 1.0 / question.clients)
    if _is_uniform(units) or not isinstance(rounds, int):
        return uniform, 0.0
    n = rounds + 1
    if n * size == count:
        return uniform, 0.0  # the whole population takes part in every n rounds
    c, defect = inclusion(units.weights, n)
    pi = c / n
    if size > 1:
        pi += (1.0 - c) * ((size - 1) / (count - n))
        pi /= size
    return per_client(question, pi), _ROUNDING + 10.0 * defect
