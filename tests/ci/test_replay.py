"""Scenario files replayed as a person or a CI service does: lines, exit codes, files."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fedsim.ci.lock import platform_key
from tests.command import Done, fedsim, fedsim_process
from tests.conftest import SMALL

EXPECT = "expect: [participation.gap.min >= 3, {check: participation.l1_chain < 0.2, why: theory}]\n"
DRIFT = "drift: {figures: [participation.l1_uniform], fingerprint: [rounds, participations]}\n"
FIGURE = "participation.l1_uniform"


def replay(*arguments: object, cwd: Path, **environment: str) -> Done:
    """Replay in this process; what a run does to its own process is tested with `fedsim_process`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedsim.ci.replay.LocalProcesses", ThreadPoolExecutor)
        return fedsim("replay", *arguments, cwd=cwd, **environment)


def put(folder: Path, text: str = EXPECT + DRIFT, name: str = "case") -> Path:
    path = folder / f"{name}.fedsim.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SMALL + text)
    return path.relative_to(folder)


def lock_of(folder: Path) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads((folder / "case.fedsim.lock.json").read_text())["platforms"][platform_key()]
    return entry


def change_lock(folder: Path, **changes: Any) -> None:
    path = folder / "case.fedsim.lock.json"
    data = json.loads(path.read_text())
    for kind, values in changes.items():
        data["platforms"][platform_key()][kind] |= values
    path.write_text(json.dumps(data))


def test_a_scenario_that_keeps_its_limits_passes(tmp_path: Path) -> None:
    done = replay(put(tmp_path, EXPECT), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("PASS   case.fedsim.yaml  2 of 2 limits kept, ")
    assert done.stdout.count("\n") == 1


def test_a_limit_that_is_missed_fails(tmp_path: Path) -> None:
    done = replay(put(tmp_path, EXPECT.replace("0.2", "0.02")), cwd=tmp_path)
    assert (done.returncode, done.stdout[:4]) == (1, "FAIL")
    assert "case.fedsim.yaml:5:46: error: participation.l1_chain < 0.02: observed 0.0934877, limit 0.02" in done.stderr
    assert "margin -0.0734877 (theory)" in done.stderr


def test_a_figure_that_drifts_by_a_thousandth_fails(tmp_path: Path) -> None:
    path = put(tmp_path)
    assert replay(path, "--update", cwd=tmp_path).returncode == 0
    value = lock_of(tmp_path)["figures"][FIGURE]
    for change, expected in ((1e-3, 1), (-1e-3, 1), (1e-8, 0)):
        change_lock(tmp_path, figures={FIGURE: value * (1 + change)})
        done = replay(path, cwd=tmp_path)
        assert done.returncode == expected
        assert (f"{path}:6:19: error: {FIGURE}: the figure has drifted: " in done.stderr) == bool(expected)


def test_update_tells_what_it_does(tmp_path: Path) -> None:
    path = put(tmp_path)
    words = [line.split()[:2] for line in replay(path, "--update", cwd=tmp_path).stdout.splitlines()[1:]]
    assert words == [["INSERT", FIGURE], ["INSERT", "fingerprint"], ["INSERT", "fingerprint"]]
    before = (tmp_path / "case.fedsim.lock.json").read_bytes()
    change_lock(tmp_path, figures={FIGURE: 0.5, "rounds.count": 60.0})
    put(tmp_path, EXPECT + DRIFT.replace("[rounds", "[learning, rounds"))
    done = replay(path, "--update", cwd=tmp_path)
    assert done.returncode == 1  # there is no table of learning to lock
    lines = [line.split() for line in done.stdout.splitlines()[1:]]
    assert lines[0][:5] == ["UPDATE", FIGURE, "0.5", "->", f"{lock_of(tmp_path)['figures'][FIGURE]:.12g}"]
    assert [line[0] for line in lines[1:]] == ["ERROR", "KEEP", "KEEP", "REMOVE"]
    assert (tmp_path / "case.fedsim.lock.json").read_bytes() == before


@pytest.mark.long
def test_locked_wants_a_lock_that_is_used(tmp_path: Path) -> None:
    path = put(tmp_path)
    assert replay(path, cwd=tmp_path).returncode == 0
    assert replay(path, "--locked", cwd=tmp_path).returncode == 4
    for word in ("1", "true"):
        assert replay(path, cwd=tmp_path, CI=word).returncode == 4
    assert replay(path, cwd=tmp_path, CI="false").returncode == 0
    assert not list(tmp_path.glob("*.json"))
    assert replay(path, "--update", cwd=tmp_path, CI="1").returncode == 0
    assert replay(path, cwd=tmp_path, CI="1").returncode == 0
    put(tmp_path, EXPECT)
    done = replay(path, cwd=tmp_path, CI="1")
    assert (done.returncode, done.stdout[:4]) == (4, "LOCK")
    assert "case.fedsim.lock.json:1:1: error: case.fedsim.lock.json: locked, but not asked for" in done.stderr
    assert replay(path, cwd=tmp_path).returncode == 0
    assert replay(path, "--update", cwd=tmp_path).returncode == 0
    assert not list(tmp_path.glob("*.json"))
    assert replay(path, "--locked", "--update", cwd=tmp_path).returncode == 2


def test_a_lock_without_a_scenario_is_unused(tmp_path: Path) -> None:
    put(tmp_path, EXPECT)
    (tmp_path / "gone.fedsim.lock.json").write_text('{"format": 1, "platforms": {}}')
    assert replay(".", cwd=tmp_path).returncode == 0
    assert replay(".", "--locked", cwd=tmp_path).returncode == 4
    assert "REMOVE" in replay(".", "--update", cwd=tmp_path).stdout
    assert not list(tmp_path.glob("*.json"))


def test_folders_keep_going_and_the_gravest_outcome_decides(tmp_path: Path) -> None:
    put(tmp_path, EXPECT, "a/good")
    put(tmp_path, EXPECT.replace("0.2", "0.02"), "a/b/missed")
    put(tmp_path, "", "c/nothing")
    put(tmp_path, EXPECT, ".hidden/not-looked-at")
    done = replay(".", cwd=tmp_path)
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["PASS", "a/good.fedsim.yaml"],
        ["FAIL", "a/b/missed.fedsim.yaml"],
        ["PASS", "c/nothing.fedsim.yaml"],
    ]
    assert done.returncode == 1
    (tmp_path / "c" / "bad.fedsim.yaml").write_text("stop: [")
    stalled = "stop: {rounds: 9}\npopulation: [{devices: 6, separation: [1, 1, 1, 4, 4, 4]}]\n"
    done = replay(".", cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 4
    (tmp_path / "stuck.fedsim.yaml").write_text(stalled + "server: {cohort: 2, selection: cyclic}\n")
    done = replay(".", cwd=tmp_path)
    assert (done.returncode, len(done.stdout.splitlines())) == (3, 5)
    late = "stop: {rounds: 9}\npopulation: [{devices: 6, session: {train: 20m}}]\n"
    (tmp_path / "late.fedsim.yaml").write_text(late + "server: {cohort: 2, deadline: 10m}\n")
    nothing = replay("late.fedsim.yaml", cwd=tmp_path)
    assert (nothing.returncode, "error: all 18 sessions missed the 10 min deadline" in nothing.stderr) == (3, True)
    assert "stuck.fedsim.yaml: error: round 4 (opened at 6m) wants 2 eligible clients" in done.stderr
    assert "Traceback" not in done.stderr


def test_paths_that_hold_nothing_are_bad_usage(tmp_path: Path) -> None:
    for path, complaint in (("none.yaml", "none.yaml does not exist"), (".", "holds no scenario")):
        done = replay(path, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert complaint in done.stderr


def test_json_has_conditions_and_drift(tmp_path: Path) -> None:
    done = replay(put(tmp_path), "--json", cwd=tmp_path)
    printed = json.loads(done.stdout)
    (result,) = printed["results"]
    assert (printed["exit_code"], result["status"]) == (0, "pass")
    assert [each["status"] for each in result["conditions"]] == ["pass", "pass"]
    assert [each["status"] for each in result["drift"]] == ["missing"] * 3


def test_junit_has_a_suite_for_each_scenario(tmp_path: Path) -> None:
    put(tmp_path, EXPECT.replace("0.2", "0.02") + DRIFT)
    (tmp_path / "bad.fedsim.yaml").write_text("stop: [")
    done = replay(".", "--junit", "out.xml", cwd=tmp_path)
    assert done.returncode == 2
    root = ElementTree.parse(tmp_path / "out.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == ("6", "1", "1", "3")
    bad, case = root.findall("testsuite")
    assert (bad.get("name"), case.get("name")) == ("bad.fedsim.yaml", "case.fedsim.yaml")
    missed = case.findall("testcase")[1]
    assert (missed.get("name"), missed.get("line")) == ("participation.l1_chain < 0.02", "5")
    assert "observed 0.0934877" in missed.find("failure").get("message", "")  # type: ignore[union-attr]


def test_annotations_name_file_line_and_column(tmp_path: Path) -> None:
    put(tmp_path, "expect: [{check: participation.l1_chain < 0.02, why: 'a, b: 5%'}]\n", "sub/case")
    environment = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(tmp_path)}
    done = replay("case.fedsim.yaml", cwd=tmp_path / "sub", **environment)
    line = next(line for line in done.stderr.splitlines() if line.startswith("::"))
    assert line.startswith(
        "::error file=sub/case.fedsim.yaml,line=5,col=18,title=participation.l1_chain < 0.02::observed"
    )
    assert line.endswith("(a, b: 5%25)")
    assert "::" not in replay("case.fedsim.yaml", cwd=tmp_path / "sub").stderr


def test_replicates_have_draws_of_their_own(tmp_path: Path) -> None:
    """Every replicate has draws of its own; their mean and the worst of them are judged."""
    text = "replicates: 4\nexpect: [participation.l1_chain < 1, {check: participation.l1_chain < 1, over: mean}]\n"
    done = replay(put(tmp_path, text), "--json", cwd=tmp_path)
    every, mean = json.loads(done.stdout)["results"][0]["conditions"]
    assert every["observed"] > mean["observed"] > 0
    assert "worst of 4 replicates" in every["note"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "does", "said"),
    [("__init__", "os.kill(os.getpid(), 9)", "SIGKILL"), ("apply", "raise KeyError('no\\nthing')", "KeyError")],
)
def test_a_run_that_is_killed_or_raises_costs_only_itself(tmp_path: Path, method: str, does: str, said: str) -> None:
    """One scenario goes wrong each time it is run; the others are replayed all the same."""
    (tmp_path / "broken.py").write_text(
        "import os\nfrom fedsim.learning import FedAvg\n\n\nclass Broken(FedAvg):\n"
        f"    def {method}(self, *args, **kwargs):\n        {does}\n"
    )
    learning = "learning: {problem: robust_regression, optimizers: ['broken:Broken'], step_size: 0.1}\n"
    for name in ("a", "b", "c", "d"):
        put(tmp_path, EXPECT + learning * (name == "b"), name)
    done = fedsim_process("replay", ".", "--workers", 2, "--allow-plugins", cwd=tmp_path)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["PASS", "CRASH", "PASS", "PASS"]
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (3, True, False)


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_an_interrupt_keeps_what_is_done_and_leaves_no_process(tmp_path: Path) -> None:
    put(tmp_path, EXPECT, "a")
    path = put(tmp_path, EXPECT, "b")
    (tmp_path / path).write_text((tmp_path / path).read_text().replace("rounds: 60", "rounds: 10_000_000"))
    command = [sys.executable, "-m", "fedsim", "replay", ".", "--junit", "out.xml", "--workers", "2"]
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline().startswith("PASS")
    os.killpg(running.pid, signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted" in told
    assert "Traceback" not in told
    assert ElementTree.parse(tmp_path / "out.xml").getroot().get("tests") == "2"
    for _ in range(100):
        try:
            os.killpg(running.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("processes are left")


@pytest.mark.usefixtures("no_charts")
def test_run_checks_limits_too(tmp_path: Path) -> None:
    path = put(tmp_path, EXPECT.replace("0.2", "0.02"))
    command = ("run", tmp_path / path, "--out", tmp_path / "run", "--json")
    done = fedsim(*command)
    assert done.returncode == 1
    verdict = json.loads(done.stdout)["verdict"]
    assert [each["status"] for each in verdict] == ["pass", "fail"]
    assert ":5:46: error: participation.l1_chain < 0.02: observed" in done.stderr
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["verdict"] == verdict
    assert fedsim(*command, "--set", "expect=[]").returncode == 0


@pytest.mark.extras
def test_what_wants_data_that_are_not_here_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs PyTorch, extra 'torch'")
    monkeypatch.delenv("FEDSIM_MNIST", raising=False)
    file, junit = Path("scenarios/paper/mnist-fedavg.fedsim.yaml"), tmp_path / "junit.xml"
    done = replay(file, "--locked", "--junit", junit, cwd=Path.cwd())
    assert done.returncode == 0
    assert done.stdout.startswith(f"SKIP   {file}  problem 'torch': MNIST is wanted")
    assert "set FEDSIM_MNIST to the folder" in done.stderr
    assert 'skipped="1"' in junit.read_text()
