"""Limits on the address space: too little is told before anything is imported, and twice what `plan` says is enough."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fedsim.common.memory import library_bytes
from tests.command import fedsim, variables
from tests.conftest import LIMIT_S, SMALL, Write

MIB = 2**20
HABITS = """
stop: {duration: 6h}
population: [{devices: 200_000, separation: 5, availability: habits}]
server: {cohort: 500, pause: 10m}
"""
LEARNING = SMALL + "learning: {problem: robust_regression, optimizers: [fedavg], step_size: 0.1}\n"


def under(limit: int, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Call the command line with a limit on its address space."""
    command = f"import resource, sys\nresource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))\n"
    command += "from fedsim.__main__ import main\nmain()"
    called = [sys.executable, "-c", command, *map(str, arguments)]
    return subprocess.run(called, env=variables({}), capture_output=True, text=True, check=False, timeout=LIMIT_S)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep to this limit")
@pytest.mark.parametrize("mebibytes", [50, 300, 1000, None])
def test_too_little_is_told_at_once(mebibytes: int | None) -> None:
    done = under(library_bytes() - MIB if mebibytes is None else mebibytes * MIB, "--version")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: the address space is limited to ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep to this limit")
@pytest.mark.parametrize("text", [SMALL, HABITS, LEARNING], ids=["small", "habits", "learning"])
def test_twice_what_plan_says_is_enough(write: Write, tmp_path: Path, text: str) -> None:
    file = write(text)
    announced = json.loads(fedsim("plan", file, "--json").stdout)["address_space_bytes"]
    done = under(2 * announced, "run", file, "--out", tmp_path / "run")
    assert done.returncode == 0, done
