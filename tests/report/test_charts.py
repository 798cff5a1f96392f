"""The data behind each chart."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedsim.findings.finished_run import FinishedRun, read_run
from fedsim.report.charts import Absent, Chart, run_charts
from fedsim.report.charts.distance import LARGEST_CURVE, DistanceChart, Distances, choose_separations
from fedsim.report.charts.gaps import _histogram
from fedsim.report.charts.learning import GradientLastHalf, LearningChart, LossLastHalf, curves
from fedsim.report.charts.marks import Spaced
from fedsim.report.charts.participation import ClientFrequencies, ParticipationChart
from fedsim.report.charts.rounds import DurationChart, Durations
from fedsim.scenario import Scenario
from fedsim.theory import distances, stationary

from .runs import GROUPS, SCENARIO, SEPARATION, SIZE, diverged, no_rounds, one_client, rewrite, zero_reports

WEIGHT = np.repeat(np.arange(1, GROUPS + 1) ** -1.5, SIZE)


@pytest.fixture(scope="session")
def run(written: Path) -> FinishedRun:
    return read_run(written)


def test_participation_is_every_client_by_weight_in_multiples_of_uniform(run: FinishedRun) -> None:
    data = ParticipationChart().prepare(run)
    assert isinstance(data, ClientFrequencies)
    assert data.theory is not None
    np.testing.assert_array_equal(data.measured.x, np.arange(1, 101))
    assert data.measured.mean.sum() == pytest.approx(100)
    np.testing.assert_allclose(data.theory.mean, 100 * stationary(WEIGHT, SEPARATION, SIZE, "groups").pi)
    assert data.separations == (SEPARATION, SEPARATION)
    assert not data.logarithmic


def test_participation_of_many_clients_is_gathered_without_losing_any(run: FinishedRun) -> None:
    clients = 10_000
    frame = pl.DataFrame(
        {
            "client": np.arange(clients),
            "group": ["all"] * clients,
            "weight": np.arange(clients, 0, -1) / clients,
            "separation": np.zeros(clients, dtype=np.int64),
            "participations": np.arange(clients) % 2,
            "frequency": (np.arange(clients) % 2) * 2 / clients,
            "pi": np.full(clients, 1 / clients),
            "pi_method": ["closed-form"] * clients,
        }
    )
    data = ParticipationChart().prepare(replace(run, clients=frame))
    assert isinstance(data, ClientFrequencies)
    measured = data.measured
    assert len(measured.x) <= 160
    assert (measured.first[0], measured.last[-1]) == (1, clients)
    np.testing.assert_array_equal(measured.first[1:], measured.last[:-1] + 1)
    assert ((measured.last - measured.first + 1) * measured.mean).sum() == pytest.approx(clients)
    np.testing.assert_array_equal(measured.low, 0)
    np.testing.assert_array_equal(measured.high, 2)


def test_heavy_heads_get_ranks_on_a_logarithmic_axis(run: FinishedRun) -> None:
    weight = np.arange(1, 1001) ** -1.5
    frame = pl.concat([run.clients] * 10).with_columns(
        client=pl.int_range(1000), weight=pl.Series(weight), frequency=pl.lit(0.001)
    )
    data = ParticipationChart().prepare(replace(run, clients=frame))
    assert isinstance(data, ClientFrequencies)
    assert data.logarithmic
    np.testing.assert_array_equal(data.measured.first[:3], data.measured.last[:3])
    assert data.measured.last[-1] == 1000


def test_participation_without_theory_shows_what_was_measured(run_directory: Path) -> None:
    diverged(run_directory)
    data = ParticipationChart().prepare(read_run(run_directory))
    assert isinstance(data, ClientFrequencies)
    assert data.theory is None
    assert data.separations == (0, 2)


def test_distance_has_every_feasible_separation_and_the_measured_point(run: FinishedRun) -> None:
    data = DistanceChart().prepare(run)
    assert isinstance(data, Distances)
    np.testing.assert_array_equal(data.separations, np.arange(GROUPS))
    np.testing.assert_allclose(data.l1, distances(WEIGHT, range(GROUPS), SIZE, "groups"))
    assert data.l1[SEPARATION] == pytest.approx(0.458147, abs=1e-6)
    assert (data.separation, data.error) == (SEPARATION, 0.01)
    assert data.measured == run.metrics["participation.l1_uniform"]


def test_separations_are_capped_and_keep_both_ends_and_the_run_s_own() -> None:
    np.testing.assert_array_equal(choose_separations(5, 3), np.arange(5))
    chosen = choose_separations(5000, 77)
    assert len(chosen) <= 60
    assert {0, 77, 4999} <= set(chosen.tolist())
    assert 9999 not in choose_separations(5000, 9999)


def with_server(run: FinishedRun, changes: Mapping[str, Any]) -> FinishedRun:
    return replace(
        run,
        scenario=Scenario.model_validate(
            SCENARIO | {"server": changes if "mode" in changes else {"cohort": SIZE, **changes}}
        ),
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"selection": {"kind": "successive"}}, "no closed form"),
        ({"mode": "buffered", "concurrency": 9, "buffer": 3}, "does not say how clients are selected"),
        ({"cohort": 60, "over_select": 2}, "wants more clients than there are"),
    ],
)
def test_distance_says_why_there_is_no_curve(run: FinishedRun, changes: Mapping[str, Any], reason: str) -> None:
    data = DistanceChart().prepare(with_server(run, changes))
    assert isinstance(data, str)
    assert reason in data


def test_distance_counts_the_clients_that_are_selected_for_each_report(run: FinishedRun) -> None:
    data = DistanceChart().prepare(with_server(run, {"over_select": 1.1}))
    assert isinstance(data, Distances)
    np.testing.assert_array_equal(data.separations, np.arange(100 // 6))
    np.testing.assert_allclose(data.l1, distances(WEIGHT, range(100 // 6), 6, "midzuno"))


def test_distance_is_left_out_for_different_separations_and_for_too_many_clients(run: FinishedRun) -> None:
    mixed = replace(run, clients=run.clients.with_columns(separation=pl.col("client") % 2))
    many = replace(run, clients=pl.concat([run.clients] * (LARGEST_CURVE // 100 + 1)))
    assert "different separations" in str(DistanceChart().prepare(mixed))
    assert "beyond 100,000 clients" in str(DistanceChart().prepare(many))


def test_curves_count_rounds_done_and_pair_references_by_colour(run: FinishedRun) -> None:
    loss = curves(run, LearningChart())
    assert [curve.optimizer for curve in loss] == ["fedavg", "debiased_fedavg", "fedavg_uniform"]
    assert [curve.reference for curve in loss] == [False, False, True]
    assert [curve.color for curve in loss] == [0, 1, 0]
    np.testing.assert_array_equal(loss[0].points.x, [0, *range(10, 401, 10)])
    assert run.learning is not None
    fedavg = run.learning.filter(pl.col("optimizer") == "fedavg")
    np.testing.assert_array_equal(loss[0].points.mean, fedavg["loss"])


def test_the_last_half_is_that_of_the_metrics(run: FinishedRun) -> None:
    """Rounds done s with T/2 < s <= T."""
    gradient = curves(run, GradientLastHalf())
    np.testing.assert_array_equal(gradient[1].points.x, range(210, 401, 10))


def test_long_curves_are_averaged_between_their_least_and_greatest(run: FinishedRun) -> None:
    rounds = np.arange(-1, 1599)
    frame = pl.DataFrame(
        {
            "round": rounds,
            "closed_s": 90.0 * (rounds + 1),
            "optimizer": "fedavg",
            "loss": (rounds % 2) + 1.0,
            "grad_norm": np.ones(1600),
        }
    )
    (curve,) = curves(replace(run, learning=frame), LearningChart())
    assert curve.points.size == 10
    np.testing.assert_array_equal(curve.points.mean, np.full(160, 1.5))
    assert (curve.points.low.max(), curve.points.high.min()) == (1, 2)


def test_a_diverged_optimizer_is_drawn_as_far_as_it_is_finite(run_directory: Path) -> None:
    diverged(run_directory)
    run = read_run(run_directory)
    whole, half = curves(run, LearningChart())[0], curves(run, LossLastHalf())[0]
    np.testing.assert_array_equal(whole.points.x, [0, 10, 20])
    assert (whole.lost, whole.first_lost) == (1, 30)
    assert len(half.points.x) == 0
    chart = run_charts(run)["learning"][1]
    assert isinstance(chart, Chart)
    assert "fedavg has no finite value here." in chart.notes


def test_durations_are_in_a_unit_that_suits_them(run: FinishedRun) -> None:
    frame = pl.DataFrame(
        {
            "round": [0, 1, 2, 3],
            "opened_s": [0.0, 600.0, 1800.0, 3000.0],
            "selected_s": [0.0, 900.0, None, None],
            "closed_s": [600.0, 1800.0, 2400.0, None],
        }
    )
    data = DurationChart().prepare(replace(run, rounds=frame))
    assert isinstance(data, Durations)
    assert data.waiting is not None
    assert (data.unit, data.rounds, data.longest) == ("min", 3, 1200)
    np.testing.assert_allclose(data.running.mean, [10, 15])
    np.testing.assert_array_equal(data.waiting.x, [0, 1, 2])
    np.testing.assert_allclose(data.waiting.mean, [0, 5, 10])


def test_waiting_is_left_out_when_no_round_waited(run: FinishedRun) -> None:
    data = DurationChart().prepare(run)
    assert isinstance(data, Durations)
    assert data.waiting is None
    assert data.unit == "s"


@pytest.mark.parametrize(
    ("spoil", "absent"),
    [
        (one_client, {"distance", "group-frequency", "gaps", "availability", "eligible", "timeline", "loss"}),
        (
            zero_reports,
            {
                "participation",
                "group-frequency",
                "coverage",
                "availability",
                "eligible",
                "loss-last-half",
                "gradient-last-half",
            },
        ),
        (
            no_rounds,
            {
                "participation",
                "group-frequency",
                "gaps",
                "coverage",
                "availability",
                "eligible",
                "loss-last-half",
                "gradient-last-half",
                "durations",
            },
        ),
        (diverged, {"distance", "availability", "eligible"}),
    ],
)
def test_charts_without_data_say_so(run_directory: Path, spoil: Callable[[Path], None], absent: set[str]) -> None:
    spoil(run_directory)
    every = chain.from_iterable(run_charts(read_run(run_directory)).values())
    assert {chart.name for chart in every if isinstance(chart, Absent)} == absent


def test_data_tables_are_thinned_and_say_so(run_directory: Path) -> None:
    rewrite(run_directory / "clients.parquet", lambda clients: clients.with_columns(weight=pl.col("client") + 1.0))
    chart = run_charts(read_run(run_directory))["bias"][0]
    assert isinstance(chart, Chart)
    assert chart.table is not None
    assert len(chart.table.rows) == 60
    assert (chart.table.rows[0][0], chart.table.rows[-1][0]) == ("1", "100")
    assert chart.table.note.startswith("60 of 100 points")


@pytest.mark.parametrize(
    ("places", "labels"),
    [
        ([0.0, 25.0, 50.0], ["0", "25", "50"]),
        ([2.1395, 2.14, 2.1405], ["2.1395", "2.14", "2.1405"]),
        ([-1e-17, 1e-7, 2e-7], ["0", "1e\N{MINUS SIGN}7", "2e\N{MINUS SIGN}7"]),
        ([1_000_000.0, 1_000_000.5], ["1,000,000", "1,000,000.5"]),
        ([5.0], ["5"]),
        ([], []),
    ],
)
def test_neighbouring_ticks_never_read_alike(places: list[float], labels: list[str]) -> None:
    assert Spaced().format_ticks(places) == labels


def test_gaps_may_be_0_versions() -> None:
    """A client of a buffered server may take part twice in a version."""
    bounds, shares = _histogram(pl.DataFrame({"gap": [0, 1, 90], "len": [2, 1, 1]}))
    assert bounds[0] == 0
    assert shares.sum() == 1.0
    assert shares[0] == 0.5
