"""The participation log: the schemas of the tables that everything downstream reads, and hashes of what they say.

Numbers of rounds, clients and places have 32 bits, as the recorder keeps them; counts have 64, since sums of them may
need as many.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, TypeVar

import numpy as np
import polars as pl

from fedsim.common.files import slices
from fedsim.common.outcomes import COUNTED_OUTCOMES, SESSION_OUTCOMES
from fedsim.scenario import Scenario

ROUNDS = pl.Schema(
    {
        "round": pl.Int32,  # 0, 1, ...; with a buffered server, its versions
        "opened_s": pl.Float64,  # when the round opened, or the version began
        "selected_s": pl.Float64,  # when it selected clients, a version for the first time; null if it selected nobody
        "closed_s": pl.Float64,  # when the round closed, or the step to the next version
        "selected": pl.Int64,  # sessions that began in it
        **dict.fromkeys(COUNTED_OUTCOMES, pl.Int64),  # sessions that ended so: those of the round, or in the version
        "outcome": pl.String,  # how it ended: `ROUND_OUTCOMES`
        "eligible": pl.Int64,  # eligible clients at the (first) selection; null without `records.eligible`
    }
)
_PARTICIPATIONS: dict[str, pl.DataType | type[pl.DataType]] = {
    "round": pl.Int32,  # round, or version, of the selection
    "client": pl.Int32,  # index of the client, 0 to N - 1
    "position": pl.Int32,  # place in the order of selection, from 0
    "selected_s": pl.Float64,  # when the session began
    "ended_s": pl.Float64,  # when it ended
    "outcome": pl.Enum(list(SESSION_OUTCOMES)),  # how it ended: `SESSION_OUTCOMES`
    "gap": pl.Int32,  # rounds since the client's last participation; null at its first
}
PARTICIPATIONS = pl.Schema(_PARTICIPATIONS)
BUFFERED = pl.Schema(
    {
        **_PARTICIPATIONS,
        "version": pl.Int32,  # version that was downloaded; in logs of a buffered server only
        "staleness": pl.Int32,  # versions from download to report; null without a report; of a buffered server only
    }
)
"""Of the participations in the log of a buffered server."""
NOTED = pl.Schema(
    {
        "steps": pl.Int32,  # local steps of its training; only in logs of a server that takes partial reports
        "bytes_down": pl.Int64,  # bytes downloaded, null for plain times; only in logs with sessions from work
        "bytes_up": pl.Int64,  # bytes uploaded, null for plain times; only in logs with sessions from work
        "energy_mj": pl.Int64,  # energy in mJ, null for plain times; only in logs with sessions from work
    }
)
"""Further columns of participations: numbers that the simulation notes of a session, where `noted` says so."""
SPENT: Final = ("bytes_down", "bytes_up", "energy_mj")
"""Those that say what sessions from work took."""
CLIENTS = pl.Schema(
    {
        "client": pl.Int32,  # index of the client, 0 to N - 1
        "group": pl.String,  # name of its group
        "weight": pl.Float64,  # p_i, normalised over all clients
        "separation": pl.Int64,  # R_i
        "participations": pl.Int64,  # how often it was selected
        "frequency": pl.Float64,  # its share of all participations
        "reported": pl.Int64,  # its reports that were taken
        "pull": pl.Float64,  # w_i, its weight on the model: the mean of 1{i in S}/|S| over rounds with reports
        "pi": pl.Float64,  # pi_i, the limit of its frequency by theory; null without a theory
        "pi_method": pl.String,  # how pi was computed; null without a theory
        "cooldown_s": pl.Float64,  # its cool-down by the clock
        "speed": pl.Float64,  # how fast it is: session times are divided by it
        "time_zone": pl.String,  # its IANA time zone
    }
)
GAUGE_COUNTS = {
    "available": "available clients",
    "eligible": "clients that could be selected",
    "in_session": "clients in a session, always counted in full",
    "no_charger": "clients that are not charging (habits, and traces with conditions)",
    "no_network": "clients without an unmetered network (habits, and traces with conditions)",
    "in_use": "clients whose device is in use (habits, and traces with conditions)",
    "unavailable": "clients that are unavailable (other models)",
    "shock": "clients that a shock keeps out, or that have not joined yet",
    "cooling_down": "clients that wait for a separation or a cool-down by the clock",
    "spent": "clients that have reached their cap, or whose device has too little memory",
}
"""What the gauges count; clients are counted under each of their reasons (`fedsim.common.reasons`)."""

GAUGES = pl.Schema(
    {
        "time_s": pl.Float64,  # when the population was counted
        "group": pl.String,  # name of the group
        "time_zone": pl.String,  # IANA time zone
        **dict.fromkeys(GAUGE_COUNTS, pl.Int64),
    }
)
TRANSITIONS = pl.Schema(
    {
        "time_s": pl.Float64,  # when the condition changed
        "client": pl.Int32,  # index of the client
        "condition": pl.String,  # charging, network, idle or reachable; available without habits
        "on": pl.Boolean,  # whether it holds from then on
    }
)

_OUTCOMES_AT_FIRST = 5
"""Outcomes of sessions that came later are part of a fingerprint only where they occur, so that locks stay valid."""


def noted(scenario: Scenario) -> tuple[str, ...]:
    """Return which columns of `NOTED` the log of a scenario has."""
    return ("steps",) * scenario.server.partial + SPENT * scenario.works


_Table = TypeVar("_Table", pl.DataFrame, pl.LazyFrame, pl.DataFrame | pl.LazyFrame)


def with_staleness(participations: _Table) -> _Table:
    """Return participations with ``staleness``: 0 where the server runs rounds, whose log has no such column."""
    if "staleness" in participations.lazy().collect_schema():
        return participations
    return participations.with_columns(staleness=pl.lit(0, pl.Int32))


class Fingerprint:
    """Hashes a table with the columns of `schema` while it is read, part by part."""

    def __init__(self, schema: Mapping[str, pl.DataType]) -> None:
        self._schema, self._rows = schema, 0
        self._digests = {name: (hashlib.sha256(), hashlib.sha256()) for name in schema}
        self._words = dict.fromkeys(schema, _OUTCOMES_AT_FIRST)

    def add(self, part: pl.DataFrame) -> None:
        """Take the next rows."""
        for name, (nulls, values) in self._digests.items():
            if part[name].null_count():
                nulls.update((part[name].is_null().arg_true().to_numpy().astype(np.int64) + self._rows).data)
            _add(values, codes := part[name].to_physical(), first=not self._rows)
            if isinstance(self._schema[name], pl.Enum):
                self._words[name] = max(self._words[name], 1 + int(codes.fill_null(0).to_numpy().max(initial=0)))
        self._rows += len(part)

    def hexdigest(self) -> str:
        """Return the hash of all rows that were added, as hexadecimal digits."""
        digest = hashlib.sha256()
        for name, dtype in self._schema.items():
            kind = str(dtype)
            if isinstance(dtype, pl.Enum):
                kind = f"Enum{dtype.categories.to_list()[: self._words[name]]}"
            digest.update(f"{name}:{kind}:{self._rows}\n".encode())
            for each in self._digests[name]:
                digest.update(each.digest())
        return digest.hexdigest()


def fingerprint(table: pl.DataFrame | pl.LazyFrame) -> str:
    """Return the SHA-256 of a table's contents: names, types, nulls and values, in the order of rows.

    Unlike the bytes of a Parquet file it does not change with the version of the writer.
    """
    digest = Fingerprint(table.lazy().collect_schema())
    for part in slices(table):
        digest.add(part)
    return digest.hexdigest()


def has_fingerprint(table: pl.DataFrame | pl.LazyFrame, expected: object) -> bool:
    """Say whether a table has a fingerprint, as it is made now or as version 0.2 made it."""
    return expected == fingerprint(table) or expected == _of_0_2(table)


def _of_0_2(table: pl.DataFrame | pl.LazyFrame) -> str:
    """Return the fingerprint that version 0.2 made: column by column, first which values are null, then all values."""
    digest = hashlib.sha256()
    length = table.lazy().select(pl.len()).collect().item()
    for name, dtype in table.lazy().collect_schema().items():
        digest.update(f"{name}:{dtype}:{length}\n".encode())
        for part in slices(table, name):
            digest.update(part[name].is_null().to_numpy().data)
        for number, part in enumerate(slices(table, name)):
            _add(digest, part[name].to_physical(), first=not number)
    return digest.hexdigest()


def _add(digest: "hashlib._Hash", values: pl.Series, *, first: bool) -> None:
    """Add the values of a part of a column."""
    if values.dtype == pl.String:
        # Not by polars: 1.32 panics at the text that it made of a literal.
        digest.update(b"\0" * (not first))
        digest.update("\0".join(values.fill_null("")).encode())
    else:
        if values.dtype == pl.Boolean:  # as newer versions of polars fill it
            values = values.cast(pl.Int32)
        digest.update(np.ascontiguousarray(values.fill_null(0).to_numpy()).data)
