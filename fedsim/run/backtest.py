"""A scenario judged by days of a log that it was not fitted to: run over them five times, and laid beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl

from fedsim.availability.trace.rows import CleanTrace, TraceError
from fedsim.common.formatting import percent
from fedsim.common.instants import DAY_S, HOUR_S
from fedsim.common.intervals import student_quantile
from fedsim.measure.metrics import metric_part
from fedsim.measure.series import SLOT_S
from fedsim.run.evaluate import evaluate
from fedsim.run.measured import clients_of, federation_from
from fedsim.run.run import Run
from fedsim.run.simulate import simulate
from fedsim.scenario import Scenario
from fedsim.scenario.document import Document
from fedsim.scenario.units import format_duration, format_instant
from fedsim.traces.calibrate import calibrate, civil_s, with_groups
from fedsim.traces.imports import Cleaning
from fedsim.traces.logs import SessionLog

RUNS, FITTED = 5, 2 / 3
_FACTS = (
    *("updates.per_day", "reports.per_day", "rounds.duration.p50", "rounds.duration.p95"),
    *(f"sessions.{outcome}_share" for outcome in ("reported", "dropped", "late", "aborted")),
    *("participation.l1_uniform", "participation.gini", "participation.never_share"),
)
_FEWEST_DAYS, _FAMILY = 3, 0.1
_NEARLY = 0.1  # of the last day, so much may be missing
_LEAST = 0.2  # a tolerance is at least of this, so that shares near 0 have one
_BLOCK = 4  # hours of which starts are counted together


@dataclass(frozen=True)
class Figure:
    """A figure of a log, the interval in which the runs of a scenario expect it, and why it is off where it is.

    `name` is the key of a fact or, of a share of the sessions, the hours in which they begin.
    """

    name: str
    log: float
    expected: float
    low: float
    high: float
    because: str = ""

    @property
    def within(self) -> bool:
        """Whether the log is as expected."""
        return self.low <= self.log <= self.high

    @property
    def verdict(self) -> str:
        """Whether it is within or, by how much, off."""
        off = f"off by {percent(abs(self.log / self.expected - 1))}" if self.expected else "off"
        return "within" if self.within else off


def backtest(log: SessionLog, check_ins: CleanTrace | None, time_zone: str | None, tolerance: float) -> list[Figure]:
    """Calibrate by the first two thirds of the days, and lay the rest beside what the scenario expects.

    An interval is that of a run to come by five runs, all figures together at 90 %, wider by the `tolerance`, a share
    of what is expected. Raises a `TraceError` if the log has fewer than three days.
    """
    first, last = since_until(log)
    days = int((last - first) / DAY_S + _NEARLY)
    if days < _FEWEST_DAYS:
        raise TraceError(f"the log has {days} whole days, and a backtest needs {_FEWEST_DAYS}")
    split, over = first + round(FITTED * days) * DAY_S, min(first + days * DAY_S, last)
    early, late = _part(log, -np.inf, split), _part(log, split, over)
    fitted = None if check_ins is None else Cleaning(until=split).apply(check_ins)
    scenario = Scenario.of_document(Document(calibrate(early, fitted, time_zone).scenario))
    figures = lay_beside(scenario, log, split, over, time_zone, tolerance)
    unknown = "when devices were available is not known without check-ins; no fitted parameter changed in these days"
    simple = "the model is too simple: no fitted parameter changed in these days"
    why = "; ".join(_changes(early, late, check_ins, split, over, time_zone))
    return [replace(each, because=why or (unknown if check_ins is None else simple)) for each in figures]


def since_until(log: SessionLog) -> tuple[float, float]:
    """Return the midnight before the first session of a log, and its last end, in seconds from its base."""
    first, last = log.table["selected_s"].min(), log.table["ended_s"].max()
    return float(first or 0.0) // DAY_S * DAY_S, float(last or 0.0)  # type: ignore[arg-type]


def lay_beside(
    scenario: Scenario, log: SessionLog, since: float, until: float, time_zone: str | None, tolerance: float
) -> list[Figure]:
    """Lay the days of a log in [since, until), seconds from its base, beside five runs of a scenario over them."""
    begin = log.base + timedelta(seconds=since)
    there: dict[str, Any] = {"start": format_instant(begin), "learning": scenario.untrained, "privacy": None}
    there |= {"stop": {"duration": format_duration(until - since)}, "records.gauges": None}
    scenario = scenario.with_values(there)
    simulated = [_figures(simulate(scenario, replicate=replicate)) for replicate in range(RUNS)]
    absent = [f"of the scenario {number}" for number in range(scenario.devices - len(log.names))]
    table = with_groups(log, time_zone).with_columns(pl.col("time_zone").replace("", "UTC"), **{"class": "group"})
    days = _part(replace(log, table=table), since, until)
    shifted = days.table.with_columns(pl.col("selected_s", "ended_s") - since)
    asked = Document({"log": {"file": "log", "clients": "log"}, "stop": there["stop"]})  # all its clients are known
    days, clients = replace(days, base=begin, table=shifted), clients_of(replace(log, table=table), None, absent)
    federation, tables, *_ = federation_from(Scenario.of_document(asked), days, clients)
    measured = _figures(evaluate(federation, tables))
    shared = [name for name in measured if all(name in each for each in simulated)]
    reach = float(student_quantile(RUNS, 1 - _FAMILY / max(len(shared), 1))) * (1 + 1 / RUNS) ** 0.5
    figures = []
    for name in shared:
        values = np.array([each[name] for each in simulated])
        mean = float(values.mean())
        half = reach * float(values.std(ddof=1)) + tolerance * max(abs(mean), _LEAST)
        figures.append(Figure(name, measured[name], mean, max(0.0, mean - half), mean + half))
    return figures


def _part(log: SessionLog, since: float, until: float) -> SessionLog:
    return replace(log, table=log.table.filter(pl.col("selected_s") >= since, pl.col("selected_s") < until))


def _figures(run: Run) -> dict[str, float]:
    """Return the facts of a run that are compared, and which shares of its sessions begin in which local hours."""
    groups = (f"group.{metric_part(group.name)}.share" for group in run.scenario.population)
    facts = {key: run.known[key] for key in (*_FACTS, *groups) if key in run.known}
    starts = run.series["starts"]
    at = run.scenario.start.timestamp() + SLOT_S * (starts["slot"].to_numpy() + 0.5)
    block = (civil_s(at, starts["time_zone"]) // HOUR_S % 24 // _BLOCK).astype(np.int64)
    shares = np.bincount(block, starts["len"].to_numpy(), 24 // _BLOCK) / max(int(starts["len"].sum()), 1)
    hours = (f"sessions from {_BLOCK * at:02}:00 to {_BLOCK * (at + 1):02}:00" for at in range(len(shares)))
    return facts | dict(zip(hours, shares.tolist(), strict=True))


def _changes(
    early: SessionLog, late: SessionLog, check_ins: CleanTrace | None, split: float, over: float, time_zone: str | None
) -> Sequence[str]:
    """Say what differs from the fitted days in the others: what no interval of both allows."""
    changes, one, other = list[str](), with_groups(early, time_zone), with_groups(late, time_zone)
    sizes = [dict(each.group_by("class").agg(pl.col("client").n_unique()).iter_rows()) for each in (one, other)]
    for name in sorted({*sizes[0], *sizes[1]}):
        before, after = (each.get(name, 0) for each in sizes)
        if abs(after - before) > 0.2 * max(before, after):
            changes.append(f"{before:,} clients of {name} came, then {after:,}")
    try:
        fits: list[Mapping[str, Any]] = [calibrate(each, None, time_zone).evidence for each in (early, late)]
    except TraceError:
        fits = [{}, {}]
    for name in fits[0].keys() & fits[1].keys():
        ends, values = [each[name]["intervals"] for each in fits], [_values(each[name]) for each in fits]
        for key in sorted(ends[0].keys() & ends[1].keys()):
            (low, high), (then_low, then_high) = (each[key] for each in ends)
            if then_low > high or low > then_high:
                changes.append(f"{name}: {_WORDS.get(key, key)} was {values[0][key]:.3g}, then {values[1][key]:.3g}")
    if check_ins is not None:
        spans = [Cleaning(*part).apply(check_ins).conditions for part in ((None, split), (split, over))]
        before, after = (sum(float((each.ends_s - each.starts_s).sum()) for each in part.values()) for part in spans)
        first = min(float(each.starts_s.min(initial=split)) for each in check_ins.conditions.values())
        ratio = after / (over - split) / max(before / max(split - first, 1.0), 1e-9)
        if abs(ratio - 1) > 0.1:
            changes.append(f"devices were available for {percent(ratio)} of the time that they were before")
    return changes


_WORDS = {
    "per_hour": "the rate of failures in an hour",
    "median": "the median session in seconds",
    "mean": "the mean session",
}


def _values(about: Mapping[str, Any]) -> dict[str, float]:
    return {**about["duration"], "per_hour": about["fails_per_hour"]}
