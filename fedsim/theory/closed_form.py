r"""What has a closed form: one common separation under Midzuno selection, and Poisson selection with any separations.

With c_i the inclusion probability of a conditional Poisson sample of n = R + 1 clients, Midzuno selection has

    B pi_i = c_i / n + (1 - c_i) (B - 1) / (N - n)

(theorem 4 of ``docs/theory/README.md``), in the chain of Sun et al., *Debiasing Federated Learning with Correlated
Client Participation*, ICLR 2025 (arXiv:2410.01209), section 3.

Under Poisson selection clients are independent renewals: one that is ready takes part with q_i = min(1, B p_i) and then
waits for R_i rounds, so its gaps have mean R_i + 1 / q_i, and pi_i is proportional to 1 / (R_i + 1 / q_i). jax-privacy
calls this sampling b-min-sep.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats
from fedsim.common.errors import ChainError
from fedsim.selection.built_in import poisson_chances
from fedsim.theory.poisson import inclusion
from fedsim.theory.pull import independent_pulls
from fedsim.theory.question import Question, Stationary, ask, largest_separation, per_client, reduced

POISSON = "poisson"
_ROUNDING = 1e-12  # measured against extended precision: see tests/theory/test_closed_form.py
_MEASURES: dict[str, Callable[[Stationary], float]] = {
    "L1 distance from uniform": lambda result: result.l1_uniform,
    "TV distance from uniform": lambda result: result.tv_uniform,
    "ratio of the largest pi to the smallest": lambda result: result.ratio,
}


def has_closed_form(question: Question) -> bool:
    """Tell whether `closed_form` answers this question."""
    common = isinstance(question.separation, int) and question.law != "bernoulli"
    return question.law == "cyclic" or (common and (question.law != "successive" or question.cohort == 1))


def closed_form(weights: ArrayLike, separation: ArrayLike, cohort: int = 1, law: str = "midzuno") -> Stationary:
    """Stationary participation under one common separation, 0 <= R <= floor(N / B) - 1, in O(N) time and memory.

    Laws: ``midzuno`` (any B); ``successive`` with B = 1, which is the same law; ``groups``, in which the N clients are
    N / B consecutive groups and one whole group takes part, chosen in proportion to its total weight: the chain on
    groups with B = 1, and pi_i = pi_group / B; ``uniform``, which ignores the weights; ``cyclic``, in which all take
    their turn in index order, and which also takes a separation per client: the last two give 1/N; and ``poisson``,
    with any separation per client, none of which is too long, since rounds may be empty.

    `error_bound` of the result covers rounding, a relative error per client.

    Raises a `ChainError` if the question makes no sense, or has no closed form (see `has_closed_form`).
    """
    if law == POISSON:
        return _renewals(weights, separation, cohort)
    question = ask(weights, separation, cohort, law)
    if law != "cyclic" and not isinstance(question.separation, int):
        raise ChainError(
            f"the closed form needs one common separation, and these run from {question.separation.min()} to "
            f"{question.separation.max()}: use the method 'exact', 'mean-field' or 'monte-carlo'"
        )
    if not has_closed_form(question):
        raise ChainError(
            f"law {question.law!r} with a cohort of {question.cohort} has no closed form: use the method "
            f"'exact' (small systems), 'mean-field' or 'monte-carlo'"
        )
    pi, error = _participation(question)
    return Stationary(*question.asked, pi, method="closed-form", error_bound=error)


def _renewals(weights: ArrayLike, separation: ArrayLike, cohort: int) -> Stationary:
    shares, rounds, size, _ = ask(weights, separation, cohort, "bernoulli").asked  # which bounds no separation either
    with np.errstate(over="ignore"):
        frequency = 1.0 / (rounds + 1.0 / poisson_chances(shares, size))
    pi, pull = frequency / frequency.sum(), independent_pulls(frequency, frequency)
    return Stationary(shares, rounds, size, POISSON, pi, method="closed-form", error_bound=_ROUNDING, pull=pull)


def distances(weights: ArrayLike, separations: Sequence[int], cohort: int = 1, law: str = "midzuno") -> Floats:
    """L1 distance of pi_R from uniform, between 0 and 2, for each of many common separations R.

    Raises a `ChainError` as `closed_form`, for any of the separations.
    """
    return np.array([closed_form(weights, rounds, cohort, law).l1_uniform for rounds in separations])


def smallest_separation(
    weights: ArrayLike,
    cohort: int = 1,
    law: str = "midzuno",
    *,
    target_l1: float | None = None,
    target_tv: float | None = None,
    target_ratio: float | None = None,
) -> Stationary:
    """Find the smallest common separation R whose stationary law meets a target, by bisection on the closed form.

    Exactly one target is given: the largest L1 distance from uniform (0 or more), the largest TV distance (0 or more),
    or the largest ratio of the most frequent client's pi to the least frequent one's (1 or more). The law must have a
    closed form. Returned is the stationary law at the smallest such R, its `separation`: all three fall as R grows,
    which ``docs/theory/README.md`` proves.

    Raises a `ChainError` if not exactly one target is given, the target makes no sense, the law has no closed form, or
    no separation reaches the target; the message then names the closest that can be had.
    """
    targets = zip(_MEASURES, (target_l1, target_tv, target_ratio), (0.0, 0.0, 1.0), strict=True)
    given = [(name, float(value), least) for name, value, least in targets if value is not None]
    if len(given) != 1:
        raise ChainError(f"{len(given)} targets were given: give exactly one of target_l1, target_tv and target_ratio")
    name, target, least = given[0]
    if not (np.isfinite(target) and target >= least):
        raise ChainError(f"the target {name} is {target}: it must be a number of at least {least:g}")
    measure = _MEASURES[name]
    if not has_closed_form(ask(weights, 0, cohort, law)):
        raise ChainError(
            f"law {law!r} with a cohort of {cohort} has no closed form, so the smallest separation cannot be found "
            f"by bisection: compare a few separations with fedsim.theory.stationary instead"
        )
    most = largest_separation(np.size(weights), cohort)
    best = closed_form(weights, most, cohort, law)
    if measure(best) > target:
        raise ChainError(
            f"no separation reaches a {name} of {target:g}: the closest is {measure(best):.6g}, at the largest "
            f"separation that {best.clients} clients in cohorts of {cohort} can keep, {most}; lower the cohort"
        )
    smallest = bisect_left(range(most), True, key=lambda R: measure(closed_form(weights, R, cohort, law)) <= target)
    return closed_form(weights, smallest, cohort, law)


def _participation(question: Question) -> tuple[Floats, float]:
    """Return pi and its error bound."""
    units = reduced(question)
    count, size, rounds = units.clients, units.cohort, units.separation
    # Where n cohorts hold the whole population, everyone takes part in every n rounds.
    alike = units.law == "cyclic" or units.weights.min() == units.weights.max()
    if alike or not isinstance(rounds, int) or (rounds + 1) * size == count:
        return np.full(question.clients, 1.0 / question.clients), 0.0
    n = rounds + 1
    c, defect = inclusion(units.weights, n)
    pi = c / n
    if size > 1:
        pi += (1.0 - c) * ((size - 1) / (count - n))
        pi /= size
    return per_client(question, pi), _ROUNDING + 10.0 * defect
