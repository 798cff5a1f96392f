"""The errors of learning, and how failures of a user's code are reported with their place."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats
from fedsim.common.errors import FedsimError, told


class LearningError(FedsimError):
    """A problem or an optimizer that cannot be built, or that fails while the log is replayed."""


class AbsentDataError(LearningError):
    """Data that the machine has to provide, and neither the scenario nor the environment says where they are."""


@contextmanager
def reraise_as_learning_error(where: str, asked: object = None) -> Iterator[None]:
    """Turn any exception of the block into a `LearningError` whose message begins with `where`."""
    try:
        yield
    except BaseException as error:
        raise learning_error_from(where, error, asked) from error


def learning_error_from(where: str, error: BaseException, asked: object = None) -> LearningError:
    """Return what to raise for an exception: `where`, and `told` of it and what was `asked`.

    Code that runs in every round uses this in an ``except`` clause, which is cheaper than the context manager.
    """
    return LearningError(f"{where}: {told(error, asked)}")


def as_floats_of_shape(what: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return `value` as an array of floats, or raise a `LearningError` if its shape is another: no broadcasting."""
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape:
        raise LearningError(f"{what} has the shape {array.shape}, expected {shape}")
    return array


def returned_pair(returned: Any, what: str) -> tuple[Any, Any]:
    """Return what a user's method returned; raise an error that says what it must be, rather than one of unpacking."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise LearningError(f"must return {what}, and returned {type(returned).__name__}")
    return returned
