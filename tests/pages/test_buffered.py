"""The charts of a buffered server: how long versions took, how stale reports were."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

from fedsim import Scenario, simulate
from fedsim.common.formatting import number
from fedsim.pages.bias import bias_of
from fedsim.pages.charts import Chart, run_charts
from fedsim.pages.charts.rounds import duration_chart, staleness_chart
from fedsim.run.load import load_one
from fedsim.run.run import Run

SCENARIO = """\
stop: {rounds: 150}
seed: 2
population:
  - {name: slow, devices: 12, session: {train: {kind: exponential, mean: 100s}}}
  - {name: fast, devices: 12, session: {train: {kind: exponential, mean: 100s}, speed: 4}}
server: {mode: buffered, concurrency: 8, buffer: 2, max_staleness: 6}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("buffered")
    (folder / "case.fedsim.yaml").write_text(SCENARIO, encoding="utf-8")
    result = simulate(Scenario.load(folder / "case.fedsim.yaml"))
    result.save(folder / "run")
    return load_one(folder / "run")


def table(run: Run) -> pl.DataFrame:
    """Return the participations that the run's charts were gathered from."""
    return simulate(run.scenario).participations


def test_shares_by_staleness_are_those_of_the_log(run: Run) -> None:
    """Group by group, with the discarded ones, which lie beyond the limit."""
    chart = staleness_chart(run)
    assert chart is not None
    axes = Figure().subplots()
    chart.draw(axes)
    slow, fast, limit = axes.get_lines()
    log = table(run).filter(pl.col("outcome").is_in(["reported", "stale"]))
    for line, first in ((slow, 0), (fast, 12)):
        own = log.filter(pl.col("client").is_between(first, first + 11))["staleness"].to_numpy()
        shares = np.asarray(line.get_ydata())
        np.testing.assert_allclose(shares, np.bincount(own, minlength=len(shares)) / len(own))
        assert number(own.mean(), 3) in chart.notes[0]
    assert np.asarray(limit.get_xdata())[0] == 6.5
    discarded = (log["outcome"] == "stale").to_numpy().mean()
    assert 0 < discarded < 0.5
    assert f"{100 * discarded:.1f}" in chart.notes[1]


def test_versions_last_from_one_to_the_next(run: Run) -> None:
    chart = duration_chart(run)
    assert isinstance(chart, Chart)
    assert chart.title == "How long versions took"
    assert not any("aiting" in note for note in chart.notes)


def test_only_buffered_runs_have_staleness(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "rounds.fedsim.yaml"
    session = "session: {train: {kind: exponential, mean: 60s}}"  # rounds of different lengths
    text = f"stop: {{rounds: 50}}\npopulation: [{{devices: 9, {session}}}]\nserver: {{cohort: 3}}\n"
    path.write_text(text, encoding="utf-8")
    simulate(Scenario.load(path)).save(tmp_path / "run")
    shown = (
        [chart.name for chart in run_charts(each, bias_of(each))["rounds"]]
        for each in (run, load_one(tmp_path / "run"))
    )
    assert list(shown) == [["durations", "staleness"], ["durations", "one-round"]]
