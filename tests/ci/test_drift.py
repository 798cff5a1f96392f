"""Locked figures may move within their tolerance, locked tables not at all; platforms stand side by side."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.ci.lock import (
    Entry,
    Lock,
    LockedValue,
    LockError,
    compare_with_lock,
    lock_path,
    lock_text,
    platform_key,
    read_lock,
    unused_values,
    updated_lock,
    write_lock,
)
from fedsim.ci.remarks import of_comparison
from fedsim.scenario import Scenario
from tests.conftest import LIMIT_S

HERE, THERE = "here", "there"
HASHES = [hashlib.sha256(text).hexdigest() for text in (b"one", b"two")]


def scenario(**drift: object) -> Scenario:
    return Scenario.model_validate(
        {
            "stop": {"rounds": 1},
            "population": [{"devices": 3}],
            "server": {"cohort": 1},
            "drift": {"figures": ["rounds.count"], "fingerprint": ["rounds"], **drift},
        }
    )


def statuses(lock: Lock, value: float | None = 5.0, table: str = HASHES[0], **drift: object) -> list[str]:
    return [each.status for each in compared(lock, value, table, **drift)]


def compared(lock: Lock, value: float | None, table: str, **drift: object) -> list[LockedValue]:
    return compare_with_lock(scenario(**drift), lock, HERE, {"rounds.count": value}, {"rounds": table})


def entry(value: float = 5.0, table: str = HASHES[0]) -> Entry:
    return Entry(figures={"rounds.count": value}, fingerprints={"rounds": table})


def test_a_run_is_compared_with_its_platform() -> None:
    assert statuses({}) == ["missing", "missing"]
    assert statuses({HERE: entry()}) == ["keep", "keep"]
    assert statuses({HERE: entry(5.005, HASHES[1])}) == ["drift", "drift"]
    assert statuses({HERE: entry(5.005, HASHES[1]), THERE: entry()}) == ["drift", "drift"]
    assert statuses({HERE: entry()}, None) == ["error", "keep"]
    assert statuses({HERE: entry()}, float("nan")) == ["error", "keep"]


def test_a_platform_without_an_entry_is_compared_with_the_others() -> None:
    assert statuses({THERE: entry()}) == ["keep", "keep"]
    assert statuses({THERE: entry(5.005, HASHES[1])}) == ["drift", "missing"]
    assert statuses({THERE: entry(5.005, HASHES[1]), "elsewhere": entry()}) == ["keep", "keep"]
    assert [each.action for each in compared({THERE: entry()}, 5.0, HASHES[0])] == ["INSERT", "INSERT"]


@given(old=st.floats(-1e6, 1e6), change=st.floats(-1e-3, 1e-3), rel=st.floats(0, 1e-3), absolute=st.floats(0, 1e-3))
def test_the_larger_tolerance_counts(old: float, change: float, rel: float, absolute: float) -> None:
    """The larger of the two tolerances counts; one of the figure's own wins over that of all."""
    new = old * (1 + change)
    expected = "keep" if abs(new - old) <= max(rel * abs(old), absolute) else "drift"
    lock = {HERE: entry(old)}
    assert statuses(lock, new, rel=rel, abs=absolute)[0] == expected
    own = [{"name": "rounds.count", "rel": rel, "abs": absolute}]
    assert statuses(lock, new, figures=own, rel=1.0, abs=1e9)[0] == expected


@given(
    locked=st.dictionaries(st.sampled_from([HERE, THERE]), st.builds(entry, st.floats(-9, 9), st.sampled_from(HASHES))),
    value=st.floats(-9, 9),
    table=st.sampled_from(HASHES),
)
def test_after_an_update_everything_is_kept(locked: dict[str, Entry], value: float, table: str) -> None:
    one = scenario()
    found = compare_with_lock(one, locked, HERE, {"rounds.count": value}, {"rounds": table})
    new = updated_lock(one, locked, HERE, found)
    again = compare_with_lock(one, new, HERE, {"rounds.count": value}, {"rounds": table})
    assert {each.status for each in again} == {"keep"}
    assert {each.action for each in again} == {"KEEP"}
    assert updated_lock(one, new, HERE, again) == new
    assert new.get(THERE) == locked.get(THERE)


def test_what_is_kept_stays_to_the_last_digit() -> None:
    """Files in a repository do not change for a change within tolerance."""
    lock = {HERE: entry(5.0)}
    found = compare_with_lock(scenario(), lock, HERE, {"rounds.count": 5.0000001}, {"rounds": HASHES[0]})
    assert updated_lock(scenario(), lock, HERE, found) == lock


def test_what_is_not_asked_for_is_unused() -> None:
    lock = {
        HERE: Entry(
            figures={"rounds.count": 1.0, "rounds.per_day": 2.0},
            fingerprints={"rounds": HASHES[0], "gauges": HASHES[1]},
        )
    }
    assert [each.name for each in unused_values(scenario(), lock, "x.json")] == ["rounds.per_day", "gauges"]
    bare = Scenario.model_validate({"stop": {"rounds": 1}, "population": [{"devices": 3}], "server": {"cohort": 1}})
    assert [each.kind for each in unused_values(bare, lock, "x.json")] == ["lock"]
    assert list(unused_values(bare, {}, "x.json")) == []
    assert updated_lock(bare, lock, HERE, []) == {}
    assert set(updated_lock(scenario(), lock, HERE, [])[HERE].figures) == {"rounds.count"}


@pytest.mark.long
@given(
    lock=st.dictionaries(
        st.text(min_size=1, max_size=20),
        st.builds(
            Entry,
            figures=st.dictionaries(st.text(max_size=9), st.floats(allow_nan=False, allow_infinity=False), min_size=1),
            fingerprints=st.dictionaries(st.text(max_size=9), st.sampled_from(HASHES)),
        ),
        max_size=4,
    )
)
def test_a_lock_file_keeps_what_it_is_given(tmp_path: Path, lock: dict[str, Entry]) -> None:
    path = tmp_path / "x.fedsim.lock.json"
    write_lock(path, lock)
    assert path.exists() == bool(lock)
    assert read_lock(path) == lock
    if lock:
        text = path.read_text()
        assert text == lock_text(dict(reversed(lock.items())))
        assert list(json.loads(text)["platforms"]) == sorted(lock)


@pytest.mark.skipif(os.name != "posix", reason="elsewhere nothing tells whether a process is gone")
def test_what_a_killed_update_left_is_removed_and_what_another_writes_is_not(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os; print(os.getpid())"]
    gone = subprocess.run(command, capture_output=True, check=True, timeout=LIMIT_S)
    path = tmp_path / "x.fedsim.lock.json"
    left, written = (path.with_name(f".{path.name}.{process}.partial") for process in (int(gone.stdout), os.getppid()))
    left.touch()
    written.touch()
    write_lock(path, {"here": Entry(figures={"a": 1.0}, fingerprints={})})
    assert sorted(tmp_path.iterdir()) == sorted([path, written])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", ":1:2: error: is not JSON"),
        ('{"format": 1,\n "platforms": {]}', ":2:16: error: is not JSON"),
        ("[" * 100_000, "error: is not JSON"),
        ("[]", "is not a lock file that this version understands"),
        ('{"format": 2, "platforms": {}}', "is not a lock file"),
        ('{"format": 1, "platforms": {"a": {"figures": {"b": "c"}}}}', "is not a lock file"),
        ('{"format": 1, "platforms": {"a": {"figures": {"b": NaN}}}}', "is not a lock file"),
        ('{"format": 1, "platforms": {"a": {"fingerprints": {"b": "c"}}}}', "is not a lock file"),
        ('{"format": 1, "platforms": []}', "is not a lock file"),
        ('{"format": 1, "platforms": {"a": {"figures": {"b": 1' + "0" * 400 + "}}}}", "is not a lock file"),
    ],
)
def test_a_damaged_lock_is_an_error(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "x.fedsim.lock.json"
    path.write_text(text)
    with pytest.raises(LockError) as caught:
        read_lock(path)
    assert complaint in str(caught.value)
    path.unlink()
    path.symlink_to("nowhere")
    with pytest.raises(LockError, match="is not a file"):
        read_lock(path)


def test_a_lock_is_named_after_its_scenario() -> None:
    assert lock_path(Path("a/b.fedsim.yaml")) == Path("a/b.fedsim.lock.json")
    assert lock_path(Path("b.yaml")) == Path("b.fedsim.lock.json")
    assert platform_key() == platform_key()
    assert "python3." in platform_key()


def test_drift_says_that_the_scenario_itself_has_changed() -> None:
    lock = updated_lock(scenario(), {}, HERE, compared({}, 5.0, HASHES[0]))
    assert [each.changed for each in compared(lock, 6.0, HASHES[0])] == [False, False]
    other = Scenario.model_validate(scenario().model_dump() | {"seed": 7})
    drifted, kept = compare_with_lock(other, lock, HERE, {"rounds.count": 6.0}, {"rounds": HASHES[0]})
    assert (drifted.changed, kept.changed) == (True, False)
    assert "the scenario itself has changed" in of_comparison(drifted, "check").text
