"""Staleness: by how many versions the reports of a buffered server come late."""

import numpy as np

from fedsim.analysis.metrics.metric import described
from fedsim.analysis.metrics.view import LogView
from fedsim.common.arrays import Ints


class Staleness:
    """Mean, quantiles and maximum of the staleness of all reports, discarded ones included."""

    metrics = described(
        "staleness",
        """
        mean | rounds | Versions from download to report, on average over all reports; with a buffered server.
        p50 | rounds | The same, median.
        p95 | rounds | The same, 95th percentile.
        max | rounds | The same, largest.
    """,
    )
    scope = "both"

    def measure(self, run: LogView) -> dict[str, float]:
        """Return what is said of the staleness; nothing in synchronous rounds."""
        if run.setting.concurrency is None:
            return {}
        counts: Ints = np.zeros(1, dtype=np.int64)
        for part in run.participations("staleness"):
            more = np.bincount(part["staleness"].drop_nulls().to_numpy(), minlength=len(counts))
            more[: len(counts)] += counts
            counts = more
        reports, cumulative = int(counts.sum()), np.cumsum(counts)
        if not reports:
            return {}
        return {
            "staleness.mean": float(counts @ np.arange(len(counts))) / reports,
            "staleness.p50": float(np.searchsorted(cumulative, 0.5 * reports)),
            "staleness.p95": float(np.searchsorted(cumulative, 0.95 * reports)),
            "staleness.max": float(np.flatnonzero(counts)[-1]),
        }
