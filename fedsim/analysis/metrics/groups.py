"""How the participations are shared out among the groups."""

import math

from fedsim.analysis.metrics.metric import described
from fedsim.analysis.metrics.view import LogView


class GroupShares:
    """A group's share of all participations, measured and predicted."""

    metrics = described(
        "",
        """
        share | share | Share of all participations that went to the group.
        share_theory | share | That share as theory predicts it.
        ratio | | That share over the group's share of the devices: 1 is even.
    """,
    )
    scope = "groups"

    def measure(self, run: LogView) -> dict[str, float]:
        """Return the shares of one group."""
        assert run.whole is not None
        everyone, metrics = run.whole.clients, dict[str, float]()
        if total := int(everyone["participations"].sum()):
            metrics["share"] = int(run.clients["participations"].sum()) / total
            metrics["ratio"] = metrics["share"] / (len(run.clients) / len(everyone))
        if not run.clients["pi"].null_count():
            metrics["share_theory"] = math.fsum(run.clients["pi"].to_list())
        return metrics
