"""Writing a trace in the form that scenarios read."""

from pathlib import Path

import polars as pl

from fedsim.availability.trace.rows import Trace
from fedsim.common.files import write_bytes, write_table


def write_trace(path: Path, trace: Trace) -> None:
    """Write a trace as CSV, where the name ends so, else as Parquet; devices without intervals get an empty row.

    Raises
    ------
    RunError
        If it cannot be written.
    """
    names = pl.Series("device", trace.names, dtype=pl.String)
    parts = []
    for condition, spans in trace.spans.items():
        part = {"device": names.gather(spans.devices), "start_s": spans.starts, "end_s": spans.ends}
        parts.append(pl.DataFrame(part).with_columns(condition=pl.lit(condition)))
    table = pl.concat(parts)
    without = names.filter(~names.is_in(table["device"].unique().to_list()))
    bare = pl.DataFrame({"device": without}).with_columns(condition=pl.lit(next(iter(trace.spans))))
    table = pl.concat([table, bare], how="diagonal")
    if set(trace.spans) == {"available"}:
        table = table.drop("condition")
    if path.suffix.lower() == ".csv":
        write_bytes(path, table.write_csv().encode())
    else:
        write_table(path, table)
