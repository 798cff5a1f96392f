"""The tournament: its scenario is what was tuned, and what is said follows from the numbers, whatever these are."""

import re

import numpy as np
import pytest

from fedsim import Scenario, simulate
from fedsim.common.arrays import Floats
from reports.make import tournament


def biases(**means: float) -> Floats:
    """Return distances in which each method has its mean in all cases, 5 where none is given, and noise of 1 %."""
    noise = np.random.default_rng(0).normal(1, 0.01, (len(tournament.CASES), len(tournament.METHODS), 10))
    own = np.array([means.get(method.name, 5.0) for method in tournament.METHODS])
    found: Floats = np.swapaxes(own[:, None] * noise, 0, 1)
    return found


def test_the_scenario_is_what_was_tuned() -> None:
    """File and grid say the same; every method has the step that was best for it in each case."""
    tuning = tournament.kept()["tuning"]
    text = tournament.SCENARIO.read_text(encoding="utf-8")
    assert tournament.with_steps(text, tuning) == text
    assert tournament.with_steps(re.sub(r"(step_size: \[).*", r"\1]", text), tuning) == text
    scenario = Scenario.load(tournament.SCENARIO)
    assert scenario.learning is not None
    assert [each.label for each in scenario.learning.optimizers] == [method.name for method in tournament.METHODS]
    assert scenario.sweep is not None
    assert len(scenario.sweep.tuned) == len(tournament.METHODS)
    assert np.isfinite(tournament.measured("bias")).any(axis=(0, 2)).all()
    assert scenario.sweep.seeds == tournament.SEEDS
    assert scenario.learning.target_above_optimum == tournament.TARGET


def test_the_best_step_is_the_nearest_that_did_not_diverge() -> None:
    grid = [3.0, None, 2.0, float("nan"), 2.5, float("inf")]
    assert tournament.best(grid) == tournament.STEPS[2]


@pytest.mark.parametrize(
    ("means", "said"),
    [
        ({"scaffold": 1.0}, "and 10 seeds: SCAFFOLD."),
        ({"scaffold": 1.0, "mifa": 1.0}, "and 10 seeds: MIFA and SCAFFOLD (a tie)."),
        ({"scaffold": 1.0, "known": 1.5, "debiased": 2.0}, "no frequencies known beforehand: Debiased FedAvg."),
        ({"scaffold": 1.0, "fedau": 2.0}, "optimum: SCAFFOLD; with at most a few numbers kept of each client: FedAU."),
        ({"scaffold": 1.0, "mifa": 1.0}, "optimum: MIFA and SCAFFOLD (a tie); with"),
        ({"ace": 1.0, "debiased": 2.0}, "nothing kept on the device: ACE."),
        ({"debiased": 2.0}, "Debiased FedAvg leaves less bias than FedAvg in 12 of 12 cases and more in 0"),
        ({"fedavg": 2.0}, "Debiased FedAvg leaves less bias than FedAvg in 0 of 12 cases and more in 12"),
    ],
)
def test_the_sentences_follow_the_numbers(monkeypatch: pytest.MonkeyPatch, means: dict[str, float], said: str) -> None:
    monkeypatch.setattr(tournament, "measured", lambda _: biases(**means))
    assert said in " ".join(tournament.sentences())


def test_the_ranking_counts_what_diverged() -> None:
    values = biases(fedavg=2.0)
    values[0, tournament.CASES.index(("chain-0", "digits")), :3] = np.nan
    row = next(row for row in tournament.ranking(values) if row[0] == "FedAvg")
    assert row[2].startswith("2")
    assert row[3].endswith("(3 of 60 diverged)")


@pytest.mark.parametrize("world", ["chain-8", "continents", "own", "drop-outs", "buffered"])
def test_every_method_runs_in_every_world(world: str) -> None:
    """For a few rounds, on the quadratic problem."""
    scenario = tournament.scenario_of((world, "quadratic"), [0.003], **{"stop.rounds": 8})
    metrics = simulate(scenario).metrics
    assert all(np.isfinite(metrics[f"learning.{method.name}-0.bias"]) for method in tournament.METHODS)
