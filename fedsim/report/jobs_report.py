"""The report of a run of several jobs on one fleet, which compares them; each has a page of its own beside it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from fedsim.analysis.metrics import of_jobs
from fedsim.common.formatting import NO_VALUE, count, number, percent
from fedsim.common.json_files import read_figures, read_object
from fedsim.experiment.finished import JOBS, MANIFEST, METRICS
from fedsim.findings.expectations import verdict
from fedsim.findings.jobs import ALONE, jobs_answer, jobs_tiles, jobs_title
from fedsim.findings.metric_wording import tv
from fedsim.report.charts.sweep_settings import IntervalRows, interval_chart
from fedsim.report.document import ReportDocument, Section
from fedsim.report.provenance import run_provenance
from fedsim.report.tables import Table
from fedsim.scenario import Scenario, read_resolved
from fedsim.trials.decision import PACE, REPORTED

_COLUMNS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("Rounds a day", PACE, number),
    ("TV from uniform", REPORTED, tv),
    ("Selected at least once", "participation.coverage", percent),
    ("Time waiting for clients", "rounds.waiting_share", percent),
)


def has_jobs(directory: Path) -> bool:
    """Say whether a directory is that of a run of several jobs."""
    scenario = read_object(directory / MANIFEST).get("scenario") if (directory / MANIFEST).exists() else None
    return isinstance(scenario, dict) and bool(scenario.get("jobs"))


def jobs_document(directory: Path) -> ReportDocument:
    """Compute everything that the report of several jobs shows; a `RunError` names a file that cannot be read."""
    manifest = read_object(directory / MANIFEST)
    scenario, metrics = read_resolved(directory / MANIFEST, manifest), read_figures(directory / METRICS)
    table = _table(scenario, metrics)
    jobs = of_jobs(metrics)
    shown = [(job, how) for job, own in jobs.items() for how in ("", ALONE) if not how or ALONE + REPORTED in own]
    tv_shares, low, high = (
        np.array([50.0 * jobs[job].get(how + REPORTED + end, np.nan) for job, how in shown])
        for end in ("", "_low", "_high")
    )
    names = tuple(f"{job}, alone" if how else job for job, how in shown)
    shared = np.array([not how for _, how in shown])
    unit = "reports from uniform (TV, %), 95 % interval"
    rows = IntervalRows(names, tv_shares, (high - low) / 2, shared, ("beside the others", "alone"), unit, None)
    return ReportDocument(
        kind="jobs",
        name=scenario.name,
        finding=jobs_title(metrics),
        question=scenario.question,
        setup=f"{count(len(scenario.jobs), 'job')} on {count(scenario.devices, 'device')}, {scenario.stop.in_words()}",
        description=scenario.description,
        status=manifest.get("status", ""),
        verdict=verdict(manifest.get("verdict")),
        answer=tuple(jobs_answer(scenario, metrics, manifest)),
        tiles=tuple(jobs_tiles(scenario, metrics)),
        sections=(Section("jobs", "The jobs", (interval_chart(rows, JOBS, "Bias of each job"),), [table]),),
        names=(JOBS,),
        tables=[table],
        origins={"": run_provenance(manifest)},
    )


def _table(scenario: Scenario, metrics: Mapping[str, float]) -> Table:
    jobs = of_jobs(metrics)
    columns = [*_COLUMNS]
    if scenario.alone:
        columns += [(f"{head}, alone", ALONE + name, write) for head, name, write in _COLUMNS[:2]]
    rows = tuple(
        (job, *(write(own[name]) if np.isfinite(own.get(name, np.nan)) else NO_VALUE for _, name, write in columns))
        for job, own in jobs.items()
    )
    note = f"Each job has a page of its own: {JOBS}/NAME/report.html. All figures are in {METRICS}, as job.NAME.METRIC."
    return Table("The jobs side by side", ("Job", *(head for head, *_ in columns)), rows, note=note)
