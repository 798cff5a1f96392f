"""The schemas of the log's tables, and the words that stand in their outcome columns."""

from dataclasses import dataclass

import polars as pl

SESSION_OUTCOMES = ("reported", "dropped", "late", "aborted", "stale")
"""How a session ends: its report was taken; the device became unavailable; the report came after the deadline; the
round closed first, or the run was stopped; a buffered server found the report too stale and discarded it."""

ROUND_OUTCOMES = ("target", "deadline", "exhausted", "skipped", "stopped")
"""How a round closes: enough reports; the deadline; nobody left who could report; too few eligible clients under
``shortage: skip``; the run's duration was over. The versions of a buffered server are rounds in this sense."""

ROUNDS = pl.Schema(
    {
        "round": pl.Int64,
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
PARTICIPATIONS = pl.Schema(
    {
        "round": pl.Int64,
        "client": pl.Int64,
        "position": pl.Int64,
        "selected_s": pl.Float64,
        "ended_s": pl.Float64,
        "outcome": pl.String,
        "gap": pl.Int64,
        "version": pl.Int64,
        "staleness": pl.Int64,
    }
)
CLIENTS = pl.Schema(
    {
        "client": pl.Int64,
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
TRANSITIONS = pl.Schema({"time_s": pl.Float64, "client": pl.Int64, "condition": pl.String, "on": pl.Boolean})


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
