"""The results of a sweep as one tidy frame, and what they say: means, and paired differences between points.

Every point sees the same seeds, that is the same devices with the same draws, so the difference of a metric between two
points is taken seed by seed: what the worlds have in common cancels. The interval is Student's t over seeds,

    mean(d) +- t_{n-1, (1+c)/2} s(d) / sqrt(n),

for n differences d with standard deviation s. It is one interval for one comparison: of twenty at 95 %, one is expected
to miss.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fedsim.common.arguments import path_of
from fedsim.common.errors import RunError
from fedsim.common.intervals import student_quantile
from fedsim.log import says
from fedsim.trials import store

FIXED = ("run_id", "point", "seed", "status", "metric", "value")


def read_results(directory: str | Path) -> pl.DataFrame:
    """Return the results of a sweep: one row for each run and metric, in the order of points and seeds.

    Columns: ``run_id``, ``point``, ``seed``, ``status`` (``complete`` or ``crashed``), one for each swept parameter by
    its path, ``metric``, ``value`` (null where it is not finite). A run that crashed has one row, without a metric; one
    that has not been done yet has none. A parameter whose values are not all numbers, all words or all true or false is
    given as JSON. A `RunError` says that the directory is not a sweep's, or which of its files cannot be read or is not
    what the sweep wrote.
    """
    folder = path_of("directory", directory, "a sweep directory")
    sweep = store.read_sweep(folder)
    parameters = list(sweep["parameters"])
    plan = planned_runs(sweep)
    kept = store.read_runs(folder)
    done = plan.join(kept.drop("seed"), on="run_id", how="inner")
    if len(kept) and not len(done) and sweep.get("fingerprint") is not None and not store.crashed_runs(folder):
        raise RunError(f"{folder / store.SWEEP_FILE} is that of another sweep: none of its runs is in {folder}")
    crashes = plan.filter(pl.col("run_id").is_in(sorted(store.crashed_runs(folder) - set(done["run_id"].unique()))))
    parts = [done.with_columns(status=pl.lit("complete")), crashes.with_columns(status=pl.lit("crashed"))]
    rows = pl.concat(parts, how="diagonal")
    columns = ["run_id", "point", "seed", "status", *parameters, "metric", "value"]
    # A stable sort: metrics stay in the order in which they were measured.
    found = rows.sort("point", "order", maintain_order=True).select(columns)
    whole = found["run_id"].n_unique() == len(plan)  # a run whose file was removed is one that is to be done again
    if not whole or sweep.get("fingerprint") is None:
        store.check_sealed(folder)
    elif not says(found.select(FIXED), sweep["fingerprint"]):
        raise RunError(
            f"{folder / store.RUNS} or {store.MERGED_FILE} do not hold what the sweep wrote: the fingerprint of the "
            f"results in {store.SWEEP_FILE} is another; remove {folder}, and run the sweep again"
        )
    return found


def parameters_of(frame: pl.DataFrame) -> list[str]:
    """Return the swept parameters of a frame of results."""
    return [column for column in frame.columns if column not in FIXED]


def paired_differences(
    frame: pl.DataFrame, *, baseline: int | None = None, metrics: Sequence[str] | None = None, confidence: float = 0.95
) -> pl.DataFrame:
    """Return how each metric differs from that at a baseline point, seed by seed.

    By default the first point is the baseline, and all metrics are compared. Columns: ``point``, the parameters,
    ``metric``, ``seeds`` (pairs in which both have a value), ``baseline_mean`` and ``mean`` over these, ``difference``
    (the latter less the former), ``standard_error``, ``low``, ``high`` (null with fewer than two pairs). The baseline
    itself has no rows. A `ValueError` says that there is no such point, or no such confidence.
    """
    values = frame.filter(pl.col("value").is_not_null())
    if metrics is not None:
        values = values.filter(pl.col("metric").is_in(list(metrics)))
    points = frame["point"].unique().sort()
    base = baseline if baseline is not None else (int(points[0]) if len(points) else 0)
    if baseline is not None and baseline not in points:
        raise ValueError(f"there is no point {baseline}; the points are {', '.join(map(str, points))}")
    reference = values.filter(pl.col("point") == base).select("seed", "metric", pl.col("value").alias("baseline"))
    others = values.filter(pl.col("point") != base)
    return differences(others.join(reference, on=["seed", "metric"], maintain_order="left"), confidence)


def differences(pairs: pl.DataFrame, confidence: float = 0.95) -> pl.DataFrame:
    """Return mean differences with intervals from pairs: columns ``value``, ``baseline``, and those of results."""
    if not 0 < confidence < 1:
        raise ValueError(f"the confidence must lie between 0 and 1, not {confidence}")
    parameters = [name for name in parameters_of(pairs) if name != "baseline"]
    apart = pl.col("value") - pl.col("baseline")
    found = pairs.group_by("point", *parameters, "metric", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("seeds"),
        pl.col("baseline").mean().alias("baseline_mean"),
        pl.col("value").mean().alias("mean"),
        apart.mean().alias("difference"),
        (apart.std() / pl.len().sqrt()).alias("standard_error"),
    )
    quantile = pl.Series(student_quantile(np.maximum(found["seeds"].to_numpy(), 2), confidence), dtype=pl.Float64)
    half = pl.col("standard_error") * quantile
    return found.with_columns(low=pl.col("difference") - half, high=pl.col("difference") + half)


def planned_runs(sweep: Mapping[str, Any]) -> pl.DataFrame:
    """Return what ``sweep.json`` plans, one row for each run; a `RunError` says that it is not that of a sweep.

    Columns: ``run_id``, ``point``, ``seed``, one for each swept parameter, and ``order``, that of the seeds.
    """
    try:
        parameters = list(sweep["parameters"])
        values = {entry["point"]: entry["values"] for entry in sweep["points"]}
        runs, types = sweep["runs"], {"run_id": pl.String, "point": pl.Int64, "seed": pl.Int64}
        columns = {name: pl.Series([run[name] for run in runs], dtype=dtype) for name, dtype in types.items()}
        columns |= {path: _column([values[run["point"]][path] for run in runs]) for path in parameters}
        return pl.DataFrame(columns).with_row_index("order").with_columns(pl.col("order").min().over("seed"))
    except (KeyError, TypeError, AttributeError, pl.exceptions.PolarsError) as error:
        raise RunError(f"{store.SWEEP_FILE} is not that of a sweep: {type(error).__name__}: {error}") from None


def _column(values: Sequence[Any]) -> pl.Series:
    """Return values of one parameter with the narrowest type that holds them all; mixed ones as JSON."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str}:
        return pl.Series(values, dtype=pl.String)
    if kinds == {bool}:
        return pl.Series(values, dtype=pl.Boolean)
    if kinds == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        return pl.Series(values, dtype=pl.Int64)
    if kinds <= {int, float}:
        return pl.Series([None if value is None else float(value) for value in values], dtype=pl.Float64)
    return pl.Series([value if isinstance(value, str) else json.dumps(value) for value in values], dtype=pl.String)
