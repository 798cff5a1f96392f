"""Confidence intervals of means, by Student's t."""

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats


def student_quantile(n: ArrayLike, confidence: float = 0.95) -> Floats:
    """Return half of the two-sided interval of a mean of `n` values in standard errors: t with n - 1 degrees."""
    from scipy.special import stdtrit  # takes long to import

    return np.asarray(stdtrit(np.subtract(n, 1), (1 + confidence) / 2), dtype=np.float64)


def half_width(standard_error: float, n: int) -> float:
    """Return half of the 95 % interval of a mean of `n` values, such as batch means, from its standard error."""
    return float(student_quantile(n) * standard_error)
