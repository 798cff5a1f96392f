"""What ``-q`` leaves out, and what it does not: data on stdout, errors, and limits that are missed."""

import json
from pathlib import Path

import pytest

from tests.command import fedsim
from tests.conftest import SMALL, Write

KEPT = "expect: [rounds.count == 60]\n"
MISSED = "expect: [rounds.count == 61]\n"
TWO_JOBS = """\
stop: {rounds: 20}
population: [{devices: 12}]
jobs:
  first: {server: {cohort: 2, pause: 1m}}
  second: {server: {cohort: 3, pause: 1m}}
"""


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


def test_a_run_without_a_page_says_the_same_and_draws_nothing(write: Write, tmp_path: Path) -> None:
    path, jobs = write(SMALL + KEPT), write(TWO_JOBS, "jobs.fedsim.yaml")
    for file in (path, jobs):
        page, none = tmp_path / f"page-{file.stem}", tmp_path / f"none-{file.stem}"
        with_page = fedsim("run", file, "--out", page)
        without = fedsim("run", file, "--out", none, "--no-page")
        assert without.returncode == with_page.returncode == 0
        assert not [*none.rglob("report.html")]
        assert "Report: " not in without.stderr
        files = [{each.relative_to(folder) for each in folder.rglob("*")} for folder in (page, none)]
        assert {name.name for name in files[0] ^ files[1]} == {"report.html"}
        said = [line for line in with_page.stderr.splitlines() if line.startswith(("What happens", "How biased"))]
        assert said
        assert set(said) <= set(without.stderr.splitlines())
    again = fedsim("run", path, "--out", tmp_path / "none-case.fedsim", "--resume", "--json")
    assert json.loads(again.stdout)["report"] is None
