"""The study which-separation: what was tuned is what its sweep has, and its results are those of its scenario."""

import json
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from fedsim import Scenario
from fedsim.report.finished_sweep import COMPLETE, read_sweep
from fedsim.sweeps import store

FILE = Path("scenarios/studies/which-separation.fedsim.yaml")
KEPT = {name: Path(f"reports/sweeps/{name}") for name in ("which-separation", "which-cooldown")}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend("reports")
    return import_module("which_separation")


def test_the_sweep_has_what_was_tuned_on_another_seed(script: ModuleType) -> None:
    scenario = Scenario.load(FILE)
    assert scenario.sweep is not None
    kept = json.loads(script.KEPT.read_text(encoding="utf-8"))
    assert list(scenario.sweep.zip["population.*.separation"]) == list(script.SEPARATIONS)
    tuned = script.swept(kept["grids"])
    assert {path: scenario.sweep.zip[path] for path in scenario.sweep.tuned} == tuned
    assert isinstance(scenario.sweep.seeds, int)
    assert kept["seed"] not in range(scenario.seed, scenario.seed + scenario.sweep.seeds)
    assert all(
        len(grid) == len(script.KINDS) * len(script.STEPS) * len(script.CLIPS) for grid in kept["grids"].values()
    )


def test_the_lowest_loss_of_the_grid_is_chosen_and_nothing_that_diverged(script: ModuleType) -> None:
    grid = {script.named((kind, s, c)): 1.0 for kind in script.KINDS for s in script.STEPS for c in script.CLIPS}
    grid["fedavg 0.03 2"] = 0.5
    grid["fedavg 0.1 4"] = float("nan")
    assert script.chosen(grid, "fedavg") == (0.03, 2.0)


@pytest.mark.parametrize("name", KEPT)
def test_the_kept_results_are_those_of_the_scenario_and_whole(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.syspath_prepend("reports")
    pages = import_module("pages")
    now = Scenario.load(FILE.with_name(f"{name}.fedsim.yaml")).model_dump(mode="json")
    stored = store.read_sweep(KEPT[name])["scenario"]
    assert pages.said_before(stored, now)
    assert not pages.said_before(stored, {**now, "stop": {"rounds": 1}})
    assert pages.said_before({key: stored[key] for key in ("stop",)}, now)  # keys that came later make no run
    assert set(read_sweep(KEPT[name]).runs["status"]) == {COMPLETE}
