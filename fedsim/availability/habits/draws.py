"""Many draws of the same clients: the parts of the key that belong to a client or an index are mixed only once."""

from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fedsim.availability.habits.persons import LIMIT, Draw, index
from fedsim.common.arrays import Floats
from fedsim.common.keyed import mixed_index

_Number = TypeVar("_Number", bound=np.generic)


def deviations(u: Floats) -> Floats:
    """Return the standard normal scores of draws, within three standard deviations, as `persons.deviation`."""
    return np.minimum(np.maximum(ndtri(u), -LIMIT), LIMIT)


@lru_cache(maxsize=4096)
def keys(what: Draw, count: int, numbers: int = 1) -> NDArray[np.uint64]:
    """Return the indices' parts of the key for numbers 0, 1, ... of one count."""
    return mixed_index(index(what, count, np.arange(numbers)))
