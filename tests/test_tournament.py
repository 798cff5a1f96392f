"""The tournament: its scenario is what was tuned, and what is said follows from the numbers, whatever these are."""

import re
from pathlib import Path

import numpy as np
import pytest

from fedsim import Scenario, simulate
from fedsim.common.arrays import Floats
from reports.make import tournament


def biases(**means: float) -> dict[tuple[str, str], Floats]:
    """Return distances in which each method has its mean in all cases, 5 where none is given, and noise of 1 %."""
    noise = np.random.default_rng(0).normal(1, 0.01, (len(tournament.CASES), len(tournament.METHODS), 10))
    own = np.array([means.get(method.name, 5.0) for method in tournament.METHODS])
    return {case: own[:, None] * noise[k] for k, case in enumerate(tournament.CASES)}


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
    assert all(np.isfinite(values).any() for values in tournament.measured("bias").values())
    assert scenario.sweep.seeds == tournament.SEEDS
    assert scenario.learning.target_above_optimum == tournament.TARGET


def test_the_best_step_is_the_nearest_that_did_not_diverge() -> None:
    grid = [3.0, None, 2.0, float("nan"), 2.5, float("inf")]
    assert tournament.best(grid) == tournament.STEPS[2]


def test_steps_at_an_edge_of_the_grid_are_marked() -> None:
    assert [tournament.starred(step) for step in (tournament.STEPS[0], tournament.STEPS[1], tournament.STEPS[-1])] == [
        "0.001*",
        "0.003",
        "0.3*",
    ]


def test_who_leads_and_who_cannot_be_told_from_it() -> None:
    alone = biases(mifa=1.0, scaffold=2.0)
    order, first = tournament.leaders(alone)
    assert [tournament.METHODS[row].name for row in order[:2]] == ["mifa", "scaffold"]
    assert [tournament.METHODS[row].name for row in first] == ["mifa"]
    tied = biases(mifa=1.0, scaffold=1.0)
    assert {tournament.METHODS[row].name for row in tournament.leaders(tied)[1]} == {"mifa", "scaffold"}


def test_a_run_without_a_value_is_last() -> None:
    values = biases()
    for case in tournament.CASES:
        values[case][3] = np.nan
    assert (tournament.ranks(values)[3] == len(tournament.METHODS)).all()


@pytest.mark.parametrize(
    ("means", "said"),
    [
        ({"scaffold": 1.0}, "SCAFFOLD leaves the least bias."),
        ({"scaffold": 1.0, "mifa": 1.0}, "leave the least bias, which these seeds do not tell apart."),
        (
            {"scaffold": 1.0, "known": 1.5, "debiased": 2.0},
            "keep at most a few numbers of each client, it is Debiased FedAvg.",
        ),
        (
            {"scaffold": 1.0, "fedau": 2.0},
            "SCAFFOLD is first, and of those that keep at most a few numbers of each client FedAU.",
        ),
        ({"scaffold": 1.0, "mifa": 1.0}, "are first, which these seeds do not tell apart, and of those"),
        ({"ace": 1.0, "debiased": 2.0}, "keep nothing on the device, it is ACE."),
        ({"debiased": 2.0}, "Debiased FedAvg leaves less bias than FedAvg in 12 of 12 cases and more in 0"),
        ({"fedavg": 2.0}, "Debiased FedAvg leaves less bias than FedAvg in 0 of 12 cases and more in 12"),
    ],
)
def test_the_sentences_follow_the_numbers(monkeypatch: pytest.MonkeyPatch, means: dict[str, float], said: str) -> None:
    monkeypatch.setattr(tournament, "measured", lambda _: biases(**means))
    assert said in " ".join(tournament.sentences())


def test_the_ranking_counts_what_diverged() -> None:
    values = biases(fedavg=2.0)
    values["chain-0", "digits"][0, :3] = np.nan
    row = next(row for row in tournament.ranking(values) if row[0] == "FedAvg")
    assert row[2].startswith("2")
    assert row[3].endswith("(3 of 60 diverged)")


def test_the_page_is_written_from_them() -> None:
    """The page that is kept has the finding that the results give."""
    kept = Path("reports/tournament.html").read_text(encoding="utf-8")
    assert tournament.page().finding in kept


@pytest.mark.parametrize("world", ["chain-8", "continents", "own", "drop-outs", "buffered"])
def test_every_method_runs_in_every_world(world: str) -> None:
    """For a few rounds, on the quadratic problem."""
    scenario = tournament.scenario_of((world, "quadratic"), [0.003], **{"stop.rounds": 8})
    metrics = simulate(scenario).metrics
    assert all(np.isfinite(metrics[f"learning.{method.name}-0.bias"]) for method in tournament.METHODS)
