"""Two examples, chosen by rules before the log is read: a round of median length, and a week of a median device.

Series ``round`` has sessions of the round, in the order in which they end; ``week`` when each condition of the device
held (``what`` is its name), and when it was in a ``session`` or in its ``cool-down``, in the first week.
"""

import numpy as np
import polars as pl

from fedsim.common.instants import DAY_S
from fedsim.log import PARTICIPATIONS
from fedsim.log.journal import AnyLog
from fedsim.measure.frequencies import AvailableTime
from fedsim.run.federation import PreparedFederation
from fedsim.simulation import transitions_table
from fedsim.simulation.cooldowns import free_round

SESSIONS = 60  # of the round that are kept, evenly spaced
SESSION, COOL_DOWN = "session", "cool-down"
_KEPT = ("round", "client", "selected_s", "ended_s", "outcome")


class Examples:
    """Takes the participations of both examples out of the parts of a log."""

    def __init__(self, federation: PreparedFederation, log: AnyLog, available: AvailableTime | None) -> None:
        self._federation, self._log = federation, log
        server, self._until_s = federation.scenario.server, min(log.ended_s, 7 * DAY_S)
        self._round, self._client = -1, -1
        if not server.selects_once or federation.scenario.log is not None:
            return
        rounds = log.rounds.filter(pl.col("closed_s").is_finite(), pl.col("selected") > 0)
        length = (rounds["closed_s"] - rounds["opened_s"]).to_numpy()
        if len(length):
            able = np.flatnonzero(length == np.quantile(length, 0.5, method="inverted_cdf"))
            self._round = int(rounds["round"][int(able[len(able) // 2])])
        if available is not None and log.ended_s >= DAY_S:
            order = np.argsort(available.share, kind="stable")
            self._client = int(available.clients[order[len(order) // 2]])
        nothing = pl.DataFrame(schema=PARTICIPATIONS).select(_KEPT)
        self._parts = {"round": [nothing], "client": [nothing]}

    def add(self, part: pl.DataFrame) -> None:
        """Take the next participations."""
        for name, which in (("round", self._round), ("client", self._client)):
            if which >= 0:
                self._parts[name].append(part.filter(pl.col(name) == which).select(_KEPT))

    def series(self) -> dict[str, pl.DataFrame]:
        """Return ``round`` and ``week``, as far as there are any."""
        series = dict[str, pl.DataFrame]()
        if self._round >= 0:
            sessions = pl.concat(self._parts["round"]).with_columns(pl.col("outcome").cast(pl.String))
            sessions = sessions.sort("ended_s", "outcome", maintain_order=True)
            at = np.unique(np.linspace(0, len(sessions) - 1, min(len(sessions), SESSIONS)).astype(np.int64))
            series["round"] = sessions[at]
        if self._client >= 0:
            series["week"] = self._week(pl.concat(self._parts["client"]))
        return series

    def _week(self, sessions: pl.DataFrame) -> pl.DataFrame:
        scenario, until_s, client = self._federation.scenario, self._until_s, self._client
        parts = scenario, self._federation.population, [client], until_s
        changes = transitions_table(*parts, self._federation.replicate, self._federation.devices)
        held = changes.with_columns(end_s=pl.col("time_s").shift(-1).over("condition")).filter("on")
        rows = held.select(what=pl.col("condition"), start_s="time_s", end_s="end_s")
        ran = sessions.select(what=pl.lit(SESSION), start_s="selected_s", end_s="ended_s")
        rests = self._cool_downs(sessions).select(what=pl.lit(COOL_DOWN), start_s="start_s", end_s="end_s")
        every = pl.concat([rows, ran, rests]).filter(pl.col("start_s") < until_s)
        ends = pl.col("end_s").fill_null(until_s).clip(upper_bound=until_s)
        return every.select(pl.lit(client).alias("client"), "what", "start_s", end_s=ends)

    def _cool_downs(self, sessions: pl.DataFrame) -> pl.DataFrame:
        """Return when cool-downs keep the device out: by the clock, and until the round that its separation names."""
        population, server, client = self._federation.population, self._federation.scenario.server, self._client
        selected = server.cooldown_from == "selected"
        began = sessions if selected else sessions.filter(outcome="reported")
        release = free_round(server, population.separation[[client]], began["round"].to_numpy())
        starts = began["selected_s" if selected else "ended_s"]
        rests = pl.DataFrame({"start_s": starts, "release": release}, schema_overrides={"release": pl.Int64})
        opened = self._log.rounds.select(release=pl.col("round").cast(pl.Int64), opened_s="opened_s")
        clock = pl.col("start_s") + float(population.cooldown_s[client])
        ends = pl.max_horizontal(pl.col("opened_s").fill_null(self._until_s), clock)
        rests = rests.join(opened, on="release", how="left").with_columns(end_s=ends)
        return rests.filter(pl.col("end_s") > pl.col("start_s"))
