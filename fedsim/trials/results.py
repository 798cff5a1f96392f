"""The results of a sweep as one tidy frame, and what it planned."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from fedsim.common.arguments import path_of
from fedsim.common.errors import RunError
from fedsim.log import has_fingerprint
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
    crashes = plan.filter(pl.col("run_id").is_in(sorted(store.crashed_runs(folder) - set(done["run_id"].unique()))))
    if len(kept) and not len(done) and not len(crashes):
        where = f"{folder / store.SWEEP_FILE} is that of another sweep than the results there"
        raise RunError(f"{where}: none of its runs is among them; run the sweep again")
    parts = [done.with_columns(status=pl.lit("complete")), crashes.with_columns(status=pl.lit("crashed"))]
    rows = pl.concat(parts, how="diagonal")
    columns = ["run_id", "point", "seed", "status", *parameters, "metric", "value"]
    # A stable sort: metrics stay in the order in which they were measured.
    results = rows.sort("point", "order", maintain_order=True).select(columns)
    whole = results["run_id"].n_unique() == len(plan)  # a run whose file was removed is one that is to be done again
    if not whole or sweep.get("fingerprint") is None:
        store.check_sealed(folder)
    elif not has_fingerprint(results.select(FIXED), sweep["fingerprint"]):
        raise RunError(
            f"{folder / store.RUNS} or {store.MERGED_FILE} do not hold what the sweep wrote: the fingerprint of the "
            f"results in {store.SWEEP_FILE} is another; remove {folder}, and run the sweep again"
        )
    return results


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
