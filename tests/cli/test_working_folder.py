"""No code runs that lies in the working folder, whatever the command, unless it is allowed."""

import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.command import variables
from tests.conftest import LIMIT_S

pytestmark = pytest.mark.long

SHADOWED = sorted({*sys.stdlib_module_names, *packages_distributions(), "sitecustomize"} - {"fedsim"})
TEXT = "stop: {rounds: 2}\npopulation: [{devices: 5, availability: always}]\nserver: {cohort: 1}\n"
SWEEP = TEXT + "sweep: {grid: {server.cohort: [1, 2]}}\n"
LEARNING = TEXT + "learning: {problem: quadratic, optimizers: [fedavg], step_size: 0.1}\n"
LOCKED = TEXT + "drift: {figures: [participation.l1_uniform]}\n"
WEIGHED = TEXT.replace("cohort: 1", "cohort: 1, selection: successive")
CHOICE = TEXT + "choose: {server.cohort: [1, 2]}\ndecide: {minimize: participation.tv_uniform, seeds: 2}\n"
LOG = "client,selected_s,ended_s,outcome\n" + "".join(f"d,{9 * k},{9 * k + 1 + k % 5},reported\n" for k in range(99))
COMMANDS = (
    "init new.fedsim.yaml",
    "validate learning.fedsim.yaml",
    "schema",
    "metrics plain.fedsim.yaml",
    "chain plain.fedsim.yaml",
    "run learning.fedsim.yaml --out run",
    "run plain.fedsim.yaml --engine process --out process",
    "report run --out page.html",
    "export schedule run --out schedule.json",
    "compare run process",
    "playground --out play.html",
    "plan sweep.fedsim.yaml --workers 2",
    "sweep sweep.fedsim.yaml --workers 2 --out sweep",
    "report sweep",
    "design weighed.fedsim.yaml --out new.yaml",
    "calibrate log.csv --base 2026-01-05T00:00:00Z",
    "decide choice.fedsim.yaml --workers 2 --out decision",
    "replay locked.fedsim.yaml plain.fedsim.yaml --update --workers 2",
)


def of_python() -> set[str]:
    """Return the modules that Python itself imports, from the working folder too, to find what -m names."""
    code = "import runpy, importlib.util, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    return set(done.stdout.split())


@pytest.mark.parametrize("program", [pytest.param("console script", marks=pytest.mark.campaign), "python -m"])
def test_modules_in_the_working_folder_do_not_run(tmp_path: Path, program: str) -> None:
    folder, elsewhere, ran = tmp_path / "theirs", tmp_path / "bin", tmp_path / "ran"
    for made in (folder, elsewhere, ran):
        made.mkdir()
    shadowed = set(SHADOWED) - (of_python() if program == "python -m" else set())
    for name in shadowed:
        text = f"open({str(ran / name)!r}, 'w').close()\n"
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    entry = folder / "theirs-1.0.dist-info"
    entry.mkdir()
    (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n", encoding="utf-8")
    (entry / "entry_points.txt").write_text("[fedsim]\nmine = antigravity:Law\n", encoding="utf-8")
    (folder / "log.csv").write_text(LOG, encoding="utf-8")
    texts = {"plain": TEXT, "sweep": SWEEP, "learning": LEARNING, "locked": LOCKED, "weighed": WEIGHED}
    for name, text in (texts | {"choice": CHOICE}).items():
        (folder / f"{name}.fedsim.yaml").write_text(text, encoding="utf-8")
    theirs = TEXT.replace("cohort: 1", "cohort: 1, selection: mine")
    (folder / "theirs.fedsim.yaml").write_text(theirs, encoding="utf-8")
    # As the console script does: what is first on the path is the script's own folder.
    script = "from fedsim.__main__ import main\nif __name__ == '__main__':\n    main()\n"
    (elsewhere / "fedsim").write_text(script, encoding="utf-8")
    start = [str(elsewhere / "fedsim")] if program == "console script" else ["-m", "fedsim"]
    environment = {name: value for name, value in variables({}).items() if name != "PYTHONSAFEPATH"}

    def run(command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, *start, *command.split()],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
            env=environment,
        )

    for command in COMMANDS:
        done = run(command)
        assert done.returncode == 0, (command, done.stderr)
        assert list(ran.iterdir()) == [], command
    refused = run("validate theirs.fedsim.yaml")
    assert refused.returncode == 2
    assert "mine" in refused.stderr
    assert list(ran.iterdir()) == []
