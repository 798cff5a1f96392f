"""A sweep directory, read: its points, and each metric's mean and interval at every one of them."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats
from fedsim.report.finished_run import Json
from fedsim.report.formatting import number
from fedsim.sweeps import results, store

COMPLETE = "complete"
MISSING = "not run"


@dataclass(frozen=True)
class FinishedSweep:
    """What a sweep left behind.

    Parameters
    ----------
    name
        The sweep's name, as a person wrote it: text, never markup.
    meta
        The whole of `sweep.json`.
    parameters
        The swept keys that name a setting, in the order of the columns.
    points
        One row for each point that `sweep.json` plans, in order: ``point`` and a column for each swept key.
    results
        ``run_id``, ``point``, ``seed``, ``status``, ``metric``, ``value``: the finite values of complete runs.
    runs
        ``run_id``, ``point``, ``seed``, ``status``: one row for each run that `sweep.json` plans; ``not run`` where
        there is neither a result nor a crash.
    """

    name: str
    meta: Mapping[str, Json]
    parameters: tuple[str, ...]
    points: pl.DataFrame
    results: pl.DataFrame
    runs: pl.DataFrame
    tuned: tuple[str, ...] = ()
    """The swept keys that were tuned for the others, and name no setting."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that have a value somewhere, by name."""
        return tuple(self.results["metric"].unique().sort().to_list())


@dataclass(frozen=True)
class Estimates:
    """A metric at every point: arrays over the points, NaN where there is no value.

    Parameters
    ----------
    mean
        Over the seeds.
    half
        Half of the 95 % confidence interval of the mean, from Student's t; NaN with fewer than two seeds.
    """

    mean: Floats
    half: Floats


def read_sweep(directory: Path) -> FinishedSweep:
    """Read a sweep directory.

    Raises
    ------
    RunError
        The directory or a file is missing, unreadable, or not what a sweep writes; the message names it.
    """
    table, meta = results.read_results(directory), store.read_sweep(directory)
    plan, swept, tuned = results.planned(meta), tuple(meta["parameters"]), _tuned(meta)
    finite = (pl.col("status") == COMPLETE) & pl.col("metric").is_not_null() & pl.col("value").is_finite()
    known = table.select("run_id", "status").unique("run_id", keep="first", maintain_order=True)
    return FinishedSweep(
        name=meta["name"] if isinstance(meta["name"], str) else directory.name,
        meta=meta,
        parameters=tuple(name for name in swept if name not in tuned),
        points=plan.select("point", *swept).unique("point", keep="first", maintain_order=True).sort("point"),
        results=table.filter(finite).select("run_id", "point", "seed", "status", "metric", "value"),
        runs=plan.join(known, on="run_id", how="left", maintain_order="left")
        .select("run_id", "point", "seed", pl.col("status").fill_null(MISSING))
        .unique(["run_id", "point"], keep="first", maintain_order=True)
        .sort("point", "seed", "run_id"),
        tuned=tuple(name for name in swept if name in tuned),
    )


def _tuned(meta: Mapping[str, Json]) -> list[Json]:
    scenario = meta.get("scenario")
    key = scenario.get("sweep") if isinstance(scenario, Mapping) else None
    tuned = key.get("tuned") if isinstance(key, Mapping) else None
    return list(tuned) if isinstance(tuned, list) else []


def estimates(sweep: FinishedSweep, metric: str) -> Estimates:
    """Estimate a metric at every point."""
    own = results.estimates(sweep.results.filter(metric=metric))
    return _aligned(sweep, own.select("point", "mean", "high", "seeds"))


def paired(sweep: FinishedSweep, metric: str, baseline: int = 0) -> Estimates:
    """Estimate how a metric differs at every point from the one in that row, over the seeds that both have.

    The same seed is the same world at every point, so differences vary less than the values do. At the baseline
    itself there is none.
    """
    own = sweep.results.filter(metric=metric)
    base = int(sweep.points["point"][baseline])
    if base not in own["point"]:
        own = own.clear()
    apart = results.paired(own, baseline=base if len(own) else None)
    return _aligned(sweep, apart.select("point", pl.col("difference").alias("mean"), "high", "seeds"))


def _aligned(sweep: FinishedSweep, table: pl.DataFrame) -> Estimates:
    """Put ``point``, ``mean``, ``high``, ``seeds`` in the order of the points."""
    every = sweep.points.select("point").join(table, on="point", how="left", maintain_order="left")
    mean = every["mean"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    high = every["high"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    # With fewer than two seeds there is no interval, whatever the table holds in its place.
    return Estimates(mean, np.where(every["seeds"].fill_null(0) >= 2, high - mean, np.nan))


def values_of(sweep: FinishedSweep, parameter: str) -> tuple[str, ...]:
    """Write the value that a parameter has at every point."""
    return tuple(shown(value) for value in sweep.points[parameter].to_list())


def numbers_of(sweep: FinishedSweep, parameter: str) -> Floats | None:
    """Return the value of a parameter at every point as numbers; None where some are not."""
    column = sweep.points[parameter]
    if column.dtype == pl.Boolean:
        return None
    try:
        found = np.array([float(value) for value in column.to_list()], dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return found if np.isfinite(found).all() else None


def shown(value: object) -> str:
    """Write a parameter's value."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return number(value) if isinstance(value, int | float) else str(value)


def label(parameter: str) -> str:
    """Name a parameter on an axis: a separation as R in rounds, others by their path."""
    return "separation R (rounds)" if is_separation(parameter) else parameter


def short(parameter: str) -> str:
    """Name a parameter where there is little room: by the last part of its path; a separation as R."""
    return "R" if is_separation(parameter) else parameter.rpartition(".")[2]


def names_of(parameters: Sequence[str]) -> dict[str, str]:
    """Name parameters in short; those that would have the same name by their paths."""
    times = Counter(map(short, parameters))
    return {name: short(name) if times[short(name)] == 1 else name for name in parameters}


def is_separation(parameter: str) -> bool:
    """Tell whether a parameter is the separation R of some clients."""
    return parameter.rpartition(".")[2] == "separation"


def point_names(sweep: FinishedSweep, parameters: Sequence[str] | None = None) -> tuple[str, ...]:
    """Name every point by the values of these parameters; of all, if none are given."""
    chosen = sweep.parameters if parameters is None else tuple(parameters)
    names = names_of(sweep.parameters)
    columns = [values_of(sweep, parameter) for parameter in chosen]
    if not columns:
        return ("",) * len(sweep.points)
    return tuple(
        ", ".join(
            f"{names[parameter]}\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{value}"
            for parameter, value in zip(chosen, row, strict=True)
        )
        for row in zip(*columns, strict=True)
    )
