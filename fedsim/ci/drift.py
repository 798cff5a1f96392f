"""Whether figures and tables are still what the lock file says, and the lock file that would say so."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from fedsim.ci.lock import Entry, Lock
from fedsim.scenario import Scenario

_Status = Literal["keep", "drift", "missing", "unused", "error"]
"""Within tolerance, or not; not locked; locked, but not asked for; the run has no such figure or table."""
Mode = Literal["check", "locked", "update"]
"""Of a replay: compare with the lock files, fail on a missing or unused lock as well, or update the lock files."""
_V = TypeVar("_V", float, str)

_ACTIONS = {"keep": "KEEP", "drift": "UPDATE", "missing": "INSERT", "unused": "REMOVE", "error": "ERROR"}


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
    scenario: Scenario, lock: Lock, platform: str, metrics: Mapping[str, float | None], fingerprints: Mapping[str, str]
) -> list[LockedValue]:
    """Compare what the scenario's `drift` names of a run with the lock.

    A platform that has no entry yet is compared with those of the others: what is within the tolerance of any, or the
    same bytes as any, is kept. A figure outside all of them has drifted; a fingerprint that equals none is missing,
    since the last bits may differ from platform to platform.
    """
    drift = scenario.drift
    if drift is None:
        return []
    found = []
    for index, figure in enumerate(drift.figures):
        rel = drift.rel if figure.rel is None else figure.rel
        absolute = drift.abs if figure.abs is None else figure.abs
        locked = {name: entry.figures[figure.name] for name, entry in lock.items() if figure.name in entry.figures}
        place = scenario.mistake(("drift", "figures", index), "").place
        found.append(_figure(figure.name, metrics.get(figure.name), *_known(locked, platform), rel, absolute, place))
    for index, table in enumerate(drift.fingerprint):
        hashes = {name: entry.fingerprints[table] for name, entry in lock.items() if table in entry.fingerprints}
        place = scenario.mistake(("drift", "fingerprint", index), "").place
        found.append(_fingerprint(table, fingerprints.get(table), *_known(hashes, platform), place))
    return found


def _figure(
    name: str, new: float | None, known: Sequence[float], note: str, rel: float, absolute: float, place: str
) -> LockedValue:
    if new is None or not math.isfinite(new):
        old = known[0] if known else None
        return LockedValue("figure", name, "error", old, None, None, place, "no samples")
    if not known:
        return LockedValue("figure", name, "missing", new=float(new), place=place)
    nearest = min(known, key=lambda old: abs(new - old))
    allowed = max(rel * abs(nearest), absolute)
    status: _Status = "keep" if abs(new - nearest) <= allowed else "drift"
    return LockedValue("figure", name, status, nearest, float(new), allowed, place, note)


def _fingerprint(name: str, new: str | None, known: Sequence[str], note: str, place: str) -> LockedValue:
    old = new if new in known else known[0] if known else None
    if new is None:
        return LockedValue("fingerprint", name, "error", old, None, None, place, "no such table")
    status: _Status = "keep" if new in known else "drift" if known and not note else "missing"
    return LockedValue("fingerprint", name, status, old, new, None, place, note)


def unused_values(scenario: Scenario, lock: Lock, path: str) -> Iterator[LockedValue]:
    """Yield what is locked although the scenario does not ask for it."""
    if not lock:
        return
    drift, place = scenario.drift, f"{path}:1:1"
    if drift is None or not (drift.figures or drift.fingerprint):
        yield LockedValue("lock", path, "unused", place=place, note="the scenario has no `drift`")
        return
    figures = {name for entry in lock.values() for name in entry.figures} - {figure.name for figure in drift.figures}
    tables = {name for entry in lock.values() for name in entry.fingerprints} - set(drift.fingerprint)
    yield from (LockedValue("figure", name, "unused", place=place) for name in sorted(figures))
    yield from (LockedValue("fingerprint", name, "unused", place=place) for name in sorted(tables))


def updated_lock(scenario: Scenario, lock: Lock, platform: str, found: Sequence[LockedValue]) -> dict[str, Entry]:
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
        )
        for name, entry in lock.items()
    }
    own = kept.get(platform, Entry())
    figures, fingerprints = dict(own.figures), dict(own.fingerprints)
    for each in found:
        if isinstance(each.new, float) and (each.status != "keep" or each.name not in figures):
            figures[each.name] = each.new
        elif isinstance(each.new, str):
            fingerprints[each.name] = each.new
    return kept | {platform: Entry(figures=figures, fingerprints=fingerprints)}


def _known(locked: Mapping[str, _V], platform: str) -> tuple[list[_V], str]:
    """Return what is locked for this platform; else for the others, and a note that says so."""
    if platform in locked or not locked:
        return [locked[platform]] if locked else [], ""
    others = sorted(locked)
    return [locked[name] for name in others], f"compared with {', '.join(others)}: nothing is locked for {platform}"


def _shown(value: float | str | None) -> str:
    if value is None:
        return ""
    return value[:12] if isinstance(value, str) else f"{value:.12g}"
