"""What a report needs of the participations, gathered in one pass: the table itself may be too large to keep."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import polars as pl

from fedsim.log import slices

SLOT = 900.0
"""Seconds into which the starts of sessions are gathered: the offset of every time zone is a multiple of it."""

_NEEDED = ("client", "round", "selected_s", "ended_s", "outcome", "gap")


@dataclass(frozen=True)
class Taken:
    """The participations, gathered.

    Parameters
    ----------
    outcomes
        ``outcome``, ``len``: how sessions ended.
    gaps
        ``separation``, ``gap``, ``len``: rounds since a client's last participation, by its R.
    starts
        ``group``, ``time_zone`` (where the clients have one), ``slot``, ``len``: sessions begun, by the number of the
        quarter of an hour since the start.
    firsts
        ``first_s``: when each client that took part did so first, in ascending order.
    chosen
        ``client``, ``round``, ``selected_s``, ``ended_s``, ``outcome``: all sessions of the clients asked for.
    """

    outcomes: pl.DataFrame
    gaps: pl.DataFrame
    starts: pl.DataFrame
    firsts: pl.DataFrame
    chosen: pl.DataFrame


def gather(participations: pl.LazyFrame, clients: pl.DataFrame, chosen: Sequence[int]) -> Taken:
    """Gather the participations.

    Parameters
    ----------
    participations
        The table of the run directory.
    clients
        The table of the same name: it has the group and the separation of each client.
    chosen
        Clients whose sessions are wanted one by one.

    Raises
    ------
    polars.exceptions.PolarsError, OSError
        The table cannot be read.
    """
    home = [name for name in ("group", "time_zone") if name in clients.columns]
    of_client = clients.select("client", "separation", *home)
    parts = slices(participations, *_NEEDED)
    sums: list[pl.DataFrame] = []
    # An empty part first, so that there are tables, with their types, however few participations there are.
    for part in chain([participations.select(_NEEDED).head(0).collect()], parts):
        known, started = part.join(of_client, on="client"), pl.col("selected_s").is_not_null()
        slot = (pl.col("selected_s") / SLOT).floor().cast(pl.Int64).alias("slot")
        more = [
            part.group_by("outcome").len(),
            known.drop_nulls("gap").group_by("separation", "gap").len(),
            known.filter(started).group_by(*home, slot).len(),
            part.filter(started).group_by("client").agg(pl.col("selected_s").min().alias("first_s")),
            part.filter(pl.col("client").is_in(list(chosen))).select(_NEEDED[:-1]),
        ]
        both = [pl.concat(pair) for pair in zip(sums, more, strict=True)] if sums else more
        sums = [
            *(table.group_by(table.columns[:-1]).agg(pl.col("len").sum()) for table in both[:3]),
            both[3].group_by("client").agg(pl.col("first_s").min()),
            both[4],
        ]
    outcomes, gaps, starts, firsts, sessions = sums
    return Taken(
        outcomes.sort("outcome"),
        gaps.sort("separation", "gap"),
        starts.sort(*home, "slot"),
        firsts.select("first_s").sort("first_s"),
        sessions.sort("client", "round"),
    )
