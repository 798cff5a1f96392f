"""The lock file: what figures and tables were when a person last looked, for several platforms side by side."""

import json
import os
import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from fedsim.common.errors import FedsimError
from fedsim.common.files import remove, write_text
from fedsim.scenario.permissions import NOTHING, Permissions, locate

_LARGEST_FILE = 16 * 2**20


class LockError(FedsimError):
    """A lock file that cannot be read; the message begins with its place."""


class Entry(BaseModel, extra="forbid", frozen=True):
    """What is locked for one platform: figures by the name of the metric, fingerprints by that of the table."""

    figures: dict[str, FiniteFloat] = {}
    fingerprints: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = {}


Lock = Mapping[str, Entry]
"""Entries by platform."""


class _Written(BaseModel, extra="forbid"):
    format: Literal[1]
    platforms: dict[str, Entry]


def lock_path(scenario_file: Path) -> Path:
    """Return the lock file of a scenario file: ``NAME.fedsim.lock.json`` next to ``NAME.fedsim.yaml``."""
    stem = scenario_file.name.removesuffix(scenario_file.suffix).removesuffix(".fedsim")
    return scenario_file.with_name(f"{stem}.fedsim.lock.json")


def platform_key() -> str:
    """Return the name of this platform, as far as it can change the last bits of a result.

    System, machine, Python and NumPy; and the instruction set for which NumPy computes logarithms, since processors of
    one kind of machine differ in it and round differently.
    """
    import numpy as np
    from numpy.lib.introspect import opt_func_info

    found = opt_func_info(func_name="^log$", signature="float64").get("log", {})
    levels = {variant.get("current") or "baseline" for variant in found.values()}
    level = re.sub(r"[^a-z0-9]+", "_", "-".join(sorted(levels)).lower()).strip("_") or "baseline"
    python = ".".join(platform.python_version_tuple()[:2])
    numpy = ".".join(np.__version__.split(".")[:2])
    return f"{platform.system().lower()}-{platform.machine().lower()}-{level}-python{python}-numpy{numpy}"


def read_lock(path: Path, permissions: Permissions = NOTHING) -> Lock:
    """Read a lock file, empty if it is not there; `permissions` say whether a link may lead outside the folder.

    Raises
    ------
    LockError
        If it cannot be read, or is not what `write_lock` writes.
    """

    def error_at(place: str, message: str) -> LockError:
        return LockError(f"{path}:{place}: error: {message}")

    try:
        path = locate(path.parent, path.name, permissions)
    except ValueError as error:
        raise error_at("1:1", str(error)) from None
    try:
        if not path.exists():
            return {}
        if not path.is_file():
            raise error_at("1:1", "is not a file")
        if path.stat().st_size > _LARGEST_FILE:
            raise error_at("1:1", f"is larger than {_LARGEST_FILE // 2**20} MiB, too large for a lock file")
        data = json.loads(path.read_bytes().decode())
    except OSError as error:
        raise error_at("1:1", f"cannot be read: {error.strerror or error}") from None
    except json.JSONDecodeError as error:
        raise error_at(f"{error.lineno}:{error.colno}", f"is not JSON: {error.msg}") from None
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise error_at("1:1", f"is not JSON: {error}") from None
    try:
        return _Written.model_validate(data, strict=True).platforms
    except ValidationError:
        message = "is not a lock file that this version understands; remove it and replay with --update"
        raise error_at("1:1", message) from None


def write_lock(path: Path, lock: Lock) -> None:
    """Write a lock file at once, with the same bytes for the same content; without content there is no file.

    Raises
    ------
    RunError
        If it cannot be written.
    """
    kept = {name: entry for name, entry in lock.items() if entry.figures or entry.fingerprints}
    if not kept:
        remove(path)
        return
    write_text(path, lock_text(kept))
    for left in path.parent.glob(f".{escape(path.name)}.*.partial"):
        if _was_killed(left):
            with suppress(OSError):
                left.unlink()


def _was_killed(partial: Path) -> bool:
    """Say whether the process that wrote a temporary file is gone; another update may be writing just now."""
    process = partial.name.removesuffix(".partial").rpartition(".")[2]
    if not process.isdecimal() or os.name != "posix":
        return False
    try:
        os.kill(int(process), 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, ProcessLookupError | OverflowError)
    return False


def lock_text(lock: Lock) -> str:
    """Return the content of a lock file."""
    entries = {name: entry.model_dump() for name, entry in lock.items()}
    return json.dumps({"format": 1, "platforms": entries}, indent=2, sort_keys=True, allow_nan=False) + "\n"
