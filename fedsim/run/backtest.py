"""A scenario judged by days of a log that it was not fitted to: run over them five times, and laid beside them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fedsim.availability.spells import intersection
from fedsim.availability.trace.bulk import extent
from fedsim.availability.trace.rows import CleanTrace, TraceError
from fedsim.common.formatting import percent
from fedsim.common.instants import DAY_S, HOUR_S
from fedsim.common.intervals import student_quantile
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.measure.metrics import metric_part
from fedsim.measure.series import SLOT_S
from fedsim.run.evaluate import evaluate
from fedsim.run.measured import clients_of, federation_from
from fedsim.run.run import Run
from fedsim.run.simulate import simulate
from fedsim.scenario import Scenario
from fedsim.scenario.document import Document
from fedsim.scenario.units import format_duration, format_instant
from fedsim.traces.calibrate import calibrate, civil_s, evidence_of_sessions, with_groups
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
_APART = 0.1  # shares of the time by which devices were available that differ by so much are others


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
    remedy: str = ""  # what would make it nearer, where that is known

    @property
    def within(self) -> bool:
        """Whether the log is as expected."""
        return self.low <= self.log <= self.high

    @property
    def verdict(self) -> str:
        """Whether it is within or off."""
        return "within" if self.within else "off"


def backtest(log: SessionLog, check_ins: CleanTrace | None, time_zone: str | None, tolerance: float) -> list[Figure]:
    """Calibrate by the first two thirds of the days, and lay the rest beside what the scenario expects.

    An interval is that of a run to come by five runs, all figures together at 90 %, wider by the `tolerance`, a share
    of what is expected. Raises a `TraceError` if the log has fewer than three days.
    """
    first, last = _since_until(log)
    days = int((last - first) / DAY_S + _NEARLY)
    if days < _FEWEST_DAYS:
        raise TraceError(f"the log has {days} whole days, and a backtest needs {_FEWEST_DAYS}")
    split, over = first + round(FITTED * days) * DAY_S, min(first + days * DAY_S, last)
    early, late = log.part(None, split), log.part(split, over)
    fitted = None if check_ins is None else Cleaning(until=split).apply(check_ins)
    scenario = Scenario.of_document(Document(calibrate(early, fitted, time_zone).scenario))
    figures, _ = _lay_beside(scenario, log, split, over, time_zone, tolerance)
    there = [None if check_ins is None else _there(check_ins, *part) for part in ((first, split), (split, over))]
    day = f"{log.base + timedelta(seconds=split):%Y-%m-%d}"
    when = (f"before {day}", f"since {day}")
    sides = (_Side(*each) for each in zip(when, (early, late), (time_zone, time_zone), there, strict=True))
    return _explained(figures, sides)


def against(
    scenario: Scenario, log: SessionLog, check_ins: CleanTrace | None, time_zone: str | None, tolerance: float
) -> list[Figure]:
    """Lay a whole log beside a scenario, as `backtest` does some of its days; a reason compares the two."""
    since, until = _since_until(log)
    figures, run = _lay_beside(scenario, log, since, until, time_zone, tolerance, gauges=check_ins is not None)
    classes = dict(with_groups(log, time_zone).select("group", "class").unique().iter_rows())
    alike = bool(classes.keys() & {*run.clients["group"]})
    if not alike:  # nothing tells which groups are which classes
        log = replace(log, table=log.table.drop("class", strict=False))
    of_class = pl.col("group").replace(classes) if alike else pl.lit("devices")
    clients = run.clients.select("client", "time_zone", of_class.alias("class"))
    table = run.participations.join(clients, on="client", how="left").with_columns(pl.col("outcome").cast(pl.String))
    table = table.with_columns(how=pl.col("outcome").replace({o: e.how for o, e in SESSION_OUTCOMES.items()}))
    made = SessionLog(run.scenario.start, run.clients["client"].cast(pl.String), table, {})
    there = None if check_ins is None else _there(check_ins, since, until) / len(check_ins.names)
    sides = (
        _Side("in the scenario", made, time_zone, run.known.get("population.available_share")),
        _Side("in the log", log, time_zone, there),
    )
    return _explained(figures, sides)


def _since_until(log: SessionLog) -> tuple[float, float]:
    """Return the midnight before the first session of a log, and its last end, in seconds from its base."""
    first, last = log.table["selected_s"].min(), log.table["ended_s"].max()
    return float(first or 0.0) // DAY_S * DAY_S, float(last or 0.0)  # type: ignore[arg-type]


def _lay_beside(
    scenario: Scenario,
    log: SessionLog,
    since: float,
    until: float,
    time_zone: str | None,
    tolerance: float,
    *,
    gauges: bool = False,
) -> tuple[list[Figure], Run]:
    """Lay the days of a log in [since, until), seconds from its base, beside five runs of a scenario over them.

    Also returned is the first of these, in which devices are counted if `gauges`.
    """
    begin = log.base + timedelta(seconds=since)
    there: dict[str, Any] = {"start": format_instant(begin), "learning": scenario.untrained, "privacy": None}
    there |= {"stop": {"duration": format_duration(until - since)}, "records.gauges": "1h" if gauges else None}
    scenario = scenario.with_values(there)
    runs = [simulate(scenario, replicate=replicate) for replicate in range(RUNS)]
    simulated = [_figures(run) for run in runs]
    absent = [f"of the scenario {number}" for number in range(scenario.devices - log.table["client"].n_unique())]
    table = with_groups(log, time_zone).with_columns(pl.col("time_zone").replace("", "UTC"), **{"class": "group"})
    days = replace(log, table=table).part(since, until)
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
    return figures, runs[0]


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


class _Side(NamedTuple):
    """One of two sides that are compared: what it is, its sessions, for how much of the time devices were there."""

    where: str  # in a sentence: ``before 2026-01-08``, ``in the log``
    log: SessionLog
    time_zone: str | None
    available: float | None


def _explained(figures: Sequence[Figure], sides: Iterable[_Side]) -> list[Figure]:
    """Say of figures that are off in what the two sides differ."""
    if all(each.within for each in figures):
        return [*figures]
    one, other = sides
    named = [*_differences(one, other)]
    unknown = ["the log does not say when devices are available"] if other.available is None else []
    why = "; ".join(
        [*named, *unknown] or [f"the model is too simple, since no parameter differs {one.where} and {other.where}"]
    )
    ways = [_SINCE] * bool(named) + [CHECK_INS] * bool(unknown)
    return [each if each.within else replace(each, because=why, remedy=" ".join(ways)) for each in figures]


def _differences(one: _Side, other: _Side) -> Iterator[str]:
    """Say in what two sides differ: what no interval of both allows."""
    sizes = [
        dict(with_groups(each.log, each.time_zone).group_by("class").agg(pl.col("client").n_unique()).iter_rows())
        for each in (one, other)
    ]
    for name in sorted({*sizes[0], *sizes[1]}):
        before, after = (each.get(name, 0) for each in sizes)
        if abs(after - before) > 0.2 * max(before, after):
            yield f"{before:,} clients of {name} came {one.where}, and {after:,} {other.where}"
    fits = [evidence_of_sessions(each.log, each.time_zone) for each in (one, other)]
    for name in sorted(fits[0].keys() & fits[1].keys()):
        ends, values = [each[name]["intervals"] for each in fits], [_values(each[name]) for each in fits]
        for key in sorted(ends[0].keys() & ends[1].keys()):
            (low, high), (then_low, then_high) = (each[key] for each in ends)
            if then_low > high or low > then_high:
                was, then = (f"{each[key]:.3g} {side.where}" for each, side in zip(values, (one, other), strict=True))
                yield f"{name}: {_WORDS.get(key, key)} was {was}, and {then}"
    if one.available and other.available is not None and abs(ratio := other.available / one.available - 1) > _APART:
        yield f"devices were available {other.where} for {percent(1 + ratio)} of the time that they were {one.where}"


def _there(check_ins: CleanTrace, since: float, until: float) -> float:
    """Return how many devices were there on average, by their check-ins, from the first of these to the last."""
    there = intersection([*Cleaning(since, until).apply(check_ins).conditions.values()])
    first, last, *_ = extent([*check_ins.conditions.values()], windows=check_ins.seen)
    return float((there.ends_s - there.starts_s).sum()) / max(min(until, last) - max(since, first), 1.0)


_SINCE = "Calibrate with the days after the change, `--since DAY`."
CHECK_INS = "Calibrate with `--check-ins`, a table with device, start and end, which says when devices are available."
_WORDS = {
    "per_hour": "the rate of drop-outs in an hour",
    "median": "the median session in seconds",
    "mean": "the mean session",
}


def _values(about: Mapping[str, Any]) -> dict[str, float]:
    return {**about["duration"], "per_hour": about["fails_per_hour"]}
