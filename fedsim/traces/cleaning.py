"""From an imported trace to the one that is used: take a part, close short gaps, drop short intervals, write it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from fedsim.availability.trace.rows import CleanTrace, TraceError
from fedsim.availability.trace.unions import RESOLUTION_S, Spans, clip, union
from fedsim.common.files import write_bytes, write_table


@dataclass(frozen=True)
class Cleaning:
    """What to do with a trace, in this order, for each condition; all in seconds.

    Keep the part from `since` to `until` from the base and cut what reaches beyond it; close gaps shorter than
    `join_gaps`; then drop intervals shorter than `min_length`.
    """

    since: float | None = None
    until: float | None = None
    join_gaps: float = 0.0
    min_length: float = 0.0

    def apply(self, trace: CleanTrace) -> CleanTrace:
        """Return the cleaned trace with all devices, its report extended by what was done.

        Raises
        ------
        TraceError
            If nothing is left.
        """
        since, until = -np.inf if self.since is None else self.since, np.inf if self.until is None else self.until
        before = _count(trace.spans.values())
        part = {name: clip(spans, since, until) for name, spans in trace.spans.items()}
        inside = _count(part.values())
        joined = {name: _joined(spans, max(self.join_gaps, RESOLUTION_S)) for name, spans in part.items()}
        whole = _count(joined.values())
        long = {name: _at_least(spans, self.min_length) for name, spans in joined.items()}
        left = {name: spans for name, spans in long.items() if len(spans.starts)}
        if not left:
            lacking = "is long enough" if inside else "lies in the part that is kept"
            raise TraceError(f"leaves nothing: none of the {inside or before:,} intervals {lacking}")
        has = np.zeros(len(trace.names), dtype=np.bool_)
        for spans in left.values():
            has |= np.diff(spans.offsets) > 0
        report = replace(
            trace.report,
            intervals=_count(left.values()),
            devices=int(has.sum()),
            devices_without=int((~has).sum()),
            outside=before - inside,
            gaps=inside - whole,
            short=whole - _count(left.values()),
        )
        return CleanTrace(trace.names, left, report)


def _count(parts: Iterable[Spans]) -> int:
    return sum(len(spans.starts) for spans in parts)


def _joined(spans: Spans, shortest: float) -> Spans:
    return union(spans.devices, spans.starts, spans.ends, len(spans), shortest)[0]


def _at_least(spans: Spans, shortest: float) -> Spans:
    keep = spans.ends - spans.starts >= shortest
    return union(spans.devices[keep], spans.starts[keep], spans.ends[keep], len(spans))[0]


def write_trace(path: Path, trace: CleanTrace) -> None:
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
