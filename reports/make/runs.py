"""The pages of runs and sweeps in `reports/`, and the sweeps that are kept there since they take long."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsim import Scenario, simulate
from fedsim.experiment.run_directory import Provenance
from fedsim.report.answer import Sentence
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.document import ReportDocument, scenario_version
from fedsim.report.page import document_of, write_document
from fedsim.report.provenance import ReportProvenance
from fedsim.report.tables import Table
from fedsim.sweeps import store
from fedsim.sweeps.executors import backend_of
from fedsim.sweeps.plan import plan_sweep
from fedsim.sweeps.sweep import run_sweep
from reports.make.kept import REPORTS, ROOT


def write_page(document: ReportDocument) -> ReportDocument:
    """Write a page of this folder, and return it."""
    write_document(document, REPORTS / f"{document.name}.html")
    return document


def run_page(scenario: str) -> ReportDocument:
    """Run a scenario and write its report."""
    file = f"scenarios/{scenario}.fedsim.yaml"
    with tempfile.TemporaryDirectory() as folder:
        result = simulate(Scenario.load(ROOT / file))
        return write_page(document_of(result.save(Path(folder) / "run", Provenance(file))))


def sweep_page(scenario: str) -> ReportDocument:
    """Run a sweep and write its report."""
    file = f"scenarios/{scenario}.fedsim.yaml"
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / Path(scenario).name
        run_sweep(
            plan_sweep(Scenario.load(ROOT / file)), directory, backend_of("process", 2), provenance=Provenance(file)
        )
        # What differs from one making to the next has no place in a page that is kept.
        _set_meta(directory, command=f"fedsim sweep {file}", wall_time_s=None)
        return write_page(document_of(directory))


def _set_meta(directory: Path, **values: object) -> None:
    store.write_sweep(directory, {**store.read_sweep(directory), **values})


def run_kept_sweep(scenario: str) -> Path:
    """Run what is missing of a sweep that is kept in ``reports/sweeps``, and return its directory."""
    file, directory = f"scenarios/{scenario}.fedsim.yaml", REPORTS / "sweeps" / Path(scenario).name
    run_sweep(plan_sweep(Scenario.load(ROOT / file)), directory, backend_of("process", 2), provenance=Provenance(file))
    store.compact(directory)
    return directory


def kept_sweep_page(scenario: str) -> ReportDocument:
    """Write the report of a sweep that takes long, from the results in ``reports/sweeps``; run what they lack.

    They are used as they are where the scenario says all that it said when they were made. A key that scenarios have
    had since, and that this one leaves at its default, makes no difference.
    """
    file, directory = f"scenarios/{scenario}.fedsim.yaml", REPORTS / "sweeps" / Path(scenario).name
    loaded = Scenario.load(ROOT / file)
    now, stored = loaded.model_dump(mode="json"), store.read_sweep(directory) if directory.exists() else None
    if stored is None or not same_runs(stored["scenario"], now):
        run_kept_sweep(scenario)
    _set_meta(
        directory,
        command=f"fedsim sweep {file}",
        scenario_file=file,
        overrides=[],
        wall_time_s=None,
        scenario=now,
        description=loaded.description,
    )
    return write_page(document_of(directory))


def same_runs(stored: Any, now: Any) -> bool:
    """Tell whether all that a part of a stored scenario says is what it says now; words for people make no run."""
    if isinstance(stored, dict) and isinstance(now, dict):
        words = {"description", "question", "decide", "expect"}
        return all(key in now and same_runs(each, now[key]) for key, each in stored.items() if key not in words)
    if isinstance(stored, list) and isinstance(now, list):
        return len(stored) == len(now) and all(map(same_runs, stored, now))
    return bool(stored == now)


def sweep_document(
    scenario: Scenario,
    *,
    name: str,
    finding: str,
    answer: Sequence[Sentence],
    charts: Mapping[str, tuple[Chart | Absent, ...]],
    tables: Mapping[str, Table],
    facts: tuple[tuple[str, str], ...],
    command: str,
    source: str | None = None,
) -> ReportDocument:
    """Return a page in the form of a sweep's report, for what is not one sweep.

    Parameters
    ----------
    tables
        By their names in the page's template.
    facts, command
        What the page says of its origin, and what makes it again.
    source
        The scenario as the page shows it; as it was resolved where this is None.
    """
    resolved = scenario.model_dump(mode="json")
    version = scenario_version(resolved)
    shown = json.dumps(resolved, indent=2, ensure_ascii=False) if source is None else source
    nothing = dict.fromkeys(("ranked", "groups", "limits", "points", "differences", "failures"))
    origin = ReportProvenance(facts, (), (), command=command, scenario=shown, omitted="", version=version)
    return ReportDocument(
        version=version,
        kind="sweep",
        name=name,
        finding=finding,
        question=scenario.question or "",
        description=scenario.description,
        answer=answer,
        charts=charts,
        context={**nothing, **tables, "provenance": origin},
    )
