"""Clients that are busy for longer than their separation: what theory says of them, and where it does not hold."""

import numpy as np
import pytest

from fedsim import Scenario, simulate
from fedsim.common.errors import ScenarioError
from fedsim.population import build_population
from fedsim.run.chain import participation_theory
from fedsim.run.preflight import notes_of, preflight
from fedsim.simulation import simulate_log
from fedsim.theory.busy import is_busy
from fedsim.theory.prediction import theory_or_why_not
from tests.conftest import Write

TWO = """\
stop: {rounds: 4000}
engine: vectorized
population:
  - {name: one, devices: 20, session: {download: 0s, upload: 0s, train: ONE}}
  - {name: other, devices: 20, session: {download: 0s, upload: 0s, train: OTHER}, MORE}
server: {SERVER}
records: {gauges: null}
"""
FAST, SLOW, RANDOM = "30s", "5m", "{kind: exponential, mean: 60s}"


def two(
    write: Write, server: str, one: str = FAST, other: str = SLOW, more: str = "separation: 0", *sets: str
) -> Scenario:
    text = TWO.replace("ONE", one).replace("OTHER", other).replace("MORE", more).replace("SERVER", server)
    return Scenario.load(write(text), sets)


@pytest.mark.parametrize(
    ("server", "one", "other", "more"),
    [
        ("cohort: 2, deadline: 1m", FAST, SLOW, "separation: 0"),
        ("cohort: 10, deadline: 1m, selection: uniform", FAST, SLOW, "separation: 0"),
        ("cohort: 3, deadline: 1m, pause: 5s", RANDOM, "{kind: exponential, mean: 6m}", "separation: 2"),
        ("cohort: 2", FAST, FAST, "cooldown: 10m"),
        ("cohort: 3, selection: poisson", RANDOM, RANDOM, "cooldown: 10m"),
        ("cohort: 3, deadline: 2m, cooldown_from: reported", RANDOM, "{kind: exponential, mean: 90s}", "cooldown: 10m"),
        ("cohort: 6, over_select: 1.5, deadline: 1m", RANDOM, "{kind: exponential, mean: 6m}", "cooldown: 4m"),
        ("cohort: 2, over_select: 2, cooldown_from: reported", FAST, SLOW, "separation: 6"),
        ("cohort: 4, over_select: 1.5, cooldown_from: reported", RANDOM, RANDOM, "cooldown: 6m, weight: 3"),
    ],
)
def test_the_mean_field_of_busy_clients_is_within_2_percent_for_each_group(
    write: Write, server: str, one: str, other: str, more: str
) -> None:
    """The standard error of a group's share is at most 0.6 % of it here; the seed is fixed."""
    scenario = two(write, server, one, other, more)
    population = build_population(scenario)
    answer = theory_or_why_not(scenario, population)
    assert not isinstance(answer, str)
    assert answer.method == "mean-field"
    log = simulate_log(scenario, population)
    counts = np.bincount(log.participations["client"].to_numpy(), minlength=40)
    for group in (0, 1):
        measured = counts[population.group == group].sum() / counts.sum()
        assert answer.pi[population.group == group].sum() == pytest.approx(measured, rel=0.02)


def random_world(rng: np.random.Generator) -> str:
    """Return a world of 12 to 120 clients with late sessions, cool-downs by the clock, or neither."""
    devices = int(rng.integers(12, 120))
    cooldown = f"cooldown: {rng.integers(5, 40)}m"
    weight = rng.choice(["{kind: zipf, exponent: 1.4}", "{kind: lognormal, median: 1, sigma: 1}", "1"])
    rest = rng.choice(["separation: 0", f"separation: {rng.integers(0, 6)}", cooldown, f"{cooldown}, separation: 2"])
    deadline = rng.choice(["", ", deadline: 1m", ", deadline: 3m"])
    law = rng.choice(["midzuno", "uniform", "successive", "bernoulli", "poisson"])
    session = f"{{download: 0s, upload: 0s, train: {{kind: exponential, mean: {rng.integers(30, 200)}s}}}}"
    return f"""\
seed: {int(rng.integers(1, 10**6))}
stop: {{rounds: 4000}}
engine: vectorized
population: [{{devices: {devices}, weight: {weight}, {rest}, session: {session}}}]
server: {{cohort: {rng.integers(1, devices // 12 + 1)}, pause: {rng.integers(0, 120)}s{deadline}, selection: {law}}}
records: {{gauges: null}}
"""


@pytest.mark.long
def test_busy_clients_are_within_the_stated_error_of_simulations(write: Write) -> None:
    """Every client of 10 random worlds, and 4 standard errors of independent draws: a false alarm in 1 of 30 seeds."""
    rng, tried = np.random.default_rng(2), 0
    while tried < 10:
        scenario = Scenario.load(write(random_world(rng)))
        population = build_population(scenario)
        answer = theory_or_why_not(scenario, population)
        if isinstance(answer, str) or not is_busy(answer):
            continue
        counts = np.bincount(simulate_log(scenario, population).participations["client"], minlength=len(population))
        assert answer.error_bound is not None
        noise = 4.0 * np.sqrt(answer.pi / counts.sum())
        assert (np.abs(counts / counts.sum() - answer.pi) <= answer.error_bound * answer.pi + noise).all()
        tried += 1


@pytest.mark.parametrize(
    ("server", "more", "sets", "words"),
    [
        ("cohort: 2, deadline: 1m, selection: cyclic", "separation: 0", [], "does not know the law 'cyclic'"),
        ("cohort: 20, deadline: 1m", "cooldown: 20m", [], "rounds lack clients at times"),
        ("cohort: 2, deadline: 1m, selection: groups", "separation: 2", [], "does not know the law 'groups'"),
        ("cohort: 2, selection: bernoulli", "separation: 17", ["population.*.separation=17"], "rounds lack clients"),
        ("cohort: 2, selection: age", "separation: 0", [], "no theory covers the selection law 'age'"),
        ("cohort: 2", "participations: {most: 5}", [], "can reach its cap"),
        ("cohort: 2", "cooldown: {kind: pareto, shape: 0.05, minimum: 5m}", [], "for ever"),
        ("cohort: 2, deadline: 1m, selection: bernoulli", "weight: 9", [], "% off for a client"),
        ("cohort: 2, over_select: 2, deadline: 1m, grace: 9s", "weight: 9", [], "does not know server.grace"),
        ("cohort: 2, deadline: 1m, minimum_reports: 1, overtime: 9s", "weight: 9", [], "does not know server.grace"),
    ],
)
def test_all_who_ask_are_told_why_theory_does_not_hold(
    write: Write, server: str, more: str, sets: list[str], words: str
) -> None:
    learning = "learning={problem: quadratic, optimizers: [oracle_weighted], step_size: 0.1}"
    scenario = two(write, server, FAST, SLOW, more, "stop.rounds=20", *sets)
    world = preflight(scenario)
    why = theory_or_why_not(scenario, world.population)
    assert isinstance(why, str)
    assert words in why
    assert any(words in note for note in notes_of(world))
    with pytest.raises(ScenarioError, match="theory does not cover this scenario's participation"):
        preflight(two(write, server, FAST, SLOW, more, "stop.rounds=20", *sets, learning))
    if "bernoulli" not in server:  # which waits for clients that never come
        assert simulate(scenario).clients["pi"].null_count() == 40


def test_the_oracle_does_not_take_frequencies_of_selections_for_those_of_reports(write: Write) -> None:
    learning = "learning={problem: quadratic, optimizers: [oracle_weighted], step_size: 0.1}"
    with pytest.raises(ScenarioError, match="not every session surely ends with a report"):
        preflight(two(write, "cohort: 2, deadline: 1m", FAST, SLOW, "separation: 0", learning))


@pytest.mark.parametrize(
    ("server", "more"),
    [
        ("cohort: 2, deadline: 1m", "separation: 12"),  # back after 30 s x 12
        ("cohort: 2", "cooldown: 5m"),  # that long is its session
        ("cohort: 2, deadline: 6m, cooldown_from: reported", "separation: 3"),
        ("cohort: 2, over_select: 2, cooldown_from: reported", "separation: 0"),
    ],
)
def test_the_chain_answers_where_nobody_is_busy_for_longer(write: Write, server: str, more: str) -> None:
    answer = theory_or_why_not(scenario := two(write, server, more=more), build_population(scenario))
    assert not isinstance(answer, str)
    assert not any("late sessions" in each for each in answer.caveats)


def test_chain_says_what_a_method_leaves_out(write: Write) -> None:
    scenario = two(write, "cohort: 2, deadline: 1m")
    plain = participation_theory(scenario, method="closed-form")
    assert plain.pi[:20].sum() == pytest.approx(0.5)
    assert "leaves out that late sessions" in plain.caveats[0]
    (note,) = (each for each in notes_of(preflight(scenario)) if "Theory" in each)
    assert note.startswith("note: Theory holds here by the method mean-field: late sessions")
    busy = participation_theory(scenario)
    assert (busy.method, busy.caveats[0].endswith("a mean field of that")) == ("mean-field", True)
    refused = participation_theory(two(write, "cohort: 2, deadline: 1m, selection: cyclic"))
    assert "theory does not hold here" in refused.caveats[0]
