"""The picture of the first screen: who takes part, beside what equal chances would do."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

from fedsim import simulate
from fedsim.common.arrays import Floats, Ints
from fedsim.measure.frequencies import fair_half, gini
from fedsim.measure.verdict import share_variance
from fedsim.pages.bias import bias_of
from fedsim.pages.charts import Chart
from fedsim.pages.charts.who import lorenz_chart, over_time_chart, reached_chart, who_charts
from fedsim.pages.words import among_those_seen
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario.component import Choice
from fedsim.theory import stationary
from tests.conftest import Load

from .runs import GROUPS, SEPARATION, SIZE, changed

WEIGHT = np.repeat(np.arange(1, GROUPS + 1) ** -1.5, SIZE)
TWO = ("heaviest 25.0\N{NARROW NO-BREAK SPACE}%", *2 * ("lightest 75.0\N{NARROW NO-BREAK SPACE}%",))
RISING = tuple(0.1 + 0.2 * number for number in range(10))


def charts_of(run: Run) -> list[Chart]:
    return [chart for chart in who_charts(run, bias_of(run)) if chart is not None]


@pytest.fixture(scope="module")
def run(written: Path) -> Run:
    return load_one(written)


def living(run: Run, **columns: Any) -> Run:
    """Return a run whose clients are otherwise, and what is counted of its participations with that."""
    return changed(run, recounted=True, clients=run.clients.with_columns(**columns))


def with_counts(run: Run, counts: Ints, **columns: Any) -> Run:
    """Return a run of one group whose clients took part so often, all of one weight and without theory."""
    frame = pl.DataFrame(
        {
            "client": np.arange(len(counts)),
            "group": "all",
            "time_zone": "UTC",
            "weight": 1.0,
            "separation": 0,
            "cooldown_s": 0.0,
            "participations": counts,
            "frequency": counts / counts.sum(),
            "pi": pl.Series([None] * len(counts), dtype=pl.Float64),
        }
    ).with_columns(**columns)
    server = run.scenario.server.model_copy(update={"selection": Choice(kind="midzuno")})
    scenario = run.scenario.model_copy(update={"server": server})
    return changed(run, clients=frame, scenario=scenario, without=("reports", "weights"))


def ways(run: Run) -> dict[str, pl.DataFrame]:
    return {str(rows["kind"][0]): rows for rows in run.series["shares"].partition_by("kind", maintain_order=True)}


def test_groups_are_in_multiples_of_their_share_with_theory_and_intervals(run: Run) -> None:
    two = living(run, group=pl.when(pl.col("client") < 60).then(pl.lit("a")).otherwise(pl.lit("b")))
    rows = ways(two)["group"]
    assert rows["name"].to_list() == ["a", "b"]
    np.testing.assert_allclose(rows["size"], [0.6, 0.4])
    counts = run.clients["participations"].to_numpy()
    np.testing.assert_allclose(
        rows["value"], [counts[:60].sum() / counts.sum() / 0.6, counts[60:].sum() / counts.sum() / 0.4]
    )
    pi = stationary(WEIGHT, SEPARATION, SIZE, "groups").pi
    np.testing.assert_allclose(rows["theory"], [pi[:60].sum() / 0.6, pi[60:].sum() / 0.4])
    spans = two.series["reports"]["len"].to_numpy().reshape(20, 2)
    margins = 2 * np.sqrt(share_variance(spans))
    assert ((rows["value"] - rows["theory"]).abs().to_numpy() < 2 * margins / rows["size"].to_numpy()).all()
    draws = counts.sum() / SIZE  # groups of five are drawn as one
    far, mean = (
        NormalDist().inv_cdf(1 - 0.05 / 2 / 2),
        np.array([0.6, 0.4]) * draws,
    )  # both lie within it in 19 of 20 runs
    np.testing.assert_allclose(rows["chance"], far * np.sqrt([0.4, 0.6] / mean) + (far**2 - 1) / (6 * mean))
    assert [chart.name for chart in charts_of(two)][:2] == ["who", "who-groups"]


def test_bars_leave_out_equal_shares_where_the_verdict_does(run: Run) -> None:
    """Bars are those of the verdict, which are not symmetric."""
    group = pl.when(pl.col("client") < 60).then(pl.lit("a")).otherwise(pl.lit("b"))
    for given in (run, living(run, group=group)):
        bias = bias_of(given)
        for kind, rows in ways(given).items():
            low, high, names = (rows[name].to_list() for name in ("low", "high", "name"))
            assert ((rows["low"] < rows["value"]) & (rows["value"] < rows["high"])).all()
            for part in bias.of(kind):
                at = names.index(part.name)
                assert (low[at], high[at]) == (part.low, part.high)
                assert (low[at] > 1 or high[at] < 1) is part.significant


def test_time_zones_are_shown_where_they_are_not_the_groups(run: Run) -> None:
    zones = pl.when(pl.col("client") < 25).then(pl.lit("UTC")).otherwise(pl.lit("Asia/Tokyo"))
    assert "zone" not in ways(run)
    assert ways(living(run, time_zone=zones, group=pl.lit("one")))["zone"]["name"].to_list() == ["Asia/Tokyo", "UTC"]
    assert "zone" not in ways(living(run, time_zone=zones, group=zones))


@pytest.mark.parametrize(
    ("weight", "noun", "names"),
    [
        (lambda n: np.repeat(np.arange(n // 5, 0, -1), 5), "group", ("heaviest group", "2", "lightest group")),
        (lambda n: np.repeat([4, 1], [n // 4, n - n // 4]), "class", TWO),
        (lambda n: np.arange(n, 0, -1), "tenth", ("heaviest tenth", "2", "lightest tenth")),
    ],
)
def test_clients_of_one_group_are_parted_by_weight(
    run: Run, weight: Callable[[int], Ints], noun: str, names: tuple[str, ...]
) -> None:
    counts = np.arange(200, 100, -1)
    if noun == "tenth":
        run = with_counts(run, counts, weight=pl.Series(weight(100)))
    else:
        run = living(run, group=pl.lit("all"), weight=pl.Series(weight(100)))
    rows = ways(run)["weight"]
    assert (rows["noun"][0], *rows["name"][:2], rows["name"][-1]) == (noun, *names)
    assert (rows["size"] * rows["value"]).sum() == pytest.approx(1)
    chart, *_ = charts_of(run)
    assert (chart.name, chart.title) == ("who", "Who takes part, by weight")


def test_tenths_by_available_time_come_from_the_metrics(run: Run) -> None:
    metrics = {f"participation.by_availability.{n}": value for n, value in enumerate(RISING, start=1)}
    rows = ways(changed(run, metrics={**run.metrics, **metrics}))["availability"]
    assert (rows["name"][0], rows["name"][-1]) == ("most available", "least available")
    np.testing.assert_allclose(rows["value"], RISING[::-1])


def test_without_parts_the_picture_is_of_the_clients(run: Run) -> None:
    """Three in four clients take part, a quarter never does: all of one weight."""
    charts = charts_of(with_counts(run, np.repeat([40, 0], [75, 25])))
    assert [(chart.name, chart.title) for chart in charts] == [("who", "Who gave the reports")]
    nobody = charts_of(changed(run, clients=run.clients.with_columns(participations=0)))
    assert nobody == []


def test_what_is_not_told_from_chance_is_shown_only_where_nothing_is(run: Run) -> None:
    fair = np.random.default_rng(1).multinomial(20_000, np.full(200, 1 / 200))
    metrics = {f"participation.by_speed.{n}": 1.0 for n in range(1, 11)} | {"participation.l1_uniform": 0.08}
    charts = charts_of(changed(with_counts(run, fair), metrics=metrics))
    assert [(chart.name, chart.title) for chart in charts] == [
        ("who", "Who takes part, by speed"),
        ("lorenz", "Who gave the reports"),
    ]


def test_equal_chances_are_what_a_fair_lottery_draws_in_order(run: Run) -> None:
    counts = np.arange(100) + 1
    fair = drawn_lorenz(with_counts(run, counts))[1][1]
    draws = np.sort(np.random.default_rng(3).multinomial(counts.sum(), np.full(100, 1 / 100), size=200), axis=1)
    np.testing.assert_allclose(fair[1:], np.cumsum(draws, axis=1).mean(axis=0) / counts.sum(), atol=0.002)
    half = draws[:, :50].sum(axis=1).mean() / counts.sum()
    assert fair_half(int(counts.sum()), 100) == pytest.approx(half, abs=0.002)


@pytest.mark.parametrize(("spread", "least", "most"), [(0.0, 5, 20), (0.5, 190, 200)])
def test_counts_of_equal_chances_are_less_even_in_one_of_twenty_cases(
    run: Run, spread: float, least: int, most: int
) -> None:
    generator = np.random.default_rng(3)
    chances = 1 + spread * np.linspace(-1, 1, 60)
    drawn = generator.multinomial(900, chances / chances.sum(), 200)
    sentences = [among_those_seen(with_counts(run, each)) for each in drawn]
    uneven = [each is not None and each.text.startswith("Reports are significantly less even") for each in sentences]
    assert least <= sum(uneven) <= most
    assert among_those_seen(replace(run, clients=run.clients.with_columns(reported=pl.lit(0)))) is None


def drawn_lorenz(run: Run) -> list[tuple[Floats, Floats]]:
    (chart,) = (each for each in charts_of(run) if each.title == "Who gave the reports")
    axes = Figure(figsize=(3.5, 2.4)).subplots()
    chart.draw(axes)
    return [tuple(map(np.asarray, line.get_data())) for line in axes.get_lines()]  # type: ignore[misc]


def test_the_lorenz_curve_is_of_the_reports_and_encloses_the_gini_coefficient(run: Run) -> None:
    """Twice the area between the curve and the diagonal is the coefficient, but for 1/N."""
    counts = np.random.default_rng(4).permutation(np.arange(100) ** 2)
    (x, y), (_, fair), diagonal = drawn_lorenz(with_counts(run, counts))
    np.testing.assert_allclose(y, np.concatenate([[0], np.cumsum(np.sort(counts)) / counts.sum()]))
    assert 1 - 2 * np.trapezoid(y, x) == pytest.approx(gini(counts))
    assert (y <= fair + 1e-12).all()
    np.testing.assert_array_equal(diagonal, [[0, 1], [0, 1]])
    half = f"{100 * np.sort(counts)[:50].sum() / counts.sum():.1f}\N{NARROW NO-BREAK SPACE}%"
    chart = charts_of(with_counts(run, counts))[-1]
    assert chart.finding == f"The half that reported least gave {half} of the reports (Gini {gini(counts):.2g})."


@pytest.mark.parametrize(("power", "folded"), [(1.0, True), (1.01, True), (2.0, False)])
def test_curves_of_two_runs_that_look_like_one_are_folded_away(run: Run, power: float, folded: bool) -> None:
    steps = np.arange(100, dtype=np.int64)
    runs = {name: with_counts(run, (100 * steps**each).astype(np.int64)) for name, each in (("A", 1.0), ("B", power))}
    chart, alone = lorenz_chart(runs, "frequencies"), lorenz_chart({"A": runs["A"]}, "lorenz")
    assert chart is not None
    assert alone is not None
    assert (chart.aside, alone.aside) == (folded, False)


def test_a_curve_of_many_clients_has_few_points_of_all(run: Run) -> None:
    clients = 10_000
    many = with_counts(run, np.arange(clients) % 2, weight=pl.Series(np.arange(clients, 0, -1.0)))
    (x, y), *_ = drawn_lorenz(many)
    assert len(x) <= 161
    np.testing.assert_allclose(y, np.maximum(0, 2 * x - 1), atol=1e-9)


def test_shares_of_groups_over_time_are_those_of_each_span(run: Run) -> None:
    two = living(run, group=pl.when(pl.col("client") < 60).then(pl.lit("a")).otherwise(pl.lit("b")))
    chart = over_time_chart(two, bias_of(two))
    assert chart is not None
    axes = Figure().subplots()
    chart.draw(axes)
    spans = two.series["reports"]["len"].to_numpy().reshape(20, 2)
    for line, count, size in zip(axes.get_lines(), spans.T, (0.6, 0.4), strict=False):
        np.testing.assert_allclose(np.asarray(line.get_ydata(), float), count / spans.sum(axis=1) / size)
    one = living(run, group=pl.lit("one"))
    assert over_time_chart(one, bias_of(one)) is None


@pytest.mark.parametrize(("late", "moves"), [(30, True), (90, False)])
def test_groups_whose_shares_change_within_the_run_are_named(run: Run, late: int, moves: bool) -> None:
    """From 90 of 100 reports a span, one falls to 30 at half time, or stays; each has half of the clients."""
    two = living(run, group=pl.when(pl.col("client") < 50).then(pl.lit("a")).otherwise(pl.lit("b")))
    table = two.series["reports"]
    of_a = pl.when(pl.col("span") < 10).then(90).otherwise(late)
    counts = table.with_columns(len=pl.when(pl.col("group") == "a").then(of_a).otherwise(100 - of_a).cast(pl.Int64))
    given = replace(two, series={**two.series, "reports": counts})
    chart = over_time_chart(given, bias_of(given))
    assert chart is not None
    says = (
        "From the first half of the run to the last: “a” from 1.8 to 0.6 and “b” from 0.2 to 1.4 times the fair share."
    )
    assert chart.finding == (says if moves else "")
    assert not (moves and chart.aside)


def test_clients_are_reached_as_they_first_take_part(small: Load) -> None:
    run = simulate(small("stop.rounds=30"))
    table = run.series["reached"]
    first = run.participations.group_by("client").agg(pl.col("selected_s").min())["selected_s"].sort()
    assert table["len"][-1] == len(first)
    for at, number in table.iter_rows():
        assert (first <= at).sum() >= number
        assert (first < at).sum() < number
    chart = reached_chart(run)
    assert chart is not None
    assert "% took part at least once, half of all clients within " in chart.finding
    assert reached_chart(replace(run, series={})) is None


def test_many_groups_are_shown_at_both_ends(run: Run) -> None:
    counts = np.random.default_rng(2).permutation(np.arange(1, 101))
    many = with_counts(run, counts, group=pl.int_range(100).cast(pl.String))
    chart = charts_of(many)[0]
    assert isinstance(chart, Chart)
    assert chart.table is not None
    shares = [float(row[1]) for row in chart.table.rows]
    assert len(shares) == 24
    assert shares == sorted(shares, reverse=True)
    assert (shares[0], shares[-1]) == pytest.approx((100 / 50.5, 1 / 50.5), rel=1e-3)
    assert chart.finding == "Of 100 groups, the 12 at either end; the others lie between."


@pytest.mark.parametrize("fair", [0.01, 0.05, 0.2])
def test_equal_chances_are_the_same_in_the_curve_and_in_words(run: Run, fair: float) -> None:
    """The noise of a run may be less or more than that of a lottery, or not known, and then there is no curve."""

    def gaps(fair: float | None) -> list[float]:
        whole = run.series["bias"].with_columns(fair=pl.lit(fair, pl.Float64))
        chart = lorenz_chart({"measured": replace(run, series={**run.series, "bias": whole})}, "who")
        assert chart is not None
        axes = Figure().subplots()
        chart.draw(axes)
        curves = [np.asarray(line.get_xydata(), np.float64).T for line in axes.get_lines()]
        return [float(np.max(x - y)) for x, y in curves if len(x) > 2]  # the widest gap of a Lorenz curve is its TV

    measured, alone = gaps(fair), gaps(None)
    assert measured[0] == pytest.approx(bias_of(run).measured, abs=0.01)
    assert measured == [*alone, pytest.approx(fair, abs=0.01)]
