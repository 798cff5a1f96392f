"""Every named metric of a run, computed from its tables."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.analysis.buffered import of_places, of_staleness
from fedsim.analysis.hours import share_by_hour
from fedsim.analysis.participation import batch_errors, gini, jain, l1
from fedsim.common.row_groups import slices
from fedsim.log import Recorded
from fedsim.log.tables import SESSION_OUTCOMES

Metrics = dict[str, float]
_DAY_S = 86_400.0
_MOST_GROUPS = 200  # beyond so many, nobody reads a metric for each
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class GroupOf:
    """What metrics need to know about a group of the population: its name, and how many devices in which time zones."""

    name: str
    devices: dict[str, int]


@dataclass(frozen=True)
class Setting:
    """What metrics need to know about the scenario.

    Attributes
    ----------
    wanted
        Clients that a full round selects.
    start
        The instant of simulated time 0.
    groups
        The groups of the population, in order.
    concurrency
        Places of a buffered server; None with synchronous rounds.
    """

    wanted: int
    start: datetime
    groups: Sequence[GroupOf]
    concurrency: int | None = None


@dataclass(frozen=True)
class _Sessions:
    """The participations of some consecutive clients, read some rows at a time; the clients count from their first."""

    table: pl.DataFrame | pl.LazyFrame
    first: int
    clients: int

    def read(self, *columns: str) -> Iterator[pl.DataFrame]:
        for part in slices(self.table, *dict.fromkeys([*columns, "client"])):
            own = part["client"].is_between(self.first, self.first + self.clients - 1)
            kept = part if own.all() else part.filter(own)
            yield kept.with_columns(pl.col("client") - self.first) if self.first else kept

    def spent_s(self) -> Iterator[float]:
        """Device time in sessions, in parts."""
        for part in self.read("selected_s", "ended_s"):
            yield float((part["ended_s"] - part["selected_s"]).to_numpy().sum())


def measure(log: Recorded, clients: pl.DataFrame, setting: Setting) -> Metrics:
    """Return the metrics of the log, by name; one that has no samples is left out."""
    sessions = _Sessions(log.participations, 0, len(clients))
    metrics = _of_rounds(log, setting) | _of_part(sessions, clients, log.gauges, setting)
    if setting.concurrency is not None:
        steps = int((log.rounds["outcome"] == "target").sum())
        metrics |= of_places(sessions.spent_s(), steps, setting.concurrency, log.ended_s)
    metrics |= _against_theory(clients)
    if 1 < len(setting.groups) <= _MOST_GROUPS:
        for group in setting.groups:
            metrics |= _of_group(log, clients, setting, group)
    return metrics


def _of_part(sessions: _Sessions, clients: pl.DataFrame, gauges: pl.DataFrame, setting: Setting) -> Metrics:
    """Return what can be said of the whole population as of one group."""
    return {
        **_of_sessions(sessions),
        **({} if setting.concurrency is None else of_staleness(sessions.read("staleness"))),
        **_of_participation(sessions, clients),
        **_of_gauges(gauges, setting),
    }


def _of_group(log: Recorded, clients: pl.DataFrame, setting: Setting, group: GroupOf) -> Metrics:
    own_clients = clients.filter(group=group.name)
    # Within a group, clients count from its first one, and frequencies add up to 1.
    sessions = _Sessions(log.participations, int(own_clients["client"][0]), len(own_clients))
    own, total = int(own_clients["participations"].sum()), int(clients["participations"].sum())
    relative = own_clients.with_columns(frequency=pl.col("participations") / max(own, 1))
    part = replace(setting, groups=[group])
    metrics = _of_part(sessions, relative, log.gauges.filter(group=group.name), part)
    if total:
        metrics["share"] = own / total
        metrics["ratio"] = metrics["share"] / (len(own_clients) / len(clients))
    if not own_clients["pi"].null_count():
        metrics["share_theory"] = math.fsum(own_clients["pi"].to_list())
    prefix = f"group.{_NOT_IN_A_NAME.sub('-', group.name)}"
    return {f"{prefix}.{name}": value for name, value in metrics.items()}


def _of_rounds(log: Recorded, setting: Setting) -> Metrics:
    rounds, in_rounds = log.rounds, setting.concurrency is None
    metrics: Metrics = {"rounds.count": float(len(rounds))}
    if log.ended_s > 0:
        metrics["rounds.per_day"] = len(rounds) / (log.ended_s / _DAY_S)
    if len(rounds):
        waited = (pl.col("selected_s").is_null()) | (pl.col("selected_s") > pl.col("opened_s"))
        metrics["rounds.target_share"] = _share(rounds, pl.col("outcome") == "target")
        if in_rounds:  # a buffered server's version wants no number of clients, and need not select any
            metrics["rounds.shortage_share"] = _share(rounds, waited | (pl.col("selected") < setting.wanted))
    started = rounds.filter(pl.col("selected_s").is_not_null()) if in_rounds else rounds
    if len(started):
        metrics["rounds.selected_mean"] = _mean(started["selected"])
        metrics["rounds.reported_mean"] = _mean(started["reported"])
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


def _of_sessions(sessions: _Sessions) -> Metrics:
    count, outcomes = 0, dict.fromkeys(SESSION_OUTCOMES, 0)
    spent_s, wasted_s = [0.0], [0.0]
    for part in sessions.read("outcome", "selected_s", "ended_s"):
        count += len(part)
        for outcome in SESSION_OUTCOMES:
            outcomes[outcome] += int((part["outcome"] == outcome).sum())
        spent = (part["ended_s"] - part["selected_s"]).to_numpy()
        spent_s.append(float(spent.sum()))
        wasted_s.append(float(spent[(part["outcome"] != "reported").to_numpy()].sum()))
    metrics: Metrics = {"sessions.count": float(count)}
    if count:
        metrics |= {f"sessions.{outcome}_share": number / count for outcome, number in outcomes.items()}
        if math.fsum(spent_s) > 0:
            metrics["sessions.wasted_share"] = math.fsum(wasted_s) / math.fsum(spent_s)
    return metrics


def _of_participation(sessions: _Sessions, clients: pl.DataFrame) -> Metrics:
    counts, frequency = clients["participations"].to_numpy(), clients["frequency"].to_numpy()
    if not counts.any():
        return {}
    uniform = 1.0 / len(clients)
    distance = l1(frequency, uniform)
    metrics: Metrics = {
        "participation.l1_uniform": distance,
        "participation.tv_uniform": distance / 2,
        "participation.coverage": float((counts > 0).mean()),
        "participation.ratio": float(counts.max() / counts[counts > 0].min()),
        "participation.gini": gini(counts),
        "participation.jain": jain(counts),
    }
    seen, reported, gaps = [np.empty(0)], np.zeros(len(clients), dtype=np.int64), _Gaps()
    for part in sessions.read("gap", "outcome", "selected_s"):
        seen.append(part["selected_s"].filter(part["gap"].is_null()).to_numpy())
        np.add.at(reported, part["client"].filter(part["outcome"] == "reported").to_numpy(), 1)
        gaps.add(part["gap"].drop_nulls().to_numpy())
    firsts = np.sort(np.concatenate(seen))
    for share in (50, 90):
        needed = -(-len(clients) * share // 100)
        if len(firsts) >= needed:
            metrics[f"participation.coverage.t{share}"] = float(firsts[needed - 1])
    if reported.any():
        metrics["participation.reported_l1_uniform"] = l1(reported / reported.sum(), uniform)
    errors = batch_errors(lambda: sessions.read("round"), len(clients))
    if errors is not None:
        metrics["participation.l1_noise"], metrics["participation.l1_uniform_se"] = errors
    if gaps.count:
        metrics["participation.gap.min"] = float(gaps.least)
        metrics["participation.gap.mean"] = gaps.total / gaps.count
        metrics["participation.gap.max"] = float(gaps.most)
    return metrics


@dataclass
class _Gaps:
    """What is said of the gaps, which come some at a time."""

    count: int = 0
    total: int = 0
    least: int = 0
    most: int = 0

    def add(self, gaps: NDArray[np.int64]) -> None:
        if len(gaps):
            self.least = min(self.least, int(gaps.min())) if self.count else int(gaps.min())
            self.most = max(self.most, int(gaps.max()))
            self.count, self.total = self.count + len(gaps), self.total + int(gaps.sum())


def _against_theory(clients: pl.DataFrame) -> Metrics:
    if clients["pi"].null_count():
        return {}
    pi = clients["pi"].to_numpy()
    metrics = {"participation.l1_uniform_theory": l1(pi, 1.0 / len(clients))}
    if clients["participations"].sum():
        metrics["participation.l1_chain"] = l1(clients["frequency"].to_numpy(), pi)
    return metrics


def _of_gauges(gauges: pl.DataFrame, setting: Setting) -> Metrics:
    if not len(gauges):
        return {}
    devices: dict[str, int] = {}
    for group in setting.groups:
        for zone, count in group.devices.items():
            devices[zone] = devices.get(zone, 0) + count
    totals = gauges.group_by("time_s", maintain_order=True).agg(pl.col("available", "eligible").sum())
    metrics = {
        f"population.{name}_share": _mean(totals[name]) / sum(devices.values()) for name in ("available", "eligible")
    }
    for clock in ("utc", "local"):
        for hour, share in share_by_hour(gauges, devices, setting.start, local=clock == "local").items():
            metrics[f"population.available_share.{clock}.{hour:02d}"] = share
    return metrics


def _share(table: pl.DataFrame, condition: pl.Expr) -> float:
    return _mean(table.select(condition.cast(pl.Int64).alias("holds"))["holds"])


def _mean(column: pl.Series) -> float:
    # In numpy: polars may sum in parallel parts, and the metrics must be the same on every run.
    return float(column.to_numpy().mean())
