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
from fedsim.trials.trials import merge_results
from reports.make.kept import REPORTS, ROOT


def make_page(scenario: str) -> Answer:
    """Write the report of a run, or of a sweep, which is run anew unless ``reports/sweeps`` keeps it."""
    file, kept = f"scenarios/{scenario}.fedsim.yaml", REPORTS / "sweeps" / Path(scenario).name
    loaded = Scenario.load(ROOT / file)
    with tempfile.TemporaryDirectory() as folder:
        if loaded.sweep is None:
            answer = answer_of(simulate(loaded).save(Path(folder) / "run", Provenance(file)))
        else:
            directory = kept if kept.exists() else Path(folder) / kept.name
            if directory != kept:
                _sweep(loaded, file, directory)
            _say_what_it_is(loaded, file, directory)
            answer = answer_of(directory)
    write_answer(answer, REPORTS / f"{answer.name}.html")
    return answer


def run_kept_sweep(scenario: str) -> None:
    """Run what is missing of a sweep that is kept in ``reports/sweeps``."""
    file, directory = f"scenarios/{scenario}.fedsim.yaml", REPORTS / "sweeps" / Path(scenario).name
    _sweep(Scenario.load(ROOT / file), file, directory)
    merge_results(directory)


def _sweep(scenario: Scenario, file: str, directory: Path) -> None:
    run_sweep(plan_sweep(scenario), directory, backend_of("process", 2), provenance=Provenance(file))


def _say_what_it_is(scenario: Scenario, file: str, directory: Path) -> None:
    """Keep what differs from one making to the next out of the page, and the words of the scenario as they are now."""
    now = scenario.model_dump(mode="json")
    about = {"scenario_file": file, "overrides": [], "scenario": now, "description": now["description"]}
    about |= {"command": f"fedsim sweep {file}", "wall_time_s": None}
    about["points"] = [{"point": each.index, "values": each.values} for each in points_of(scenario)]
    store.write_sweep(directory, store.read_sweep(directory) | about)
