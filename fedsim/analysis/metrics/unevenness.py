"""How unevenly clients take part over windows of P rounds, as Wang and Ji have it; measured where a scenario asks."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from fedsim.analysis.metrics.metric import Metric
from fedsim.analysis.metrics.view import LogView
from fedsim.analysis.unevenness import recommended_interval, unevenness

_Interval = Annotated[int, Field(ge=1)]


class UnevennessMetrics:
    """The unevenness over windows of `intervals` rounds each and, with `recommend`, the length that is recommended."""

    def __init__(
        self,
        *,
        intervals: Annotated[Sequence[_Interval], Field(min_length=1, max_length=100)] = (1, 10, 100),
        recommend: bool = True,
    ) -> None:
        self.intervals, self.recommend = sorted(set(intervals)), recommend
        apart = "Squared distance of the clients' shares in windows of {} rounds from 1/N, on average."
        by_chance = "The same if all rounds chose as many clients uniformly and independently."
        self.metrics: list[Metric] = []
        for interval in self.intervals:
            self.metrics.append(Metric(f"unevenness.{interval}", "", apart.format(interval)))
            self.metrics.append(Metric(f"unevenness.{interval}.chance", "", by_chance))
        whole = "The same with all rounds as one window: what no window takes away."
        self.metrics.append(Metric("unevenness.long_run", "", whole))
        if recommend:
            best = "Shortest windows from which longer ones gain only what averaging independent windows gains."
            self.metrics.append(Metric("unevenness.recommended_interval", "rounds", best))

    def measure(self, run: LogView) -> dict[str, float]:
        """Return those that have samples: a whole window, and enough of the length that is recommended."""
        clients = len(run.clients)
        found = unevenness(run.table, clients, self.intervals)
        metrics: dict[str, float] = {}
        for place, interval in enumerate(found.intervals.tolist()):
            if found.windows[place]:
                metrics[f"unevenness.{interval}"] = float(found.values[place])
                metrics[f"unevenness.{interval}.chance"] = float(found.chance[place])
        if found.rounds:
            metrics["unevenness.long_run"] = found.long_run
        if self.recommend and (best := recommended_interval(run.rounds, run.table, clients)) is not None:
            metrics["unevenness.recommended_interval"] = float(best)
        return metrics
