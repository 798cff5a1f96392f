"""JSON as fedsim writes it, and JSON files read with errors that name the file."""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from fedsim.common.errors import MissingRunError, RunError
from fedsim.common.regular_files import open_regular

_LARGEST = 2**28  # bytes
_DEEPEST = 100
Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | int | float | None"


def as_json(data: Any) -> str:
    """Return the text of a JSON file."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def checksum(data: Mapping[str, Any], *left_out: str) -> str:
    """Return the SHA-256 of a JSON object as `as_json` writes it, without some of its keys."""
    counted = {key: value for key, value in data.items() if key not in left_out}
    return hashlib.sha256(as_json(counted).encode("utf-8", "surrogatepass")).hexdigest()


def finite(data: Any) -> Any:
    """Return data, or figures by name, as JSON can say them: None for numbers that are not finite."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {name: finite(value) for name, value in data.items()}
    return [finite(value) for value in data] if isinstance(data, list | tuple) else data


def read_object(path: Path, absent: str = "") -> dict[str, Any]:
    """Read a JSON object from a file.

    A `RunError` says if it is missing, for which `absent` may give the message, cannot be read, or is something else.
    """
    try:
        with open_regular(path, _LARGEST) as file:
            data = json.loads(file.read().decode())
        level = [data]
        for _ in range(_DEEPEST):  # so that whoever goes through it meets no end of the stack
            nested = [each for each in level if isinstance(each, dict | list)]
            level = [inner for each in nested for inner in (each.values() if isinstance(each, dict) else each)]
        if level:
            raise ValueError(f"it is nested more than {_DEEPEST} deep")  # noqa: TRY301
    except (FileNotFoundError, NotADirectoryError):
        raise MissingRunError(absent or f"{path}: no such file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path} cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise RunError(f"{path} holds no JSON object")
    return data


def read_figures(path: Path) -> dict[str, float]:
    """Read figures by name, NaN for what is null; errors as from `read_object`, also where one is not a number."""
    figures = read_object(path)
    for name, value in figures.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise RunError(f"{path}: {name} is {value!r}, not a number")
    return {name: math.nan if value is None else float(value) for name, value in figures.items()}
