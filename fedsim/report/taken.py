"""What a report needs of the participations, gathered in one pass: the table itself may be too large to keep."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

SLOT = 900.0
"""Seconds into which the starts of sessions are gathered: the offset of every time zone is a multiple of it."""


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
    of_client = clients.lazy().select("client", "separation", *home)
    slot = (pl.col("selected_s") / SLOT).floor().cast(pl.Int64).alias("slot")
    started = participations.filter(pl.col("selected_s").is_not_null())
    frames = pl.collect_all(
        [
            participations.group_by("outcome").len().sort("outcome"),
            # Counted by client first: the join is then with a few rows, not with every session.
            participations.drop_nulls("gap")
            .group_by("client", "gap")
            .len()
            .join(of_client, on="client")
            .group_by("separation", "gap")
            .agg(pl.col("len").sum())
            .sort("separation", "gap"),
            started.group_by("client", slot)
            .len()
            .join(of_client, on="client")
            .group_by(*home, "slot")
            .agg(pl.col("len").sum())
            .sort(*home, "slot"),
            started.group_by("client")
            .agg(pl.col("selected_s").min().alias("first_s"))
            .select("first_s")
            .sort("first_s"),
            participations.filter(pl.col("client").is_in(list(chosen)))
            .select("client", "round", "selected_s", "ended_s", "outcome")
            .sort("client", "round"),
        ]
    )
    return Taken(*frames)
