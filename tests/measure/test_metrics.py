"""Metrics against their definitions, and the catalogue against what is measured."""

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from fedsim.availability.population import strata
from fedsim.common.errors import StalledError
from fedsim.common.files import write_table
from fedsim.log.journal import AnyLog
from fedsim.log.recorder import InMemoryLog
from fedsim.measure.frequencies import clients_table, gini, jain
from fedsim.measure.grammar import parse_condition
from fedsim.measure.metrics import count_of, describe, listed, measure
from fedsim.measure.metrics.metric import Setting
from fedsim.measure.noise import by_chance
from fedsim.population import Population, build_population
from fedsim.run.evaluate import setting_of
from fedsim.run.federation import PreparedFederation
from fedsim.run.simulate import simulate
from fedsim.scenario import Scenario
from fedsim.scenario.server import BufferedServer
from fedsim.simulation import simulate_log
from tests.conftest import Load, Write
from tests.scenarios import buffered_scenarios, scenarios


def setting(scenario: Scenario, population: Population) -> Setting:
    return setting_of(PreparedFederation(scenario, population, strata(scenario, population)))


def measured(log: AnyLog, population: Population, setting: Setting) -> dict[str, float]:
    counted = count_of(log, setting)
    found = measure(log, clients_table(population, counted, None, None), setting, counted)
    return {name: value for name, value in found.items() if isinstance(value, float)}


counts = st.lists(st.integers(0, 1000), min_size=1, max_size=30).filter(any).map(np.array)


@given(counts)
def test_gini_is_the_mean_difference(values: NDArray[np.int64]) -> None:
    pairs = np.abs(values[:, np.newaxis] - values).mean() / (2 * values.mean())
    assert gini(values) == pytest.approx(pairs, abs=1e-12)


@given(counts)
def test_fairness_lies_between_its_bounds(values: NDArray[np.int64]) -> None:
    size = len(values)
    assert -1e-12 <= gini(values) <= 1 - 1 / size + 1e-12
    assert 1 / size - 1e-12 <= jain(values) <= 1 + 1e-12
    assert (jain(np.full(size, 7)), gini(np.full(size, 7))) == (1.0, 0.0)


@given(taken=st.integers(1, 400), clients=st.integers(2, 60))
def test_what_chance_does_is_the_mean_deviation_of_a_binomial(taken: int, clients: int) -> None:
    values = np.arange(taken + 1)
    deviation = np.abs(values / taken - 1 / clients) @ binom.pmf(values, taken, 1 / clients)
    assert by_chance(taken, clients) == pytest.approx(clients * deviation, rel=1e-9)


def test_meanings_stand_alone() -> None:
    """They are titles of charts and rows of tables, where no other stands before them."""
    assert [metric.name for metric in listed() if metric.meaning.startswith("The same")] == []


@pytest.mark.parametrize(
    ("overrides", "waits"),
    [
        (["population.0.availability={kind: renewal, on: 30m, off: 2h}"], True),
        (["population.0.availability={kind: renewal, on: 30m, off: 2h}", "server.shortage=skip"], False),
        ([], False),
    ],
)
def test_waits_against_the_rounds(small: Load, overrides: list[str], waits: bool) -> None:
    """Seconds from each opening to the selection, or, where the run ended before, to the close."""
    result = simulate(small("server.pause=1m", "stop.duration=2d", *overrides))
    spent = [
        (row["closed_s"] if row["selected_s"] is None else row["selected_s"]) - row["opened_s"]
        for row in result.rounds.iter_rows(named=True)
    ]
    assert (sum(spent) > 0) == waits
    assert result.metrics["rounds.wait.max"] == max(spent)
    assert result.metrics["rounds.waiting_share"] == pytest.approx(sum(spent) / result.simulated_s)


def test_participations_per_client_and_device_time(small: Load) -> None:
    result = simulate(small("stop.rounds=7"))
    counts = sorted(result.participations.group_by("client").len()["len"].to_list())
    per_client = [0] * (len(result.clients) - len(counts)) + counts
    expected = {
        "mean": sum(counts) / len(per_client),
        "p99": per_client[-1],
        "most": per_client[-1],
        "never_share": per_client.count(0) / len(per_client),
        "once_share": per_client.count(1) / len(per_client),
        "l1_chance": by_chance(sum(counts), len(per_client)),
    }
    assert {name: result.metrics[f"participation.{name}"] for name in expected} == expected
    length = (result.participations["ended_s"] - result.participations["selected_s"]).sum()
    assert result.metrics["sessions.device_hours"] == pytest.approx(length / 3600)


@given(scenarios())
def test_every_measured_metric_is_in_the_catalogue_and_finite(scenario: Scenario) -> None:
    scenario = scenario.model_copy(update={"server": scenario.server.model_copy(update={"shortage": "proceed"})})
    assume(scenario.server.selection.kind != "groups")
    population = build_population(scenario)
    try:
        log = simulate_log(scenario, population)
    except StalledError:  # cohorts of a law of coins may be larger than those for which separations were chosen
        assume(False)
    metrics = measured(log, population, setting(scenario, population))
    assert all(describe(name) is not None and math.isfinite(value) for name, value in metrics.items())
    shares = {name: value for name, value in metrics.items() if name.endswith(("_share", "coverage", "gini", "jain"))}
    if metrics.get("sessions.late_share"):  # it goes on beside later rounds, each of which has all of the uplink
        assert shares.pop("fleet.uplink_share", 0.0) >= 0
    assert {name: value for name, value in shares.items() if not 0.0 <= value <= 1.0} == {}
    names = ("reported", "dropped", "late", "aborted", "failed")
    outcomes = [metrics[f"sessions.{name}_share"] for name in names if len(log.participations)]
    assert sum(outcomes) == pytest.approx(1.0 if len(log.participations) else 0.0)
    if len(scenario.population) > 1:
        if len(log.participations):
            assert metrics["group.first.share"] + metrics["group.second.share"] == pytest.approx(1.0)
        else:
            assert "group.first.share" not in metrics
        assert metrics["group.first.sessions.count"] + metrics["group.second.sessions.count"] == len(log.participations)


@settings(max_examples=40)
@given(buffered_scenarios())
def test_metrics_of_a_buffered_server(scenario: Scenario) -> None:
    """In the catalogue, finite, and those of the staleness and of the places as a naive reader finds them."""
    population = build_population(scenario)
    try:
        log = simulate_log(scenario, population)
    except StalledError:
        assume(False)
    metrics = measured(log, population, setting(scenario, population))
    assert all(describe(name) is not None and math.isfinite(value) for name, value in metrics.items())
    assert not {"rounds.shortage_share", "rounds.wait.mean"} & set(metrics)
    outcomes = [metrics[f"sessions.{name}_share"] for name in ("reported", "dropped", "late", "aborted", "stale")]
    assert sum(outcomes) == pytest.approx(1.0)
    staleness = log.participations["staleness"].drop_nulls().to_numpy()
    assert metrics.get("staleness.mean") == (pytest.approx(staleness.mean()) if len(staleness) else None)
    for share, name in ((0.5, "p50"), (0.95, "p95"), (1.0, "max")):
        if len(staleness):
            assert metrics[f"staleness.{name}"] == np.quantile(staleness, share, method="inverted_cdf")
    if log.ended_s > 0:
        assert isinstance(scenario.server, BufferedServer)
        instants = np.unique(np.concatenate([log.participations[name] for name in ("selected_s", "ended_s")] + [[0.0]]))
        starts, ends = (log.participations[name].to_numpy() for name in ("selected_s", "ended_s"))
        running = [((starts <= instant) & (ends > instant)).sum() for instant in instants]
        area = float(np.diff(instants, append=log.ended_s) @ np.array(running))
        assert metrics["concurrency.utilisation"] == pytest.approx(area / (scenario.server.concurrency * log.ended_s))
        assert 0 <= metrics["concurrency.utilisation"] <= 1 + 1e-12
        steps = len(log.rounds.filter(outcome="target"))
        assert metrics["versions.per_hour"] == pytest.approx(3600 * steps / log.ended_s)


def test_names_are_unique_and_learning_names_are_found() -> None:
    assert len({metric.name for metric in listed()}) == len(listed())
    found = describe("learning.my-own_one.loss")
    assert found is not None
    assert found.name == "learning.OPTIMIZER.loss"
    assert describe("participation.l1_unifrom") is None


def test_frequencies_add_up(small: Load) -> None:
    result = simulate(small("stop.rounds=500"))
    clients = result.clients
    assert clients["participations"].sum() == len(result.participations)
    assert clients["frequency"].sum() == pytest.approx(1.0)
    assert clients["pi"].sum() == pytest.approx(1.0)
    assert result.metrics["participation.gap.min"] == 3
    of_client = result.participations.group_by("client").len()
    joined = clients.join(of_client, on="client", how="left").fill_null(0)
    assert joined["len"].cast(pl.Int64).equals(joined["participations"])


def test_metrics_do_not_depend_on_how_many_rows_are_read_at_once(
    small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From memory at once, and from a file seven rows at a time."""
    case = small("population.0.availability={kind: renewal, on: 30m, off: 10m}", "stop.rounds=250")
    population = build_population(case)
    known = setting(case, population)
    log = simulate_log(case, population)
    metrics = measured(log, population, known)
    write_table(tmp_path / "p.parquet", log.participations)
    monkeypatch.setattr("fedsim.common.files.ROWS", 7)
    stored = InMemoryLog((log.rounds, pl.scan_parquet(tmp_path / "p.parquet"), log.gauges), ended_s=log.ended_s)  # type: ignore[arg-type]
    assert measured(stored, population, known) == pytest.approx(metrics, rel=1e-12)


def test_coverage_times_and_waste(small: Load) -> None:
    """12 clients, 3 a round, round and round: half are seen in the second round, all in the fourth, each of 90 s."""
    result = simulate(small("server.selection=cyclic", "population.0.separation=3", "records={eligible: true}"))
    metrics = result.metrics
    assert (metrics["participation.coverage.t50"], metrics["participation.coverage.t90"]) == (90.0, 270.0)
    assert metrics["sessions.wasted_share"] == 0.0
    assert (metrics["selection.eligible.min"], metrics["selection.eligible.mean"]) == (3.0, (12 + 9 + 6 + 57 * 3) / 60)


def test_metrics_of_groups(write: Write) -> None:
    """The wary half rests for two rounds after each, so the eager half takes part twice as often or more."""
    path = write(
        """\
        stop: {rounds: 300}
        population:
          - {name: eager ones, devices: 4}
          - {name: wary, devices: 4, separation: 5, time_zone: Asia/Kolkata}
        server: {cohort: 1}
        """
    )
    metrics = simulate(Scenario.load(path)).metrics
    assert metrics["group.eager-ones.share"] + metrics["group.wary.share"] == pytest.approx(1)
    assert metrics["group.eager-ones.ratio"] > 1 > metrics["group.wary.ratio"]
    assert metrics["group.wary.participation.gap.min"] >= 6
    assert metrics["group.wary.participation.coverage"] == 1.0
    assert metrics["group.wary.population.available_share.local.05"] == 1.0


def test_fairness_of_reports_is_measured_of_clients_groups_zones_and_classes(write: Write) -> None:
    """Each figure is counted again from the tables; who loses half of the reports is told, whoever is selected."""
    path = write(
        """\
        seed: 5
        stop: {rounds: 150}
        population:
          - name: steady
            devices: 7
            session: &work {model: 1MB, samples: 200, device: snapdragon-888, link: {down: 8Mbps, up: 8Mbps}}
          - name: slow
            devices: 5
            session:
              <<: *work
              device: snapdragon-410
              link: {down: {kind: lognormal, median: 1Mbps, sigma: 1}, up: 8Mbps}
            time_zone: Asia/Kolkata
        server: {cohort: 3, deadline: 60s}
        """
    )
    run = simulate(Scenario.load(path))
    reports = run.participations.filter(pl.col("outcome") == "reported")["client"].to_list()
    counts = np.bincount(reports, minlength=12)
    fair = counts.mean()
    groups = {"steady": counts[:7], "slow": counts[7:]}
    assert run.metrics["participation.below_half_fair_share"] == pytest.approx((counts < fair / 2).mean())
    worst = min(own.mean() / fair for own in groups.values())
    assert run.metrics["participation.worst_group_ratio"] == pytest.approx(worst)
    for name, own in groups.items():
        assert run.metrics[f"group.{name}.below_half_fair_share"] == pytest.approx((own < fair / 2).mean())
    for zone, own in zip(("UTC", "Asia-Kolkata"), groups.values(), strict=True):
        assert run.metrics[f"zone.{zone}.below_half_fair_share"] == pytest.approx((own < fair / 2).mean())
    for device, own in zip(("snapdragon-888", "snapdragon-410"), groups.values(), strict=True):
        assert run.metrics[f"class.{device}.below_half_fair_share"] == pytest.approx((own < fair / 2).mean())
        assert run.metrics[f"class.{device}.reported_ratio"] == pytest.approx(own.mean() / fair)
    limit = parse_condition("participation.worst_group_ratio >= 0.99")
    assert not limit.holds(run.metrics["participation.worst_group_ratio"])
