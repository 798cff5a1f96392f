"""Sessions: how many, how they ended, and what device time was wasted."""

from fedsim.analysis.metrics.metric import described
from fedsim.analysis.metrics.view import LogView

_HOUR_S = 3600.0


class Sessions:
    """What is said of sessions."""

    metrics = described(
        "sessions",
        """
        count | | Sessions, which is to say participations.
        device_hours | h | Time that devices spent in sessions, useful or not.
        reported_share | share | Sessions whose report was taken.
        dropped_share | share | Sessions whose device became unavailable.
        late_share | share | Sessions that reported after the deadline.
        stale_share | share | Sessions whose report came more than max_staleness versions late and was discarded.
        aborted_share | share | Sessions that the server ended because the round had closed.
        wasted_share | share | Device time in sessions whose report was not taken, of all device time in sessions.
    """,
    )
    scope = "both"

    def measure(self, run: LogView) -> dict[str, float]:
        """Return shares of the sessions by outcome, and of device time."""
        told = run.tally
        metrics = {"sessions.count": float(told.count), "sessions.device_hours": told.spent_s / _HOUR_S}
        if told.count:
            metrics |= {f"sessions.{outcome}_share": number / told.count for outcome, number in told.outcomes.items()}
            if told.spent_s > 0:
                metrics["sessions.wasted_share"] = told.wasted_s / told.spent_s
        return metrics
