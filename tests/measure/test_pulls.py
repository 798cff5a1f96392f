import numpy as np
import polars as pl
import pytest

from fedsim import simulate
from fedsim.measure.contributions import pulls
from tests.conftest import Load
from tests.learning.cases import tables

TURNS = [[0], [1], [2], [3], [4], [5, 6, 7, 8, 9]]


def test_a_report_of_a_small_cohort_pulls_more() -> None:
    """Ten clients that report equally often: those who come alone pull five times as much as the others."""
    _, participations = tables(TURNS * 7)
    np.testing.assert_allclose(pulls(participations, 10), [1 / 6] * 5 + [1 / 30] * 5)


def test_cohorts_of_one_size_have_the_shares_exactly() -> None:
    _, participations = tables([[0, 1, 2], [], [2, 3, 4], [0, 3, 4]] * 5)
    np.testing.assert_array_equal(pulls(participations, 6), np.array([10, 5, 10, 10, 10, 0]) / 45)


def test_nobody_pulls_where_nobody_reports() -> None:
    _, participations = tables([[0], [1]])
    np.testing.assert_array_equal(pulls(participations.with_columns(outcome=pl.lit("late")), 2), [0, 0])


VARYING = ["server.cohort=5", "server.shortage=proceed", "population.0.separation=1", "stop.rounds=60"]


@pytest.mark.parametrize(
    "settings",
    [
        ["population.0.availability={kind: renewal, on: 20m, off: 20m}", *VARYING],
        ["server.selection=poisson"],
        [
            "population.0.separation=0",
            "server.over_select=2",
            "population.0.session.train={kind: exponential, mean: 5m}",
        ],
        ["server={mode: buffered, concurrency: 6, buffer: 4}", "stop.rounds=9"],
    ],
)
def test_a_run_has_the_pulls_of_its_log(small: Load, settings: list[str]) -> None:
    """The column of the clients and the metrics are those of the table of participations."""
    scenario = small(*settings)
    result = simulate(scenario)
    expected = pulls(result.participations, scenario.devices, scenario.server.buffer)
    np.testing.assert_allclose(result.clients["pull"], expected, rtol=1e-12)
    away = np.abs(expected - 1 / scenario.devices).sum()
    assert result.metrics["participation.pull_l1_uniform"] == pytest.approx(away)
    assert result.metrics["participation.pull_tv_uniform"] == pytest.approx(away / 2)
    reported = result.participations.filter(pl.col("outcome") == "reported")["client"].to_numpy()
    np.testing.assert_array_equal(result.clients["reported"], np.bincount(reported, minlength=scenario.devices))


def test_privacy_divides_by_a_fixed_number(small: Load) -> None:
    """Each report weighs 1/B then, whatever the size of its cohort, so that pulls are shares of the reports."""
    privacy = "privacy={noise_multiplier: 1, delta: 1e-6, clip: 1, training: clip}"
    learning = "learning={problem: quadratic, optimizers: [fedavg], step_size: 0.1}"
    own = [*VARYING, "population.0.availability={kind: renewal, on: 20m, off: 20m}", learning]
    free, private = simulate(small(*own)), simulate(small(*own, privacy))
    shares = private.clients["reported"] / private.clients["reported"].sum()
    np.testing.assert_allclose(private.clients["pull"], shares, rtol=1e-12)
    assert np.abs(free.clients["pull"] - shares).sum() > 0.01
