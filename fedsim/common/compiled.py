"""Loops that are compiled: the one place that knows how."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(loop: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function of numbers and arrays at its first call; the outcome is kept on disk, where that is possible.

    The machine code does what is written, operation by operation (no reordering, no fused multiply-add), so that its
    results are numpy's to the last bit as long as it adds, subtracts, multiplies, divides and compares. Threads can run
    it side by side.
    """
    try:
        return numba.njit(cache=True, nogil=True)(loop)
    except RuntimeError:  # nowhere to keep it: neither beside the module nor in the user's folder
        return numba.njit(cache=False, nogil=True)(loop)


def inlined(loop: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a small function as `compiled` does, as a part of each compiled function that calls it.

    Passing arrays to another compiled function costs tens of nanoseconds a call.
    """
    part: Callable[_P, _R] = numba.njit(forceinline=True, nogil=True)(loop)
    return part
