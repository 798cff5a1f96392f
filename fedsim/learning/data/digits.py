"""Handwritten digits of 8 x 8 pixels: 1,797 samples in 10 classes, which come with scikit-learn.

References
----------
Alpaydin and Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine Learning Repository, 1998; the test part.
"""

from typing import Final

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Purpose, stream
from fedsim.learning.data.dataset import Samples
from fedsim.learning.failures import LearningError

TEST_SHARE: Final = 0.2
_ORDER = 2**62


def digits(seed: int) -> Samples:
    """Return the digits with pixels from 0 to 1, a fifth of them, drawn by the seed, to test on.

    Raises
    ------
    LearningError
        When scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise LearningError(
            "the digits come with scikit-learn, which is not installed; pip install 'fedsim-participation[data]'"
        ) from None
    inputs, targets = load_digits(return_X_y=True)
    return held_out(np.asarray(inputs, dtype=np.float64) / 16.0, np.asarray(targets, dtype=np.int64), seed)


def held_out(inputs: Floats, targets: Ints, seed: int) -> Samples:
    """Return the samples in an order drawn by the seed, the first fifth of them to test on."""
    order = np.argsort(stream(seed, 0, Purpose.PROBLEM).bits(_ORDER, np.arange(len(targets))))
    inputs, targets = inputs[order], targets[order]
    tested = round(TEST_SHARE * len(targets))
    return Samples(inputs[tested:], targets[tested:], inputs[:tested], targets[:tested])
