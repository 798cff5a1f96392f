"""The charts of a buffered server: how stale reports were, how many sessions ran at once."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim import Scenario, simulate
from fedsim.findings.finished_run import FinishedRun, read_run
from fedsim.findings.gathered import Asked, gather
from fedsim.report.charts import Chart, chart_of, run_charts
from fedsim.report.charts.gaps import GapChart
from fedsim.report.charts.rounds import ConcurrencyChart, DurationChart, Durations, StalenessByGroup, StalenessChart

SCENARIO = """\
stop: {rounds: 150}
seed: 2
population:
  - {name: slow, devices: 12, session: {train: {kind: exponential, mean: 100s}}}
  - {name: fast, devices: 12, session: {train: {kind: exponential, mean: 100s}, speed: 4}}
server: {mode: buffered, concurrency: 8, buffer: 2, max_staleness: 6}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    folder = tmp_path_factory.mktemp("buffered")
    (folder / "case.fedsim.yaml").write_text(SCENARIO, encoding="utf-8")
    result = simulate(Scenario.load(folder / "case.fedsim.yaml"))
    result.save(folder / "run")
    return read_run(folder / "run")


def table(run: FinishedRun) -> pl.DataFrame:
    """Return the participations that the run's charts were gathered from."""
    return simulate(run.scenario).participations


def test_shares_by_staleness_are_those_of_the_log(run: FinishedRun) -> None:
    """Group by group, with the discarded ones, which lie beyond the limit."""
    data = StalenessChart().prepare(run)
    assert isinstance(data, StalenessByGroup)
    assert data.names == ("slow", "fast")
    assert data.means[0] > data.means[1]
    log = table(run).filter(pl.col("outcome").is_in(["reported", "stale"]))
    for name, first, shares, mean in zip(data.names, (0, 12), data.shares, data.means, strict=True):
        own = log.filter(pl.col("client").is_between(first, first + 11))["staleness"].to_numpy()
        np.testing.assert_allclose(shares, np.bincount(own, minlength=len(shares)) / len(own), err_msg=name)
        assert mean == pytest.approx(own.mean())
    assert data.limit == 6
    assert data.discarded == pytest.approx((log["outcome"] == "stale").to_numpy().mean())
    assert 0 < data.discarded < 0.5
    chart = chart_of("staleness", StalenessChart(), run)
    assert isinstance(chart, Chart)
    assert any("were discarded" in note for note in chart.notes)


def test_places_are_all_taken_where_clients_abound(run: FinishedRun) -> None:
    assert run.gathered.buffered is not None
    np.testing.assert_allclose(run.gathered.buffered.running, 8.0, rtol=1e-9)
    chart = chart_of("places", ConcurrencyChart(), run)
    assert isinstance(chart, Chart)
    assert chart.description.startswith("100\N{NARROW NO-BREAK SPACE}% of the 8 places")


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50)), min_size=1, max_size=20))
def test_sessions_in_flight_are_time_in_sessions_by_span(spans: list[tuple[float, float]]) -> None:
    """Against the overlap of each session with each span."""
    sessions = pl.DataFrame(
        {
            "client": [0] * len(spans),
            "round": [0] * len(spans),
            "gap": pl.Series([None] * len(spans), dtype=pl.Int32),
            "selected_s": [begun for begun, _ in spans],
            "ended_s": [begun + length for begun, length in spans],
            "outcome": ["reported"] * len(spans),
            "staleness": [0] * len(spans),
        }
    )
    clients = pl.DataFrame({"client": [0], "separation": [0], "group": ["all"], "time_zone": ["UTC"]})
    found = gather(sessions.lazy(), clients, Asked(simulated_s=100.0)).buffered
    assert found is not None
    edges = np.append(0.0, found.time_s)
    for k, running in enumerate(found.running):
        overlap = [max(0.0, min(b + n, edges[k + 1]) - max(b, edges[k])) for b, n in spans]
        assert running == pytest.approx(sum(overlap) / (edges[1] - edges[0]), abs=1e-6)


def test_versions_last_from_one_to_the_next(run: FinishedRun) -> None:
    data = DurationChart().prepare(run)
    assert isinstance(data, Durations)
    assert data.waiting is None
    chart = chart_of("durations", DurationChart(), run)
    assert isinstance(chart, Chart)
    assert chart.title.startswith("The median version took ")


def test_gaps_of_a_buffered_server_are_counted_in_versions(run: FinishedRun) -> None:
    chart = chart_of("gaps", GapChart(), run)
    assert isinstance(chart, Chart)
    assert chart.table is not None
    words = " ".join([chart.title, chart.description, *chart.notes, chart.table.caption, *chart.table.header])
    assert "ersions" in words
    assert "ound" not in words


def test_only_buffered_runs_have_these_charts(run: FinishedRun, tmp_path: Path) -> None:
    shown = {chart.name for charts in run_charts(run).values() for chart in charts}
    assert {"staleness", "places"} <= shown
    path = tmp_path / "rounds.fedsim.yaml"
    path.write_text("stop: {rounds: 5}\npopulation: [{devices: 9}]\nserver: {cohort: 3}\n", encoding="utf-8")
    simulate(Scenario.load(path)).save(tmp_path / "run")
    rounds = read_run(tmp_path / "run")
    assert not {"staleness", "places"} & {chart.name for charts in run_charts(rounds).values() for chart in charts}
    assert StalenessChart().prepare(rounds) is ConcurrencyChart().prepare(rounds) is None
