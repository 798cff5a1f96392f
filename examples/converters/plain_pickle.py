"""Read a pickle of plain values without running anything.

A pickle is a program. This reader knows the instructions for numbers, text, lists and dictionaries alone: it refuses
any instruction that names a class or a function, calls or builds something.
"""

import io
import pickle
import struct
from pathlib import Path
from typing import Any, NoReturn

LARGEST_FILE = 512 * 2**20
# fmt: off
KNOWN = [
    "PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS",
    "EMPTY_LIST", "LIST", "APPEND", "APPENDS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "NONE",
    "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT", "UNICODE",
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "PUT", "BINPUT", "LONG_BINPUT", "GET", "BINGET",
    "LONG_BINGET", "MEMOIZE",
]
# fmt: on


class PlainUnpickler(pickle._Unpickler):  # the C one has no table of instructions
    """Knows no instruction that names, calls or builds anything."""

    dispatch = {  # noqa: RUF012 - as in the class above
        getattr(pickle, name)[0]: pickle._Unpickler.dispatch[getattr(pickle, name)[0]] for name in KNOWN
    }

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse."""
        raise pickle.UnpicklingError(f"names {module}.{name}")


def plain_pickle(path: Path) -> Any:
    """Return what a pickle of plain values holds.

    Raises
    ------
    SystemExit
        If it cannot be read, or holds anything but numbers, text, lists and dictionaries.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise SystemExit(f"{path}: is larger than {LARGEST_FILE // 2**20} MiB")
        file = io.BytesIO(path.read_bytes())
    except OSError as error:
        raise SystemExit(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        return PlainUnpickler(file).load()
    except KeyError as error:
        code = error.args[0]
        known = {value: name for name, value in vars(pickle).items() if isinstance(value, bytes) and len(value) == 1}
        name = known.get(bytes([code])) if isinstance(code, int) else None
        raise SystemExit(
            f"{path}: is a Python pickle with {f'the instruction {name}' if name else 'an instruction that is none'} "
            f"before byte {file.tell():,}: only numbers, text, lists and dictionaries are read, since anything else "
            "could run a program"
        ) from None
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
        raise SystemExit(f"{path}: is not a whole pickle of numbers, text, lists and dictionaries") from None
