"""Every command that reads scenarios: code beside them runs with permission only, wherever the work is done."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ci.test_pytest_plugin import run_pytest
from tests.command import fedsim as fedsim_here
from tests.conftest import LIMIT_S, SMALL

pytestmark = pytest.mark.long
OWN = """\
from pathlib import Path
from fedsim.learning import FedAvg

with Path(__file__).with_name("imported").open("a") as file:
    file.write("x")


class Own(FedAvg):
    pass
"""
LEARNING = "learning: {problem: robust_regression, optimizers: [{kind: 'own_code:Own', name: own}], step_size: 0.1}\n"
SWEEP = "sweep: {grid: {server.cohort: [2, 3]}}\n"
EXPECT = "expect: [rounds.count == 60]\n"


def fedsim(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command that is installed: unlike ``python -m``, it does not look for modules in the working folder."""
    tool = Path(sys.executable).with_name("fedsim")
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    command = [str(tool), *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder with a scenario and the module that it names."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "own_code.py").write_text(OWN)
    (folder / "case.fedsim.yaml").write_text(SMALL + LEARNING + SWEEP + EXPECT)
    return folder


COMMANDS = {
    "run": ["run", "theirs/case.fedsim.yaml", "--out", "out"],
    "validate": ["validate", "theirs/case.fedsim.yaml"],
    "replay": ["replay", "theirs"],
    "plan": ["plan", "theirs/case.fedsim.yaml"],
    "sweep": ["sweep", "theirs/case.fedsim.yaml", "--workers", "1"],
}


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_commands_run_code_with_permission_only(theirs: Path, tmp_path: Path, arguments: list[str]) -> None:
    refused = fedsim_here(*arguments, cwd=tmp_path)
    assert refused.returncode == 2
    assert (
        "theirs/case.fedsim.yaml:5:60: error: learning.optimizers[0].kind: 'own_code:Own' would run code"
        in refused.stderr
    )
    assert not (theirs / "imported").exists()
    allowed = fedsim(tmp_path, *arguments, "--allow-plugins")
    assert allowed.returncode == 0, allowed.stderr
    assert (theirs / "imported").exists()


def test_theory_refuses_such_a_scenario_too(theirs: Path, tmp_path: Path) -> None:
    assert fedsim_here("chain", "theirs/case.fedsim.yaml", cwd=tmp_path).returncode == 2
    assert fedsim(tmp_path, "chain", "theirs/case.fedsim.yaml", "--allow-plugins").returncode == 0


def test_what_was_allowed_stands_in_the_command_that_repeats_it(theirs: Path, tmp_path: Path) -> None:
    assert fedsim(tmp_path, *COMMANDS["run"], "--allow-plugins").returncode == 0
    assert fedsim(tmp_path, *COMMANDS["sweep"], "--allow-plugins", "--out", "s").returncode == 0
    for file in ("out/manifest.json", "s/sweep.json"):
        assert json.loads((tmp_path / file).read_text())["command"].endswith(" --allow-plugins")


def test_folders_are_searched_for_modules_with_permission_only(tmp_path: Path) -> None:
    """A module beside the scenario or in the working folder cannot take the place of one that is not installed."""
    (tmp_path / "sklearn.py").write_text(OWN)
    learning = "learning: {problem: softmax_regression, optimizers: [fedavg], step_size: 0.1}\n"
    (tmp_path / "case.fedsim.yaml").write_text(SMALL + learning + SWEEP)
    for command in ("validate", "sweep"):
        fedsim(tmp_path, command, "case.fedsim.yaml")
        assert not (tmp_path / "imported").exists()


def test_pytest_asks_for_permission_too(theirs: Path) -> None:
    code, printed = run_pytest(theirs)
    assert code == 1
    assert "case.fedsim.yaml:5:60: error: learning.optimizers[0].kind: 'own_code:Own' would run code" in printed
    assert not (theirs / "imported").exists()
    assert run_pytest(theirs, "--fedsim-allow-plugins")[0] == 0
    (theirs / "pytest.ini").write_text("[pytest]\nfedsim_allow_plugins = true\n")
    assert run_pytest(theirs, "-n", "2")[0] == 0


def test_a_lock_that_is_a_link_to_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (tmp_path / "secret").write_text("a secret that must not be shown\n")
    (folder / "case.fedsim.yaml").write_text(SMALL + "drift: {figures: [rounds.count]}\n")
    (folder / "case.fedsim.lock.json").symlink_to(tmp_path / "secret")
    done = fedsim_here("replay", "theirs", cwd=tmp_path)
    assert done.returncode == 4
    assert (
        "theirs/case.fedsim.lock.json:1:1: error: 'case.fedsim.lock.json' is outside the scenario's folder"
        in done.stderr
    )
    assert "is not JSON" in fedsim_here("replay", "theirs", "--allow-outside", cwd=tmp_path).stderr
    code, printed = run_pytest(folder)
    assert code == 1
    assert "is outside the scenario's folder" in printed


def test_scenarios_in_a_folder_that_are_links_to_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (tmp_path / "secret").write_text("a secret: {that: must, not: be shown}\n")
    (folder / "case.fedsim.yaml").symlink_to(tmp_path / "secret")
    done = fedsim_here("replay", "theirs", cwd=tmp_path)
    assert done.returncode == 2
    assert "theirs/case.fedsim.yaml leads outside theirs" in done.stderr
    code, printed = run_pytest(folder)
    assert code == 1
    assert "case.fedsim.yaml:1:1: error: leads outside the tests' folder" in printed
    assert "a secret" not in printed + done.stderr
