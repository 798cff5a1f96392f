"""The schemas of the log's tables, and the words that stand in their outcome columns."""

from dataclasses import dataclass
from typing import Protocol

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
GAUGES = pl.Schema(
    {
        "time_s": pl.Float64,
        "group": pl.String,
        "time_zone": pl.String,
        "available": pl.Int64,
        "eligible": pl.Int64,
        "in_session": pl.Int64,
    }
)
TRANSITIONS = pl.Schema({"time_s": pl.Float64, "client": pl.Int64, "condition": pl.String, "on": pl.Boolean})


@dataclass(frozen=True)
class Log:
    """What one simulation wrote.

    Attributes
    ----------
    rounds, participations, gauges
        Tables with the schemas above; participations in the order of round and position.
    ended_s
        Simulated time at which the run ended.
    """

    rounds: pl.DataFrame
    participations: pl.DataFrame
    gauges: pl.DataFrame
    ended_s: float


@dataclass(frozen=True)
class StoredLog:
    """A log whose participations are left in their file.

    Attributes
    ----------
    rounds, gauges, ended_s
        As of a `Log`.
    participations
        A scan of the file.
    """

    rounds: pl.DataFrame
    participations: pl.LazyFrame
    gauges: pl.DataFrame
    ended_s: float


class Recorded(Protocol):
    """A `Log` or a `StoredLog`: the participations can be larger than the memory."""

    @property
    def rounds(self) -> pl.DataFrame:
        """Table with the schema `ROUNDS`."""
        ...

    @property
    def participations(self) -> pl.DataFrame | pl.LazyFrame:
        """Table with the schema `PARTICIPATIONS`, in the order of round and position."""
        ...

    @property
    def gauges(self) -> pl.DataFrame:
        """Table with the schema `GAUGES`."""
        ...

    @property
    def ended_s(self) -> float:
        """Simulated time at which the run ended."""
        ...
