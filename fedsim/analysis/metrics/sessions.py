"""Sessions: how many, how they ended, and what device time was wasted."""

import math

from fedsim.analysis.metrics.metric import described
from fedsim.analysis.metrics.view import LogView
from fedsim.log.tables import SESSION_OUTCOMES

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
        count, outcomes = 0, dict.fromkeys(SESSION_OUTCOMES, 0)
        spent_s, wasted_s = [0.0], [0.0]
        for part in run.participations("outcome", "selected_s", "ended_s"):
            count += len(part)
            for outcome in SESSION_OUTCOMES:
                outcomes[outcome] += int((part["outcome"] == outcome).sum())
            spent = (part["ended_s"] - part["selected_s"]).to_numpy()
            spent_s.append(float(spent.sum()))
            wasted_s.append(float(spent[(part["outcome"] != "reported").to_numpy()].sum()))
        metrics = {"sessions.count": float(count), "sessions.device_hours": math.fsum(spent_s) / _HOUR_S}
        if count:
            metrics |= {f"sessions.{outcome}_share": number / count for outcome, number in outcomes.items()}
            if math.fsum(spent_s) > 0:
                metrics["sessions.wasted_share"] = math.fsum(wasted_s) / math.fsum(spent_s)
        return metrics
