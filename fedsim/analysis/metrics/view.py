"""What a metric sees of a run: its log, its clients, and what it needs to know about the scenario."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import polars as pl

from fedsim.analysis.available_time import AvailableTime
from fedsim.analysis.tally import Tally
from fedsim.common.files import slices


@dataclass(frozen=True)
class Setting:
    """What metrics need to know about the scenario."""

    wanted: int  # clients that a full round selects
    start: datetime  # the instant of simulated time 0
    groups: Mapping[str, Mapping[str, int]]  # of the population, in order: how many devices live in which time zones
    concurrency: int | None = None  # places of a buffered server; None with synchronous rounds
    privacy: Mapping[str, float] = field(default_factory=dict)  # what the scenario's `privacy` promises, by name
    fixed_size: bool = True  # whether `wanted` is exact, and not an average as with `bernoulli` and `poisson`


@dataclass(frozen=True)
class LogView:
    """A run as metrics see it: all of it, or what is about one group.

    A group has all rounds, its own gauges and clients, whose frequencies add up to 1, and a setting with that group
    alone.
    """

    rounds: pl.DataFrame
    gauges: pl.DataFrame
    clients: pl.DataFrame
    setting: Setting
    ended_s: float  # simulated seconds from start to end
    table: pl.DataFrame | pl.LazyFrame  # all participations; `participations` reads those of the view
    tally: Tally  # of the participations of the view
    first: int = 0  # index of the first client of the view
    whole: "LogView | None" = None  # of a group: the whole run
    available: AvailableTime | None = None  # of the whole run; None where that is not known, or all of the time

    def participations(self, *columns: str) -> Iterator[pl.DataFrame]:
        """Yield ``client`` and other columns of the participations in order, some rows at a time.

        They may be larger than the memory. The clients of a group count from its first one.
        """
        for part in slices(self.table, *dict.fromkeys([*columns, "client"])):
            own = part["client"].is_between(self.first, self.first + len(self.clients) - 1)
            kept = part if own.all() else part.filter(own)
            yield kept.with_columns(pl.col("client") - self.first) if self.first else kept

    def of_group(self, group: str, tally: Tally) -> "LogView":
        """Return the view of one group, of which this was tallied."""
        own = self.clients.filter(group=group)
        relative = own.with_columns(frequency=pl.col("participations") / max(int(own["participations"].sum()), 1))
        return replace(
            self,
            gauges=self.gauges.filter(group=group),
            clients=relative,
            setting=replace(self.setting, groups={group: self.setting.groups[group]}),
            tally=tally,
            first=int(own["client"][0]),
            whole=self,
            available=None,
        )


def mean(column: pl.Series) -> float:
    """Return the mean, the same to the last bit on every run: polars may sum in parallel parts."""
    return float(column.to_numpy().mean())
