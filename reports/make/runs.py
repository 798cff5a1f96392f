"""The pages of runs and sweeps in `reports/`, and the sweeps that are kept since they take long."""

import tempfile
from pathlib import Path
from typing import Any

from fedsim import Scenario, simulate
from fedsim.pages.answer import Answer
from fedsim.pages.page import answer_of, write_answer
from fedsim.run.files import Provenance
from fedsim.trials import store
from fedsim.trials.executors import backend_of
from fedsim.trials.plan import plan_sweep, points_of
from fedsim.trials.sweep import run_sweep
from reports.make.kept import REPORTS, ROOT


def write_page(document: Answer) -> Answer:
    """Write a page of this folder, and return it."""
    write_answer(document, REPORTS / f"{document.name}.html")
    return document


def run_page(scenario: str) -> Answer:
    """Run a scenario and write its report."""
    file = f"scenarios/{scenario}.fedsim.yaml"
    with tempfile.TemporaryDirectory() as folder:
        result = simulate(Scenario.load(ROOT / file))
        return write_page(answer_of(result.save(Path(folder) / "run", Provenance(file))))


def _sweep(scenario: str, directory: Path) -> None:
    file = f"scenarios/{scenario}.fedsim.yaml"
    run_sweep(plan_sweep(Scenario.load(ROOT / file)), directory, backend_of("process", 2), provenance=Provenance(file))


def _page_of_sweep(scenario: str, directory: Path) -> Answer:
    """Write the report of a sweep; what differs from one making to the next has no place in a page that is kept."""
    file = f"scenarios/{scenario}.fedsim.yaml"
    scenario_now = Scenario.load(ROOT / file)
    now = scenario_now.model_dump(mode="json")
    about = {"scenario_file": file, "overrides": [], "scenario": now, "description": now["description"]}
    about |= {"command": f"fedsim sweep {file}", "wall_time_s": None}
    if scenario_now.sweep is not None:  # names of settings may have changed
        about["parameters"] = scenario_now.sweep.paths
        about["points"] = [{"point": each.index, "values": each.values} for each in points_of(scenario_now)]
    store.write_sweep(directory, store.read_sweep(directory) | about)
    return write_page(answer_of(directory))


def sweep_page(scenario: str) -> Answer:
    """Run a sweep and write its report."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / Path(scenario).name
        _sweep(scenario, directory)
        return _page_of_sweep(scenario, directory)


def run_kept_sweep(scenario: str) -> None:
    """Run what is missing of a sweep that is kept in ``reports/sweeps``."""
    directory = REPORTS / "sweeps" / Path(scenario).name
    _sweep(scenario, directory)
    store.compact(directory)


def kept_sweep_page(scenario: str) -> Answer:
    """Write the report of a sweep that takes long, from the results in ``reports/sweeps``; run what they lack.

    They are used as they are where the scenario says all that it said when they were made. A key that scenarios have
    had since, and that this one leaves at its default, makes no difference.
    """
    directory = REPORTS / "sweeps" / Path(scenario).name
    now = Scenario.load(ROOT / f"scenarios/{scenario}.fedsim.yaml").model_dump(mode="json")
    if not directory.exists() or not same_runs(store.read_sweep(directory)["scenario"], now):
        run_kept_sweep(scenario)
    return _page_of_sweep(scenario, directory)


def same_runs(stored: Any, now: Any) -> bool:
    """Tell whether all that a part of a stored scenario says is what it says now; words for people make no run."""
    if isinstance(stored, dict) and isinstance(now, dict):
        words = {"description", "question", "headline", "decide", "expect"}
        return all(key in now and same_runs(each, now[key]) for key, each in stored.items() if key not in words)
    if isinstance(stored, list) and isinstance(now, list):
        return len(stored) == len(now) and all(map(same_runs, stored, now))
    return bool(stored == now)
