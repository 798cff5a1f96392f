"""Loops that are compiled: the one place that knows how, and keyed draws inside them.

The draws are those that `fedsim.common.keyed` makes as arrays, one at a time, to the last bit.
"""

import gc
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from fedsim.common.files import cache_home
from fedsim.common.keyed import FIRST_FACTOR, GOLDEN, SECOND_FACTOR, TWO_TO_MINUS_53
from fedsim.common.messages import log_warning
from fedsim.common.progress import current
from fedsim.common.working_time import leave_out

try:
    import numba
    from numba.core import event
except ImportError:  # there is none for this platform, or for this Python
    numba = None  # type: ignore[assignment]
    if parent_process() is None:
        log_warning("note: numba cannot be imported: habits, and federations of many devices, take much longer")

_P = ParamSpec("_P")
_R = TypeVar("_R")
_11, _27, _30, _31 = (np.uint64(bits) for bits in (11, 27, 30, 31))


def compiled(loop: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function of numbers and arrays at its first call; the outcome is kept on disk, where that is possible.

    The machine code does what is written, operation by operation (no reordering, no fused multiply-add), so that its
    results are numpy's to the last bit as long as it adds, subtracts, multiplies, divides and compares. Threads can run
    it side by side. Without numba it stays as it is, with the same results. Where what is kept cannot be read, or not
    written (a full disk, another user's files), it is compiled anew.
    """
    if numba is None:
        return np.errstate(over="ignore")(loop)  # products of words are meant to overflow
    beside = Path(loop.__code__.co_filename).parent / "__pycache__"
    # Where ~ is unknown, numba would make a folder of this name in the current one.
    place = numba.config.CACHE_DIR or cache_home()  # type: ignore[attr-defined]
    kept = bool(place) or os.access(beside, os.W_OK)
    try:
        made: Any = numba.njit(cache=kept, nogil=True)(loop)
    except RuntimeError:  # nowhere to keep it: neither beside the module nor in the user's folder
        return numba.njit(cache=False, nogil=True)(loop)
    made._cache._guard_against_spurious_io_errors = partial(suppress, Exception)
    return made  # type: ignore[no-any-return]


def inlined(loop: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a small function as `compiled` does, as a part of each compiled function that calls it.

    It must not make arrays, and its arrays are not counted (`_nrt`): counting references to them at each call took
    three quarters of the time of habits.
    """
    if numba is None:
        return loop
    part: Callable[_P, _R] = numba.njit(forceinline=True, nogil=True, _nrt=False)(loop)  # type: ignore[call-overload]
    return part


@inlined
def mixed(word: np.uint64) -> np.uint64:
    """Return a word whose bits all depend on all bits of the given one."""
    word = (word ^ (word >> _30)) * FIRST_FACTOR
    word = (word ^ (word >> _27)) * SECOND_FACTOR
    return word ^ (word >> _31)


@inlined
def word_of(client: int, key: np.uint64) -> np.uint64:
    """Return a client's part of the key, as `Stream.of_clients`."""
    return mixed(np.uint64(client) * GOLDEN + key)


@inlined
def uniform_at(word: np.uint64) -> float:
    """Return the draw in (0, 1) at the exclusive or of a client's and an index's part of the key."""
    return (np.float64(mixed(word) >> _11) + 0.5) * TWO_TO_MINUS_53


if numba is not None:

    class _Compiling(event.Listener):
        """Tells that loops are compiled, for which the first run on a machine takes some seconds more."""

        _running, _began = 0, 0.0

        def on_start(self, event: event.Event) -> None:
            """Tell it of the outermost loop, with what can be done if the outcome is not kept."""
            if not self._running:
                self._began = time.process_time()
                kept = event.data["dispatcher"].stats.cache_path
                current.get()("compiling", 0.0, "once on this machine" if kept else "kept nowhere: set NUMBA_CACHE_DIR")
            self._running += 1

        def on_end(self, event: event.Event) -> None:  # noqa: ARG002
            """Tell the end of the outermost loop."""
            self._running -= 1
            if not self._running:
                gc.collect()  # compiling leaves cycles with the frames of its callers, and with all that these hold
                leave_out(time.process_time() - self._began)
                current.get()("compiling", 1.0)

    event.register("numba:compile", _Compiling())  # type: ignore[no-untyped-call]
