"""The mean field of devices that come and go: beside exact chains, beside logs, and what it refuses."""

import os
from contextlib import suppress

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from fedsim import Result, Scenario, simulate
from fedsim.common.arrays import Floats
from fedsim.common.errors import ChainError, ScenarioError
from fedsim.learning import LearningError, build_optimizer, frequencies
from fedsim.learning.optimizers.debiased_fedavg import OracleWeighted
from fedsim.measure.frequencies import available_time
from fedsim.population import Population
from fedsim.run.preflight import preflight
from fedsim.selection import RULES
from fedsim.theory import available_prediction, stationary
from fedsim.theory.available_prediction import Selections, by_weights, expected_reports, why_not
from tests.conftest import Write

ZIPF = "weight: {kind: zipf, exponent: 1}"
HABITS = f"""\
stop: {{rounds: 1000000, duration: 20d}}
population: [{{devices: 200, availability: {{kind: habits}}, {ZIPF}, separation: 3}}]
server: {{cohort: 5, pause: 10m}}
"""
NIGHT_AND_DAY = """\
stop: {rounds: 1000000, duration: 20d}
population:
  - {name: night, devices: 100, availability: {kind: habits}, separation: 3}
  - {name: day, devices: 100, availability: {kind: renewal, on: 2h, off: 6h}, separation: 3}
server: {cohort: 5, pause: 10m}
"""
DOMINATED = """\
stop: {rounds: 400}
population:
  - {name: many, devices: 174, availability: {kind: renewal, on: 76m, off: 199m}, session: {train: 4m}}
  - {name: one, devices: 1, weight: 182.2, session: {train: 2m}}
server: {cohort: 7, pause: 15m, selection: successive}
"""
TWO_SPEEDS = """\
stop: {rounds: 3000}
engine: vectorized
population:
  - {name: fast, devices: 20, session: {download: 0s, upload: 0s, train: 30s}}
  - {name: slow, devices: 20, session: {download: 0s, upload: 0s, train: 5m}}
server: {cohort: 4, deadline: 1m}
"""
QUADRATIC = """\
learning:
  problem: {kind: quadratic, dimension: 3, clusters: 2, cluster_spread: 1.0}
  optimizers: [fedavg, {kind: oracle_weighted, source: predicted}, {kind: oracle_weighted, name: log, source: log}]
  step_size: 0.002
"""


def expected_pulls(scenario: Scenario, population: Population, rounds: pl.DataFrame) -> Floats:
    return by_weights(scenario, population, rounds)(population.weight).shares


def run(write: Write, text: str, *overrides: str) -> tuple[Result, Floats]:
    """Return a run, and what is predicted of it."""
    scenario = Scenario.load(write(text), overrides)
    result = simulate(scenario)
    return result, expected_pulls(scenario, preflight(scenario).population, result.rounds)


def always(devices: int, cohort: int, separation: int, law: str, rounds: int) -> str:
    return (
        f"stop: {{rounds: {rounds}}}\npopulation: [{{devices: {devices}, {ZIPF}, separation: {separation}}}]\n"
        f"server: {{cohort: {cohort}, selection: {law}}}\n"
    )


@pytest.mark.parametrize("law", ["midzuno", "uniform", "bernoulli"])
def test_who_is_always_there_and_never_rests_has_the_share_of_the_exact_chain(write: Write, law: str) -> None:
    _, field = run(write, always(12, 3, 0, law, 30))
    exact = stationary(1.0 / np.arange(1, 13), 0, 3, law)
    if exact.pull is None:
        np.testing.assert_allclose(field, exact.pi, rtol=1e-9)
    else:  # the pull, which takes the size of a cohort for binomial
        np.testing.assert_allclose(field, exact.pull, rtol=0.05)


@pytest.mark.parametrize(
    ("devices", "cohort", "separation", "law", "off"),
    [
        (12, 3, 2, "midzuno", 0.02),
        (50, 1, 8, "midzuno", 0.01),
        (100, 5, 8, "midzuno", 0.005),
        (8, 2, 1, "bernoulli", 0.2),
        (12, 3, 0, "successive", 0.05),
    ],
)
def test_it_is_close_to_exact_chains(
    write: Write, devices: int, cohort: int, separation: int, law: str, off: float
) -> None:
    """The largest relative error of a device, the heaviest having a share of the weight of up to a third."""
    _, field = run(write, always(devices, cohort, separation, law, 1500))
    exact = stationary(1.0 / np.arange(1, devices + 1), separation, cohort, law)
    assert exact.method in {"closed-form", "exact"}
    assert np.abs(field / (exact.pi if exact.pull is None else exact.pull) - 1.0).max() < off


def test_it_foresees_the_log_of_devices_with_habits(write: Write) -> None:
    """Nearly as well as chance allows, and much better than the time for which they were available."""
    result, field = run(write, HABITS)
    scenario = result.scenario
    log = frequencies(result.participations, 200)
    time = available_time(scenario, preflight(scenario).population, result.simulated_s)
    assert time is not None
    share = time.share / time.share.sum()

    def rms(guess: Floats) -> float:
        return float(np.sqrt(np.square(200 * (guess - log)).mean()))

    assert np.corrcoef(field, log)[0, 1] > 0.98
    assert np.corrcoef(share, log)[0, 1] < 0.93
    assert rms(field) < 0.11
    assert rms(share) > 0.25
    assert result.metrics["participation.l1_noise"] > 0.09 > np.abs(field - log).sum()


def test_wall_clock_cooldowns_count(write: Write) -> None:
    """Heavy devices rest for most of the time, which a prediction that does not know it misses."""
    text = always(40, 3, 0, "midzuno, pause: 10m", 2000).replace("separation: 0", "cooldown: 50m")
    result, field = run(write, text)
    log = frequencies(result.participations, 40)
    _, without = run(write, text.replace("cooldown: 50m", "cooldown: 0s"))
    assert np.abs(field - log).sum() < 0.05
    assert np.abs(without - log).sum() > 0.12


@pytest.mark.long
def test_sessions_that_outlast_the_availability_bring_no_report(write: Write) -> None:
    """Of two groups that are there for as long, that with long spells reports more."""
    text = """\
    stop: {rounds: 1500}
    population:
      - {name: short, devices: 60, availability: {kind: renewal, on: 40m, off: 80m}, session: {train: 20m}}
      - {name: long, devices: 60, availability: {kind: renewal, on: 400m, off: 800m}, session: {train: 20m}}
    server: {cohort: 6, pause: 10m, selection: uniform}
    """
    result, field = run(write, text)
    log = frequencies(result.participations, 120)
    assert field[:60].sum() == pytest.approx(log[:60].sum(), abs=0.015)
    assert 0.33 < log[:60].sum() < 0.43
    late, never = run(
        write,
        text.replace("pause: 10m", "pause: 10m, deadline: 10m").replace(
            "train: 20m", "train: {kind: exponential, mean: 20m}"
        ),
    )
    assert never[:60].sum() == pytest.approx(frequencies(late.participations, 120)[:60].sum(), abs=0.015)


def test_without_a_chance_of_a_report_nothing_is_predicted(write: Write) -> None:
    scenario = Scenario.load(write(HABITS), ["stop.duration=1d", "server.deadline=1s", "population.*.session.train=1m"])
    rounds = simulate(scenario).rounds
    with pytest.raises(ChainError, match="expects no report of anybody"):
        expected_pulls(scenario, preflight(scenario).population, rounds)


def test_it_is_the_same_in_parts_of_any_size(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    result, whole = run(write, HABITS, "stop.duration=3d")
    population = preflight(result.scenario).population
    monkeypatch.setattr(available_prediction, "_AT_ONCE", 1)
    np.testing.assert_array_equal(expected_pulls(result.scenario, population, result.rounds), whole)
    monkeypatch.setattr(available_prediction, "_MOST_BYTES", 200 * 180)
    first = expected_pulls(result.scenario, population, result.rounds)
    np.testing.assert_array_equal(first, expected_pulls(result.scenario, population, result.rounds.head(180)))
    monkeypatch.setattr(available_prediction, "_MOST_BYTES", 200 * 20)
    with pytest.raises(ChainError, match=r"can look at 20 rounds of 200 devices, which are less than a day"):
        expected_pulls(result.scenario, population, result.rounds)
    monkeypatch.setattr(available_prediction, "_MOST_NUMBERS", 100)
    monkeypatch.setattr(available_prediction, "_MOST_BYTES", 1 << 28)
    with pytest.raises(ChainError, match=r"remembers 4 rounds of 200 devices that rest so long; it can .* 100 chances"):
        expected_pulls(result.scenario, population, result.rounds)


def test_a_device_is_chosen_at_most_once_while_it_rests() -> None:
    """By hand: one of three that weigh alike is chosen; the second is there once, the third rests for a round.

    In the second round the third is eligible with 1/2, in the third with 1 - 1/6.
    """
    there = [np.array([0, 2]), np.array([0, 1, 2]), np.array([0, 2])]
    rounds = np.arange(3)
    field = expected_reports(
        weights=np.full(3, 1 / 3),
        separation=np.array([0, 0, 1]),
        cooldown_s=np.zeros(3),
        rule=RULES["bernoulli"],
        selections=Selections(rounds, np.arange(3.0), np.ones_like(rounds)),
        reporting=lambda t: (there[t], np.ones(len(there[t]))),
    )
    np.testing.assert_allclose(field.reports, [0.5 + 5 / 12 + 7 / 12, 5 / 12, 0.5 + 1 / 6 + 5 / 12], rtol=1e-8)


def test_cool_downs_that_end_before_the_next_round_change_nothing(write: Write) -> None:
    """Nobody rests then: no chances are remembered."""
    result, rested = run(write, HABITS, "stop.rounds=40", "population.0.separation=0", "population.0.cooldown=1s")
    _, free = run(write, HABITS, "stop.rounds=40", "population.0.separation=0")
    assert result.rounds.height == 40
    np.testing.assert_array_equal(rested, free)


def random_world(rng: np.random.Generator) -> str:
    """Return a world of 50 to 2,000 devices, half of them with one that may have most of the weight."""
    devices = int(np.exp(rng.uniform(np.log(50), np.log(2000))))
    cohort, heavy = (
        int(rng.integers(1, max(2, devices // 25) + 1)),
        float(rng.choice([1.0, rng.uniform(0.3, 2.0) * devices])),
    )
    on, off = rng.integers(20, 200, 2)
    there = rng.choice(["{kind: habits}", f"{{kind: renewal, on: {on}m, off: {off}m}}"])
    weight = rng.choice(["{kind: zipf, exponent: 1}", "{kind: lognormal, median: 1, sigma: 1}", "1"])
    rest = rng.choice(
        [
            f"separation: {rng.integers(0, 9)}",
            f"cooldown: {rng.integers(10, 240)}m",
            "separation: {kind: uniform, low: 0, high: 6}",
        ]
    )
    law = rng.choice(["midzuno", "uniform", "successive", "bernoulli"])
    return f"""\
seed: {int(rng.integers(1, 10**6))}
stop: {{rounds: 100000, duration: {3 if devices > 500 else 6}d}}
population:
  - {{name: many, devices: {devices - 1}, availability: {there}, weight: {weight}, {rest}, session: {{train: 4m}}}}
  - {{name: one, devices: 1, weight: {heavy:.1f}, {rest}, session: {{train: 2m}}}}
server: {{cohort: {cohort}, pause: 15m, selection: {law}}}
"""


def test_a_share_is_of_a_number_of_reports_that_varies_too(write: Write) -> None:
    """A device that outweighs all others reports in every round; of the others in its cohorts 5 % fail."""
    scenario = Scenario.load(write(DOMINATED))
    result, population = simulate(scenario), preflight(scenario).population
    field = by_weights(scenario, population, result.rounds, means=False)(population.weight)
    assert field.reports[-1] == pytest.approx(len(result.rounds), rel=1e-6)
    low, high = field.interval()
    log = frequencies(result.participations, len(population))
    assert low[-1] <= log[-1] <= high[-1]
    failed = np.mean((result.participations["outcome"] == "dropped").to_list())
    assert failed == pytest.approx(0.05, abs=0.02)
    # its count is certain, the others' six places are binomial
    spread = (
        np.sqrt(6 * failed * (1.0 - failed) / len(result.rounds)) / (7 * (1.0 - failed) + failed) * field.shares[-1]
    )
    assert (high - low)[-1] / 2 / 1.96 == pytest.approx(spread, rel=0.25)


def busy_world(rng: np.random.Generator) -> str:
    """Return a world of 50 to 2,000 devices, always there or not, whose sessions may outlast the rounds."""
    devices = int(np.exp(rng.uniform(np.log(50), np.log(2000))))
    cohort, (on, off) = int(rng.integers(1, max(2, devices // 25) + 1)), rng.integers(20, 200, 2)
    there = rng.choice(["{kind: always}", f"{{kind: renewal, on: {on}m, off: {off}m}}"])
    weight = rng.choice(["{kind: zipf, exponent: 1}", "{kind: lognormal, median: 1, sigma: 1}", "1"])
    rest = rng.choice(["separation: 0", f"separation: {rng.integers(0, 6)}", f"cooldown: {rng.integers(10, 120)}m"])
    law = rng.choice(["midzuno", "uniform", "successive", "bernoulli"])
    exponential = f"{{kind: exponential, mean: {rng.integers(60, 900)}s}}"
    train = rng.choice([exponential, f"{{kind: lognormal, median: {rng.integers(60, 600)}s, sigma: 1}}"])
    session = f"{{download: 0s, upload: 0s, train: {train}}}"
    return f"""\
seed: {int(rng.integers(1, 10**6))}
stop: {{rounds: {rng.integers(300, 900)}}}
engine: vectorized
population: [{{devices: {devices}, availability: {there}, weight: {weight}, {rest}, session: {session}}}]
server: {{cohort: {cohort}, pause: {rng.integers(10, 600)}s, deadline: {rng.integers(1, 6)}m, selection: {law}}}
"""


def covered(write: Write, text: str) -> NDArray[np.bool_]:
    """Say which devices' shares of the reports of a run lie in their 95 % intervals."""
    result = simulate(scenario := Scenario.load(write(text)))
    population = preflight(scenario).population
    low, high = by_weights(scenario, population, result.rounds, means=False)(population.weight).interval()
    log = frequencies(result.participations, len(population))
    return (low - 1e-12 <= log) & (log <= high + 1e-12)


WORLDS = int(os.environ.get("FEDSIM_WORLDS", "40"))
"""How many worlds are drawn; 200 take a quarter of an hour."""


@pytest.mark.long
def test_intervals_cover(write: Write) -> None:
    """The share of devices within 95 % intervals, over random worlds; and how often the last device is."""
    rng = np.random.default_rng(11)
    inside = [covered(write, random_world(rng)) for _ in range(WORLDS)]
    assert 0.93 <= np.mean([each.mean() for each in inside]) <= 0.97
    assert np.mean([each[-1] for each in inside]) >= 0.93


@pytest.mark.campaign
def test_intervals_cover_devices_that_late_sessions_keep_busy(write: Write) -> None:
    """The share of devices within 95 % intervals, over random worlds in which anybody is expected to report."""
    rng, inside = np.random.default_rng(12), list[float]()
    while len(inside) < WORLDS:
        with suppress(ChainError):
            inside.append(float(covered(write, busy_world(rng)).mean()))
    assert 0.93 <= np.mean(inside) <= 0.97


def test_a_late_session_keeps_its_device_busy(write: Write) -> None:
    """Half of 40 devices take 5 minutes, beyond the deadline of one, and so the others more than half of the places."""
    result, shares = run(write, TWO_SPEEDS)
    assert shares[20:].max() == 0.0  # late reports are not taken
    field = by_weights(result.scenario, population := preflight(result.scenario).population, result.rounds, means=False)
    reported = (result.participations["outcome"] == "reported").sum()
    assert reported > 0.57 * len(result.participations)
    assert field(population.weight).reports.sum() == pytest.approx(reported, rel=0.02)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("server={mode: buffered, concurrency: 5, buffer: 2}", "a buffered server; it is for synchronous rounds"),
        ("server.selection=age", "the selection law 'age'; it knows midzuno, uniform, successive, bernoulli"),
        ("server.over_select=1.5", r"server\.over_select above 1"),
        ("server.cooldown_from=reported", "cool-downs that only a report starts"),
        ("server.minimum_reports=2", r"server\.minimum_reports, by which rounds fail"),
        ("server={cohort: 2, deadline: 9m, minimum_reports: 1, overtime: 9m}", r"server\.overtime, by which rounds"),
        ("population.0.participations={most: 3}", "a cap on participations that can be reached"),
    ],
)
def test_what_it_does_not_know_of_is_told_before_anything_runs(write: Write, change: str, words: str) -> None:
    text = HABITS + QUADRATIC
    with pytest.raises(ScenarioError, match=rf"learning\.optimizers\[1\]\.source: .* does not know of {words}"):
        preflight(Scenario.load(write(text), [change]))
    plain = Scenario.load(write(HABITS), [change])
    population = preflight(plain).population
    assert why_not(plain, population)
    with pytest.raises(ChainError, match=words):
        expected_pulls(plain, population, pl.DataFrame())


def test_an_optimizer_that_is_told_what_is_predicted_comes_nearer_to_the_optimum(write: Write) -> None:
    """As near as one that is told the frequencies of the whole log."""
    metrics = simulate(Scenario.load(write(NIGHT_AND_DAY + QUADRATIC))).metrics
    fedavg, predicted, log = (metrics[f"learning.{name}.bias"] for name in ("fedavg", "oracle_weighted", "log"))
    assert predicted < 0.35 * fedavg
    assert predicted < 1.1 * log


def test_it_is_asked_for_by_those_alone_who_want_it() -> None:
    def refused() -> Floats:
        raise ChainError("no")

    build_optimizer("oracle_weighted", {"source": "log"}, frequency=np.ones(2) / 2, predicted=refused)
    with pytest.raises(LearningError, match="'oracle_weighted': no"):
        build_optimizer("oracle_weighted", {"source": "predicted"}, predicted=refused)
    with pytest.raises(LearningError, match="nothing that predicts the frequencies was given"):
        OracleWeighted(source="predicted")
    built = build_optimizer("oracle_weighted", {"source": "predicted"}, predicted=lambda: np.array([0.25, 0.75]))
    np.testing.assert_allclose(built.init(2, 1), [2.0, 2 / 3])
