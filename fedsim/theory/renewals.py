"""Poisson selection with separations: clients are independent renewals, so that the answer is exact for any R_i.

A client that is ready takes part with probability q_i = min(1, B p_i), and then waits for R_i rounds: its gaps are
R_i + G with G geometric, of mean R_i + 1 / q_i, and nobody else matters. So its frequency is 1 / (R_i + 1 / q_i), and
pi_i, its share of all participations, is proportional to that. jax-privacy calls this sampling b-min-sep.
"""

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.errors import ChainError
from fedsim.selection.poisson import poisson_chances
from fedsim.theory.question import normalised, separations, whole_number
from fedsim.theory.result import Stationary

LAW = "poisson"
_ROUNDING = 1e-12


def renewals(weights: ArrayLike, separation: ArrayLike, cohort: int = 1) -> Stationary:
    """Stationary participation under the law ``poisson``, in O(N).

    Parameters
    ----------
    weights, separation, cohort
        As in `fedsim.theory.stationary`; no separation is too long, since rounds may be empty.

    Raises
    ------
    ChainError
        If a number makes no sense.
    """
    shares = normalised(weights)
    size = whole_number(cohort, "the cohort", least=1)
    if size > shares.size:
        raise ChainError(f"the cohort is {size}, more than the {shares.size} clients there are")
    rounds = separations(separation, shares.size)
    with np.errstate(over="ignore"):
        frequency = 1.0 / (rounds + 1.0 / poisson_chances(shares, size))
    return Stationary(
        frequency / frequency.sum(), shares, rounds, size, LAW, method="closed-form", error_bound=_ROUNDING
    )
