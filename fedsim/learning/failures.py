"""The errors of learning, and how failures of a user's code are reported with their place."""

import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from types import TracebackType

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats
from fedsim.common.errors import FedsimError


class LearningError(FedsimError):
    """A problem or an optimizer that cannot be built, or that fails while the log is replayed."""


class AbsentDataError(LearningError):
    """Data that the machine has to provide, and neither the scenario nor the environment says where they are."""


@contextmanager
def reraise_as_learning_error(where: str) -> Iterator[None]:
    """Turn any exception of the block into a `LearningError` whose message begins with `where`."""
    try:
        yield
    except Exception as error:
        raise learning_error_from(where, error) from error


def learning_error_from(where: str, error: Exception) -> LearningError:
    """Return what to raise for an exception: `where`, its message, and the line of the user's code that raised it.

    Code that runs in every round uses this in an ``except`` clause, which is cheaper than the context manager.
    """
    if isinstance(error, FedsimError):
        return LearningError(f"{where}: {error}")
    return LearningError(f"{where}: {type(error).__name__}: {error}{_users_line(error.__traceback__)}")


_NOT_USERS = (Path(__file__).parent.parent, Path(sysconfig.get_paths()["stdlib"]))


def _users_line(trace: TracebackType | None) -> str:
    """Return the innermost line of the user's own code that was running; "" where there was none."""
    found = ""
    for frame, number in walk_tb(trace):
        file = Path(frame.f_code.co_filename)
        if "site-packages" not in file.parts and not any(map(file.is_relative_to, _NOT_USERS)):
            found = f" ({file.name}, line {number})"
    return found


def as_floats_of_shape(what: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return `value` as an array of floats, or raise a `LearningError` if its shape is another: no broadcasting."""
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape:
        raise LearningError(f"{what} has the shape {array.shape}, expected {shape}")
    return array
