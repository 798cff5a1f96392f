"""What has a closed form: one common separation under rules that state one, and constant chances with any separations.

The chain is that of Sun et al., *Debiasing Federated Learning with Correlated Client Participation*, ICLR 2025
(arXiv:2410.01209), section 3.

With constant chances clients are independent renewals: one that is ready takes part with the chance q_i and then waits
for R_i rounds, so its gaps have mean R_i + 1 / q_i, and pi_i is proportional to 1 / (R_i + 1 / q_i). With q_i = min(1,
B p_i) jax-privacy calls this sampling b-min-sep.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats
from fedsim.common.errors import ChainError
from fedsim.selection.rules import MIDZUNO
from fedsim.theory.pull import independent_pulls
from fedsim.theory.question import AnyRule, Question, Stationary, ask, largest_separation, per_client, reduced

_ROUNDING = 1e-12  # measured against extended precision: see tests/theory/test_closed_form.py
_MEASURES: dict[str, Callable[[Stationary], float]] = {
    "L1 distance from uniform": lambda result: result.l1_uniform,
    "TV distance from uniform": lambda result: result.tv_uniform,
    "ratio of the largest pi to the smallest": lambda result: result.ratio,
}


def has_closed_form(question: Question) -> bool:
    """Tell whether `closed_form` answers this question."""
    common = isinstance(question.separation, int)
    return question.rule.in_turn or (common and reduced(question).rule.says("closed_form"))


def closed_form(weights: ArrayLike, separation: ArrayLike, cohort: int = 1, law: AnyRule = MIDZUNO) -> Stationary:
    """Stationary participation under one common separation, 0 <= R <= floor(N / B) - 1, in O(N) time and memory.

    Of blocks, which take part as a whole, pi_i = pi_block / B. Where all take their turn in the order of indices, it is
    1/N, and each may have a separation of its own. With constant chances no separation is too long, since rounds may be
    empty.

    `error_bound` of the result covers rounding, a relative error per client.

    Raises a `ChainError` if the question makes no sense, or has no closed form (see `has_closed_form`).
    """
    question = ask(weights, separation, cohort, law, constant=True)
    if question.rule.says("constant"):
        return _renewals(question)
    if not question.rule.in_turn and not isinstance(question.separation, int):
        raise ChainError(
            f"the closed form needs one common separation, and these run from {question.separation.min()} to "
            f"{question.separation.max()}: use the method 'exact', 'mean-field' or 'monte-carlo'"
        )
    if not has_closed_form(question):
        raise ChainError(
            f"law {question.law!r} with a cohort of {question.cohort} has no closed form: use the method "
            f"'exact' (small systems), 'mean-field' or 'monte-carlo'"
        )
    units, pi, error = reduced(question), np.full(question.clients, 1.0 / question.clients), 0.0
    if not question.rule.in_turn:
        of_units, error = units.rule.closed_form(units.weights, int(question.separations[0]), units.cohort)
        pi = per_client(question, of_units)
    return Stationary(*question.asked, pi, method="closed-form", error_bound=error)


def _renewals(question: Question) -> Stationary:
    with np.errstate(over="ignore"):
        chances = question.rule.constant(question.weights, question.cohort)
        frequency = 1.0 / (question.separation + 1.0 / chances)
    pi, pull = frequency / frequency.sum(), independent_pulls(frequency, frequency)
    return Stationary(*question.asked, pi, method="closed-form", error_bound=_ROUNDING, pull=pull)


def distances(weights: ArrayLike, separations: Sequence[int], cohort: int = 1, law: AnyRule = MIDZUNO) -> Floats:
    """L1 distance of pi_R from uniform, between 0 and 2, for each of many common separations R.

    Raises a `ChainError` as `closed_form`, for any of the separations.
    """
    return np.array([closed_form(weights, rounds, cohort, law).l1_uniform for rounds in separations])


def smallest_separation(
    weights: ArrayLike,
    cohort: int = 1,
    law: AnyRule = MIDZUNO,
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
    question = ask(weights, 0, cohort, law)
    if not has_closed_form(question):
        raise ChainError(
            f"law {question.law!r} with a cohort of {cohort} has no closed form, so the smallest separation cannot be "
            "found by bisection: compare a few separations with fedsim.theory.stationary instead"
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
