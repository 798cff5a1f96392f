"""What a report needs of a buffered server's sessions: how stale reports were, and how many ran at once."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from fedsim.report.binning import POINTS, Floats


@dataclass(frozen=True)
class BufferedSessions:
    """The sessions of a buffered server, gathered.

    Parameters
    ----------
    staleness
        ``group``, ``staleness``, ``taken``, ``discarded``: reports, by how many versions they were late.
    time_s
        Ends of equal spans of the run, the first of which begins at 0.
    running
        How many sessions ran in each span, on average.
    """

    staleness: pl.DataFrame
    time_s: Floats
    running: Floats


def gather_buffered(participations: pl.LazyFrame, clients: pl.DataFrame, simulated_s: float) -> BufferedSessions:
    """Gather the sessions.

    Parameters
    ----------
    participations
        The table of the run directory.
    clients
        The table of the same name: it has the group of each client.
    simulated_s
        Length of the run.

    Raises
    ------
    polars.exceptions.PolarsError, OSError
        The table cannot be read.
    """
    outcome = pl.col("outcome")
    stale = (
        participations.drop_nulls("staleness")
        .group_by("client", "staleness")
        .agg(taken=(outcome == "reported").sum(), discarded=(outcome == "stale").sum())
        .join(clients.lazy().select("client", "group"), on="client")
        .group_by("group", "staleness")
        .agg(pl.col("taken", "discarded").sum().cast(pl.Int64))
        .sort("group", "staleness")
    )
    width = max(simulated_s, 1e-9) / POINTS
    begun, ended = (
        participations.drop_nulls(name)
        .group_by(slot=(pl.col(name) / width).ceil().cast(pl.Int64).clip(0, POINTS))
        .agg(number=pl.len(), sum_s=pl.col(name).sum())
        for name in ("selected_s", "ended_s")
    )
    staleness, starts, ends = pl.collect_all([stale, begun, ended])
    # By time t, sessions have run sum (t - begin) - sum (t - end) seconds in all.
    time_s = width * np.arange(POINTS + 1.0)
    spent_s = _since(starts, time_s) - _since(ends, time_s)
    return BufferedSessions(staleness, time_s[1:], np.maximum(np.diff(spent_s) / width, 0.0))


def _since(table: pl.DataFrame, time_s: Floats) -> Floats:
    """Return the sum of t - instant over the instants up to each t."""
    number, sum_s = np.zeros(len(time_s)), np.zeros(len(time_s))
    slots = table["slot"].to_numpy()
    number[slots], sum_s[slots] = table["number"].to_numpy(), table["sum_s"].to_numpy()
    return np.asarray(time_s * np.cumsum(number) - np.cumsum(sum_s))
