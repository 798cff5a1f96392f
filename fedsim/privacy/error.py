"""Error of a matrix mechanism: how noisy the running sums are that it releases.

The sums are A G with A = B C the lower triangle of ones; what is released is A G + B Z. For a Toeplitz C, row t of B
holds the running sums g_0, ..., g_t of the coefficients of 1 / c(x), so that its norm grows with t.
"""

from typing import NamedTuple

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.privacy.series import inverse


class Error(NamedTuple):
    """Norms of the rows of B: standard deviations of a released sum, per coordinate, where those of Z are 1.

    Attributes
    ----------
    max
        The largest over the rounds.
    rms
        The root mean square over the rounds.
    """

    max: float
    rms: float


def error(coefficients: Floats, rounds: int) -> Error:
    """Return the error of a mechanism; of the noise that makes it private it is this times its sensitivity.

    Parameters
    ----------
    coefficients
        (m,) c_0, c_1, ... of C; those that are left out are 0.
    rounds
        n.
    """
    squares = np.square(np.cumsum(inverse(coefficients, rounds)))
    rows = np.cumsum(squares)
    return Error(float(np.sqrt(rows[-1])), float(np.sqrt(rows.mean())))
