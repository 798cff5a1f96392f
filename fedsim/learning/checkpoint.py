"""What has changed since training began, kept so that it goes on after a kill and ends at the same bytes.

The file is a pickle, since an optimizer's state may be of any type; only arrays, numbers, collections and classes of
`fedsim.learning` are read from it, for it may lie in somebody else's folder. What cannot be kept, or read, begins anew.
"""

import io
import pickle
import time
from pathlib import Path
from typing import Any

from fedsim.common.files import remove, write_bytes

_SECONDS, _SHARE = 30.0, 0.02  # between two files at least, and of the time that keeping them may take
_READ = {
    *(("numpy._core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "scalar")),
    *(("numpy._core.numeric", "_frombuffer"), ("numpy", "ndarray"), ("numpy", "dtype")),
    *(("array", "array"), ("array", "_array_reconstructor"), ("collections", "deque")),
}


class Checkpoint:
    """A file of a run directory that holds the state of its training, replaced every half a minute."""

    def __init__(self, path: Path) -> None:
        self._path, self._next = path, time.monotonic() + _SECONDS

    @property
    def due(self) -> bool:
        """Whether it is time to keep the state again."""
        return time.monotonic() >= self._next

    def keep(self, step: int, state: object) -> None:
        """Keep the state after so many steps; not that of a class that would not be read."""
        began = time.monotonic()
        try:
            text = pickle.dumps((step, state), protocol=5)
            _Known(io.BytesIO(text)).load()
        except (pickle.PickleError, TypeError, AttributeError):  # a closure, or something of a user's own
            self._next = float("inf")
            return
        write_bytes(self._path, text)
        now = time.monotonic()
        self._next = now + max(_SECONDS, (now - began) / _SHARE)

    def read(self) -> tuple[int, Any] | None:
        """Return the steps that are done and the state after them; None where there is none that can be used."""
        try:
            with self._path.open("rb") as file:
                step, state = _Known(file).load()
        except FileNotFoundError:
            return None
        except Exception:  # noqa: BLE001 whatever the bytes of a damaged file make of it
            remove(self._path)
            return None
        return int(step), state


class _Known(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _READ:
            return super().find_class(module, name)
        if module.startswith("fedsim.learning.") and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is none of fedsim's")
