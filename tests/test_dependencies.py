"""The lower bounds in pyproject.toml are what continuous integration tests."""

import os
import re
import runpy
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

if not Path(".ci/constraints.py").exists():
    pytest.skip("not in a source archive", allow_module_level=True)

SCRIPT = runpy.run_path(".ci/constraints.py")
PROJECT, NAMED = (Path(name).read_text(encoding="utf-8") for name in ("pyproject.toml", ".ci/tested.txt"))
USED = os.environ.get("FEDSIM_CONSTRAINTS")
LINES: list[str] = [line.replace("==", ">=") for line in SCRIPT["lowest"](PROJECT)]
if USED:
    LINES += Path(USED).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", LINES)
def test_what_is_installed_keeps_its_bound(line: str) -> None:
    """With ``FEDSIM_CONSTRAINTS``, as in `.ci/run` and `.ci/lowest`, it is what that file says."""
    wanted = Requirement(line)
    try:
        installed = version(wanted.name)
    except PackageNotFoundError:
        pytest.skip(f"{wanted.name} is not installed")
    assert wanted.specifier.contains(installed, prereleases=True)


def test_constraints_are_of_the_bounds() -> None:
    text = '[project]\ndependencies = ["a-b>=1.2", "typer>=0.20.1; python_version < \'3.16\'"]\n'
    text += '[project.optional-dependencies]\nx = ["c.d[x]>=2026.1.1", "e>=1.2"]\ny = ["e>=1.2"]\n'
    assert SCRIPT["lowest"](text) == ["a-b==1.2", "typer==0.20.1"]
    assert SCRIPT["tested"](text, "# Said.\na-b==1.7.*\n") == ["a-b==1.7.*", "c.d==2026.1.1.*", "e==1.2.*"]
    with pytest.raises(SystemExit, match="'e' is not NAME>=VERSION"):
        SCRIPT["tested"](text.replace("e>=1.2", "e"), "")


def test_ci_installs_by_them() -> None:
    script = Path(".ci/run").read_text(encoding="utf-8")
    assert "PIP_CONSTRAINT" in script
    assert "FEDSIM_CONSTRAINTS" in script
    assert "\n.ci/lowest\n" in script


def test_ci_computes_as_on_several_processors() -> None:
    """And `.ci/elsewhere` shows that its variable is heard, by a user who has neither rights nor a home."""
    script, elsewhere = (Path(f".ci/{name}").read_text(encoding="utf-8") for name in ("run", "elsewhere"))
    assert re.search(r"^TZ=\S+ LC_ALL=C OPENBLAS_CORETYPE=Haswell make test$", script, re.MULTILINE)
    named = re.search(r"^\.ci/elsewhere Prescott (.+)$", script, re.MULTILINE)
    assert named is not None
    assert all(room in named[1] for room in ("learning", "measure", "privacy", "theory", "measured_numbers"))
    assert 'env -i PATH="$PATH"' in elsewhere
    assert all(each in elsewhere for each in ("--reuid=65534", "NPY_DISABLE_CPU_FEATURES", "assert platform.machine()"))


def test_what_is_tested_is_what_is_depended_on() -> None:
    """All but what Flower is particular about: beside it that is tested as it takes it (`.ci/frameworks`)."""
    depended = {Requirement(line).name for line in SCRIPT["lowest"](PROJECT)}
    tested = {Requirement(line).name for line in NAMED.splitlines()[1:]}
    assert depended - tested == {"rich", "typer"}
    assert tested <= depended
