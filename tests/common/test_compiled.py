"""Compiled loops: the same numbers as numpy, and no compiler for those who do not need it."""

import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numba
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim import Scenario, simulate
from fedsim.common.bits import transpose_all
from fedsim.common.compiled import compiled, uniform_at, word_of
from fedsim.common.keyed import Purpose, mixed_index, stream
from fedsim.common.progress import on_stderr
from tests.command import variables
from tests.conftest import LIMIT_S


def _twice(number: int) -> int:
    return number + number


words = st.integers(0, 2**63 - 1)


@given(seed=words, client=words, index=words)
def test_compiled_draws_are_those_of_the_stream(seed: int, client: int, index: int) -> None:
    draws = stream(seed, 0, Purpose.AVAILABILITY)
    word = word_of(client, np.uint64(draws.key))
    assert word == draws.of_clients(client)[0]
    assert uniform_at(np.uint64(word) ^ mixed_index(index)[0]) == draws.uniforms(client, index)[0]


def test_where_nothing_can_be_kept_on_disk_loops_are_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    njit: Any = numba.njit

    def refuse_to_keep(*, cache: bool, **others: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(cache=False, **others)

    monkeypatch.setattr(numba, "njit", refuse_to_keep)

    def double(number: float) -> float:
        return 2 * number

    assert compiled(double)(21.0) == 42.0


def test_compiling_keeps_nothing_that_its_callers_hold() -> None:
    """It leaves cycles with their frames: the arrays of a whole simulation stayed in memory while it was measured."""
    loop = transpose_all.py_func  # type: ignore[attr-defined]

    def caller() -> weakref.ref[Any]:
        held = np.zeros(128, np.uint64)
        numba.njit(nogil=True)(loop)(held)  # as `compiled` does, but kept nowhere
        return weakref.ref(held)

    gc.collect()
    gc.disable()
    try:
        assert caller()() is None
    finally:
        gc.enable()


def _half(number: float) -> float:
    return number / 2


def test_no_folder_of_the_name_of_home_is_made(homeless: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody says where ~ is, and nothing can be written beside the module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr("os.access", lambda *_of: False)
    monkeypatch.setattr("numba.core.caching.InTreeCacheLocator.from_function", lambda *_of: None)
    assert compiled(_half)(3.0) == 1.5
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fails", ["_load_index", "_save_data"])
def test_what_is_kept_is_never_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    """A damaged file, one of another user, a full disk: it is compiled all the same."""

    def fail(*_of: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(f"numba.core.caching.IndexDataCacheFile.{fails}", fail)
    assert compiled(_half)(3.0) == 1.5


@pytest.mark.parametrize("kept", [True, False])
def test_a_person_hears_that_loops_are_compiled_the_first_time(
    *, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def heard(*, quiet: bool, cache: bool = True) -> str:
        njit: Any = numba.njit
        loop = compiled(_twice) if cache else njit(_twice)
        with on_stderr(quiet=quiet):
            assert loop(2) == 4
        return capsys.readouterr().err

    what = "once on this machine" if kept else "kept nowhere: set NUMBA_CACHE_DIR"
    assert heard(quiet=False, cache=kept) == f"compiling: 0%, {what}\ncompiling: 100%\n"
    assert heard(quiet=True, cache=kept) == ""
    if kept:
        assert heard(quiet=False) == ""


def test_compiling_is_left_out_of_the_time_that_work_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    told: list[float] = []
    monkeypatch.setattr("fedsim.common.compiled.leave_out", told.append)
    loop = compiled(_twice)
    assert loop(2) + loop(3) == 10
    assert len(told) == 1
    assert told[0] > 0


@pytest.mark.long
@pytest.mark.parametrize(("availability", "expected"), [("always", "False"), ("habits", "True")])
def test_the_compiler_is_loaded_for_habits_alone(availability: str, expected: str) -> None:
    program = f"""
import sys
from fedsim import Scenario, simulate
group = {{"devices": 50, "availability": "{availability}"}}
data = {{"stop": {{"rounds": 2}}, "population": [group], "server": {{"cohort": 2}}, "engine": "vectorized"}}
simulate(Scenario.model_validate(data))
print("numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert done.stdout.strip() == expected


WITHOUT = """
import sys
sys.modules["numba"] = None
from fedsim import Scenario, simulate
for engine in ("vectorized", "process"):
    result = simulate(Scenario.load(sys.argv[1], ["engine=" + engine]))
    result.participations.write_parquet(f"{sys.argv[1]}.{engine}.parquet")
"""
SMALL = """
stop: {rounds: 12}
population:
  - {devices: 40, availability: habits, separation: 1, weight: {kind: zipf, exponent: 1}}
  - {devices: 20, availability: {kind: renewal, on: 2h, off: 1h}, cooldown: 1h}
server: {cohort: 4, pause: 20m, selection: successive}
"""


def test_without_numba_everything_is_the_same_and_said_once(tmp_path: Path) -> None:
    (file := tmp_path / "a.fedsim.yaml").write_text(SMALL)
    command = [sys.executable, "-c", WITHOUT, str(file)]
    done = subprocess.run(command, env=variables({}), capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert done.stderr.count("numba cannot be imported") == 1
    here = simulate(Scenario.load(file)).participations
    for engine in ("vectorized", "process"):
        assert here.equals(pl.read_parquet(f"{file}.{engine}.parquet"))
