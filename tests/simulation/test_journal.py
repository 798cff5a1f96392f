"""A run that is interrupted goes on at the opening of a round, and its log is the same to the last byte."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.common.errors import RunError, StalledError
from fedsim.common.files import write_table
from fedsim.log import journal as journals
from fedsim.log.journal import Journal
from fedsim.log.recorder import Recorder
from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_into, simulate_log
from fedsim.simulation.engine import Simulation
from tests.conftest import Load
from tests.simulation.test_engines_agree import MANY, traces, worlds

__all__ = ["traces"]  # a fixture


class Killed(BaseException):
    """Ends a simulation wherever it is."""


def simulate_with_kills(scenario: Scenario, folder: Path, after: list[int], out: Path) -> tuple[float, str]:
    """Simulate into a journal that keeps a state at every round; each time so many sessions later, be killed.

    Returns when the run ended, in seconds, and the error that ended it.
    """
    left, count_ended, population = 0, Recorder._count_ended, build_population(scenario)
    out.mkdir()

    def counted(self: Recorder, number: int, count: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed
        count_ended(self, number, count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "_count_ended", counted)
        patch.setattr(journals, "SOONEST_S", 0.0)
        patch.setattr(journals, "PATIENCE", 0.0)
        patch.setattr("fedsim.log.recorder._SETTLE", 32)
        patch.setattr("fedsim.common.files.ROWS", 32)
        for calls in [*after, 0]:  # with 0, never
            left, journal, message = calls, Journal(folder), ""
            try:
                ended_s = simulate_into(journal, Simulation(scenario, population))
            except Killed:
                (folder / "rounds-000999.parquet").write_bytes(b"written after the last state was kept")
            except StalledError as error:
                ended_s, message = error.ended_s, str(error)
                break
            else:
                break
    journal.close(out, ended_s)
    return ended_s, message


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def check(data: dict[str, Any], folder: Path, engine: str, after: list[int]) -> None:
    folder.joinpath("case.fedsim.yaml").write_text(json.dumps({**data, "engine": engine}))
    scenario = Scenario.load(folder / "case.fedsim.yaml")
    with TemporaryDirectory() as place:
        plain, stopped, journal = Path(place, "plain"), Path(place, "stopped"), Path(place, "journal")
        plain.mkdir()
        message = ""
        try:
            log = simulate_log(scenario, build_population(scenario))
        except StalledError as error:
            message, log = str(error), error.log
        assert simulate_with_kills(scenario, journal, after, stopped) == (log.ended_s, message)
        for name in ("rounds", "participations", "gauges"):
            write_table(plain / f"{name}.parquet", getattr(log, name))
        assert files(stopped) == files(plain)


kills = st.lists(st.integers(1, 60), min_size=1, max_size=4)


@pytest.mark.parametrize("engine", ["process", "vectorized"])
@settings(max_examples=8)
@given(data=worlds(), after=kills)
def test_killed_and_resumed_the_log_is_the_same(
    data: dict[str, Any], after: list[int], engine: str, traces: Path
) -> None:
    check(data, traces, engine, after)


@pytest.mark.campaign
@pytest.mark.parametrize("engine", ["process", "vectorized"])
@settings(max_examples=MANY // 2)
@given(data=worlds(), after=kills)
def test_killed_and_resumed_many_times(data: dict[str, Any], after: list[int], engine: str, traces: Path) -> None:
    check(data, traces, engine, after)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_sessions_that_are_late_go_on_after_a_resumption(engine: str, small: Load, tmp_path: Path) -> None:
    """Late sessions, separations and cool-downs all span the opening at which the run goes on, at every one of them."""
    scenario = small(
        f"engine={engine}",
        "server.deadline=70s",
        "server.over_select=1.3",
        "population.0.cooldown=10m",
        "population.0.availability={kind: renewal, on: 30m, off: 3m}",
        "population.0.session.train={kind: lognormal, median: 40s, sigma: 1.5}",
        "stop.duration=10h",
        "records.gauges=7m",
    )
    log = simulate_log(scenario, build_population(scenario))
    assert {"late", "dropped"} <= set(log.participations["outcome"])
    simulate_with_kills(scenario, tmp_path / "journal", [7] * 30, tmp_path / "run")
    for name in ("rounds", "participations", "gauges"):
        assert pl.read_parquet(tmp_path / "run" / f"{name}.parquet").equals(getattr(log, name))


def test_a_closed_journal_holds_no_rows_any_more(small: Load, tmp_path: Path) -> None:
    scenario = small()
    journal = Journal(tmp_path / "journal")
    ended_s = simulate_into(journal, Simulation(scenario, build_population(scenario)))
    assert journal.ended_s is None
    journal.close(tmp_path, ended_s)
    assert [path.name for path in (tmp_path / "journal").iterdir()] == ["state.npz"]
    assert Journal(tmp_path / "journal").ended_s == ended_s


def test_a_state_of_another_run_is_not_taken(tmp_path: Path) -> None:
    Journal(tmp_path, "this").keep({"number": np.array(3), "now": np.array(5)})
    assert Journal(tmp_path, "this").state is not None
    with pytest.raises(RunError, match="its checksum is another"):
        Journal(tmp_path, "another")


def test_a_journal_that_cannot_be_read(tmp_path: Path) -> None:
    for content in (b"PK", b"PK\x03\x04", b"nonsense"):
        (tmp_path / "state.npz").write_bytes(content)
        with pytest.raises(RunError, match=r"state\.npz is damaged"):
            Journal(tmp_path)
