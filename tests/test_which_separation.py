"""The study which-separation: what was tuned is what its sweep has, and its results are those of its scenario."""

from pathlib import Path
from typing import Any

import pytest

from fedsim import Scenario
from fedsim.trials import store
from fedsim.trials.trials import COMPLETE, Trials
from reports.make import which_separation as script
from reports.make.kept import read_store

FILE = Path("scenarios/studies/which-separation.fedsim.yaml")
KEPT = {folder.name: folder for folder in sorted(Path("reports/sweeps").iterdir())}


def test_the_sweep_has_what_was_tuned_on_another_seed() -> None:
    scenario = Scenario.load(FILE)
    assert scenario.sweep is not None
    kept = read_store("which-separation")
    assert list(scenario.sweep.zip["population.*.separation"]) == list(script.SEPARATIONS)
    for index, kind in enumerate(script.KINDS):
        best = [script.chosen(kept["grids"][str(r)], kind) for r in script.SEPARATIONS]
        paths = (f"learning.optimizers.{index}.{each}" for each in ("server.step_size", "update_clip"))
        assert [*zip(*(scenario.sweep.zip[path] for path in paths), strict=True)] == best
    assert isinstance(scenario.sweep.seeds, int)
    assert kept["seed"] not in range(scenario.seed, scenario.seed + scenario.sweep.seeds)
    assert all(
        len(grid) == len(script.KINDS) * len(script.STEPS) * len(script.CLIPS) for grid in kept["grids"].values()
    )


def test_the_lowest_loss_of_the_grid_is_chosen_and_nothing_that_diverged() -> None:
    grid = {f"{kind} {s:g} {c:g}": 1.0 for kind in script.KINDS for s in script.STEPS for c in script.CLIPS}
    grid["fedavg 0.03 2"] = 0.5
    grid["fedavg 0.1 4"] = float("nan")
    assert script.chosen(grid, "fedavg") == (0.03, 2.0)


def same_runs(stored: Any, now: Any) -> bool:
    """Tell whether all that a part of a stored scenario says is what it says now; words for people make no run."""
    if isinstance(stored, dict) and isinstance(now, dict):
        words = {"description", "question", "headline", "decide", "expect", "drift"}
        return all(key in now and same_runs(each, now[key]) for key, each in stored.items() if key not in words)
    if isinstance(stored, list) and isinstance(now, list):
        return len(stored) == len(now) and all(map(same_runs, stored, now))
    return bool(stored == now)


@pytest.mark.parametrize("name", KEPT)
def test_kept_results_are_those_of_the_scenario_and_whole(name: str) -> None:
    """Keys that scenarios have had since, and that this one leaves at their defaults, make no difference."""
    now = Scenario.load(FILE.with_name(f"{name}.fedsim.yaml")).model_dump(mode="json")
    assert same_runs(store.read_sweep(KEPT[name])["scenario"], now)
    assert set(Trials.read(KEPT[name]).runs["status"]) == {COMPLETE}
