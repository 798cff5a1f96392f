"""Several jobs on one fleet: the scenario of each, what is measured over all, and their tables as one."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from fedsim.common.instants import DAY_S
from fedsim.common.progress import Report
from fedsim.privacy.epsilon import epsilon_of
from fedsim.run.evaluation import evaluate
from fedsim.run.finished import ALWAYS, AT_TIMES, Outcome
from fedsim.run.preflight import made_ready
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log

_COMPARED = ("rounds.", "participation.", "sessions.")
"""Metrics of a job that runs alone: who takes part, and when."""


def together(scenario: Scenario, outcomes: Mapping[str, Outcome], replicate: int, report: Report) -> Outcome:
    """Return the outcome of all jobs: their tables one after the other with a column ``job``, and every metric.

    A metric of a job is ``job.NAME.METRIC``. With ``alone`` in the scenario each job is simulated without the others
    too, and its metrics of participation are ``job.NAME.alone.METRIC``.
    """
    metrics = {f"job.{job}.{name}": value for job, each in outcomes.items() for name, value in each.metrics.items()}
    for place, job in enumerate(scenario.jobs if scenario.alone else ()):
        report(f"simulating {job} alone", place / len(outcomes))
        view = scenario.of_job(job, alone=True).model_copy(update={"learning": None})
        ready = made_ready(view, replicate)
        log = simulate_log(view, ready.population, replicate, devices=ready.devices)
        found = evaluate(view, ready, log, replicate)
        shown = {name: value for name, value in found.metrics.items() if name.startswith(_COMPARED)}
        metrics |= {f"job.{job}.alone.{name}": value for name, value in shown.items()}
    named = {job: each.by_name() for job, each in outcomes.items()}
    tables: dict[str, Any] = {name: all_rows(named, name) for name in (*ALWAYS, *AT_TIMES)}
    taken = np.sum([each.clients["participations"].to_numpy() for each in outcomes.values()], axis=0)
    metrics |= {"jobs.left_out_share": float((taken == 0).mean()), "jobs.most_a_day": _most_a_day(tables)}
    metrics |= _of_user(outcomes)
    ended_s = max(each.simulated_s for each in outcomes.values())
    return Outcome(scenario=scenario, replicate=replicate, metrics=metrics, simulated_s=ended_s, **tables)


def all_rows(parts: Mapping[str, Mapping[str, pl.DataFrame | pl.LazyFrame]], name: str) -> Any:
    """Return the rows of a table of every job that has one, one after the other, with a first column ``job``.

    None is returned where no job has one.
    """
    there = {job: tables[name] for job, tables in parts.items() if name in tables}
    found = [table.lazy().select(pl.lit(job).alias("job"), pl.all()) for job, table in there.items()]
    whole = pl.concat(found, how="diagonal") if found else None
    return whole if whole is None or name == "participations" else whole.collect()


def _most_a_day(tables: Mapping[str, pl.DataFrame | pl.LazyFrame]) -> float:
    day = (pl.col("selected_s") // DAY_S).cast(pl.Int32)
    sessions = tables["participations"].lazy().group_by("client", day.alias("day")).len()
    most = sessions.select(pl.col("len").max()).collect().item()
    return float(most or 0)


def _of_user(outcomes: Mapping[str, Outcome]) -> dict[str, float]:
    """Return what the jobs promise together to one who takes part in all; nothing, where a job promises nothing.

    Gaussian mechanisms compose: rho of zCDP adds up, and so does sigma^-2, whatever a job learns from another's model
    (Bun and Steinke, 2016, Lemma 2.3; Dong, Roth and Su, *Gaussian Differential Privacy*, 2022, Corollary 3.3).
    """
    promised = [each.scenario.privacy for each in outcomes.values()]
    deltas = [each.delta for each in promised if each is not None]
    if len(deltas) < len(outcomes):
        return {}
    rho = math.fsum(each.metrics["privacy.rho"] for each in outcomes.values())
    sigma = math.sqrt(0.5 / rho)
    figures = {"epsilon": epsilon_of(sigma, min(deltas)), "delta": min(deltas), "rho": rho, "noise_multiplier": sigma}
    return {f"privacy.user.{name}": value for name, value in figures.items()}
