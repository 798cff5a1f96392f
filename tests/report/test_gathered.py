"""Participations gathered part by part say what one join of the whole tables says."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fedsim.analysis.contributions import contributions
from fedsim.common.files import slices
from fedsim.experiment.run import simulate
from fedsim.findings.gathered import SLOT_S, Asked, gather, gatherer_of
from fedsim.population import build_population
from fedsim.scenario import Scenario
from tests.conftest import Write


@pytest.mark.parametrize("clients", [range(60), range(59, -1, -1), range(20)])
@pytest.mark.parametrize("few", [False, True])
def test_what_is_gathered_is_what_a_join_finds(clients: range, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pairs and parts are held at once, and counted in an array."""
    monkeypatch.setattr("fedsim.common.files.ROWS", 7)
    if few:
        monkeypatch.setattr("fedsim.findings.gathered._DENSE", 5)
    rng, rows = np.random.default_rng(5), 300
    table = pl.DataFrame(
        {
            "client": list(clients),
            "separation": [client % 3 for client in clients],
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
            "gap": [None if not gap else int(gap) for gap in rng.integers(0, 9, rows)],
        }
    )
    found = gather(taken.lazy(), table, Asked([3, 8]))
    taken = taken.filter(pl.col("client") < len(clients))
    known = taken.join(table, on="client")
    started, home = pl.col("selected_s").is_not_null(), ("group", "time_zone")
    slot = (pl.col("selected_s") / SLOT_S).floor().cast(pl.Int64).alias("slot")
    firsts = taken.filter(started, outcome="reported").group_by("client").agg(first_s=pl.col("selected_s").min())
    assert_frame_equal(found.outcomes, taken.group_by("outcome").len().sort("outcome"))
    gaps = known.drop_nulls("gap").group_by("separation", "gap").len()
    assert_frame_equal(found.gaps, gaps.sort("separation", "gap"))
    assert_frame_equal(found.starts, known.filter(started).group_by(*home, slot).len().sort(*home, "slot"))
    assert_frame_equal(found.firsts, firsts.select("first_s").sort("first_s"))
    chosen = taken.filter(pl.col("client").is_in([3, 8])).drop("gap").sort("client", "round")
    assert_frame_equal(found.chosen, chosen)


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
    asked = replace(Asked.of(result.scenario, None, result.rounds, result.simulated_s), chosen=[2, 5], promised=True)
    found = gatherer_of(build_population(result.scenario), asked)
    for part in slices(result.participations):
        found.add(part)
    read, now = gather(result.participations.lazy(), result.clients, asked), found.gathered()
    for name, expected in vars(read).items():
        if isinstance(expected, pl.DataFrame):
            assert_frame_equal(vars(now)[name], expected)
    assert now.contributions == read.contributions == contributions(result.participations, len(result.clients))
    assert now.turns is not None
    assert read.turns is not None
    assert now.turns.tolist() == read.turns.tolist()
    assert (now.buffered is None) == (read.buffered is None) == ("mode" not in server)
    if now.buffered is not None and read.buffered is not None:
        assert_frame_equal(now.buffered.staleness, read.buffered.staleness)
        assert now.buffered.running.tolist() == read.buffered.running.tolist()
