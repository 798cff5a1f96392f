"""What only a buffered server has: versions per hour, and how full its places are."""

import math

from fedsim.analysis.metrics.metric import described
from fedsim.analysis.metrics.view import LogView

_HOUR_S = 3600.0


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
        spent_s = [
            float((part["ended_s"] - part["selected_s"]).to_numpy().sum())
            for part in run.participations("selected_s", "ended_s")
        ]
        return {
            "versions.per_hour": steps / (run.ended_s / _HOUR_S),
            "concurrency.utilisation": math.fsum(spent_s) / (concurrency * run.ended_s),
        }
