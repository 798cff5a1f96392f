"""The quick set runs a part, the long tests are the rest, and what is left out is told."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import variables
from tests.conftest import LIMIT_S
from tests.quick import few_of

CONFTEST = """\
import pytest
from tests.quick import QuickSet

def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes long")
    config.addinivalue_line("markers", "campaign: takes minutes")
    config.pluginmanager.register(QuickSet(config))
"""
TESTS = """\
import pytest
from hypothesis import given, settings, strategies as st

def test_short():
    open("short", "a").write(".")

@pytest.mark.long
def test_long():
    open("long", "a").write(".")

@pytest.mark.campaign
def test_campaign():
    open("campaign", "a").write(".")

@pytest.mark.parametrize("case", [1, 2])
@settings(max_examples=40, derandomize=True, database=None)
@given(st.integers())
def test_of_examples(case, number):
    open(f"examples{case}", "a").write(".")

@settings(max_examples=2, derandomize=True, database=None)
@given(st.integers())
def test_of_few_examples(number):
    open("few", "a").write(".")
"""


def ran(folder: Path, *arguments: str) -> tuple[dict[str, int], str]:
    """Run pytest and return how often each test function was called, and what was printed."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_case.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=variables({}), capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    names = ("short", "long", "campaign", "examples1", "examples2", "few")
    return {name: (folder / name).stat().st_size for name in names if (folder / name).exists()}, done.stdout


@pytest.mark.parametrize("workers", [[], pytest.param(["-n", "2"], marks=pytest.mark.long)])
def test_the_quick_set(tmp_path: Path, workers: list[str]) -> None:
    calls, printed = ran(tmp_path, "-m", "not long", *workers)
    assert calls == {"short": 1, "examples1": 4, "examples2": 4, "few": 2}
    assert "\n2 tests marked long: 2 in .\n72 examples of tests by hypothesis, of which one in 10 is run\n" in printed


@pytest.mark.long
def test_the_long_set_is_the_rest(tmp_path: Path) -> None:
    calls, printed = ran(tmp_path, "-m", "long")
    assert calls == {"long": 1, "campaign": 1, "examples1": 40, "examples2": 40}
    assert "left out" not in printed


@pytest.mark.long
def test_campaigns_are_left_out_by_continuous_integration(tmp_path: Path) -> None:
    calls, _ = ran(tmp_path, "-m", "long and not campaign")
    assert calls == {"long": 1, "examples1": 40, "examples2": 40}


@pytest.mark.long
def test_without_a_choice_all_is_run(tmp_path: Path) -> None:
    calls, printed = ran(tmp_path)
    assert calls == {"short": 1, "long": 1, "campaign": 1, "examples1": 40, "examples2": 40, "few": 2}
    assert "left out" not in printed


def test_how_many_examples_are_few() -> None:
    assert [few_of(examples) for examples in (1, 3, 5, 29, 40, 250)] == [1, 3, 3, 3, 4, 25]
