"""What a metric sees of a run: its log, its clients, and what it needs to know about the scenario."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import polars as pl

from fedsim.analysis.available_time import AvailableTime
from fedsim.analysis.tally import Tally
from fedsim.common.row_groups import slices


@dataclass(frozen=True)
class Setting:
    """What metrics need to know about the scenario.

    Attributes
    ----------
    wanted
        Clients that a full round selects.
    start
        The instant of simulated time 0.
    groups
        The groups of the population by name, in order: how many devices live in which time zones.
    concurrency
        Places of a buffered server; None with synchronous rounds.
    privacy
        What the scenario's ``privacy`` promises, figures by name; empty without one.
    fixed_size
        Whether a full round selects exactly as many as are wanted; not so with `bernoulli` and `poisson`.
    """

    wanted: int
    start: datetime
    groups: Mapping[str, Mapping[str, int]]
    concurrency: int | None = None
    privacy: Mapping[str, float] = field(default_factory=dict)
    fixed_size: bool = True


@dataclass(frozen=True)
class LogView:
    """A run as metrics see it: all of it, or what is about one group.

    Attributes
    ----------
    rounds, gauges, clients
        Tables of the run, as polars frames. Of a group: all rounds, its own gauges and clients, whose frequencies
        add up to 1.
    setting
        Of a group: with that group alone.
    ended_s
        Simulated seconds from start to end.
    table
        All participations; `participations` reads those that are meant.
    tally
        What was tallied of those that are meant.
    first
        The first client that is meant.
    whole
        Of a group: the whole run.
    available
        The time for which devices were available, of the whole run; None where that is not known, or all of it.
    """

    rounds: pl.DataFrame
    gauges: pl.DataFrame
    clients: pl.DataFrame
    setting: Setting
    ended_s: float
    table: pl.DataFrame | pl.LazyFrame
    tally: Tally
    first: int = 0
    whole: "LogView | None" = None
    available: AvailableTime | None = None

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
