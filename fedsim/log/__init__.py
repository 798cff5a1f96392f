"""The participation log: the schemas of the tables that everything downstream reads, and hashes of what they say.

Numbers of rounds, clients and places have 32 bits, as the recorder keeps them; counts have 64, since sums of them may
need as many.
"""

import hashlib
from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import polars as pl

from fedsim.common.files import slices
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
        "reported": pl.Int64,
        "pull": pl.Float64,
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
    {"time_s": pl.Float64, "group": pl.String, "time_zone": pl.String, **dict.fromkeys(GAUGE_COUNTS, pl.Int64)}
)
TRANSITIONS = pl.Schema({"time_s": pl.Float64, "client": pl.Int32, "condition": pl.String, "on": pl.Boolean})

_OUTCOMES_AT_FIRST = 5
"""Outcomes of sessions that came later are part of a fingerprint only where they occur, so that locks stay valid."""

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
    found = Fingerprint(table.lazy().collect_schema())
    for part in slices(table):
        found.add(part)
    return found.hexdigest()


def says(table: pl.DataFrame | pl.LazyFrame, known: object) -> bool:
    """Say whether a table has a fingerprint, as it is made now or as version 0.2 made it."""
    return known == fingerprint(table) or known == _of_0_2(table)


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
        joined: bytes = values.fill_null("").str.join("\0").cast(pl.Binary).item()
        digest.update(b"\0" * (not first))
        digest.update(joined)
    else:
        if values.dtype == pl.Boolean:  # as newer versions of polars fill it
            values = values.cast(pl.Int32)
        digest.update(np.ascontiguousarray(values.fill_null(0).to_numpy()).data)
