"""Rounds: how many, how long, how many clients they found."""

import numpy as np
import polars as pl

from fedsim.analysis.metrics.metric import described
from fedsim.analysis.metrics.view import LogView, mean

_DAY_S = 86_400.0


class Rounds:
    """What is said of rounds, and of the clients that were eligible when they selected."""

    metrics = described(
        "rounds",
        """
        count | | Rounds that were opened; with a buffered server, its versions are the rounds.
        selected_mean | clients | Clients selected in a round, on average over rounds that selected any.
        reported_mean | clients | Reports taken in a round, on average over rounds that selected any.
        target_share | share | Rounds that closed because as many as `cohort` had reported.
        shortage_share | share | Synchronous rounds that waited, were skipped or went on with fewer clients than wanted.
        wait.mean | s | From the opening of a synchronous round until it selects, on average.
        wait.p95 | s | From the opening of a synchronous round until it selects, 95th percentile.
        wait.max | s | The longest time that a synchronous round waited, whether it selected in the end or not.
        waiting_share | share | Simulated time in which a synchronous round waited for clients, of all simulated time.
        duration.mean | s | From selection until the close, on average; of a version, from its beginning until its step.
        duration.p50 | s | From selection until the close, or of a version, median.
        duration.p95 | s | From selection until the close, or of a version, 95th percentile.
        per_day | 1/d | Rounds per day of simulated time.
    """,
    ) + described(
        "selection",
        """
        eligible.mean | clients | Eligible clients at selection, on average; needs records.eligible.
        eligible.min | clients | The fewest eligible clients at a selection; needs records.eligible.
    """,
    )

    def measure(self, run: LogView) -> dict[str, float]:
        """Return what the table of rounds says."""
        rounds, in_rounds = run.rounds, run.setting.concurrency is None
        metrics = {"rounds.count": float(len(rounds))}
        if run.ended_s > 0:
            metrics["rounds.per_day"] = len(rounds) / (run.ended_s / _DAY_S)
        if len(rounds):
            metrics["rounds.target_share"] = mean(rounds["outcome"] == "target")
            if in_rounds:  # a buffered server's version wants no number of clients, and need not select any
                waited = pl.col("selected_s").is_null() | (pl.col("selected_s") > pl.col("opened_s"))
                full = run.setting.wanted if run.setting.fixed_size else 0
                short = rounds.select(waited | (pl.col("selected") < full))
                metrics["rounds.shortage_share"] = mean(short.to_series())
                metrics |= _waits(rounds, run.ended_s)
        started = rounds.filter(pl.col("selected_s").is_not_null()) if in_rounds else rounds
        if len(started):
            metrics["rounds.selected_mean"] = mean(started["selected"])
            metrics["rounds.reported_mean"] = mean(started["reported"])
            if in_rounds:
                wait = (started["selected_s"] - started["opened_s"]).to_numpy()
                metrics["rounds.wait.mean"] = float(wait.mean())
                metrics["rounds.wait.p95"] = float(np.quantile(wait, 0.95))
            duration = (started["closed_s"] - started["selected_s" if in_rounds else "opened_s"]).to_numpy()
            metrics["rounds.duration.mean"] = float(duration.mean())
            metrics["rounds.duration.p50"] = float(np.quantile(duration, 0.5))
            metrics["rounds.duration.p95"] = float(np.quantile(duration, 0.95))
            if not started["eligible"].null_count():
                eligible = started["eligible"].to_numpy()
                metrics["selection.eligible.mean"] = float(eligible.mean())
                metrics["selection.eligible.min"] = float(eligible.min())
        return metrics


def _waits(rounds: pl.DataFrame, ended_s: float) -> dict[str, float]:
    """Return the longest wait, and the share of the time that waits took; one that never ended lasts to its close."""
    over_s = pl.coalesce(pl.col("selected_s"), pl.col("closed_s"), pl.lit(ended_s))
    wait = rounds.select(over_s - pl.col("opened_s")).to_series().to_numpy()
    metrics = {"rounds.wait.max": float(wait.max())}
    if ended_s > 0:
        metrics["rounds.waiting_share"] = min(1.0, float(wait.sum()) / ended_s)
    return metrics
