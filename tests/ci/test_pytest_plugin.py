"""The pytest plugin, in pytest runs of its own: items, places of failures, the marker, updates, pytest-xdist."""

import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.conftest import LIMIT_S, SMALL

EXPECT = "expect:\n  - participation.gap.min >= 3\n  - {check: rounds.target_share == 100%, severity: warn}\n"
DRIFT = "drift: {figures: [participation.l1_uniform], fingerprint: [rounds]}\n"
INSTALLED = any(point.value == "fedsim.ci.pytest_plugin" for point in entry_points(group="pytest11"))


def run_pytest(folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    clean = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    plugin = [] if INSTALLED else ["-p", "fedsim.ci.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", *plugin, "-p", "no:cacheprovider", "-rs", *arguments]
    variables = clean | {"PYTHONPATH": str(Path.cwd())} | environment
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    return done.returncode, done.stdout + done.stderr


def put(folder: Path, text: str, name: str = "case.fedsim.yaml") -> None:
    (folder / name).write_text(SMALL + text)


def test_the_entry_point_is_declared() -> None:
    declared = tomllib.loads(Path("pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert declared == {"fedsim": "fedsim.ci.pytest_plugin"}
    assert import_module(declared["fedsim"]).pytest_collect_file is not None


@pytest.mark.long
def test_items_are_listed_and_chosen_by_name(tmp_path: Path) -> None:
    put(tmp_path, EXPECT)
    code, printed = run_pytest(tmp_path, "--collect-only", "-q")
    assert "case.fedsim.yaml::participation.gap.min >= 3" in printed
    code, printed = run_pytest(tmp_path, "case.fedsim.yaml::participation.gap.min >= 3")
    assert (code, "1 passed" in printed) == (0, True)


@pytest.mark.long
def test_failures_have_their_place(tmp_path: Path) -> None:
    put(tmp_path, EXPECT.replace("min >= 3", "min >= 30").replace("== 100%", "< 50%"))
    code, printed = run_pytest(tmp_path)
    assert code == 1
    assert "1 failed, 1 passed, 1 warning" in printed
    assert "case.fedsim.yaml:6:5: error: participation.gap.min >= 30: observed 3, limit 30, margin -27" in printed
    assert "case.fedsim.yaml:7: FedsimWarning: case.fedsim.yaml:7:13: warning: rounds.target_share < 50%" in printed
    assert "Traceback" not in printed


@pytest.mark.long
def test_a_bad_scenario_fails_alone(tmp_path: Path) -> None:
    put(tmp_path, EXPECT, "good.fedsim.yaml")
    put(tmp_path, EXPECT.replace("gap.min", "gap.mni"), "misspelt.fedsim.yaml")
    put(tmp_path, "expect: {", "broken.fedsim.yaml")
    put(tmp_path, "", "nothing.fedsim.yaml")
    code, printed = run_pytest(tmp_path)
    assert (code, "2 failed, 3 passed" in printed) == (1, True)
    assert "misspelt.fedsim.yaml:6:5: error: expect[0]: unknown metric 'participation.gap.mni'; did you mean" in printed
    assert "broken.fedsim.yaml:" in printed


@pytest.mark.long
def test_the_marker_selects_scenarios(tmp_path: Path) -> None:
    put(tmp_path, EXPECT)
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    assert "2 passed, 1 deselected" in run_pytest(tmp_path, "-m", "fedsim", "--strict-markers")[1]
    assert "1 passed, 2 deselected" in run_pytest(tmp_path, "-m", "not fedsim", "-W", "error")[1]


@pytest.mark.long
def test_locks_are_updated_and_checked_also_by_several_workers(tmp_path: Path) -> None:
    """Under pytest-xdist every worker runs the scenario of its items and says the same about the lock."""
    put(tmp_path, EXPECT + DRIFT, "a.fedsim.yaml")
    put(tmp_path, EXPECT + DRIFT, "b.fedsim.yaml")
    assert "4 passed, 4 skipped" in run_pytest(tmp_path)[1]
    code, printed = run_pytest(tmp_path, CI="1")
    assert (code, "4 failed, 4 passed" in printed) == (1, True)
    assert "a.fedsim.yaml:8:19: error: participation.l1_uniform: not locked yet: 0.122222222222" in printed
    code, printed = run_pytest(tmp_path, "--fedsim-update", "-n", "2")
    assert (code, "8 passed" in printed) == (0, True)
    assert sorted(re.findall(r"^([ab]).*: INSERT", printed, re.MULTILINE)) == ["a", "a", "b", "b"]
    code, printed = run_pytest(tmp_path, "-n", "2", CI="1")
    assert (code, "8 passed" in printed) == (0, True)
    lock = tmp_path / "a.fedsim.lock.json"
    lock.write_text(lock.read_text().replace("0.122222", "0.122344"))  # a thousandth more
    code, printed = run_pytest(tmp_path, "-n", "2")
    assert (code, "1 failed, 7 passed" in printed) == (1, True)
    assert "a.fedsim.yaml:8:19: error: participation.l1_uniform: the figure has drifted: 0.122344" in printed
    put(tmp_path, EXPECT, "b.fedsim.yaml")
    code, printed = run_pytest(tmp_path, "b.fedsim.yaml", CI="1")
    assert (code, "1 failed, 2 passed" in printed) == (1, True)
    assert "b.fedsim.lock.json: locked, but not asked for" in printed
