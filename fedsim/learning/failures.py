"""The error of the learning layer, and a guard that says where a user's code failed."""

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
    """Data that the scenario leaves to the machine to have, and it does not say where they lie."""


@contextmanager
def blame(where: str) -> Iterator[None]:
    """Turn any exception of the block into a `LearningError` whose message begins with `where`.

    In what is done in every round, ``except Exception as error: raise blamed(where, error) from error`` says the same
    and costs nothing where nothing fails.
    """
    try:
        yield
    except Exception as error:
        raise blamed(where, error) from error


def blamed(where: str, error: Exception) -> LearningError:
    """Return what to raise for an exception: its message, after `where`, and the line of a user's own code."""
    if isinstance(error, FedsimError):
        return LearningError(f"{where}: {error}")
    return LearningError(f"{where}: {type(error).__name__}: {error}{_line(error.__traceback__)}")


_NOT_USERS = (Path(__file__).parent.parent, Path(sysconfig.get_paths()["stdlib"]))


def _line(trace: TracebackType | None) -> str:
    """Return the innermost line of a user's own code that was running; nothing where there was none."""
    lines = [(Path(frame.f_code.co_filename), number) for frame, number in walk_tb(trace)]
    users = [
        f" ({file.name}, line {number})"
        for file, number in lines
        if "site-packages" not in file.parts and not any(map(file.is_relative_to, _NOT_USERS))
    ]
    return users[-1] if users else ""


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
