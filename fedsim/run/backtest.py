"""A scenario judged by days of a log that it was not fitted to: run over them five times, and laid beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl

from fedsim.availability.trace.rows import CleanTrace, TraceError
from fedsim.common.arrays import Ints
from fedsim.common.formatting import number, percent
from fedsim.common.instants import DAY_S, HOUR_S
from fedsim.common.intervals import student_quantile
from fedsim.measure.participation import gini, l1
from fedsim.run.preflight import preflight
from fedsim.scenario import Scenario
from fedsim.scenario.document import Document
from fedsim.scenario.units import format_duration, format_instant
from fedsim.simulation import simulate_log
from fedsim.traces.calibrate import calibrate, civil_s, with_groups
from fedsim.traces.imports import Cleaning
from fedsim.traces.logs import SessionLog
from fedsim.traces.rounds import numbered, rounds_told, server_of

RUNS, FITTED = 5, 2 / 3
_FEWEST_DAYS, _FAMILY = 3, 0.1
_NEARLY = 0.1  # of the last day, so much may be missing
_LEAST = 0.2  # a tolerance is at least of this, so that shares near 0 have one
_BLOCK = 4  # hours of which starts are counted together


@dataclass(frozen=True)
class Figure:
    """A figure of a log, the interval in which the runs of a scenario expect it, and why it is off where it is."""

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

    def __str__(self) -> str:
        off = f"off by {percent(abs(self.log / self.expected - 1))}" if self.expected else "off"
        verdict = "within" if self.within else f"{off}, because {self.because}"
        shown = (number(each, 3) for each in (self.log, self.expected, self.low, self.high))
        return "{}: {} in the log, {} expected ({} to {}): {}".format(self.name, *shown, verdict)


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
    known = None if check_ins is None else Cleaning(until=split).apply(check_ins)
    scenario = Scenario.of_document(Document(calibrate(early, known, time_zone).scenario))
    figures = lay_beside(scenario, log, split, over, time_zone, tolerance)
    why = "; ".join(_changes(early, late, check_ins, split, over, time_zone))
    return [
        replace(each, because=why or "the model is too simple: no parameter differs in these days") for each in figures
    ]


def since_until(log: SessionLog) -> tuple[float, float]:
    """Return the midnight before the first session of a log, and its last end, in seconds from its base."""
    first, last = log.table["selected_s"].min(), log.table["ended_s"].max()
    return float(first or 0.0) // DAY_S * DAY_S, float(last or 0.0)  # type: ignore[arg-type]


def lay_beside(
    scenario: Scenario, log: SessionLog, since: float, until: float, time_zone: str | None, tolerance: float
) -> list[Figure]:
    """Lay the days of a log in [since, until), seconds from its base, beside five runs of a scenario over them."""
    there: dict[str, Any] = {
        "start": format_instant(log.base + timedelta(seconds=since)),
        "learning": None,
        "privacy": None,
    }
    there |= {"stop": {"duration": format_duration(until - since)}}
    scenario, found = scenario.with_values(there), list[dict[str, float]]()
    for replicate in range(RUNS):
        made = preflight(scenario, replicate)
        run, people = simulate_log(scenario, made.population, replicate, devices=made.devices), made.population
        names = (("group", people.group_names, people.group), ("time_zone", people.zone_names, people.zone))
        clients = pl.DataFrame({name: pl.Series(words, dtype=pl.String).gather(own) for name, words, own in names})
        found.append(_figures(run.rounds, run.participations, clients, scenario))
    part, homes = _part(log, since, until), with_groups(log, time_zone)
    clients = (
        homes.unique("client", keep="first")
        .sort("client")
        .select("group", time_zone=pl.col("time_zone").replace("", "UTC"))
    )
    rounds = rounds_told(part, server_of(log)[0])
    sessions = numbered(part).with_columns(pl.col("selected_s", "ended_s") - since)
    own = _figures(rounds, sessions, clients, scenario)
    if "round" not in log.columns:
        own = {name: value for name, value in own.items() if "round" not in name and "update" not in name}
    shared = [name for name in own if all(name in each for each in found)]
    reach = float(student_quantile(RUNS, 1 - _FAMILY / max(len(shared), 1))) * (1 + 1 / RUNS) ** 0.5
    figures = []
    for name in shared:
        values = np.array([each[name] for each in found])
        mean = float(values.mean())
        half = reach * float(values.std(ddof=1)) + tolerance * max(abs(mean), _LEAST)
        figures.append(Figure(name, own[name], mean, max(0.0, mean - half), mean + half))
    return figures


def _part(log: SessionLog, since: float, until: float) -> SessionLog:
    return replace(log, table=log.table.filter(pl.col("selected_s") >= since, pl.col("selected_s") < until))


def _figures(
    rounds: pl.DataFrame, sessions: pl.DataFrame, clients: pl.DataFrame, scenario: Scenario
) -> dict[str, float]:
    days, taken = scenario.stop.most_s / DAY_S, sessions.filter(pl.col("outcome") == "reported")
    length = (rounds["closed_s"] - rounds["selected_s"]).drop_nulls().to_numpy()
    found = {"updates a day": int((rounds["reported"] > 0).sum()) / days, "reports a day": len(taken) / days}
    for share in (50, 90):
        found[f"length of a round, p{share} (s)"] = float(np.quantile(length, share / 100)) if len(length) else np.nan
    for outcome in ("reported", "dropped", "late", "aborted"):
        found[f"sessions {outcome}"] = int((sessions["outcome"] == outcome).sum()) / max(len(sessions), 1)
    now = scenario.start.timestamp() + sessions["selected_s"].to_numpy()
    local = civil_s(now, clients["time_zone"].gather(sessions["client"]))
    blocks = np.bincount((local // HOUR_S % 24 // _BLOCK).astype(np.int64), minlength=24 // _BLOCK) / max(len(local), 1)
    found |= {f"sessions from {_BLOCK * at:02}:00": float(share) for at, share in enumerate(blocks)}
    groups = clients["group"].gather(taken["client"])
    if clients["group"].n_unique() > 1:
        for name in clients["group"].unique().sort():
            found[f"reports of {name}"] = int((groups == name).sum()) / max(len(groups), 1)
    counts: Ints = np.bincount(sessions["client"], minlength=max(len(clients), scenario.devices))
    if counts.any():
        found["participation, L1 from uniform"] = l1(counts / counts.sum(), 1 / len(counts))
        found |= {"participation, Gini": gini(counts), "clients that never came": float((counts == 0).mean())}
    return found


def _changes(
    early: SessionLog, late: SessionLog, check_ins: CleanTrace | None, split: float, over: float, time_zone: str | None
) -> Sequence[str]:
    """Say what differs from the fitted days in the others: what no interval of both allows."""
    said, one, other = list[str](), with_groups(early, time_zone), with_groups(late, time_zone)
    sizes = [dict(each.group_by("class").agg(pl.col("client").n_unique()).iter_rows()) for each in (one, other)]
    for name in sorted({*sizes[0], *sizes[1]}):
        before, after = (each.get(name, 0) for each in sizes)
        if abs(after - before) > 0.2 * max(before, after):
            said.append(f"{before:,} clients of {name} came, then {after:,}")
    try:
        found: list[Mapping[str, Any]] = [calibrate(each, None, time_zone).found for each in (early, late)]
    except TraceError:
        found = [{}, {}]
    for name in found[0].keys() & found[1].keys():
        ends, values = [each[name]["intervals"] for each in found], [_values(each[name]) for each in found]
        for key in sorted(ends[0].keys() & ends[1].keys()):
            (low, high), (then_low, then_high) = (each[key] for each in ends)
            if then_low > high or low > then_high:
                said.append(f"{name}: {_WORDS.get(key, key)} was {values[0][key]:.3g}, then {values[1][key]:.3g}")
    if check_ins is not None:
        spans = [Cleaning(*part).apply(check_ins).spans for part in ((None, split), (split, over))]
        before, after = (sum(float((each.ends_s - each.starts_s).sum()) for each in part.values()) for part in spans)
        first = min(float(each.starts_s.min(initial=split)) for each in check_ins.spans.values())
        ratio = after / (over - split) / max(before / max(split - first, 1.0), 1e-9)
        if abs(ratio - 1) > 0.1:
            said.append(f"devices were available for {percent(ratio)} of the time that they were before")
    return said


_WORDS = {
    "per_hour": "the rate of failures in an hour",
    "median": "the median session in seconds",
    "mean": "the mean session",
}


def _values(about: Mapping[str, Any]) -> dict[str, float]:
    return {**about["duration"], "per_hour": about["fails_per_hour"]}
