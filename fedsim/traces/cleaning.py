"""What people do to a trace before they use it: take a part, close short gaps, drop short intervals."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from fedsim.availability.trace.faults import RESOLUTION_S, TraceError
from fedsim.availability.trace.rows import Trace
from fedsim.availability.trace.unions import Spans, clip, union


@dataclass(frozen=True)
class Cleaning:
    """What to do with a trace, in this order; condition by condition.

    Attributes
    ----------
    since, until
        The part that is kept, in seconds from the base; what reaches beyond it is cut.
    join_gaps
        Gaps shorter than this many seconds are closed.
    min_length
        Intervals shorter than this many seconds are dropped after that.
    """

    since: float | None = None
    until: float | None = None
    join_gaps: float = 0.0
    min_length: float = 0.0

    def apply(self, trace: Trace) -> Trace:
        """Return what is left, with all devices, and with what was done added to its report.

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
        return Trace(trace.names, left, report)


def _count(parts: Iterable[Spans]) -> int:
    return sum(len(spans.starts) for spans in parts)


def _joined(spans: Spans, shortest: float) -> Spans:
    return union(spans.devices, spans.starts, spans.ends, len(spans), shortest)[0]


def _at_least(spans: Spans, shortest: float) -> Spans:
    keep = spans.ends - spans.starts >= shortest
    return union(spans.devices[keep], spans.starts[keep], spans.ends[keep], len(spans))[0]
