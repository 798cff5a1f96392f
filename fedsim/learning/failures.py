"""The error of the learning layer, and a guard that says where a user's code failed."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats
from fedsim.common.errors import FedsimError


class LearningError(FedsimError):
    """A problem or an optimizer that cannot be built, or that fails while the log is replayed."""


class AbsentDataError(LearningError):
    """Data that the scenario leaves to the machine to have, and it does not say where they lie."""


@contextmanager
def blame(where: str) -> Iterator[None]:
    """Turn any exception of the block into a `LearningError` whose message begins with `where`."""
    try:
        yield
    except FedsimError as error:
        raise LearningError(f"{where}: {error}") from error
    except Exception as error:
        raise LearningError(f"{where}: {type(error).__name__}: {error}") from error


def shaped(what: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return `value` as an array of floats.

    Raises
    ------
    LearningError
        Where its shape is not `shape`; numpy would broadcast some wrong shapes without a word.
    """
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape:
        raise LearningError(f"{what} has the shape {array.shape}, expected {shape}")
    return array
