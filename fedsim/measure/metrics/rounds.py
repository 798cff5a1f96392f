"""Rounds and sessions: how many, how long, how they ended; of a buffered server also versions, staleness, places."""

import numpy as np
import polars as pl

from fedsim.common.instants import DAY_S, HOUR_S
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.measure.metrics.metric import Measure, RunPart, described, mean
from fedsim.measure.series import EqualSpans


class RoundMetrics:
    """What is said of rounds, and of the clients that were eligible when they selected."""

    metrics = described("""
        rounds.count | | Rounds that were opened; with a buffered server, its versions are the rounds. # needs: rounds
        rounds.selected_mean | clients | Clients selected in a round, on average over rounds that selected any. # needs: rounds
        rounds.reported_mean | clients | Reports taken in a round, on average over rounds that selected any. # needs: rounds
        rounds.target_share | share | Rounds that closed because as many as `cohort` had reported. # better: higher; label: rounds with all the reports they wanted; needs: rounds
        rounds.failed_share | share | Rounds that failed: too few reported (minimum_reports) or stayed (secure_aggregation). # better: lower; needs: rounds
        rounds.shortage_share | share | Synchronous rounds that waited, were skipped or went on with fewer clients than wanted. # better: lower; label: rounds short of clients; needs: opened; short: rounds short
        rounds.wait.mean | s | From the opening of a synchronous round until it selects, on average. # better: lower; label: mean wait for clients; needs: opened
        rounds.wait.p95 | s | From the opening of a synchronous round until it selects, 95th percentile. # better: lower; label: 95th percentile of waits for clients; needs: opened
        rounds.wait.max | s | The longest time that a synchronous round waited, whether it selected in the end or not. # better: lower; needs: opened
        rounds.waiting_share | share | Simulated time in which a synchronous round waited for clients, of all simulated time. # better: lower; needs: opened; label: time that rounds wait for clients
        rounds.duration.mean | s | From selection until the close, on average; of a version, from its beginning until its step. # better: lower; needs: rounds
        rounds.duration.p50 | s | From selection until the close, or of a version, median. # better: lower; label: median length of a round; needs: rounds; short: round length
        rounds.duration.p95 | s | From selection until the close, or of a version, 95th percentile. # better: lower; label: 95th percentile of lengths of rounds; needs: rounds
        rounds.per_day | 1/d | Rounds per day of all simulated time, of which the last day may be a part. # better: higher; label: rounds per simulated day; needs: rounds
        updates.per_day | 1/d | Model updates per day of all simulated time, of which the last day may be a part: rounds that took a report, or full versions of a buffered server. # better: higher; label: model updates per simulated day; needs: rounds
        reports.per_day | 1/d | Reports taken per day of all simulated time, of which the last day may be a part. # better: higher; label: reports taken per simulated day
        reports.wanted | | Reports that a full round takes, or a version of a buffered server. # needs: rounds
        selection.eligible.mean | clients | Eligible clients at selection, on average; needs records.eligible.
        selection.eligible.min | clients | The fewest eligible clients at a selection; needs records.eligible.
    """)  # noqa: E501

    def measure(self, run: RunPart) -> dict[str, Measure]:
        """Return what the table of rounds says."""
        rounds, in_rounds = run.rounds, run.setting.concurrency is None
        metrics: dict[str, Measure] = {"rounds.count": float(len(rounds)), "reports.wanted": float(run.setting.update)}
        if run.ended_s > 0:
            metrics["rounds.per_day"] = len(rounds) / (run.ended_s / DAY_S)
            metrics["updates.per_day"] = _per_day(run, run.updates)
            metrics["reports.per_day"] = _per_day(run, rounds["reported"])
        if len(rounds):
            metrics["rounds.target_share"] = mean(rounds["outcome"] == "target")
            if in_rounds:  # a buffered server's version wants no number of clients, and need not select any
                waited = pl.col("selected_s").is_null() | (pl.col("selected_s") > pl.col("opened_s"))
                full = run.setting.wanted if run.setting.fixed_size else 0
                metrics["rounds.failed_share"] = mean(rounds["outcome"] == "failed")
                short = rounds.select(waited | (pl.col("selected") < full))
                metrics["rounds.shortage_share"] = mean(short.to_series())
                metrics |= _waits(rounds, run.ended_s)
        started = rounds.filter(pl.col("selected_s").is_not_null()) if in_rounds else rounds
        if len(started):
            metrics["rounds.selected_mean"] = mean(started["selected"])
            metrics["rounds.reported_mean"] = mean(started["reported"])
            if in_rounds:
                metrics |= _spread("rounds.wait", started["selected_s"] - started["opened_s"], p95=0.95)
            duration = started["closed_s"] - started["selected_s" if in_rounds else "opened_s"]
            metrics |= _spread("rounds.duration", duration, p50=0.5, p95=0.95)
            if not started["eligible"].null_count():
                metrics |= _spread("selection.eligible", started["eligible"], min=0.0)
        return metrics


_OF_OUTCOMES = "\n".join(
    f"sessions.{name}_share | share | Sessions {each.sessions}. # better: {'higher' if name == 'reported' else 'lower'}"
    for name, each in SESSION_OUTCOMES.items()
)


class Sessions:
    """What is said of sessions."""

    metrics = described(f"""
        sessions.count | | Sessions, which is to say participations. # label: sessions
        sessions.device_hours | h | Time that devices spent in sessions, useful or not. # better: lower; label: device-hours
        {_OF_OUTCOMES}
        sessions.wasted_share | share | Device time in sessions whose report was not taken, of all device time in sessions. # better: lower; short: wasted device time
        sessions.steps_mean | | Local steps of a report that was taken, on average; where the server takes partial reports. # better: higher; label: local steps of a report
    """)  # noqa: E501
    scope = "both"

    def measure(self, run: RunPart) -> dict[str, float]:
        """Return shares of the sessions by outcome, and of device time."""
        counted = run.counted
        metrics = {"sessions.count": float(counted.count), "sessions.device_hours": counted.spent_s / HOUR_S}
        if counted.count:
            metrics |= {f"sessions.{name}_share": number / counted.count for name, number in counted.outcomes.items()}
            if counted.spent_s > 0:
                metrics["sessions.wasted_share"] = counted.wasted_s / counted.spent_s
            if counted.steps:
                metrics["sessions.steps_mean"] = counted.steps / counted.outcomes["reported"]
        return metrics


class Staleness:
    """Mean, quantiles and maximum of the staleness of all reports, discarded ones included."""

    metrics = described("""
        staleness.mean | rounds | Versions from download to report, on average over all reports; with a buffered server. # better: lower; of: reports
        staleness.p50 | rounds | Versions from download to report, median.
        staleness.p95 | rounds | Versions from download to report, 95th percentile.
        staleness.max | rounds | Versions from download to report, largest.
    """)  # noqa: E501
    scope = "both"

    def measure(self, run: RunPart) -> dict[str, float]:
        """Return what is said of the staleness; nothing in synchronous rounds."""
        if run.setting.concurrency is None:
            return {}
        counts = run.counted.staleness
        reports, cumulative = int(counts.sum()), np.cumsum(counts)
        if not reports:
            return {}
        return {
            "staleness.mean": float(counts @ np.arange(len(counts))) / reports,
            "staleness.p50": float(np.searchsorted(cumulative, 0.5 * reports)),
            "staleness.p95": float(np.searchsorted(cumulative, 0.95 * reports)),
            "staleness.max": float(np.flatnonzero(counts)[-1]),
        }


class Places:
    """How fast versions went by, and how many of the places were taken, on average over time."""

    metrics = described("""
        versions.per_hour | 1/h | Steps that a buffered server makes per hour of simulated time. # better: higher
        concurrency.utilisation | share | Places of a buffered server that are taken, on average over time. # better: higher
    """)  # noqa: E501

    def measure(self, run: RunPart) -> dict[str, float]:
        """Return both; nothing in synchronous rounds, or where no time passed."""
        concurrency = run.setting.concurrency
        if concurrency is None or run.ended_s <= 0:
            return {}
        return {
            "versions.per_hour": int(run.updates.sum()) / (run.ended_s / HOUR_S),
            "concurrency.utilisation": run.counted.spent_s / (concurrency * run.ended_s),
        }


def _per_day(run: RunPart, counts: pl.Series) -> list[float]:
    """Return what rounds count, per day, in each of the equal spans of the run."""
    days = int(run.ended_s // DAY_S) if run.setting.by_day else None
    parts = EqualSpans(len(run.rounds), days).number
    place = run.rounds["closed_s"].fill_null(run.ended_s).to_numpy() * (parts / run.ended_s)
    totals = np.bincount(np.minimum(place.astype(np.int64), parts - 1), counts.to_numpy(), parts)
    return [each * parts * DAY_S / run.ended_s for each in totals.tolist()]


def _spread(name: str, values: pl.Series, **quantiles: float) -> dict[str, float]:
    """Return the mean and quantiles of values, by name."""
    figures = {f"{name}.{suffix}": float(np.quantile(values.to_numpy(), share)) for suffix, share in quantiles.items()}
    return {f"{name}.mean": mean(values), **figures}


def _waits(rounds: pl.DataFrame, ended_s: float) -> dict[str, float]:
    """Return the longest wait, and the share of the time that waits took; one that never ended lasts to its close."""
    over_s = pl.coalesce(pl.col("selected_s"), pl.col("closed_s"), pl.lit(ended_s))
    wait = rounds.select(over_s - pl.col("opened_s")).to_series().to_numpy()
    metrics = {"rounds.wait.max": float(wait.max())}
    if ended_s > 0:
        metrics["rounds.waiting_share"] = min(1.0, float(wait.sum()) / ended_s)
    return metrics
