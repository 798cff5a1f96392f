"""Arguments of public functions, checked: messages about a wrong type or range say what was wanted."""

import os
import re
from operator import index
from pathlib import Path
from typing import SupportsIndex

from fedsim.common.errors import Mistake, RunError, ScenarioError

_ADDRESS = re.compile(r"([A-Za-z][\w+.:-]+:)/+")
IN_A_FILE = {"in_a_file": True}
"""Context of a validation in which a duration needs its unit."""


def path_of(name: str, value: object, wanted: str) -> Path:
    """Return an argument as a path; a `TypeError` says what was `wanted` if it is neither text nor a path.

    A `RunError` refuses an address, as `check_local` does.
    """
    if isinstance(value, str) or (isinstance(value, os.PathLike) and isinstance(os.fspath(value), str)):
        check_local(value)
        return Path(value)
    raise TypeError(f"{name} must be {wanted}, not {short_repr(value)}")


def check_local(path: str | os.PathLike[str]) -> None:
    """Refuse an address, such as ``s3://bucket/x``, for which a folder ``s3:`` would be made: a `RunError` says so.

    A path has lost one of the two slashes.
    """
    text = os.fspath(path).replace("\\", "/")
    if address := _ADDRESS.match(text):
        slashes = "///" if address[1] == "file:" else "//"
        shown = short_repr(f"{address[1]}{slashes}{text[address.end() :]}")
        raise RunError(
            f"{shown} is an address, and fedsim reads and writes files of this machine alone: name one without "
            f"{address[1]!r}, and copy what is there from or to the address"
        )


def whole(name: str, value: object, least: int = 0) -> int:
    """Return an argument as a whole number; a `TypeError` if it is none, a `ScenarioError` if it is below the least."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{name} must be a whole number of at least {least}, not {short_repr(value)}")
    if index(value) < least:
        raise ScenarioError([Mistake(name, (), f"must be a whole number of at least {least}, not {value!r}")])
    return index(value)


def short_repr(value: object) -> str:
    """Return the `repr` of a value, at most 60 characters of it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
