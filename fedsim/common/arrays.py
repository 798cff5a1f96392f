"""Short names for the arrays that most signatures speak of."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Bits: TypeAlias = NDArray[np.uint64]
"""A set of small numbers: number i is bit i % 64 of word i // 64."""
