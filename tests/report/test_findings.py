"""What charts say of themselves: their finding as the title, chance beside what was measured, no chart without one."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

from fedsim.common.arrays import Ints
from fedsim.findings.finished_run import FinishedRun, read_run
from fedsim.report.charts import Absent, Chart, run_charts
from fedsim.report.charts.availability import EligibleChart
from fedsim.report.charts.distance import DistanceChart
from fedsim.report.charts.learning import LossOverTime, in_step
from fedsim.report.charts.marks import clock_axis, tick_duration
from fedsim.report.charts.participation import (
    ClientFrequencies,
    ParticipationChart,
    around_uniform,
    in_order,
)
from fedsim.report.charts.rounds import DurationChart, Durations


@pytest.fixture(scope="module")
def run(written: Path) -> FinishedRun:
    return read_run(written)


def charts(run: FinishedRun) -> dict[str, Chart | Absent]:
    return {chart.name: chart for chart in chain.from_iterable(run_charts(run).values())}


def with_counts(run: FinishedRun, counts: Ints, weight: float | None = None) -> FinishedRun:
    """Return a run whose clients took part so often, all of one weight unless they keep theirs."""
    frame = pl.DataFrame(
        {
            "client": np.arange(len(counts)),
            "group": "all",
            "weight": np.full(len(counts), weight) if weight else np.linspace(2, 1, len(counts)),
            "separation": 0,
            "participations": counts,
            "frequency": counts / counts.sum(),
            "pi": pl.Series([None] * len(counts), dtype=pl.Float64),
            "pi_method": pl.Series([None] * len(counts), dtype=pl.String),
        }
    )
    return replace(run, clients=frame)


def told(run: FinishedRun) -> tuple[ClientFrequencies, str, str]:
    data = ParticipationChart().prepare(run)
    assert isinstance(data, ClientFrequencies)
    chart = ParticipationChart()
    return data, chart.finding(data), " ".join(chart.notes(data))


def test_the_envelope_of_chance_holds_what_a_fair_lottery_draws() -> None:
    """Nineteen of twenty, of single clients, of means of several, and of the order of the frequencies."""
    clients, taken = 500, 20_000
    draws = np.random.default_rng(3).multinomial(taken, np.full(clients, 1 / clients), size=40) * clients / taken
    single = around_uniform(taken, clients, np.ones(clients, dtype=np.int64))
    assert 0.93 < ((draws >= single[0]) & (draws <= single[1])).mean() < 0.985
    means = draws.reshape(40, 50, 10).mean(axis=2)
    several = around_uniform(taken, clients, np.full(50, 10))
    assert 0.92 < ((means >= several[0]) & (means <= several[1])).mean() < 0.98
    ordered = -np.sort(-draws, axis=1)
    ranked = in_order(taken, clients, np.arange(1.0, clients + 1))
    assert ((ordered >= ranked[0]) & (ordered <= ranked[1])).mean() > 0.9
    assert (ranked[1] - ranked[0]).max() < 0.6


def test_chance_is_named_as_the_cause_only_where_it_is(run: FinishedRun) -> None:
    fair = np.random.default_rng(1).multinomial(20_000, np.full(200, 1 / 200))
    data, finding, notes = told(with_counts(run, fair, weight=1.0))
    assert finding.startswith("The busiest tenth took part 1.")
    assert finding.endswith(": chance explains it")
    unfair = np.repeat([10, 190], 100)
    far, finding, notes = told(with_counts(run, unfair, weight=1.0))
    assert finding == "The busiest tenth took part 19.00 times as often as the idlest"
    assert far.measured_l1 == pytest.approx(0.9)
    assert far.chance_l1 == pytest.approx(data.chance_l1, rel=1e-6)
    assert "from uniform (L1), this run 0.900." in notes
    assert "chance alone spreads it" not in notes


def test_who_never_took_part_is_said(run: FinishedRun) -> None:
    counts = np.repeat([30, 10, 0], [50, 100, 50])
    _, finding, _ = told(with_counts(run, counts))
    assert finding == "The heaviest tenth took part 2.40 times as often as on average, the lightest never"


def test_every_chart_of_a_run_says_what_is_to_be_seen(run: FinishedRun) -> None:
    shown = {name: chart for name, chart in charts(run).items() if isinstance(chart, Chart)}
    assert len(shown) > 8
    for name, chart in shown.items():
        assert len(chart.title) <= 90, name
        if name != "convergence":
            assert any(letter.isdigit() for letter in chart.title), name
    assert shown["distance"].title.startswith(f"In theory R = {run.clients['separation'][0]} takes the bias (L1) from ")


def test_dashed_is_named_after_the_optimizer_that_has_a_reference(run: FinishedRun) -> None:
    loss = charts(run)["loss"]
    assert isinstance(loss, Chart)
    assert "Dashed: fedavg under uniform participation, drawn without a band." in loss.notes


def test_a_theory_that_is_flat_is_a_sentence(run: FinishedRun) -> None:
    same = replace(run, clients=run.clients.with_columns(weight=pl.lit(0.01)))
    assert DistanceChart().prepare(same) == (
        "All clients weigh the same: the closed form, which takes them to be always available, is 0 at every R."
    )


def test_rounds_of_one_length_are_a_sentence(run: FinishedRun) -> None:
    opened = pl.col("opened_s")
    even = run.rounds.with_columns(selected_s=opened, closed_s=opened + 60.0)
    assert (
        DurationChart().prepare(replace(run, rounds=even))
        == f"Each of the {len(even):,} rounds took 60\N{NARROW NO-BREAK SPACE}s."
    )
    uneven = even.with_columns(closed_s=opened + pl.when(pl.col("round") == 0).then(61.0).otherwise(60.0))
    assert isinstance(DurationChart().prepare(replace(run, rounds=uneven)), Durations)


def test_waiting_is_told_as_a_share_of_the_time(run: FinishedRun) -> None:
    rounds = run.rounds.head(2).with_columns(
        opened_s=pl.Series([0.0, 100.0]), selected_s=pl.Series([60.0, 100.0]), closed_s=pl.Series([90.0, 130.0])
    )
    data = DurationChart().prepare(replace(run, rounds=rounds, manifest={**run.manifest, "simulated_s": 240.0}))
    assert isinstance(data, Durations)
    finding = DurationChart().finding(data).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert finding == "Waiting for clients took 25.0 % of the time; the longest round took 90 s"


def test_a_chart_over_time_is_there_where_time_does_not_go_with_the_rounds(run: FinishedRun) -> None:
    assert in_step(run)
    assert LossOverTime().prepare(run) is None
    late = run.rounds.with_columns(closed_s=pl.col("closed_s") ** 2)
    assert not in_step(replace(run, rounds=late))
    assert LossOverTime().prepare(replace(run, rounds=late)) is not None


def test_a_shortage_s_share_of_the_time_counts_no_time_between_shortages(run: FinishedRun) -> None:
    opened = np.arange(1000) * 10.0
    rounds = (
        run.rounds.head(1)
        .select(pl.all().repeat_by(1000).explode())
        .with_columns(
            round=pl.int_range(1000), opened_s=pl.Series(opened), selected_s=pl.Series(opened + 4), closed_s=opened + 9
        )
    )
    times = (
        run.gauges.with_columns(eligible=pl.col("available") - pl.int_range(pl.len()) % 3)
        if run.gauges is not None
        else None
    )
    data = EligibleChart().prepare(
        replace(run, rounds=rounds, gauges=times, manifest={**run.manifest, "simulated_s": 10_000.0})
    )
    assert not isinstance(data, str)
    assert data.share == pytest.approx(0.4)
    assert (
        EligibleChart().finding(data).replace("\N{NARROW NO-BREAK SPACE}", " ")
        == "Rounds lacked clients 40.0 % of the time"
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(60, "1 min"), (600, "10 min"), (3_600, "1 h"), (10, "10 s"), (86_400, "1 d"), (0.1, "0.1 s")],
)
def test_ticks_are_times_that_a_person_says(seconds: float, words: str) -> None:
    assert tick_duration(seconds).replace("\N{NARROW NO-BREAK SPACE}", " ") == words


def test_a_clock_shows_whole_hours_of_the_zone_over_the_change_to_summer() -> None:
    """Europe/Berlin goes from 02:00 to 03:00 in the night to 29 March 2026: that day has no second hour."""
    axes = Figure().subplots()
    start = datetime(2026, 3, 28, 11, 30, tzinfo=UTC)
    assert clock_axis(axes, start, "Europe/Berlin", 86_400.0, 3_600.0) == "time of day (Europe/Berlin)"
    places = axes.xaxis.get_majorticklocs()
    assert list(places) == [5.5, 11.5, 16.5, 22.5]
    labels = axes.xaxis.get_major_formatter().format_ticks(list(places))
    assert labels == ["18", "00\nSun", "06", "12"]
    assert clock_axis(axes, start, "UTC", 3_600.0, 60.0) is None
    assert clock_axis(axes, start, "UTC", 30 * 86_400.0, 86_400.0) is None
