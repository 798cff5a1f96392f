"""The lock file: what figures and tables were when a person last looked, by platform, and how far they have drifted."""

import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from fedsim.common.errors import FedsimError
from fedsim.common.files import remove, write_text
from fedsim.scenario import Scenario
from fedsim.scenario.permissions import NOTHING, Permissions, locate
from fedsim.scenario.sweep import WITHOUT_EFFECT

_LARGEST_FILE = 16 * 2**20
_V = TypeVar("_V", float, str)
_Metrics = Mapping[str, float | None]
_Status = Literal["keep", "drift", "missing", "unused", "error"]
"""Within tolerance, or not; not locked; locked, but not asked for; the run has no such figure or table."""
Mode = Literal["check", "locked", "update"]
"""Of a replay: compare with the lock files, fail on a missing or unused lock as well, or update the lock files."""
_ACTIONS = {"keep": "KEEP", "drift": "UPDATE", "missing": "INSERT", "unused": "REMOVE", "error": "ERROR"}


class LockError(FedsimError):
    """A lock file that cannot be read; the message begins with its place."""


class Entry(BaseModel, extra="forbid", frozen=True):
    """What is locked for one platform: figures by the name of the metric, fingerprints by that of the table."""

    figures: dict[str, FiniteFloat] = {}
    fingerprints: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = {}
    # Of what the scenario said then, but for what names and judges it; "" in locks of before version 0.3.
    scenario: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""


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

    variants = opt_func_info(func_name="^log$", signature="float64").get("log", {})
    levels = {variant.get("current") or "baseline" for variant in variants.values()}
    level = re.sub(r"[^a-z0-9]+", "_", "-".join(sorted(levels)).lower()).strip("_") or "baseline"
    python = ".".join(platform.python_version_tuple()[:2])
    numpy = ".".join(np.__version__.split(".")[:2])
    return f"{platform.system().lower()}-{platform.machine().lower()}-{level}-python{python}-numpy{numpy}"


def read_lock(path: Path, permissions: Permissions = NOTHING) -> Lock:
    """Read a lock file, empty if it is not there; a `LockError` says why it cannot be read.

    `permissions` say whether a link may lead outside the folder.
    """

    def error_at(place: str, message: str) -> LockError:
        return LockError(f"{path}:{place}: error: {message}")

    there = os.path.lexists(path)  # also a link to nothing
    try:
        path = locate(path.parent, path.name, permissions)
    except ValueError as error:
        raise error_at("1:1", str(error)) from None
    try:
        if not there:
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
    """Write a lock file at once, with the same bytes for the same content; without content there is no file."""
    kept = {name: entry for name, entry in lock.items() if entry.figures or entry.fingerprints}
    if not kept:
        remove(path)
        return
    write_text(path, lock_text(kept))


def lock_text(lock: Lock) -> str:
    """Return the content of a lock file."""
    written = {name: entry.model_dump() for name, entry in lock.items()}
    entries = {name: {key: each for key, each in entry.items() if each != ""} for name, entry in written.items()}
    return json.dumps({"format": 1, "platforms": entries}, indent=2, sort_keys=True, allow_nan=False) + "\n"


@dataclass(frozen=True)
class LockedValue:
    """A locked figure, the fingerprint of a table, or the lock file as a whole: as it was and as it is."""

    kind: Literal["figure", "fingerprint", "lock"]
    name: str
    status: _Status
    old: float | str | None = None  # None where nothing is locked
    new: float | str | None = None  # None where the run has none
    tolerance: float | None = None  # of a figure: how far it may be from the locked value
    place: str = ""  # ``FILE:LINE:COLUMN`` at which the scenario asks for it
    note: str = ""
    changed: bool = False  # whether the scenario itself is another than when it was locked

    @property
    def action(self) -> str:
        """What ``--update`` does about it."""
        if self.status in {"keep", "drift"} and self.note:  # compared with other platforms: this one has nothing yet
            return "INSERT"
        return _ACTIONS[self.status]

    def outcome(self, mode: Mode) -> Literal["pass", "fail", "lock"]:
        """What it means for the replay; an update settles everything except a figure that the run does not have."""
        if self.status == "error" or (self.status == "drift" and mode != "update"):
            return "fail"
        return "lock" if self.status in {"missing", "unused"} and mode == "locked" else "pass"

    @property
    def values(self) -> str:
        """Old and new, as a person compares them."""
        old, new = _shown(self.old), _shown(self.new)
        if self.status in {"drift", "keep"} and self.old != self.new:
            words = f"{old} -> {new}"
            if isinstance(self.old, float) and isinstance(self.new, float) and self.tolerance is not None:
                words += f" (changed by {self.new - self.old:.3g}, tolerance {self.tolerance:.3g})"
            return words
        return new or old


def compare_with_lock(
    scenario: Scenario, lock: Lock, platform: str, metrics: _Metrics, fingerprints: Mapping[str, str]
) -> list[LockedValue]:
    """Compare what the scenario's `drift` names of a run with the lock.

    A platform that has no entry yet is compared with those of the others: what is within the tolerance of any, or the
    same bytes as any, is kept. A figure outside all of them has drifted; a fingerprint that equals none is missing,
    since the last bits may differ from platform to platform.
    """
    drift = scenario.drift
    if drift is None:
        return []
    values = []
    for index, figure in enumerate(drift.figures):
        rel, absolute = drift.tolerance(figure)
        figures, note = _known({name: entry.figures for name, entry in lock.items()}, figure.name, platform)
        place = scenario.mistake(("drift", "figures", index), "").place
        values.append(_figure(figure.name, metrics.get(figure.name), figures, note, rel, absolute, place))
    for index, table in enumerate(drift.fingerprint):
        hashes, note = _known({name: entry.fingerprints for name, entry in lock.items()}, table, platform)
        place = scenario.mistake(("drift", "fingerprint", index), "").place
        values.append(_fingerprint(table, fingerprints.get(table), hashes, note, place))
    then = {entry.scenario for entry in ([lock[platform]] if platform in lock else lock.values())}
    changed = bool(then) and then.isdisjoint({"", _scenario_hash(scenario)})
    return [replace(each, changed=changed and each.status in {"drift", "missing"}) for each in values]


def _scenario_hash(scenario: Scenario) -> str:
    kept = {key: value for key, value in scenario.as_written.items() if key not in WITHOUT_EFFECT}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()


def compare_and_update(
    scenario: Scenario, path: Path, lock: Lock, metrics: _Metrics, fingerprints: Mapping[str, str], mode: Mode
) -> list[LockedValue]:
    """Compare a run with the lock at `path`, unused values included, and write the lock file if that is asked for."""
    platform = platform_key()
    compared = compare_with_lock(scenario, lock, platform, metrics, fingerprints)
    new = updated_lock(scenario, lock, platform, compared)
    if mode == "update" and (lock or new) and lock_text(new) != lock_text(lock):
        write_lock(path, new)
    return [*compared, *unused_values(scenario, lock, str(path))]


def _figure(
    name: str, new: float | None, locked: Sequence[float], note: str, rel: float, absolute: float, place: str
) -> LockedValue:
    if new is None or not math.isfinite(new):
        old = locked[0] if locked else None
        return LockedValue("figure", name, "error", old, None, None, place, "no samples")
    if not locked:
        return LockedValue("figure", name, "missing", new=float(new), place=place)
    nearest = min(locked, key=lambda old: abs(new - old))
    allowed = max(rel * abs(nearest), absolute)
    status: _Status = "keep" if abs(new - nearest) <= allowed else "drift"
    return LockedValue("figure", name, status, nearest, float(new), allowed, place, note)


def _fingerprint(name: str, new: str | None, locked: Sequence[str], note: str, place: str) -> LockedValue:
    old = new if new in locked else locked[0] if locked else None
    if new is None:
        return LockedValue("fingerprint", name, "error", old, None, None, place, "no such table")
    status: _Status = "keep" if new in locked else "drift" if locked and not note else "missing"
    return LockedValue("fingerprint", name, status, old, new, None, place, note)


def unused_values(scenario: Scenario, lock: Lock, path: str) -> Iterator[LockedValue]:
    """Yield what is locked although the scenario does not ask for it."""
    if not lock:
        return
    drift, place = scenario.drift, f"{path}:1:1"
    if drift is None:
        yield LockedValue("lock", path, "unused", place=place, note="the scenario has no `drift`")
        return
    figures = {name for entry in lock.values() for name in entry.figures} - {figure.name for figure in drift.figures}
    tables = {name for entry in lock.values() for name in entry.fingerprints} - set(drift.fingerprint)
    yield from (LockedValue("figure", name, "unused", place=place) for name in sorted(figures))
    yield from (LockedValue("fingerprint", name, "unused", place=place) for name in sorted(tables))


def updated_lock(scenario: Scenario, lock: Lock, platform: str, compared: Sequence[LockedValue]) -> dict[str, Entry]:
    """Return the lock after ``--update``: what is kept stays as it is, what is not asked for goes.

    An entry of another platform keeps its values: they can be measured only there.
    """
    drift = scenario.drift
    if drift is None:
        return {}
    names, tables = {figure.name for figure in drift.figures}, set(drift.fingerprint)
    kept = {
        name: Entry(
            figures={metric: value for metric, value in entry.figures.items() if metric in names},
            fingerprints={table: value for table, value in entry.fingerprints.items() if table in tables},
            scenario=entry.scenario,
        )
        for name, entry in lock.items()
    }
    before = kept.get(platform, Entry())
    figures, fingerprints = dict(before.figures), dict(before.fingerprints)
    for each in compared:
        if isinstance(each.new, float) and (each.status != "keep" or each.name not in figures):
            figures[each.name] = each.new
        elif isinstance(each.new, str):
            fingerprints[each.name] = each.new
    same = (figures, fingerprints) == (before.figures, before.fingerprints)
    digest = before.scenario if same else _scenario_hash(scenario)
    return kept | {platform: Entry(figures=figures, fingerprints=fingerprints, scenario=digest)}


def _known(values: Mapping[str, Mapping[str, _V]], name: str, platform: str) -> tuple[list[_V], str]:
    """Return what is locked under a name for this platform; else for the others, and a note that says so."""
    locked = {each: entries[name] for each, entries in sorted(values.items()) if name in entries}
    if platform in locked or not locked:
        return [locked[platform]] if locked else [], ""
    return list(locked.values()), f"compared with {', '.join(locked)}: nothing is locked for {platform}"


def _shown(value: float | str | None) -> str:
    if value is None:
        return ""
    return value[:12] if isinstance(value, str) else f"{value:.12g}"
