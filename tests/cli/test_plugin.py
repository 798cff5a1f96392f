"""``fedsim plugin new`` and ``check``: skeletons pass as they are, and faulty classes are told by line."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fedsim.scenario.roles import ROLES
from tests.command import fedsim, fedsim_process, variables
from tests.conftest import LIMIT_S
from tests.test_faulty_plugins import FAULTS

CHECKS = 14  # of each class: 4 ways of one federation, 8 federations, 2 that are drawn
LEFT_OUT = {"availability model": 1, "privacy mechanism": 2}  # federations that are nothing for the role
SELECT = "class Mine:\n    def select(self, request, candidates):\n"
ELIGIBLE = "import numpy as np\n\nDRAW = np.random.default_rng()\n\n\n" + SELECT
SOME = "np.flatnonzero(candidates.all_eligible())"
FAULTY = {  # the code, the check that fails first, what is said with the line
    "unseeded": (
        f"{ELIGIBLE}        return DRAW.permutation({SOME})[: request.count]\n",
        "twice in the process engine",
        "(mine.py:6)",
    ),
    "stateful": (
        f"{ELIGIBLE}        self.n = getattr(self, 'n', 0) + 1\n"
        f"        return np.roll({SOME}, self.n)[: request.count]\n",
        "interrupted and resumed",
        "(mine.py:6)",
    ),
    "raises": (f"{SELECT}        return [1, 2][9]\n", "twice in the process engine", "IndexError"),
    "shape": (
        "class Mine:\n    def quantile(self, p):\n        return p[:1]\n",
        "twice in the process engine",
        "(mine.py:2)",
    ),
}
MARKS: dict[str, Any] = {"metric": (), "selection law": pytest.mark.long, "optimizer": pytest.mark.long}
QUICK = [*range(4), *range(5, 12), 19, *range(29, 33), *range(34, 38)]  # of `FAULTS`, what fails before it is evaluated


@pytest.mark.parametrize("role", [pytest.param(role, marks=MARKS.get(role, pytest.mark.campaign)) for role in ROLES])
def test_a_skeleton_works_as_it_is(role: str, tmp_path: Path) -> None:
    name = role.replace(" ", "_")
    assert fedsim("plugin", "new", role.replace(" ", "-"), cwd=tmp_path).returncode == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"my_{name}.py", f"test_my_{name}.py"]
    command = [sys.executable, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", f"test_my_{name}.py"]
    own = subprocess.run(
        command, cwd=tmp_path, env=variables({}), capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert own.returncode == 0, own.stdout
    assert own.stdout.splitlines()[-1].startswith("2 passed")
    done = fedsim_process("plugin", "check", f"my_{name}.py", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    [told] = json.loads(done.stdout)
    assert told["role"] == role
    results = Counter(check["result"] for check in told["checks"])
    assert results == Counter({"ok": CHECKS - LEFT_OUT.get(role, 0), "left out": LEFT_OUT.get(role, 0)})
    assert all(check["message"] for check in told["checks"] if check["result"] == "left out")


def test_a_file_that_is_there_is_kept_without_force(tmp_path: Path) -> None:
    assert fedsim("plugin", "new", "law", cwd=tmp_path).returncode == 0
    (tmp_path / "my_law.py").write_text("# mine\n")
    again = fedsim("plugin", "new", "law", cwd=tmp_path)
    assert (again.returncode, "my_law.py exists" in again.stderr) == (2, True)
    assert (tmp_path / "my_law.py").read_text() == "# mine\n"
    assert fedsim("plugin", "new", "law", "--force", cwd=tmp_path).returncode == 0
    assert "class Law" in (tmp_path / "my_law.py").read_text()
    assert fedsim("plugin", "new", "lore", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    "fault", [fault if fault == "raises" else pytest.param(fault, marks=pytest.mark.long) for fault in FAULTY]
)
def test_a_faulty_class_is_told_by_line(fault: str, tmp_path: Path) -> None:
    code, check, told = FAULTY[fault]
    (tmp_path / "mine.py").write_text(code)
    done = fedsim_process("plugin", "check", "mine.py:Mine", cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    first = next(line for line in done.stdout.splitlines() if line.lstrip().startswith("FAILED"))
    assert f"FAILED    {check}: " in first
    assert told in first
    assert "mine.py:" in first


@pytest.mark.parametrize("number", QUICK)
def test_faulty_classes_of_other_tests_are_told_by_line_too(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 of 38: the others take seconds here, and are told by the same errors."""
    _, code, message = FAULTS[number]
    (tmp_path / "faulty.py").write_text(code)
    monkeypatch.delitem(sys.modules, "faulty", raising=False)
    done = fedsim("plugin", "check", tmp_path / "faulty.py:It")
    assert done.returncode in {1, 3}
    [line] = [number for number, text in enumerate(code.splitlines(), 1) if text.endswith("# here")]
    said = next((line for line in done.stdout.splitlines() if "FAILED" in line), done.stderr.rstrip())
    assert message.replace("2 are wanted", "4 are wanted") in said
    assert said.endswith(f"({tmp_path / 'faulty.py'}:{line})")


def test_a_file_without_a_class_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine: pass\n")
    done = fedsim_process("plugin", "check", "mine.py", cwd=tmp_path)
    assert (done.returncode, "mine.py has no class with all methods of a role" in done.stderr) == (2, True)


READS = """import numpy as np
class Mine:
    def __init__(self, file: str, scale: float, count: int = 1) -> None:
        self.values = scale * np.loadtxt(file)
    def quantile(self, p):
        return self.values[0] + self.values[1] * np.asarray(p)
"""


@pytest.mark.long
def test_a_class_may_read_a_file_and_an_option_that_is_missing_has_a_name(tmp_path: Path) -> None:
    """The file is found from another process and in a resumed run, whose folders are others."""
    (tmp_path / "mine.py").write_text(READS)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "values.txt").write_text("1 2\n")
    done = fedsim_process(
        "plugin", "check", "mine.py:Mine", "--set", "file=data/values.txt", "--set", "scale=1.0", cwd=tmp_path
    )
    assert (done.returncode, "FAILED" in done.stdout) == (0, False), done.stdout
    without = fedsim_process("plugin", "check", "mine.py:Mine", "--set", "file=data/values.txt", cwd=tmp_path)
    assert "scale: missing; " in without.stdout
