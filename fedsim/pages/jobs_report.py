"""The report of a run of several jobs on one fleet, which compares them; each has a page of its own beside it."""

from collections.abc import Callable, Mapping

import numpy as np

from fedsim.common.formatting import NO_VALUE, count, number, percent
from fedsim.measure.metrics import of_jobs
from fedsim.pages.charts.sweep_settings import IntervalRows, interval_chart
from fedsim.pages.document import ReportDocument, Section
from fedsim.pages.expectations import verdict
from fedsim.pages.jobs import ALONE, jobs_answer, jobs_tiles, jobs_title
from fedsim.pages.metric_wording import tv
from fedsim.pages.provenance import run_provenance
from fedsim.pages.tables import Table
from fedsim.run.files import JOBS, METRICS
from fedsim.run.run import Run
from fedsim.scenario import Scenario
from fedsim.trials.decision import PACE, REPORTED

_COLUMNS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("Rounds a day", PACE, number),
    ("TV from uniform", REPORTED, tv),
    ("Selected at least once", "participation.coverage", percent),
    ("Time waiting for clients", "rounds.waiting_share", percent),
)


def jobs_document(run: Run) -> ReportDocument:
    """Compute everything that the report of several jobs shows."""
    manifest, scenario, metrics = run.manifest, run.scenario, run.metrics
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
