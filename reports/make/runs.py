"""The pages of runs and sweeps in `reports/`, and the sweeps that are kept since they take long."""

import tempfile
from pathlib import Path

from fedsim import Scenario, simulate
from fedsim.pages.answer import Answer
from fedsim.pages.page import answer_of, write_answer
from fedsim.run.files import Provenance
from fedsim.trials import store
from fedsim.trials.executors import backend_of
from fedsim.trials.plan import plan_sweep, points_of
from fedsim.trials.sweep import run_sweep
from reports.make.kept import REPORTS, ROOT


def run_page(scenario: str) -> Answer:
    """Run a scenario and write its report."""
    file = f"scenarios/{scenario}.fedsim.yaml"
    with tempfile.TemporaryDirectory() as folder:
        result = simulate(Scenario.load(ROOT / file))
        return _write(answer_of(result.save(Path(folder) / "run", Provenance(file))))


def sweep_page(scenario: str) -> Answer:
    """Run a sweep and write its report."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / Path(scenario).name
        _sweep(scenario, directory)
        return _page_of_sweep(scenario, directory)


def kept_sweep_page(scenario: str) -> Answer:
    """Write the report of a sweep that takes long, from the results in ``reports/sweeps``."""
    return _page_of_sweep(scenario, REPORTS / "sweeps" / Path(scenario).name)


def run_kept_sweep(scenario: str) -> None:
    """Run what is missing of a sweep that is kept in ``reports/sweeps``."""
    directory = REPORTS / "sweeps" / Path(scenario).name
    _sweep(scenario, directory)
    store.compact(directory)


def _sweep(scenario: str, directory: Path) -> None:
    file = f"scenarios/{scenario}.fedsim.yaml"
    run_sweep(plan_sweep(Scenario.load(ROOT / file)), directory, backend_of("process", 2), provenance=Provenance(file))


def _page_of_sweep(scenario: str, directory: Path) -> Answer:
    """Write the report of a sweep; what differs from one making to the next has no place in a page that is kept."""
    file = f"scenarios/{scenario}.fedsim.yaml"
    loaded = Scenario.load(ROOT / file)
    now = loaded.model_dump(mode="json")
    about = {"scenario_file": file, "overrides": [], "scenario": now, "description": now["description"]}
    about |= {"command": f"fedsim sweep {file}", "wall_time_s": None}
    about["points"] = [{"point": each.index, "values": each.values} for each in points_of(loaded)]
    store.write_sweep(directory, store.read_sweep(directory) | about)
    return _write(answer_of(directory))


def _write(document: Answer) -> Answer:
    write_answer(document, REPORTS / f"{document.name}.html")
    return document
