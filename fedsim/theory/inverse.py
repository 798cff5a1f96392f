"""The question turned round: the smallest common separation that brings participation close enough to uniform.

Every distance falls as R grows. For B = 1 the ratio c_i / c_j of two inclusion probabilities moves towards 1 with the
sample size, since e_{n-2} / e_{n-1} grows with n (Newton's inequality); so do all sums of the largest shares, and with
them L1, TV and the largest ratio. Larger cohorts multiply the deviation by a factor that falls too. Bisection therefore
finds the smallest R. The argument stands in ``docs/closed-form.md``.
"""

from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.errors import ChainError
from fedsim.theory.closed_form import closed_form, has_closed_form
from fedsim.theory.question import ask, largest_separation
from fedsim.theory.result import Stationary

_MEASURES: dict[str, Callable[[Stationary], float]] = {
    "L1 distance from uniform": lambda result: result.l1_uniform,
    "TV distance from uniform": lambda result: result.tv_uniform,
    "ratio of the largest pi to the smallest": lambda result: result.ratio,
}


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

    Parameters
    ----------
    weights, cohort, law
        As in `fedsim.theory.closed_form`; the law must have a closed form.
    target_l1, target_tv, target_ratio
        Exactly one of: largest L1 distance from uniform (0 or more), largest TV distance (0 or more), largest ratio of
        the most frequent client's pi to the least frequent one's (1 or more).

    Returns
    -------
    Stationary
        The law at the smallest such R; its `separation` is the answer.

    Raises
    ------
    ChainError
        If not exactly one target is given, the target makes no sense, the law has no closed form, or no separation
        reaches the target; the message then names the closest that can be had.
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
