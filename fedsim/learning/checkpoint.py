"""What has changed since training began, kept so that it goes on after a kill and ends at the same bytes.

The file may lie in somebody else's folder. It holds numbers, texts and arrays, and nothing that names a class: they are
put into what training begins with, if it is of this very run and each has its kind and shape. Otherwise, and where an
optimizer of a user's own remembers something else, training begins anew.
"""

import json
import time
from array import array
from collections import deque
from copy import copy
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedsim.common.files import read_checked, write_checked
from fedsim.common.regular_files import check_replaceable
from fedsim.log.columns import Arrays

_SECONDS, _SHARE = 30.0, 0.02  # between two files at least, and of the time that keeping them may take
_TREE = "tree"
_PLAIN = (type(None), bool, int, float, str)
_SEQUENCES = {"list": list, "tuple": tuple, "deque": deque}
_State = TypeVar("_State")


class Checkpoint:
    """A file of a run directory that holds the state of its training, replaced every half a minute.

    `run` says of which run over which log it is; what another one has kept is not read.
    """

    def __init__(self, path: Path, run: str = "") -> None:
        self._path, self._run, self._next = path, run, time.monotonic() + _SECONDS

    @property
    def due(self) -> bool:
        """Whether it is time to keep the state again."""
        return time.monotonic() >= self._next

    def keep(self, step: int, state: object) -> None:
        """Keep the state after so many steps; never, where it has something of another class than fedsim's."""
        began, arrays = time.monotonic(), Arrays()
        try:
            tree = json.dumps(_taken_apart((step, state), arrays))
        except (TypeError, RecursionError):  # something of a user's own, or within itself
            self._next = float("inf")
            return
        write_checked(self._path, {**arrays, _TREE: np.frombuffer(tree.encode(), np.uint8)}, self._run)
        now = time.monotonic()
        self._next = now + max(_SECONDS, (now - began) / _SHARE)

    def read(self, begun: _State) -> tuple[int, _State] | None:
        """Return the steps that are done and the state after them, of the form of one before the first step.

        None where there is none that can be used.
        """
        try:
            check_replaceable(self._path)
            arrays = read_checked(self._path, self._run)
            step, state = _put_together(json.loads(arrays[_TREE].tobytes()), arrays, (0, begun))
        except FileNotFoundError:
            return None
        except OSError:  # nor can it be replaced
            self._next = float("inf")
            return None
        except Exception:  # noqa: BLE001 whatever a damaged file makes of it
            return None
        return step, state


def _taken_apart(value: Any, arrays: Arrays) -> Any:
    """Return a value as JSON, its arrays put aside; a `TypeError` if it is of a class that is not known."""
    if type(value) in _PLAIN:
        return value
    if type(value) in {np.ndarray, array}:
        name, held = str(len(arrays)), np.asarray(value)
        if held.dtype.hasobject:
            raise TypeError("an array of objects")
        arrays[name] = held
        return {"array": name}
    if type(value) in _SEQUENCES.values():
        return {type(value).__name__: [_taken_apart(each, arrays) for each in value]}
    if type(value) is dict:
        return {"dict": [[_taken_apart(each, arrays) for each in item] for item in value.items()]}
    if type(value).__module__.startswith("fedsim.learning."):
        return {"object": {name: _taken_apart(attribute, arrays) for name, attribute in _attributes(value).items()}}
    raise TypeError(f"{type(value).__name__} is not kept")


def _put_together(tree: Any, arrays: Arrays, like: Any) -> Any:
    """Return the value of a tree, of the kind and shape of another one; of plain ones and arrays, where that is None.

    What grows may be longer: a list, a mapping that is empty there, an array that is empty there or of rows.
    """
    if not isinstance(tree, dict):
        if type(tree) not in _PLAIN or not (like is None or type(tree) is type(like)):
            raise ValueError("another kind")
        return tree
    ((kind, held),) = tree.items()
    if kind == "array":
        stored, wanted = arrays[held], arrays[held] if like is None else np.asarray(like)
        rows = type(like) is array or wanted.ndim > 1 or not wanted.size
        shape = stored.shape if wanted.ndim and rows else wanted.shape
        if stored.dtype != wanted.dtype or stored.shape != shape or stored.shape[1:] != wanted.shape[1:]:
            raise ValueError("another shape")
        return array(like.typecode, stored.tobytes()) if type(like) is array else stored
    if like is not None and kind != (type(like).__name__ if type(like) in {*_SEQUENCES.values(), dict} else "object"):
        raise ValueError("another kind")
    if kind == "object":
        made, attributes = copy(like), _attributes(like)
        if attributes.keys() != held.keys():
            raise ValueError("other attributes")
        for name, value in held.items():
            object.__setattr__(made, name, _put_together(value, arrays, attributes[name]))
        return made
    if kind == "dict":
        pairs = [(_put_together(name, arrays, None), value) for name, value in held]
        if like and like.keys() != dict(pairs).keys():
            raise ValueError("other keys")
        return {name: _put_together(value, arrays, like.get(name) if like else None) for name, value in pairs}
    others = like if kind == "tuple" and like is not None else [None] * len(held)
    return _SEQUENCES[kind](_put_together(each, arrays, other) for each, other in zip(held, others, strict=True))


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object that are kept, in slots or not."""
    held = value.__getstate__()
    return dict((held[1] if isinstance(held, tuple) else held) or {})
