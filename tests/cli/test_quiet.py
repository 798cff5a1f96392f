"""What ``-q`` leaves out, and what it does not: data on stdout, errors, and limits that are missed."""

from pathlib import Path

import pytest

from tests.command import fedsim
from tests.conftest import SMALL, Write

KEPT = "expect: [rounds.count == 60]\n"
MISSED = "expect: [rounds.count == 61]\n"


@pytest.mark.usefixtures("no_charts")
def test_run_prints_its_directory_alone(write: Write, tmp_path: Path) -> None:
    path, out = write(SMALL + KEPT), tmp_path / "run"
    loud = fedsim("run", path, "--out", out)
    assert "simulating: " in loud.stderr
    assert f"Report: {out}" in loud.stderr
    quiet = fedsim("run", path, "--out", out, "-q")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, f"{out}\n", "")
    assert fedsim("run", path, "--out", out, "--resume", "--quiet").stderr == ""


@pytest.mark.usefixtures("no_charts")
def test_run_tells_what_is_missed_and_what_is_wrong(write: Write, tmp_path: Path) -> None:
    missed = fedsim("run", write(SMALL + MISSED), "--out", tmp_path / "run", "-q")
    assert missed.returncode == 1
    assert [line.split(": ")[1] for line in missed.stderr.splitlines()] == ["error"]
    assert "rounds.count == 61" in missed.stderr
    wrong = fedsim("run", write(SMALL), "--set", "server.cohort=0", "-q")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "server.cohort" in wrong.stderr


def test_validate_prints_mistakes_alone(write: Write) -> None:
    good, bad = write(SMALL, "good.yaml"), write(SMALL.replace("cohort", "cohrt"), "bad.yaml")
    assert fedsim("validate", good, "-q").stdout == ""
    done = fedsim("validate", good, bad, "-q")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'cohort'?" in done.stderr


@pytest.mark.long
def test_replay_prints_what_does_not_pass(write: Write) -> None:
    good, bad = write(SMALL + KEPT, "good.fedsim.yaml"), write(SMALL + MISSED, "bad.fedsim.yaml")
    done = fedsim("replay", good, bad, "-q", "--workers", 1)
    assert done.returncode == 1
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [["FAIL", str(bad)]]
    assert fedsim("replay", good, "-q", "--workers", 1).stdout == ""


@pytest.mark.long
def test_sweep_prints_its_directory_alone(write: Write, tmp_path: Path) -> None:
    path = write(SMALL + "sweep: {grid: {server.cohort: [2, 3]}, seeds: 2}\n")
    asked = ("sweep", path, "--workers", 1, "--no-report", "--out")
    loud, quiet = (fedsim(*asked, tmp_path / name, *more) for name, more in (("a", []), ("b", ["-q"])))
    assert "4 of 4 runs complete" in loud.stderr
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, f"{tmp_path / 'b'}\n", "")
