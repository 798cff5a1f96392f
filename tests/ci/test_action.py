"""What other people's CI takes from this repository, run here as their CI would."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

from tests.command import fedsim, variables
from tests.conftest import LIMIT_S, SMALL

ACTION: dict[str, Any] = YAML(typ="safe").load(Path("action.yml"))
HOOKS: list[dict[str, Any]] = YAML(typ="safe").load(Path(".pre-commit-hooks.yaml"))
EXPRESSION = re.compile(r"\$\{\{ (.+?) \}\}")


TOLD = 'printf "%s\\n" "$@" >"$PIP_SAYS"'


def run_action(folder: Path, pip: str = TOLD, **inputs: str) -> "subprocess.CompletedProcess[str]":
    """Run the action's shell steps one after the other, as a runner does; `pip` is what pip does instead of its work.

    A failing step ends the job, as `bash -eo pipefail` does for each.
    """
    tools = folder / "tools"
    tools.mkdir()
    (folder / "temp").mkdir()
    for name, text in {
        "python": f'#!/bin/sh\nif [ "$3" = pip ]; then {pip}; else exec {sys.executable} "$@"; fi\n',
        "fedsim": f"#!{sys.executable}\nfrom fedsim.__main__ import main\nif __name__ == '__main__':\n    main()\n",
    }.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    values = {f"inputs.{name}": each["default"] for name, each in ACTION["inputs"].items()}
    values |= {f"inputs.{name}": value for name, value in inputs.items()}
    values |= {"github.action_path": str(Path.cwd()), "runner.temp": str(folder / "temp")}
    done = subprocess.CompletedProcess[str]([], 0)
    for step in ACTION["runs"]["steps"]:
        if "run" not in step:
            continue
        given = {name: EXPRESSION.sub(lambda found: values[found[1]], text) for name, text in step["env"].items()}
        service = {"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
        service["PIP_SAYS"] = str(folder / "pip.txt")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env=variables({**given, **service, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}),
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        if done.returncode:
            break
    return done


@pytest.fixture
def scenarios(tmp_path: Path) -> Path:
    folder = tmp_path / "scenarios"
    folder.mkdir()
    (folder / "good.fedsim.yaml").write_text(SMALL + "expect: [rounds.count == 60]\n")
    return folder


@pytest.mark.long
def test_the_action_passes(scenarios: Path, tmp_path: Path) -> None:
    done = run_action(tmp_path, options="--workers 1")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "pip.txt").read_text().splitlines()[-1] == str(Path.cwd())
    kept = tmp_path / "temp" / "fedsim"
    assert ElementTree.parse(kept / "junit.xml").getroot().get("failures") == "0"
    assert (kept / "runs" / "scenarios" / "good" / "report.html").stat().st_size > 10_000
    assert "1 of 1 scenario pass" in (tmp_path / "summary.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_action_fails_with_annotations_and_keeps_what_there_is(scenarios: Path, tmp_path: Path) -> None:
    (scenarios / "bad one.fedsim.yaml").write_text(SMALL + "expect: [rounds.count == 61]\n")
    done = run_action(tmp_path, install="-r requirements.txt", options="--workers 1")
    assert done.returncode == 1
    assert (tmp_path / "pip.txt").read_text().splitlines()[-2:] == ["-r", "requirements.txt"]
    assert "::error file=scenarios/bad one.fedsim.yaml,line=5,col=10" in done.stderr
    assert ElementTree.parse(tmp_path / "temp" / "fedsim" / "junit.xml").getroot().get("failures") == "1"
    assert "1 of 2 scenarios pass" in (tmp_path / "summary.md").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize("install", ["", "fedsim-participation==0.3.0"])
def test_a_hostile_pull_request_runs_nothing(scenarios: Path, tmp_path: Path, install: str) -> None:
    """Whatever modules lie in the checkout, none is imported, neither by pip nor by fedsim or its workers."""
    ran = tmp_path / "ran"
    text = f"open({str(ran)!r}, 'a').write(__name__)\n"
    for package in ("pip", "fedsim", "numpy", "typer"):
        (tmp_path / package).mkdir()
        for module in ("__init__.py", "__main__.py"):
            (tmp_path / package / module).write_text(text)
    for module in ("signal", "pickle", "sitecustomize", "usercustomize", "setup", "conftest", "runpy", "typing"):
        (tmp_path / f"{module}.py").write_text(text)
    (scenarios / "--allow-plugins.fedsim.yaml").write_text(
        SMALL.replace("cohort: 3", "cohort: 3, selection: 'signal:Law'")
    )
    installed = f'{sys.executable} "$1" "$2" "$3" --version >"$PIP_SAYS"'
    done = run_action(tmp_path, installed, install=install, options="--workers 2")
    assert done.returncode == 2, done.stderr
    assert "'signal:Law' would run code" in done.stderr
    assert str(tmp_path) not in (tmp_path / "pip.txt").read_text()
    assert not ran.exists()


def test_a_requirements_file_of_the_checkout_is_warned_of(tmp_path: Path) -> None:
    install = next(step for step in ACTION["runs"]["steps"] if step.get("name") == "Install")["run"]
    for given, warned in {
        "-r requirements.txt": True,
        "./tools": True,
        "-e .": True,
        "a==1 b>=2": False,
        "": False,
    }.items():
        line = install.replace("python -I -m pip", "echo")
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", line],
            env={**os.environ, "INSTALL": given, "BESIDE": "/beside", "TEMP": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT_S,
        )
        assert ("::warning" in done.stdout) == warned, given


def test_actions_are_pinned_by_commit() -> None:
    used = [step["uses"] for step in ACTION["runs"]["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name) for name in used)


def test_no_input_is_pasted_into_a_script() -> None:
    """What a caller gives reaches the shell as a variable: text of an expression in a script would be run."""
    steps = [step for step in ACTION["runs"]["steps"] if "run" in step]
    assert all(not EXPRESSION.search(step["run"]) for step in steps)
    used = {name for step in ACTION["runs"]["steps"] for name in re.findall(r"inputs\.([\w-]+)", str(step))}
    assert used == set(ACTION["inputs"])
    page = Path("docs/ci.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in page for name in ACTION["inputs"])


def test_the_hook_checks_scenarios(scenarios: Path, tmp_path: Path) -> None:
    [hook] = HOOKS
    assert [bool(re.search(hook["files"], name)) for name in ("a/b.fedsim.yaml", "b.yaml", "b.fedsim.lock.json")] == [
        True,
        False,
        False,
    ]
    program, *arguments = shlex.split(hook["entry"])
    assert program == "fedsim"
    good, bad = scenarios / "good.fedsim.yaml", tmp_path / "bad.fedsim.yaml"
    bad.write_text(SMALL.replace("cohort", "cohrt"))
    passed, failed = fedsim(*arguments, good), fedsim(*arguments, good, bad)
    assert (passed.returncode, passed.seen) == (0, "")
    assert failed.returncode == 2
    assert f"{bad}:4:10: error: server.cohrt" in failed.stderr
