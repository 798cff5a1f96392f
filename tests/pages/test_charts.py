"""The data behind each chart, and what is drawn of it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from fedsim.common.formatting import NO_VALUE
from fedsim.pages import render
from fedsim.pages.bias import bias_of
from fedsim.pages.charts import Absent, Chart, marks, run_charts
from fedsim.pages.charts.distance import LARGEST_CURVE, distance_chart
from fedsim.pages.charts.learning import curves, training_chart
from fedsim.pages.charts.marks import AxisScale, Spaced
from fedsim.pages.charts.plot import AxisLook, Rule, Series, line_plot
from fedsim.pages.charts.rounds import duration_chart
from fedsim.pages.tables import thinned
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario import Scenario
from fedsim.theory import distances

from .runs import GROUPS, SCENARIO, SEPARATION, SIZE, diverged, no_rounds, one_client, zero_reports

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


def test_distance_has_every_feasible_separation_and_the_measured_point(run: Run) -> None:
    chart = distance_chart(run)
    assert chart is not None
    (_, r, tv), *_, (_, at, measured) = [line for line in drawn(chart) if len(line[1]) != 2]
    np.testing.assert_array_equal(r, np.arange(GROUPS))
    np.testing.assert_allclose(tv, distances(WEIGHT, range(GROUPS), SIZE, "groups") / 2)
    assert (at[0], measured[0]) == (SEPARATION, run.metrics["participation.l1_uniform"] / 2)
    assert chart.table is not None
    assert chart.table.header[1:] == ("theory", "this run")


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


def test_curves_count_rounds_done_and_references_are_grey(run: Run) -> None:
    own, debiased, reference = curves(run)
    assert [each.name for each in (own, debiased, reference)] == ["fedavg", "debiased_fedavg", "fedavg_uniform"]
    assert [each.look for each in (own, debiased, reference)] == ["line", "line", "dashed"]
    assert (own.color, reference.color, debiased.color) == (marks.SERIES[0], marks.MUTED, marks.SERIES[1])
    np.testing.assert_array_equal(own.x, [0, *range(10, 401, 10)])
    assert run.learning is not None
    np.testing.assert_array_equal(own.y, run.learning.filter(pl.col("optimizer") == "fedavg")["loss"])
    chart = training_chart(run)
    assert isinstance(chart, Chart)
    assert "Dashed: trained under uniform participation." in chart.notes


def test_long_curves_are_averaged_between_their_least_and_greatest(run: Run) -> None:
    rounds = np.arange(-1, 1599)
    frame = pl.DataFrame({"round": rounds, "optimizer": "fedavg", "loss": rounds % 2 + 1.0})
    (curve,) = curves(replace(run, learning=frame))
    assert curve.size == 10
    np.testing.assert_array_equal(curve.y, np.full(160, 1.5))
    np.testing.assert_array_equal(curve.margin, np.full((2, 160), 0.5))


def test_a_diverged_optimizer_is_drawn_as_far_as_it_is_finite(run_directory: Path) -> None:
    diverged(run_directory)
    first, *_ = curves(load_one(run_directory))
    np.testing.assert_array_equal(first.x, [0, 10, 20])


def test_an_axis_does_not_follow_what_diverges_without_end(run: Run) -> None:
    """A loss that grows to 1e271 is drawn as far as 10,000 times the first one."""
    assert run.learning is not None
    grown = pl.when(optimizer="fedavg").then(10.0 ** (pl.col("round") / 1.5)).otherwise("loss")
    away = replace(run, learning=run.learning.with_columns(loss=grown))
    assert max(np.max(y) for _, _, y in drawn(training_chart(away))) < 1e5


@pytest.mark.parametrize(
    ("values", "asked", "scale", "least"),
    [
        ([1.0, 1e-9], "auto", "log", None),
        ([1.0, 0.0], "auto", "linear", 0.0),
        ([5.0, 1.0], "auto", "linear", None),
        ([5.0, 1.0], "linear", "linear", 0.0),
        ([5.1, 5.0], "linear", "linear", None),
    ],
)
def test_an_axis_is_logarithmic_or_begins_at_nothing_as_its_values_ask_for(
    values: list[float], asked: AxisScale, scale: str, least: float | None
) -> None:
    series = Series("some", np.arange(2.0), np.array(values))
    axes = Figure().subplots()
    line_plot("some", "Some", [series], AxisLook("x"), AxisLook("y", asked)).draw(axes)
    assert axes.get_yscale() == scale
    assert (axes.get_ylim()[0] == least) == (least is not None)


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
    (_, x, rounds), (_, _, waits) = drawn(chart)
    assert 0 < x[0] < 1
    assert 19 < x[-1] < 20
    np.testing.assert_allclose([rounds.sum(), rounds[-1], waits.sum(), waits[-1]], [1, 1 / 3, 2 / 3, 0])
    assert isinstance(chart, Chart)
    assert chart.table is not None
    assert chart.table.header == ("Duration (min)", "rounds", "waits for clients")
    assert chart.finding.startswith("Half took at most 10\N{NARROW NO-BREAK SPACE}min")


def test_a_histogram_has_what_is_beyond_it_in_its_last_bar(run: Run) -> None:
    columns = {"round": range(100), "opened_s": [0.0] * 100, "selected_s": [0.0] * 100}
    assert durations(run, **columns, closed_s=np.append(np.full(99, 60.0), 6000.0)) is None  # all is in one bar
    chart = durations(run, **columns, closed_s=np.append(np.repeat([30.0, 60.0, 50.0], 33), 6000.0))
    ((_, x, share),) = drawn(chart)
    assert 60 < x[-1] < 120  # seconds
    np.testing.assert_allclose([share.sum(), share[-1]], [1, 0.01])
    assert isinstance(chart, Chart)
    assert chart.table is not None
    assert chart.table.header[0] == "Duration (s; the last bar: longer)"


def test_waiting_is_left_out_when_no_round_waited(run: Run) -> None:
    assert len(drawn(duration_chart(run))) == 1


def test_rounds_of_one_length_are_a_sentence(run: Run) -> None:
    opened = [0.0, 100.0, 200.0]
    even = durations(run, round=[0, 1, 2], opened_s=opened, selected_s=opened, closed_s=[60.0, 160.0, 260.0])
    assert even is None
    uneven = durations(run, round=[0, 1, 2], opened_s=opened, selected_s=opened, closed_s=[61.0, 160.0, 260.0])
    assert isinstance(uneven, Chart)


def test_several_lines_and_rules_have_a_legend_and_one_has_none() -> None:
    x, y = AxisLook("x"), AxisLook("y")
    series = [Series(name, np.arange(3.0), np.arange(3.0) + far) for name, far in (("_a", 0), ("b", 1), ("c", 0.001))]
    over = [*series[:2], Series("d", np.arange(3.0), np.arange(3.0) + 1.03)]
    under = ["_a", "b (under d)", "d", "five"]
    for some, names in ((series, ["_a, c: same line", "b", "five"]), (over, under), (series[:0], [])):
        figure = Figure(figsize=(3.5, 2.4))
        rules = [Rule("five", 5.0)] if some else []
        line_plot("some", "Some", some or series[:1], x, y, rules).draw(figure.subplots())
        assert [text.get_text() for legend in figure.legends for text in legend.get_texts()] == names


@pytest.mark.parametrize(
    ("margins", "said"), [((0.1, 0.1, 0.1), True), ((0.01, 0.01, 0.01), False), ((1, 0, 0), False)]
)
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_band_that_cannot_be_seen_has_no_entry_in_the_legend(
    margins: tuple[float, ...], said: bool, scale: AxisScale
) -> None:
    y, figure = np.array([1.0, 2.0, 3.0]), Figure(figsize=(3.5, 2.4))
    series = [Series("a", y, y, margin=np.array(margins)), Series("b", y, y[::-1])]
    line_plot("some", "Some", series, AxisLook("x"), AxisLook("y", scale)).draw(figure.subplots())
    texts = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert (series[0].interval in texts) == said


def test_the_table_of_lines_has_values_to_the_digits_that_their_intervals_leave() -> None:
    x, y = np.array([1.0, 2.0]), np.array([1.2345, 2.3456])
    series = [Series("plain", x, y), Series("judged", x[:1], y[:1], margin=np.array([0.03]))]
    chart = line_plot("some", "Some", series, AxisLook("x"), AxisLook("y"))
    assert chart.table is not None
    assert chart.table.rows == (("1", "1.234", "1.23 ± 0.03"), ("2", "2.346", NO_VALUE))


@pytest.mark.parametrize("case", range(8))
def test_names_beside_points_lie_on_no_name_point_or_line(case: int) -> None:
    """Names were struck through by lines, and stood beside dots of others."""
    x, y = np.random.default_rng(case).random((2, 7))
    front, rest = np.sort(x[:3]), np.array([3, 4, 5, 6])
    series = [
        Series("front", front, y[:3], look="marked", names=["R = 0, cohort = 20", "R = 5", "R = 10, cohort = 5"]),
        Series("beaten", x[rest], y[rest], look="dots", names=[f"R = {k}" for k in rest]),
        Series("same place", x[rest], y[rest], look="dots", names=[f"R = {k}" for k in rest]),
    ]
    figure = render._laid_out(line_plot("some", "Some", series, AxisLook("x"), AxisLook("y")), render._PAGE_WIDTH)
    (axes,) = figure.axes
    figure.canvas.draw()
    boxes = [each.get_window_extent() for each in axes.texts]
    names = [each.get_text() for each in axes.texts]
    assert len(names) > 2
    assert len({(each.get_text(), each.xy) for each in axes.texts if isinstance(each, Annotation)}) == len(names)
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    t = np.linspace(0, 1, 200)
    line = np.stack([np.interp(2 * t, [0, 1, 2], front), np.interp(2 * t, [0, 1, 2], y[:3])])
    drawn = axes.transData.transform(np.hstack([line, np.stack([x[rest], y[rest]])]).T)
    assert not any(box.contains(*place) for box in boxes for place in drawn)


@pytest.mark.parametrize(("spoil", "drawn"), [(one_client, False), (zero_reports, False), (no_rounds, False)])
def test_who_takes_part_is_drawn_where_somebody_does(
    run_directory: Path, spoil: Callable[[Path], None], drawn: bool
) -> None:
    spoil(run_directory)
    run = load_one(run_directory)
    assert any(each.name == "who" for each in run_charts(run, bias_of(run))["bias"]) == drawn


def test_data_tables_are_thinned_and_say_so() -> None:
    """Each row that stays keeps its place in the chart."""
    for number, kept in ((1, 1), (160, 160), (161, 160), (1000, 160)):
        made = thinned("Loss", ("Round", "Loss"), [(str(k), "1") for k in range(number)], range(number))
        assert len(made.rows) == kept
        assert [str(place) for place in made.places] == [row[0] for row in made.rows]
        assert (made.rows[0][0], made.rows[-1][0]) == ("0", str(number - 1))
        assert made.note.startswith("160 of ") == (kept < number)


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


@pytest.mark.parametrize(("least", "said"), [(1e-9, True), (0.2, False)])
def test_a_line_that_leaves_the_chart_is_named_below_its_title(least: float, said: bool) -> None:
    x = np.arange(3.0)
    lines = [Series("a", x, np.array([9.0, 2.0, 0.1])), Series("b", x, np.array([9.0, 1.0, least]))]
    chart = line_plot("loss", "Loss", lines, AxisLook("rounds"), AxisLook("loss", "log"), finding="So.")
    assert chart.finding == "So." + " Not drawn where it is below 9e\N{MINUS SIGN}5: “b”; the data have it." * said
