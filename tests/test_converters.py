"""The scripts of examples/converters, run as a reader would run them; and that no pickle runs anything."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.traces.imports import import_trace
from tests.conftest import LIMIT_S

FEDSCALE = {
    3: {"duration": 9, "inactive": [50, 90.5], "active": [10, 70], "finish_time": 100, "model": "M"},
    "x": {"duration": 0, "inactive": [], "active": [], "finish_time": 100, "model": None},
}
PHONES = {
    1: {"computation": 100.0, "communication": 8_000},
    2: {"computation": 50.0, "communication": 16_000},
    3: {"computation": 400.0, "communication": 1_000.0},
    "4": {"computation": 0.0, "communication": 1_000.0},
}


def converted(script: str, folder: Path, data: bytes, *more: str) -> "subprocess.CompletedProcess[str]":
    """Run a converter from IN to OUT.csv, in a folder of its own."""
    (folder / "in.pickle").write_bytes(data)
    path = Path("examples/converters", script).absolute()
    return subprocess.run(
        [sys.executable, path, "in.pickle", "out.csv", *more],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize("protocol", range(6))
def test_availability_becomes_a_trace_that_is_imported(tmp_path: Path, protocol: int) -> None:
    done = converted("fedscale_availability.py", tmp_path, pickle.dumps(FEDSCALE, protocol))
    assert done.returncode == 0, done.stderr
    trace = import_trace(tmp_path / "out.csv").trace
    own = [[times.tolist() for times in trace.spans["available"].of(device)] for device in range(2)]
    assert (trace.names, own) == (("3", "x"), [[[10_000, 70_000], [50_000, 90_500]], [[], []]])
    assert trace.seen is not None
    assert trace.seen.tolist() == [[0, 100, 100]] * 2


class Bomb:
    """Unpickled by a call of `eval`."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Name a function and its argument."""
        return eval, ("1 / 0",)


@pytest.mark.parametrize("script", ["fedscale_availability.py", "fedscale_capacities.py"])
@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (pickle.dumps({1: Bomb()}), "with the instruction STACK_GLOBAL before byte"),
        (pickle.dumps({1: Bomb()}, 0), "with the instruction GLOBAL before byte"),
        (pickle.dumps({1: np.arange(3)}), "with the instruction STACK_GLOBAL"),
        (pickle.dumps({1: np.float64(3)}), "only numbers, text, lists and dictionaries"),
        (b"\x80\x04cos\nsystem\n(S'echo'\ntR.", "with the instruction GLOBAL"),
        (b"\x80\x04\x82\x01.", "with the instruction EXT1"),
        (b"\x80\x04\x96" + b"\xff" * 8 + b".", "with the instruction BYTEARRAY8"),
        (b"\x80\x04\xff.", "with an instruction that is none"),
        (b"\x80\x04h\x05.", "is not a whole pickle"),
        (b"\x80\x04}", "is not a whole pickle"),
        (b"\x80\x04\x95\x10", "is not a whole pickle"),
        (b"what", "pickle"),
    ],
)
def test_a_pickle_that_could_run_something_is_refused(tmp_path: Path, script: str, data: bytes, complaint: str) -> None:
    refused(script, tmp_path, data, complaint)


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ([], "a pickled trace is {id:"),
        ({}, "a pickled trace is {id:"),
        ({1: 5}, "a pickled trace is {id:"),
        ({1: {"active": [1], "inactive": []}}, "device 1 must have as many times"),
        ({1: {"active": ["1"], "inactive": [2]}}, "device 1 has a time that is no number"),
        ({1: {"active": [], "inactive": [], "finish_time": "x"}}, "device 1 has a `finish_time` that is no number"),
        ({1: {"active": [10**400], "inactive": [2]}}, "device 1 has a time that is impossible"),
        ({1: {"active": [], "inactive": []}, "1": {"active": [], "inactive": []}}, "a device twice"),
    ],
)
def test_what_is_no_availability_is_refused(tmp_path: Path, found: Any, complaint: str) -> None:
    refused("fedscale_availability.py", tmp_path, pickle.dumps(found), complaint)


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ([1], "capacities are a pickle of"),
        ({1: {"computation": 3.0}}, "device '1' has no two numbers"),
        ({1: 5}, "device '1' has no two numbers"),
        ({1: {"computation": -1, "communication": 10**400}}, "no device has capacities above 0"),
    ],
)
def test_what_is_no_table_of_capacities_is_refused(tmp_path: Path, found: Any, complaint: str) -> None:
    refused("fedscale_capacities.py", tmp_path, pickle.dumps(found), complaint)


def refused(script: str, folder: Path, data: bytes, complaint: str) -> None:
    done = converted(script, folder, data)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "out.csv").exists()


def test_capacities_become_speeds_that_a_scenario_reads(tmp_path: Path) -> None:
    """100 samples at 3 x 100 ms are 30 s, and 2 MB at 8 Mbit/s 2 s each way."""
    done = converted("fedscale_capacities.py", tmp_path, pickle.dumps(PHONES), "--samples", "100", "--megabytes", "2")
    assert done.returncode == 0, done.stderr
    assert "left out 1 with a capacity that is not above 0" in done.stderr
    assert pl.read_csv(tmp_path / "out.csv")["seconds"].to_list() == pytest.approx([30 + 4, 15 + 2, 120 + 32])
    text = f"stop: {{rounds: 2}}\nserver: {{cohort: 1}}\npopulation:\n  - devices: 3\n    {done.stdout.strip()}\n"
    (tmp_path / "case.fedsim.yaml").write_text(text)
    scenario = Scenario.load(tmp_path / "case.fedsim.yaml")
    assert build_population(scenario).speed == pytest.approx([1, 2, 34 / 152])
    assert scenario.model_dump()["population"][0]["session"]["train"]["value"] == "34s"
