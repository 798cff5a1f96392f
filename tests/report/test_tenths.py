"""The charts of tenths and time zones: what they say, and when they have nothing to say."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from fedsim.findings.finished_run import FinishedRun, read_run
from fedsim.report.charts.groups import ByTenth, TenthsChart, ZoneChart

RISING = tuple(0.1 + 0.2 * number for number in range(10))
FLAT = (1.0,) * 10


@pytest.fixture
def run(written: Path) -> FinishedRun:
    return read_run(written)


@pytest.mark.parametrize(
    ("frequency", "finding"),
    [
        (
            {"availability": RISING, "speed": FLAT},
            "The most available tenth takes part 1.90 times as often as the average, the least available 0.10",
        ),
        (
            {"speed": RISING[::-1]},
            "The fastest tenth takes part 0.10 times as often as the average, the slowest 1.90",
        ),
        ({"speed": FLAT}, "The fastest and the slowest tenth take part 1.00 times as often as the average"),
    ],
)
def test_the_title_is_what_the_tenths_say(frequency: dict[str, tuple[float, ...]], finding: str) -> None:
    assert TenthsChart().finding(ByTenth(frequency, ())) == finding


def test_the_tenths_come_from_the_metrics(run: FinishedRun) -> None:
    assert TenthsChart().prepare(run) is None  # all alike
    metrics = {f"participation.by_availability.{n}": value for n, value in enumerate(RISING, start=1)}
    metrics |= {f"participation.availability.{n}": n / 20 for n in range(1, 11)}
    data = TenthsChart().prepare(replace(run, metrics={**run.metrics, **metrics}))
    assert data is not None
    assert data.frequency == {"availability": RISING}
    assert any("least available tenth was available 5.0" in note for note in TenthsChart().notes(data))
    table = TenthsChart().table(data)
    assert table.header == ("Tenth", "By available time", "Available")
    assert len(table.rows) == 10


def test_time_zones_are_shown_where_they_are_not_the_groups(run: FinishedRun) -> None:
    size = len(run.clients)
    zones = pl.Series(["UTC"] * (size // 4) + ["Asia/Tokyo"] * (size - size // 4))
    assert ZoneChart().prepare(run) is None
    several = replace(run, clients=run.clients.with_columns(time_zone=zones, group=pl.lit("one")))
    data = ZoneChart().prepare(several)
    assert data is not None
    counts = run.clients["participations"].to_numpy()
    share = counts[: size // 4].sum() / counts.sum()
    assert data.filter(group="UTC")["frequency"].item() == pytest.approx(share / (size // 4 / size))
    assert data["frequency"].is_sorted(descending=True)
    assert "time zone" in next(ZoneChart().notes(data))
    assert ZoneChart().prepare(replace(run, clients=several.clients.with_columns(group=zones))) is None
    nobody = several.clients.with_columns(participations=pl.lit(0))
    assert ZoneChart().prepare(replace(run, clients=nobody)) is None
