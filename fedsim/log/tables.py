"""The schemas of the log's tables, and the words that stand in their outcome columns.

Numbers of rounds, clients and places have 32 bits, as the recorder keeps them; counts have 64, since sums of them may
need as many.
"""

from dataclasses import dataclass
from typing import TypeVar

import polars as pl

SESSION_OUTCOMES = ("reported", "dropped", "late", "aborted", "stale")
"""How a session ends: its report was taken; the device became unavailable; the report came after the deadline; the
round closed first, or the run was stopped; a buffered server found the report too stale and discarded it."""

ROUND_OUTCOMES = ("target", "deadline", "exhausted", "skipped", "stopped")
"""How a round closes: enough reports; the deadline; nobody left who could report; too few eligible clients under
``shortage: skip``; the run's duration was over. The versions of a buffered server are rounds in this sense."""

ROUNDS = pl.Schema(
    {
        "round": pl.Int32,
        "opened_s": pl.Float64,
        "selected_s": pl.Float64,
        "closed_s": pl.Float64,
        "selected": pl.Int64,
        "reported": pl.Int64,
        "dropped": pl.Int64,
        "late": pl.Int64,
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
    "outcome": pl.Enum(SESSION_OUTCOMES),
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
"""What the gauges count, beside those who are available, eligible or in a session: the clients against whom a reason
stands (`fedsim.common.reasons`), one client under each of its reasons. Cooling down are those whom their separation or
their wall-clock cool-down keeps out."""

GAUGES = pl.Schema(
    {
        "time_s": pl.Float64,
        "group": pl.String,
        "time_zone": pl.String,
        **dict.fromkeys(GAUGE_COUNTS, pl.Int64),
    }
)
TRANSITIONS = pl.Schema({"time_s": pl.Float64, "client": pl.Int32, "condition": pl.String, "on": pl.Boolean})


Table = TypeVar("Table", pl.DataFrame, pl.LazyFrame, pl.DataFrame | pl.LazyFrame)


def with_staleness(participations: Table) -> Table:
    """Return participations with ``staleness``: 0 where the server runs rounds, whose log has no such column."""
    if "staleness" in participations.lazy().collect_schema():
        return participations
    return participations.with_columns(staleness=pl.lit(0, pl.Int32))


@dataclass(frozen=True)
class Recorded:
    """What one simulation wrote; the participations can be larger than the memory.

    Attributes
    ----------
    rounds, participations, gauges
        Tables with the schemas above; participations in the order of round and position.
    ended_s
        Simulated time at which the run ended.
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
