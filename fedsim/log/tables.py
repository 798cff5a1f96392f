"""The schemas of the log's tables.

Numbers of rounds, clients and places have 32 bits, as the recorder keeps them; counts have 64, since sums of them may
need as many.
"""

from dataclasses import dataclass
from typing import TypeVar

import polars as pl

from fedsim.common.outcomes import COUNTED_OUTCOMES, SESSION_OUTCOMES

ROUNDS = pl.Schema(
    {
        "round": pl.Int32,
        "opened_s": pl.Float64,
        "selected_s": pl.Float64,
        "closed_s": pl.Float64,
        "selected": pl.Int64,
        **dict.fromkeys(COUNTED_OUTCOMES, pl.Int64),
        "outcome": pl.String,
        "eligible": pl.Int64,
    }
)
_PARTICIPATIONS: dict[str, pl.DataType | type[pl.DataType]] = {
    "round": pl.Int32,
    "client": pl.Int32,
    "position": pl.Int32,
    "selected_s": pl.Float64,
    "ended_s": pl.Float64,
    "outcome": pl.Enum(list(SESSION_OUTCOMES)),
    "gap": pl.Int32,
}
PARTICIPATIONS = pl.Schema(_PARTICIPATIONS)
BUFFERED = pl.Schema({**_PARTICIPATIONS, "version": pl.Int32, "staleness": pl.Int32})
"""Of the participations in the log of a buffered server."""
CLIENTS = pl.Schema(
    {
        "client": pl.Int32,
        "group": pl.String,
        "weight": pl.Float64,
        "separation": pl.Int64,
        "participations": pl.Int64,
        "frequency": pl.Float64,
        "pi": pl.Float64,
        "pi_method": pl.String,
        "cooldown_s": pl.Float64,
        "speed": pl.Float64,
        "time_zone": pl.String,
    }
)
GAUGE_COUNTS = (
    *("available", "eligible", "in_session"),
    *("no_charger", "no_network", "in_use", "unavailable", "shock", "cooling_down", "spent"),
)
"""Beside available and eligible clients and those in a session: clients by the reasons against them
(`fedsim.common.reasons`), each under all of its reasons. Separations and wall-clock cool-downs are one column."""

GAUGES = pl.Schema(
    {
        "time_s": pl.Float64,
        "group": pl.String,
        "time_zone": pl.String,
        **dict.fromkeys(GAUGE_COUNTS, pl.Int64),
    }
)
TRANSITIONS = pl.Schema({"time_s": pl.Float64, "client": pl.Int32, "condition": pl.String, "on": pl.Boolean})


_Table = TypeVar("_Table", pl.DataFrame, pl.LazyFrame, pl.DataFrame | pl.LazyFrame)


def with_staleness(participations: _Table) -> _Table:
    """Return participations with ``staleness``: 0 where the server runs rounds, whose log has no such column."""
    if "staleness" in participations.lazy().collect_schema():
        return participations
    return participations.with_columns(staleness=pl.lit(0, pl.Int32))


@dataclass(frozen=True)
class Recorded:
    """What one simulation wrote: tables with the schemas above, and the simulated time at which it ended.

    Participations are in the order of round and position, and can be larger than the memory.
    """

    rounds: pl.DataFrame
    participations: pl.DataFrame | pl.LazyFrame
    gauges: pl.DataFrame
    ended_s: float


@dataclass(frozen=True)
class Log(Recorded):
    """A log that is all in memory."""

    participations: pl.DataFrame


@dataclass(frozen=True)
class StoredLog(Recorded):
    """A log whose participations are left in their file, and scanned."""

    participations: pl.LazyFrame
