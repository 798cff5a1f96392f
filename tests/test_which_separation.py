"""The study which-separation: what was tuned is what its sweep has, and its results are those of its scenario."""

from pathlib import Path

import pytest

from fedsim import Scenario
from fedsim.trials import store
from fedsim.trials.trials import COMPLETE, Trials
from reports.make import runs
from reports.make import which_separation as script
from reports.make.kept import read_store

FILE = Path("scenarios/studies/which-separation.fedsim.yaml")
KEPT = {name: Path(f"reports/sweeps/{name}") for name in ("which-separation", "which-cooldown")}


def test_the_sweep_has_what_was_tuned_on_another_seed() -> None:
    scenario = Scenario.load(FILE)
    assert scenario.sweep is not None
    kept = read_store("which-separation")
    assert list(scenario.sweep.zip["population.*.separation"]) == list(script.SEPARATIONS)
    tuned = script.swept(kept["grids"])
    assert {path: scenario.sweep.zip[path] for path in scenario.sweep.tuned} == tuned
    assert isinstance(scenario.sweep.seeds, int)
    assert kept["seed"] not in range(scenario.seed, scenario.seed + scenario.sweep.seeds)
    assert all(
        len(grid) == len(script.KINDS) * len(script.STEPS) * len(script.CLIPS) for grid in kept["grids"].values()
    )


def test_the_lowest_loss_of_the_grid_is_chosen_and_nothing_that_diverged() -> None:
    grid = {script.variant_name((kind, s, c)): 1.0 for kind in script.KINDS for s in script.STEPS for c in script.CLIPS}
    grid["fedavg 0.03 2"] = 0.5
    grid["fedavg 0.1 4"] = float("nan")
    assert script.chosen(grid, "fedavg") == (0.03, 2.0)


@pytest.mark.parametrize("name", KEPT)
def test_the_kept_results_are_those_of_the_scenario_and_whole(name: str) -> None:
    now = Scenario.load(FILE.with_name(f"{name}.fedsim.yaml")).model_dump(mode="json")
    stored = store.read_sweep(KEPT[name])["scenario"]
    assert runs.same_runs(stored, now)
    assert not runs.same_runs(stored, {**now, "stop": {"rounds": 1}})
    assert runs.same_runs({key: stored[key] for key in ("stop",)}, now)  # keys that came later make no run
    assert set(Trials.read(KEPT[name]).runs["status"]) == {COMPLETE}
