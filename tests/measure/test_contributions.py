"""Contributions of clients: how often, how far apart, and which report of a buffered server counts when."""

import polars as pl
import pytest

from fedsim.measure import contributions as module
from fedsim.measure.contributions import Contributions, contributions
from fedsim.run.simulate import simulate
from tests.conftest import Load


def table(rows: list[tuple[int, int, str, int | None]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["round", "client", "outcome", "staleness"], orient="row")


def test_only_reports_that_were_taken_count() -> None:
    found = contributions(
        table([(0, 2, "reported", 0), (1, 2, "dropped", 0), (3, 1, "reported", 0), (4, 2, "reported", 0)]), 3
    )
    assert found == Contributions(2, 2, 4, 2, 4, 4)


def test_a_report_counts_when_it_is_taken() -> None:
    found = contributions(table([(0, 0, "reported", 5), (6, 0, "reported", 0), (6, 1, "stale", 9)]), 2)
    assert (found.least_separation, found.least_round, found.last_round) == (1, 6, 6)


def test_a_log_without_reports_has_no_contributions() -> None:
    assert contributions(table([(0, 0, "dropped", None)]), 2) == Contributions(0, 0, None, -1, -1, -1)


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_the_same_in_slices_of_any_size(small: Load, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    log = simulate(small("population.0.separation={kind: uniform, low: 1, high: 3}"))
    whole = contributions(log.participations, 12)
    monkeypatch.setattr("fedsim.common.files.ROWS", size)
    assert module.contributions(log.participations, 12) == whole
    by_client = log.participations.filter(outcome="reported").group_by("client").agg(pl.col("round").diff().min())
    assert whole.least_separation == by_client["round"].min() == log.metrics["participation.separation.least"]


def test_no_metric_where_nobody_contributed_twice(small: Load) -> None:
    log = simulate(small("stop.rounds=3"))
    assert "participation.separation.least" not in log.metrics
