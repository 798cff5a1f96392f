"""The lower bounds in pyproject.toml are what continuous integration tests."""

import os
import runpy
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

if not Path(".ci/constraints.py").exists():
    pytest.skip("not in a source archive", allow_module_level=True)

CONSTRAINTS = runpy.run_path(".ci/constraints.py")["constraints"]
LINES: list[str] = CONSTRAINTS(Path("pyproject.toml").read_text(encoding="utf-8"))


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.partition("+")[0].split(".") if part.isdecimal()]


@pytest.mark.parametrize("line", LINES)
def test_what_is_installed_keeps_its_bound(line: str) -> None:
    """With ``FEDSIM_LOWEST``, as in `.ci/run`, it is of the series of the bound, so that the bound itself is tested."""
    name, _, series = line.partition("==")
    bound = numbers(series.removesuffix(".*"))
    try:
        installed = numbers(version(name))
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    assert installed >= bound
    if os.environ.get("FEDSIM_LOWEST"):
        assert installed[: len(bound)] == bound


def test_constraints_are_of_the_bounds() -> None:
    text = '[project]\ndependencies = ["a-b>=1.2", "typer>=0.20.1"]\n'
    text += '[project.optional-dependencies]\nx = ["c.d[x]>=2026.1.1; python_version < \'3.16\'", "a-b>=1.2"]\n'
    assert CONSTRAINTS(text) == ["a-b==1.2.*", "c.d==2026.1.1.*"]
    with pytest.raises(SystemExit, match="'e' is not NAME>=VERSION"):
        CONSTRAINTS(text.replace("a-b>=1.2", "e"))


def test_ci_installs_by_them() -> None:
    script = Path(".ci/run").read_text(encoding="utf-8")
    assert "PIP_CONSTRAINT" in script
    assert "FEDSIM_LOWEST" in script
