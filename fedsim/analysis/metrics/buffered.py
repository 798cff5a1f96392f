"""What only a buffered server has: how late reports come, versions per hour, and how full its places are."""

import numpy as np

from fedsim.analysis.metrics.metric import described
from fedsim.analysis.metrics.view import LogView

_HOUR_S = 3600.0


class Staleness:
    """Mean, quantiles and maximum of the staleness of all reports, discarded ones included."""

    metrics = described(
        "staleness",
        """
        mean | rounds | Versions from download to report, on average over all reports; with a buffered server.
        p50 | rounds | Versions from download to report, median.
        p95 | rounds | Versions from download to report, 95th percentile.
        max | rounds | Versions from download to report, largest.
    """,
    )
    scope = "both"

    def measure(self, run: LogView) -> dict[str, float]:
        """Return what is said of the staleness; nothing in synchronous rounds."""
        if run.setting.concurrency is None:
            return {}
        counts = run.tally.staleness
        reports, cumulative = int(counts.sum()), np.cumsum(counts)
        if not reports:
            return {}
        return {
            "staleness.mean": float(counts @ np.arange(len(counts))) / reports,
            "staleness.p50": float(np.searchsorted(cumulative, 0.5 * reports)),
            "staleness.p95": float(np.searchsorted(cumulative, 0.95 * reports)),
            "staleness.max": float(np.flatnonzero(counts)[-1]),
        }


class Places:
    """How fast versions went by, and how many of the places were taken, on average over time."""

    metrics = described(
        "",
        """
        versions.per_hour | 1/h | Steps that a buffered server makes per hour of simulated time.
        concurrency.utilisation | share | Places of a buffered server that are taken, on average over time.
    """,
    )

    def measure(self, run: LogView) -> dict[str, float]:
        """Return both; nothing in synchronous rounds, or where no time passed."""
        concurrency = run.setting.concurrency
        if concurrency is None or run.ended_s <= 0:
            return {}
        steps = int((run.rounds["outcome"] == "target").sum())
        return {
            "versions.per_hour": steps / (run.ended_s / _HOUR_S),
            "concurrency.utilisation": run.tally.spent_s / (concurrency * run.ended_s),
        }
