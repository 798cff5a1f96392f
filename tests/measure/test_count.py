"""What is counted in one pass, against what polars says of the whole table."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.common import files
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.log import with_staleness
from fedsim.log.recorder import InMemoryLog
from fedsim.measure.contributions import contributions
from fedsim.measure.count import Counted, count_log
from fedsim.measure.frequencies import l1
from fedsim.measure.noise import SpanCounts
from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log
from tests.conftest import Load, Write

CASE = """\
stop: {rounds: 240}
population:
  - {name: even, devices: 20, availability: {kind: renewal, on: 30m, off: 10m}}
  - {name: absent, devices: 3, availability: {kind: renewal, on: 1s, off: 1000h}}
  - {name: slow, devices: 9, separation: 4, session: {train: {kind: lognormal, median: 40s, sigma: 1.5}}}
"""
ROUNDS = "server: {cohort: 3, deadline: 70s, over_select: 1.4}"
BUFFERED = "server: {mode: buffered, buffer: 4, concurrency: 12, max_staleness: 3}"


def check(found: Counted, own: pl.DataFrame, clients: int) -> None:
    """Compare with a naive reading of the participations, whose clients count from 0."""
    spent = own["ended_s"] - own["selected_s"]
    assert found.count == len(own)
    assert found.counts.tolist() == np.bincount(own["client"].to_numpy(), minlength=clients).tolist()
    assert dict(found.outcomes) == {name: int((own["outcome"] == name).sum()) for name in SESSION_OUTCOMES}
    assert found.spent_s == pytest.approx(spent.sum())
    assert found.wasted_s == pytest.approx(spent.filter(own["outcome"] != "reported").sum())
    stale = with_staleness(own)["staleness"].drop_nulls().to_numpy()
    assert found.staleness.tolist() == np.bincount(stale, minlength=1).tolist()
    taken = own["client"].filter(own["outcome"] == "reported").to_numpy()
    assert found.reported.tolist() == np.bincount(taken, minlength=clients).tolist()
    firsts = own.group_by("client").agg(pl.col("selected_s").min())
    assert found.firsts_s.tolist() == firsts["selected_s"].sort().to_list()
    gap = own["gap"].drop_nulls()
    assert found.gaps == ((len(gap), gap.sum(), gap.min(), gap.max()) if len(gap) else None)
    chosen = own["round"].unique().sort().to_numpy()
    spans = SpanCounts(chosen, clients, len(own))
    number, client = (own[name].to_numpy().astype(np.int64) for name in ("round", "client"))
    spans.add(number, client, np.zeros(len(own)), once=False)
    assert found.noise == spans.noise(found.counts)
    assert (found.noise is None) == (len(chosen) < 200)


@pytest.mark.parametrize("server", [ROUNDS, BUFFERED])
@pytest.mark.parametrize("rows", [1 << 18, 61])
def test_the_run_and_its_groups_are_counted_in_one_pass(
    write: Write, monkeypatch: pytest.MonkeyPatch, server: str, rows: int
) -> None:
    monkeypatch.setattr(files, "ROWS", rows)
    log = logged(Scenario.load(write(CASE + server)))
    table, sizes = log.participations, [20, 3, 9]
    seen: list[pl.DataFrame] = []
    counted = count_log(table, log.rounds, 32, sizes, [seen.append])
    check(counted, table, 32)
    assert counted.contributions == contributions(table, 32)
    assert pl.concat(seen).equals(table)
    for found, size, first in zip(counted.groups, sizes, [0, 20, 23], strict=True):
        own = table.filter(pl.col("client").is_between(first, first + size - 1))
        check(found, own.with_columns(pl.col("client") - first), size)


@pytest.mark.parametrize("rows", [1 << 18, 7])
@pytest.mark.parametrize("separation", ["1", "3", "{kind: uniform, low: 1, high: 3}"])
def test_the_least_separation_needs_no_look_at_what_cannot_be_sooner(
    small: Load, monkeypatch: pytest.MonkeyPatch, separation: str, rows: int
) -> None:
    """Reports that were not taken make contributions of a client be farther apart than its gaps say."""
    log = logged(
        small(
            f"population.0.separation={separation}",
            "population.0.session.train={kind: lognormal, median: 40s, sigma: 1.5}",
            "server.deadline=60s",
            "stop.rounds=60",
        )
    )
    monkeypatch.setattr(files, "ROWS", rows)
    found = count_log(log.participations, log.rounds, 12)
    taken = log.participations.filter(outcome="reported")
    assert found.contributions is not None
    assert found.contributions.least_separation == taken.select(pl.col("round").diff().over("client")).min().item()
    assert found.groups == []


def logged(scenario: Scenario) -> InMemoryLog:
    return simulate_log(scenario, build_population(scenario))


def test_an_empty_log_can_be_counted(small: Load) -> None:
    log = logged(small())
    found = count_log(log.participations.head(0), log.rounds.head(0), 12)
    check(found, log.participations.head(0), 12)
    assert found.contributions is not None
    assert found.contributions.least_separation is None


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60).filter(any), st.floats(0.0, 1.0), st.booleans())
def test_the_distance_of_repeated_numbers_is_their_exact_sum_rounded_once(
    counts: list[int], right: float, alike: bool
) -> None:
    left = np.array(counts if alike else [count * math.pi**place for place, count in enumerate(counts)]) / sum(counts)
    assert l1(left, right) == math.fsum(abs(each - right) for each in left.tolist())
