"""Fixtures for all tests: scenarios written as a person would write them."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import HealthCheck, settings

from fedsim.common.files import write_text
from fedsim.pages.answer import Answer
from fedsim.scenario import Scenario
from tests.quick import QuickSet

# Fixed examples, so that a red run is red again; no deadline, since tests never time anything.
settings.register_profile(
    "fedsim", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("fedsim")

os.environ.pop("COLUMNS", None)  # pytest-xdist says how wide a terminal is, where there is none
if hasattr(signal, "SIGHUP"):  # which nohup would let the processes that tests start ignore
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

LIMIT_S = 240.0
"""Seconds that a process which a test starts may take: a machine may be slow and busy, but not that slow."""


def pytest_configure(config: pytest.Config) -> None:
    """Let ``-m "not long"`` be the quick set."""
    config.pluginmanager.register(QuickSet(config))


Write = Callable[..., Path]
Load = Callable[..., Scenario]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a scenario file and return its path."""

    def write(text: str, name: str = "case.fedsim.yaml") -> Path:
        path = tmp_path / name
        path.write_text(dedent(text), encoding="utf-8")
        return path

    return write


SMALL = """\
stop: {rounds: 60}
population:
  - {devices: 12, weight: {kind: zipf, exponent: 1}, separation: 2}
server: {cohort: 3}
"""


@pytest.fixture
def small(write: Write) -> Load:
    """Load a scenario of 12 clients, cohort 3 and 60 rounds, with overrides."""

    def load(*overrides: str) -> Scenario:
        return Scenario.load(write(SMALL), overrides)

    return load


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pytest names folders for users first
    """Let the user of this process have no home folder: neither by a variable nor by a list of users."""

    def unknown(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    for name in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)


@pytest.fixture
def no_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the page of a run in this process be its title, where charts are not tested: to draw takes longest."""

    def page(answer: Answer, path: Path) -> Path:
        write_text(path, answer.headline)
        return path

    monkeypatch.setattr("fedsim.pages.page.write_answer", page)
