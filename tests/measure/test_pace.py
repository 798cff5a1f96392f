"""How fast a server is: by the updates of the model and the reports taken, not by rounds in which nothing came."""

import random
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedsim import Scenario, simulate
from fedsim.run.run import Run
from fedsim.trials.decision import TAKEN, UPDATES, pace_metric, trade_off
from fedsim.trials.trials import Trials
from tests.conftest import Write

AWAY = """\
stop: {duration: 1d}
population:
- {devices: 30, availability: {kind: renewal, on: 30m, off: 60m}, session: {train: 60s}}
"""


def run_of(write: Write, server: str) -> Run:
    return simulate(Scenario.load(write(f"{AWAY}server: {{{server}}}\n")))


def counted(run: Run) -> tuple[int, int]:
    """Count the updates and the reports that the tables show."""
    reports = run.participations.filter(pl.col("outcome").cast(pl.String) == "reported")
    full = run.rounds.filter(outcome="target")["round"].len()
    return full if run.scenario.server.buffer else reports["round"].n_unique(), len(reports)


SERVERS = (
    *(f"cohort: {each}, shortage: skip, pause: 1m" for each in (3, 14)),
    *("cohort: 10, minimum_reports: 7, deadline: 3m", "cohort: 2, selection: poisson, pause: 30s"),
    *("cohort: 12, shortage: proceed", "mode: buffered, concurrency: 8, buffer: 3"),
)


@pytest.mark.parametrize("server", SERVERS)
def test_updates_and_reports_are_those_of_the_tables(write: Write, server: str) -> None:
    """Rounds that are skipped, fail or select nobody are none, and intervals have the figure in them."""
    run = run_of(write, server)
    for key, number in zip((UPDATES, TAKEN), counted(run), strict=True):
        fact = run.fact(key)
        assert fact is not None
        assert fact["value"] == pytest.approx(number * 86_400 / run.simulated_s)
        assert fact["low"] is None or fact["low"] <= fact["value"] <= fact["high"]
    assert run.metrics["reports.wanted"] == (run.scenario.server.buffer or run.scenario.sync_server.cohort)


def test_a_larger_cohort_that_is_seldom_there_is_not_faster(write: Write) -> None:
    """Rounds that find too few clients are many, since each takes a minute; updates and reports are few."""
    runs = [run_of(write, f"cohort: {cohort}, shortage: skip, pause: 1m") for cohort in (8, 14)]
    assert runs[1].metrics["rounds.per_day"] > runs[0].metrics["rounds.per_day"]
    assert [counted(runs[0])[which] > counted(runs[1])[which] for which in (0, 1)] == [True, True]
    figures = {(row, 1): run.metrics for row, run in enumerate(runs)}
    trials = Trials.in_memory("made", {"scenario": runs[0].scenario.model_dump(mode="json")}, figures)
    ends = trade_off(trials)
    assert ends is not None
    assert ends[0] == 0


@pytest.mark.parametrize(("wanted", "metric"), [((5.0, 5.0), UPDATES), ((5.0, 10.0), TAKEN), ((np.nan, 5.0), UPDATES)])
def test_reports_decide_between_updates_of_different_sizes(wanted: tuple[float, float], metric: str) -> None:
    figures = {(row, 1): {"reports.wanted": each, UPDATES: 10.0, TAKEN: 50.0} for row, each in enumerate(wanted)}
    assert pace_metric(Trials.in_memory("made", {}, figures)) == metric


@pytest.mark.campaign
@pytest.mark.timeout(0)  # a campaign takes as long as it takes
def test_the_order_by_pace_is_that_of_what_the_tables_show(write: Write) -> None:
    """Forty sweeps: of updates, or of reports where cohorts differ."""
    for number in range(40):
        draws = random.Random(number)
        shown = {"shortage": draws.choice(["skip", "proceed", "wait"]), "pause": f"{draws.randint(20, 90)}s"}
        shown["selection"] = draws.choice(["midzuno", "poisson"])
        changes: list[dict[str, Any]] = [{"cohort": each} for each in sorted(draws.sample(range(1, 16), 3))]
        if number % 2:
            least = sorted(draws.sample(range(1, 9), 3))
            changes = [
                {"cohort": 8, "minimum_reports": each, "deadline": f"{draws.randint(80, 180)}s"} for each in least
            ]
        runs = [run_of(write, ", ".join(f"{k}: {v}" for k, v in (shown | each).items())) for each in changes]
        figures = {(row, 1): run.metrics for row, run in enumerate(runs)}
        trials = Trials.in_memory("made", {"scenario": runs[0].scenario.model_dump(mode="json")}, figures)
        daily = [counted(run)[1 - number % 2] * 86_400 / run.simulated_s for run in runs]
        assert trials.samples(pace_metric(trials))[:, 0].tolist() == pytest.approx(daily), (number, shown, changes)
