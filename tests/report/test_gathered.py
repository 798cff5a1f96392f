"""Participations gathered part by part say what one join of the whole tables says."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fedsim.common.files import slices
from fedsim.findings.gathered import SLOT_S, Asked, gather, gatherer_of, share_margins, weight_classes
from fedsim.measure.contributions import contributions
from fedsim.population import build_population
from fedsim.run.simulate import simulate
from fedsim.scenario import Scenario
from tests.conftest import Write


@pytest.mark.parametrize("clients", [range(60), range(59, -1, -1), range(20)])
@pytest.mark.parametrize("few", [False, True])
def test_what_is_gathered_is_what_a_join_finds(clients: range, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many parts there are, and counts of them are held at once."""
    monkeypatch.setattr("fedsim.common.files.ROWS", 7)
    if few:
        monkeypatch.setattr("fedsim.findings.gathered._MOST_HELD", 2)
    rng, rows = np.random.default_rng(5), 300
    table = pl.DataFrame(
        {
            "client": list(clients),
            "weight": 1.0,
            "group": [("north", "south")[client % 2] for client in clients],
            "time_zone": [("UTC", "Asia/Tokyo", None)[client % 3] for client in clients],
        }
    )
    taken = pl.DataFrame(
        {
            "client": rng.integers(0, 60, rows),  # not all of them are in the table
            "round": np.arange(rows),
            "selected_s": [None if late else 400.0 * at for at, late in enumerate(rng.random(rows) < 0.1)],
            "ended_s": 400.0 * np.arange(rows) + 85.0,
            "outcome": rng.choice(["reported", "dropped"], rows),
        }
    )
    found = gather(taken.lazy(), table)
    taken = taken.filter(pl.col("client") < len(clients))
    known = taken.join(table, on="client")
    started = pl.col("selected_s").is_not_null()
    slot = (pl.col("selected_s") / SLOT_S).floor().cast(pl.Int64).alias("slot")
    assert_frame_equal(found.outcomes, taken.group_by("outcome").len().sort("outcome"))
    starts = known.filter(started).group_by("time_zone", slot).len().sort("time_zone", "slot")
    assert_frame_equal(found.starts, starts)
    with np.errstate(all="raise"):  # a run of less than a day
        gather(taken.lazy(), table, Asked(rounds=300, days=0))


@pytest.mark.parametrize("server", ["{cohort: 3, deadline: 70s}", "{mode: buffered, buffer: 4, concurrency: 9}"])
@pytest.mark.parametrize("groups", [1, 3])
def test_what_is_gathered_while_it_is_measured_is_what_the_directory_says(
    write: Write, monkeypatch: pytest.MonkeyPatch, server: str, groups: int
) -> None:
    """With groups and time zones or without, separations that differ, and devices that never take part."""
    monkeypatch.setattr("fedsim.common.files.ROWS", 50)
    others = [
        "{name: b, devices: 9, separation: {kind: uniform, low: 1, high: 4}, time_zone: Asia/Tokyo}",
        "{name: c, devices: 5, availability: {kind: renewal, on: 1s, off: 1000h}, time_zone: {kind: mixture, "
        "parts: [{share: 1, source: UTC}, {share: 1, source: Asia/Tokyo}]}}",
    ]
    population = ", ".join(["{name: a, devices: 12, weight: {kind: zipf, exponent: 1}}", *others][:groups])
    result = simulate(Scenario.load(write(f"stop: {{rounds: 90}}\npopulation: [{population}]\nserver: {server}\n")))
    asked = replace(Asked.of(result.scenario, result.rounds, result.simulated_s), promised=True)
    found = gatherer_of(build_population(result.scenario), asked)
    for part in slices(result.participations):
        found.add(part)
    read, now = gather(result.participations.lazy(), result.clients, asked), found.gathered()
    for name, expected in vars(read).items():
        if isinstance(expected, pl.DataFrame):
            assert_frame_equal(vars(now)[name], expected)
    assert now.contributions == read.contributions == contributions(result.participations, len(result.clients))
    assert (now.staleness is None) == (read.staleness is None) == ("mode" not in server)
    for counts in ("by_home", "by_weight"):
        assert vars(now)[counts] is not None
        assert vars(now)[counts].tolist() == vars(read)[counts].tolist()
        assert vars(now)[counts].sum() == (result.participations["outcome"].cast(pl.String) == "reported").sum()


@pytest.mark.parametrize(
    ("clients", "together", "ends", "classes"), [(100, 1, 10, 10), (27, 1, 2, 10), (9, 1, 1, 9), (20, 5, 5, 4)]
)
def test_clients_are_parted_by_weight(clients: int, together: int, ends: int, classes: int) -> None:
    """Into tenths, of which both ends have one size; a few clients each by itself; groups as they are selected."""
    weight = np.random.default_rng(1).permutation(np.arange(clients) // together) + 1.0
    found = weight_classes(weight, together)
    assert found is not None
    sizes = np.bincount(found)
    assert (len(sizes), sizes[0], sizes[-1], sizes.sum()) == (classes, ends, ends, clients)
    assert sizes.max() - sizes.min() <= 1
    assert (np.diff(found[np.argsort(-weight, kind="stable")]) >= 0).all()
    assert weight_classes(np.ones(clients), together) is None


def test_spans_are_of_rounds_or_of_whole_days() -> None:
    assert [Asked(rounds=rounds).spans for rounds in (199, 200, 5000)] == [1, 20, 20]
    assert [Asked(rounds=5000, days=days).spans for days in (0, 4, 5, 20, 21, 60)] == [1, 1, 5, 20, 10, 20]


def test_a_run_of_less_than_a_day_has_one_span() -> None:
    """Where availability follows the clock: no whole day is there to count in."""
    taken = pl.DataFrame({"client": [0, 1, 1], "round": [0, 1, 2], "outcome": "reported"})
    times = {"selected_s": [0.0, 90.0, 180.0], "ended_s": [60.0, 150.0, 240.0]}
    clients = pl.DataFrame({"client": [0, 1], "group": "all", "time_zone": "UTC", "weight": [1.0, 2.0]})
    found = gather(
        taken.with_columns(**{k: pl.Series(v) for k, v in times.items()}).lazy(), clients, Asked(rounds=3, days=0)
    )
    assert found.by_home is not None
    assert found.by_weight is not None
    assert (found.by_home.tolist(), found.by_weight.tolist()) == ([[3]], [[2, 1]])


def test_intervals_of_shares_cover_the_law_of_independent_draws() -> None:
    """Two thousand runs of 20 spans: 95 % of the intervals, give or take 1.5 (false alarm: one in a thousand)."""
    rng, law = np.random.default_rng(4), np.array([0.5, 0.3, 0.2])
    inside = []
    for _ in range(2_000):
        counts = rng.multinomial(100, law, size=20)
        margins = share_margins(counts)
        assert margins is not None
        inside.append(np.abs(counts.sum(axis=0) / counts.sum() - law) <= margins)
    assert np.mean(inside, axis=0) == pytest.approx(0.95, abs=0.016)
    assert share_margins(np.ones((1, 3), dtype=np.int64)) is None
