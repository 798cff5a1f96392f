"""Several jobs on one fleet: the scenario of each, what is measured over all, and their tables as one."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fedsim.common.errors import of_job
from fedsim.common.files import write_lazily
from fedsim.common.instants import DAY_S
from fedsim.common.progress import Report
from fedsim.log.journal import Journal
from fedsim.measure.facts import facts_of
from fedsim.privacy.epsilon import epsilon_of
from fedsim.run.evaluate import evaluate
from fedsim.run.files import AT_TIMES, Provenance, about_tables
from fedsim.run.preflight import preflight
from fedsim.run.run import Run, write_run
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log

_COMPARED = ("rounds.", "updates.", "reports.", "participation.", "sessions.")
"""Metrics of a job that runs alone: who takes part, and when."""


class SharedRun(Run):
    """A run of several `jobs`, each of which is a run of its own: its tables have a column ``job`` in front."""

    @property
    def _nothing(self) -> str:
        """Why the first job without a report has none; "" where each has one."""
        return next((of_job(name, job._nothing) for name, job in self.jobs.items() if job._nothing), "")


def together(scenario: Scenario, runs: Mapping[str, Run], replicate: int, progress: Report) -> SharedRun:
    """Return the run of all jobs: their tables one after the other with a column ``job``, and every metric.

    A metric of a job is ``job.NAME.METRIC``. With ``alone`` in the scenario each job is simulated without the others
    too, and its metrics of participation are ``job.NAME.alone.METRIC``.
    """
    metrics = dict[str, float]()
    of_each = [each.facts.with_columns(key=pl.format("job.{}.{}", pl.lit(job), "key")) for job, each in runs.items()]
    for place, job in enumerate(scenario.jobs if scenario.alone else ()):
        progress(f"simulating {job} alone", place / len(runs))
        view = scenario.of_job(job, alone=True)
        view = view.with_values({"learning": view.untrained})
        world = preflight(view, replicate)
        alone = evaluate(world, simulate_log(view, world.population, replicate, devices=world.devices))
        shown = {name: value for name, value in alone.metrics.items() if name.startswith(_COMPARED)}
        metrics |= {f"job.{job}.alone.{name}": value for name, value in shown.items()}
    tables: dict[str, Any] = {
        name: all_rows({job: getattr(each, name) for job, each in runs.items()})
        for name in ("rounds", "log", "clients", "gauges", *AT_TIMES)
    }
    taken = np.sum([each.clients["participations"].to_numpy() for each in runs.values()], axis=0)
    day = (pl.col("selected_s") // DAY_S).cast(pl.Int32).alias("day")
    most = tables["log"].lazy().group_by("client", day).len().select(pl.col("len").max()).collect().item()
    metrics |= {"jobs.left_out_share": float((taken == 0).mean()), "jobs.most_a_day": float(most or 0)}
    metrics |= _of_user(runs)
    facts = pl.concat([*of_each, facts_of(metrics, {})])
    ended_s = max(each.simulated_s for each in runs.values())
    return SharedRun(scenario=scenario, replicate=replicate, facts=facts, simulated_s=ended_s, jobs=runs, **tables)


def write_together(
    scenario: Scenario,
    runs: Mapping[str, Run],
    journals: Mapping[str, Journal],
    directory: Path,
    provenance: Provenance,
    progress: Report,
) -> Run:
    """Write the directory of the run of all jobs, but for the folders of theirs, as `write_run` does."""
    whole, path = together(scenario, runs, 0, progress), directory / "participations.parquet"
    write_lazily(path, whole.log.lazy(), about_tables(scenario, 0))
    stalled = "; ".join(of_job(name, each.stalled) for name, each in journals.items() if each.stalled)
    wall_s = round(max(each.wall_s for each in journals.values()), 3)
    origin = replace(provenance, wall_time_s=wall_s, stalled=stalled)
    return write_run(replace(whole, log=pl.scan_parquet(path, glob=False)), directory, origin, there=[path.stem])


def all_rows(tables: Mapping[str, Any]) -> Any:
    """Return the rows of a table of every job that has one, one after the other, with a first column ``job``.

    None is returned where no job has one, and a scan where they are.
    """
    parts = [table.select(pl.lit(job).alias("job"), pl.all()) for job, table in tables.items() if table is not None]
    return pl.concat(parts, how="diagonal") if parts else None


def _of_user(runs: Mapping[str, Run]) -> dict[str, float]:
    """Return what the jobs promise together to one who takes part in all; nothing, where a job promises nothing.

    Gaussian mechanisms compose: rho of zCDP adds up, and so does sigma^-2, whatever a job learns from another's model
    (Bun and Steinke, 2016, Lemma 2.3; Dong, Roth and Su, *Gaussian Differential Privacy*, 2022, Corollary 3.3).
    """
    promised = [each.scenario.privacy for each in runs.values()]
    deltas = [each.delta for each in promised if each is not None]
    if len(deltas) < len(runs):
        return {}
    rho = math.fsum(each.metrics["privacy.rho"] for each in runs.values())
    sigma = math.sqrt(0.5 / rho)
    figures = {"epsilon": epsilon_of(sigma, min(deltas)), "delta": min(deltas), "rho": rho, "noise_multiplier": sigma}
    return {f"privacy.user.{name}": value for name, value in figures.items()}
