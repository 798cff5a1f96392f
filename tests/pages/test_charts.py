"""The data behind each chart, and what is drawn of it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

from fedsim.pages.bias import bias_of
from fedsim.pages.charts import Absent, Chart, run_charts
from fedsim.pages.charts.distance import LARGEST_CURVE, choose_separations, distance_chart
from fedsim.pages.charts.learning import curves, in_step, training_chart
from fedsim.pages.charts.marks import Spaced
from fedsim.pages.charts.plot import Rule, Series, line_plot
from fedsim.pages.charts.rounds import duration_chart
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario import Scenario
from fedsim.theory import distances

from .runs import GROUPS, SCENARIO, SEPARATION, SIZE, diverged, no_rounds, one_client, rewrite, zero_reports

WEIGHT = np.repeat(np.arange(1, GROUPS + 1) ** -1.5, SIZE)


@pytest.fixture(scope="session")
def run(written: Path) -> Run:
    return load_one(written)


def drawn(chart: Chart | Absent | None) -> list[tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Return the lines of a chart: style, x and y."""
    assert isinstance(chart, Chart)
    axes = Figure(figsize=(3.5, 2.4)).subplots()
    chart.draw(axes)
    lines = axes.get_lines()
    return [(str(each.get_linestyle()), np.asarray(each.get_xdata()), np.asarray(each.get_ydata())) for each in lines]


def texts(chart: Chart | Absent | None) -> list[str]:
    """Return what is written beside the lines of a chart."""
    assert isinstance(chart, Chart)
    axes = Figure(figsize=(3.5, 2.4)).subplots()
    chart.draw(axes)
    return [each.get_text() for each in axes.texts]


def test_distance_has_every_feasible_separation_and_the_measured_point(run: Run) -> None:
    chart = distance_chart(run)
    assert chart is not None
    (_, r, tv), *_, (_, at, measured) = [line for line in drawn(chart) if len(line[1]) != 2]
    np.testing.assert_array_equal(r, np.arange(GROUPS))
    np.testing.assert_allclose(tv, distances(WEIGHT, range(GROUPS), SIZE, "groups") / 2)
    assert (at[0], measured[0]) == (SEPARATION, run.metrics["participation.l1_uniform"] / 2)
    assert texts(chart) == ["this run", "theory"]


def test_separations_are_capped_and_keep_both_ends_and_the_run_s_own() -> None:
    np.testing.assert_array_equal(choose_separations(5, 3), np.arange(5))
    chosen = choose_separations(5000, 77)
    assert len(chosen) <= 60
    assert {0, 77, 4999} <= set(chosen.tolist())
    assert 9999 not in choose_separations(5000, 9999)


def with_server(run: Run, changes: Mapping[str, Any]) -> Run:
    return replace(
        run,
        scenario=Scenario.model_validate(
            SCENARIO | {"server": changes if "mode" in changes else {"cohort": SIZE, **changes}}
        ),
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"selection": {"kind": "successive"}},
        {"mode": "buffered", "concurrency": 9, "buffer": 3},
        {"cohort": 60, "over_select": 2},
    ],
)
def test_there_is_no_curve_where_theory_has_none(run: Run, changes: Mapping[str, Any]) -> None:
    assert distance_chart(with_server(run, changes)) is None


def test_distance_counts_the_clients_that_are_selected_for_each_report(run: Run) -> None:
    (_, r, tv), *_ = drawn(distance_chart(with_server(run, {"over_select": 1.1})))
    np.testing.assert_array_equal(r, np.arange(100 // 6))
    np.testing.assert_allclose(tv, distances(WEIGHT, range(100 // 6), 6, "midzuno") / 2)


def test_distance_is_left_out_for_several_separations_equal_weights_and_too_many_clients(run: Run) -> None:
    for clients in (
        run.clients.with_columns(separation=pl.col("client") % 2),
        run.clients.with_columns(weight=pl.lit(0.01)),
        pl.concat([run.clients] * (LARGEST_CURVE // 100 + 1)),
    ):
        assert distance_chart(replace(run, clients=clients)) is None


def test_curves_count_rounds_done_and_pair_references_by_colour(run: Run) -> None:
    loss = curves(run)
    assert [curve.optimizer for curve in loss] == ["fedavg", "debiased_fedavg", "fedavg_uniform"]
    assert [curve.reference for curve in loss] == [False, False, True]
    assert [curve.color for curve in loss] == [0, 1, 0]
    np.testing.assert_array_equal(loss[0].points.x, [0, *range(10, 401, 10)])
    assert run.learning is not None
    fedavg = run.learning.filter(pl.col("optimizer") == "fedavg")
    np.testing.assert_array_equal(loss[0].points.mean, fedavg["loss"])
    chart = training_chart(run)
    assert isinstance(chart, Chart)
    assert "Dashed: “fedavg” under uniform participation." in chart.notes


def test_curves_go_over_simulated_time_where_it_does_not_go_with_the_rounds(run: Run) -> None:
    over_time, over_rounds = curves(run, unit_s=3600.0)[0], curves(run)[0]
    np.testing.assert_allclose(over_time.points.x, 90 / 3600 * over_rounds.points.x)
    np.testing.assert_array_equal(over_time.points.mean, over_rounds.points.mean)
    late = replace(run, rounds=run.rounds.with_columns(closed_s=pl.col("closed_s") ** 2))
    assert in_step(run)
    assert not in_step(late)
    heads = [
        chart.table.header[0] for chart in map(training_chart, (run, late)) if isinstance(chart, Chart) and chart.table
    ]
    assert heads == ["Rounds done", "Simulated hours"]


def test_long_curves_are_averaged_between_their_least_and_greatest(run: Run) -> None:
    rounds = np.arange(-1, 1599)
    frame = pl.DataFrame(
        {"round": rounds, "closed_s": 90.0 * (rounds + 1), "optimizer": "fedavg", "loss": rounds % 2 + 1.0}
    )
    (curve,) = curves(replace(run, learning=frame))
    assert curve.points.size == 10
    np.testing.assert_array_equal(curve.points.mean, np.full(160, 1.5))
    assert (curve.points.low.max(), curve.points.high.min()) == (1, 2)


def test_a_diverged_optimizer_is_drawn_as_far_as_it_is_finite(run_directory: Path) -> None:
    diverged(run_directory)
    run = load_one(run_directory)
    np.testing.assert_array_equal(curves(run)[0].points.x, [0, 10, 20])
    assert curves(run)[0].first_lost == 30
    chart = training_chart(run)
    assert isinstance(chart, Chart)
    assert "“fedavg” diverged, and leaves the chart there (rounds done: 30)." in chart.notes


def test_an_axis_does_not_follow_what_diverges_without_end(run: Run) -> None:
    """A loss that grows to 1e271 is drawn as far as 10,000 times the first one."""
    assert run.learning is not None
    grown = pl.when(optimizer="fedavg").then(10.0 ** (pl.col("round") / 1.5)).otherwise("loss")
    away = replace(run, learning=run.learning.with_columns(loss=grown))
    assert max(np.max(y) for _, _, y in drawn(training_chart(away))) < 1e5


@pytest.mark.parametrize("least", [1e-14, 0.0])
def test_an_axis_does_not_follow_what_vanishes(run: Run, least: float) -> None:
    assert run.learning is not None
    gone = pl.when(pl.col("round") > 100).then(least).otherwise("loss")
    chart = training_chart(replace(run, learning=run.learning.with_columns(loss=gone)))
    assert isinstance(chart, Chart)
    axes = Figure().subplots()
    chart.draw(axes)
    assert (axes.get_yscale(), axes.get_ylim()[0] > 1e-7) == (("log", True) if least else ("linear", False))
    assert any("lie under the axis" in note for note in chart.notes) == bool(least)


def test_the_axis_of_a_loss_is_of_what_comes_after_the_descent(run: Run) -> None:
    assert run.learning is not None
    descent = pl.when(pl.col("round") < 10).then(9.0).when(optimizer="fedavg").then(5.2).otherwise(5.1)
    chart = training_chart(replace(run, learning=run.learning.with_columns(loss=descent)))
    assert isinstance(chart, Chart)
    axes = Figure().subplots()
    chart.draw(axes)
    low, high = axes.get_ylim()
    assert 5 < low < 5.1
    assert 5.2 < high < 5.4
    assert "The first tenth begins above the axis, at 9." in chart.notes


def durations(run: Run, **columns: Any) -> Chart | Absent | None:
    return duration_chart(replace(run, rounds=pl.DataFrame(columns), simulated_s=3000.0))


def test_durations_are_in_a_unit_that_suits_them(run: Run) -> None:
    chart = durations(
        run,
        round=[0, 1, 2, 3],
        opened_s=[0.0, 600.0, 1800.0, 3000.0],
        selected_s=[0.0, 900.0, None, None],
        closed_s=[600.0, 1800.0, 2400.0, None],
    )
    running, waiting = drawn(chart)
    np.testing.assert_allclose(running[2], [10, 15])
    np.testing.assert_array_equal(waiting[1], [0, 1, 2])
    np.testing.assert_allclose(waiting[2], [0, 5, 10])
    assert isinstance(chart, Chart)
    assert chart.table is not None
    assert "duration (min)" in chart.table.caption


def test_waiting_is_left_out_when_no_round_waited(run: Run) -> None:
    assert len(drawn(duration_chart(run))) == 1


def test_rounds_of_one_length_are_a_sentence(run: Run) -> None:
    opened = [0.0, 100.0, 200.0]
    even = durations(run, round=[0, 1, 2], opened_s=opened, selected_s=opened, closed_s=[60.0, 160.0, 260.0])
    assert even is None
    uneven = durations(run, round=[0, 1, 2], opened_s=opened, selected_s=opened, closed_s=[61.0, 160.0, 260.0])
    assert isinstance(uneven, Chart)


def test_names_stand_beside_lines_without_lying_on_each_other_or_above_the_chart() -> None:
    x, y = np.arange(3.0), [np.array([0.0, 1.0, each]) for each in (5.0, 5.01, 5.02, 0.0)]
    series = [Series(name, x, each) for name, each in zip("abcd", y, strict=True)]
    chart = line_plot("some", "Some", series, ("x", "linear"), ("y", "linear"), rules=[Rule("five", 5.0)])
    axes = Figure(figsize=(3.5, 2.4)).subplots()
    chart.draw(axes)
    places = sorted(each.get_position()[1] for each in axes.texts)
    assert len(places) == 5
    assert places[-1] <= 1
    assert np.diff(places).min() > 0.04
    long = [replace(each, name=f"a name that is long {each.name}") for each in series]
    figure = Figure(figsize=(3.5, 2.4))
    line_plot("some", "Some", long, ("x", "linear"), ("y", "linear")).draw(axes := figure.subplots())
    assert (len(axes.texts), len(figure.legends)) == (0, 1)


@pytest.mark.parametrize(("spoil", "drawn"), [(one_client, True), (zero_reports, False), (no_rounds, False)])
def test_who_takes_part_is_drawn_where_somebody_does(
    run_directory: Path, spoil: Callable[[Path], None], drawn: bool
) -> None:
    spoil(run_directory)
    run = load_one(run_directory)
    assert any(each.name == "who" for each in run_charts(run, bias_of(run))["bias"]) == drawn


def test_data_tables_are_thinned_and_say_so(run_directory: Path) -> None:
    rewrite(run_directory / "clients.parquet", lambda clients: clients.with_columns(weight=pl.col("client") + 1.0))
    run = load_one(run_directory)
    (chart,) = (each for each in run_charts(run, bias_of(run))["bias"] if each.name == "participation")
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
