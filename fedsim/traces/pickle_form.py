"""FedScale's availability of devices: a pickle of ``{id: {"active": [...], "inactive": [...], "finish_time": ...}}``.

A pickle is a program. This one is read by a machine that knows numbers, text, lists and dictionaries alone: an
instruction that names a class or a function, calls or builds anything is refused where it stands. The i-th number of
``active`` is when a device becomes available, the i-th of ``inactive`` when it ceases to be, in seconds.
"""

import io
import pickle
import struct
from typing import Any, NoReturn

import numpy as np

from fedsim.availability.trace.faults import MOST_DEVICES, MOST_INTERVALS, TraceError
from fedsim.availability.trace.rows import Rows

# fmt: off
_KNOWN = [
    "PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS",
    "EMPTY_LIST", "LIST", "APPEND", "APPENDS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "NONE",
    "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT", "UNICODE",
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "PUT", "BINPUT", "LONG_BINPUT", "GET", "BINGET",
    "LONG_BINGET", "MEMOIZE",
]
# fmt: on
_SHAPE = 'a pickled trace is {id: {"active": [...], "inactive": [...]}} with times in seconds'


class _PlainUnpickler(pickle._Unpickler):  # the C one has no table of instructions
    """Knows no instruction that names, calls or builds anything."""

    dispatch = {  # noqa: RUF012 - as in the class above
        getattr(pickle, name)[0]: pickle._Unpickler.dispatch[getattr(pickle, name)[0]] for name in _KNOWN
    }

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"names {module}.{name}")


def read_pickle(source: str, data: bytes) -> Rows:
    """Read a trace from a pickle of plain values.

    Raises
    ------
    TraceError
        If it holds anything else, or has another shape.
    """
    return _rows(plain_pickle(source, data), source)


def plain_pickle(source: str, data: bytes) -> Any:
    """Return what a pickle of plain values holds.

    Raises
    ------
    TraceError
        If it holds anything but numbers, text, lists and dictionaries.
    """
    file = io.BytesIO(data)
    try:
        return _PlainUnpickler(file).load()
    except KeyError as error:
        code = error.args[0] if error.args else ""
        name = (
            next((key for key, value in vars(pickle).items() if value == bytes([code])), "")
            if isinstance(code, int)
            else ""
        )
        what = f"the instruction {name}" if name else "an instruction that is none"
        message = (
            f"is a Python pickle with {what} before byte {file.tell():,}: only numbers, text, lists and dictionaries "
            "are read, since anything else could run a program"
        )
        raise TraceError(message, source) from None
    except (
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        TypeError,
        IndexError,
        AttributeError,
        OverflowError,
        struct.error,
    ):
        raise TraceError("is not a whole pickle of numbers, text, lists and dictionaries", source) from None


def _rows(found: Any, source: str) -> Rows:
    if not isinstance(found, dict) or not found:
        raise TraceError(_SHAPE, source)
    if len(found) > MOST_DEVICES:
        raise TraceError(f"has more than {MOST_DEVICES:,} devices", source)
    names, counts, starts, ends, total = [], [], [], [], 0
    for name, device in found.items():
        if not isinstance(name, str | int) or not isinstance(device, dict):
            raise TraceError(_SHAPE, source)
        on, off = (device.get(key) for key in ("active", "inactive"))
        if not isinstance(on, list | tuple) or not isinstance(off, list | tuple) or len(on) != len(off):
            message = f"device {name!r} must have as many times `active` as `inactive`; {_SHAPE}"
            raise TraceError(message, source)
        total += len(on)
        if total > MOST_INTERVALS:
            raise TraceError(f"has more than {MOST_INTERVALS:,} intervals", source)
        if not all(isinstance(value, int | float) for value in (*on, *off)):
            raise TraceError(f"device {name!r} has a time that is no number; {_SHAPE}", source)
        try:
            starts.append(np.array(on, dtype=np.float64))
            ends.append(np.array(off, dtype=np.float64))
        except OverflowError:
            raise TraceError(f"device {name!r} has a time that is impossible", source) from None
        names.append(str(name))
        counts.append(len(on))
    if len(set(names)) < len(names):
        raise TraceError("has a device twice, once by number and once by text", source)
    devices = np.repeat(np.arange(len(names)), counts)
    codes = np.zeros(len(devices), dtype=np.int8)
    return Rows(tuple(names), devices, np.concatenate(starts), np.concatenate(ends), codes, source)
