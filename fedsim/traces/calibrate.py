"""A scenario from the log of a federation: how long sessions take, how they end, when devices can take part.

*Durations*: a session that reported shows its length; one that ended otherwise is censored, as all that is known is
that it would have taken longer. *Drop-outs* have a rate: how many there are in the time that sessions last.
*Availability* comes from check-ins, by the model that predicts the hours of held-out days better. What is independent
is the clients: dealt into twenty groups, their spread gives the intervals (by Student's law, of logarithms).
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from fedsim.availability.civil import offset_at
from fedsim.availability.trace.pattern import Pattern, build_pattern
from fedsim.availability.trace.rows import CleanTrace, TraceError
from fedsim.availability.trace.unions import bulk, extent, select
from fedsim.common.arrays import Bools
from fedsim.common.files import UNREADABLE
from fedsim.common.hints import did_you_mean
from fedsim.common.instants import DAY_S, HOUR_S
from fedsim.common.later import stats
from fedsim.scenario.sources import TimeSource
from fedsim.scenario.units import format_duration, format_instant
from fedsim.traces.fit import FitKind, error_of, fit
from fedsim.traces.fit_renewal import FITTED, GROUPS, CensoredLengths, distance, fit_laws, interval_of, written_law
from fedsim.traces.table_form import read_foreign_table, scan_table, since_base

LOG_ROLES = ("client", "selected", "ended", "outcome", "class", "weight", "round")
USUAL: Final = {role: f"{role}_s" if role in {"selected", "ended"} else role for role in LOG_ROLES}
"""The columns of a log, as a run's ``participations.parquet`` calls them."""
OUTCOMES: Final = {"reported": ("reported", "stale", "failed"), "dropped": ("dropped",), "cut": ("late", "aborted")}
"""How a session ends, and the words for it: it reported, its device dropped out, or the server ended it."""
_FEWEST, _MOST_TRIED, _TRAINED = 50, 2_000, 0.8
_FEWEST_DAYS, _LONGEST_NAME = 4, 200
_DIGITS = 3  # of a second
_ALIKE = 1e-3  # the least sigma that is fitted: all lengths are the same


@dataclass(frozen=True)
class SessionLog:
    """The sessions of a log, in the order of their selection; times in seconds since `base`.

    Columns: ``client``, a number, and its ``name``; ``class``, ``selected_s``, ``length_s``, ``ended``, which is one of
    `OUTCOMES`; where the log has them ``weight`` and ``round``.
    """

    base: datetime
    classes: tuple[str, ...]
    table: pl.DataFrame
    left_out: int  # rows without a whole session, or far from all others


@dataclass(frozen=True)
class Calibrated:
    """A scenario as plain data, and what was found of each class: figures with their intervals, and held-out errors."""

    scenario: dict[str, Any]
    found: dict[str, dict[str, Any]]


def read_sessions(
    path: Path,
    columns: Mapping[str, str] | None = None,
    outcomes: Mapping[str, str] | None = None,
    base: datetime | None = None,
) -> SessionLog:
    """Read a log, CSV or Parquet, one row for each session.

    `columns` names those of `LOG_ROLES`, of which the last three may be missing; `outcomes` says what words mean,
    beside those of `OUTCOMES`, in upper or lower case. Times are as in `read_foreign_table`. Rows without an outcome,
    and those far from all others in time, are left out. Raises a `TraceError` with the place of a mistake.
    """
    names = USUAL | dict(columns or {})
    times = {"device": names["client"], "start": names["selected"], "end": names["ended"]}
    table = read_foreign_table(path, times, says={"device": "client", "start": "selected", "end": "ended"})
    (rows,), base = since_base([table], base)
    if base is None:
        raise TraceError("has times in seconds; --base says from which instant", str(path))
    scan = scan_table(path)
    there = scan.collect_schema().names()
    for role in LOG_ROLES[3:]:
        if names[role] not in there and (role == "outcome" or role in (columns or {})):
            hint = did_you_mean(names[role], there)
            raise TraceError(
                f"has no column {names[role]!r}{hint}; --columns {role}=NAME says which one it is", str(path)
            )
    known = {role: names[role] for role in LOG_ROLES[3:] if names[role] in there}
    try:
        more = scan.select(pl.col(name).cast(pl.String).alias(role) for role, name in known.items()).collect()
        more = more.with_columns(pl.col({"weight", "round"} & {*known}).cast(pl.Float64))
    except UNREADABLE as error:
        raise TraceError(str(error).strip().partition("\n")[0], str(path)) from None
    meant = {word: how for how, words in OUTCOMES.items() for word in words}
    meant |= {word.lower(): how for word, how in (outcomes or {}).items()}
    words = more["outcome"].str.to_lowercase()
    if strange := sorted({*words.drop_nulls().unique()} - {*meant}):
        asked = f"--outcomes reported={strange[0]},dropped=..."
        told = f"column {names['outcome']!r} has {', '.join(map(repr, strange[:5]))}"
        raise TraceError(f"{told}, and a session ends as {', '.join(meant)}; {asked} says what is meant", str(path))
    sessions = more.select(
        pl.col({"weight", "round"} & {*known}),
        pl.col("class").fill_null("") if "class" in known else pl.lit("devices").alias("class"),
        client=pl.Series(rows.devices),
        name=pl.Series(rows.names).gather(rows.devices),
        selected_s=pl.Series(rows.starts),
        length_s=pl.Series(rows.ends - rows.starts),
        ended=words.replace_strict(meant, return_dtype=pl.String),
    )
    whole = sessions.filter(pl.col("length_s").is_finite(), pl.col("length_s") >= 0, pl.col("ended").is_not_null())
    if len(whole) < len(sessions) / 2:
        told = f"{len(sessions) - len(whole):,} of {len(sessions):,} rows lack an outcome, or an end after the begin"
        raise TraceError(f"{told}; an end is an instant, not a length", str(path))
    first, last = bulk(whole["selected_s"].to_numpy())
    whole = whole.filter(pl.col("selected_s").is_between(first, last))
    if (usual := float(np.median(whole["length_s"].to_numpy()))) > DAY_S:
        told = f"has sessions of {usual / DAY_S:.3g} days in the median"
        raise TraceError(f"{told}; times are seconds, not milliseconds, or dates", str(path))
    whole = whole.with_columns(pl.col("length_s").clip(1e-3)).sort("selected_s", maintain_order=True)
    return SessionLog(base, tuple(sessions["class"].unique().sort()), whole, len(sessions) - len(whole))


def calibrate(log: SessionLog, check_ins: CleanTrace | None = None, time_zone: str | None = None) -> Calibrated:
    """Make a scenario of a log, with a group for each class of devices.

    `check_ins` are when devices could take part, in seconds since the log's base. Raises a `TraceError` if a class has
    too few sessions.
    """
    groups, found = list[dict[str, Any]](), dict[str, dict[str, Any]]()
    for name in log.classes:
        own = log.table.filter(pl.col("class") == name)
        clients = own["name"].unique()
        try:
            group, about = _session(own, log.base, time_zone)
        except ValueError as error:
            raise TraceError(f"class {name!r}: {error}") from None
        devices, rate = len(clients), about["drop_outs_per_hour"]
        group["availability"] = "always"
        if check_ins is not None:
            there = pl.Series(check_ins.names, dtype=pl.String)
            keep = there.is_in((there if len(log.classes) == 1 else clients).implode()).to_numpy()
            if not there.is_in(clients.implode()).any():
                raise TraceError(f"no client of class {name!r} has a check-in; both name devices alike")
            group["availability"], about["availability"] = _availability(_only(check_ins, keep), log.base, time_zone)
            devices = max(devices, int(keep.sum()))
        elif rate:
            on = format_duration(round(HOUR_S / rate, 3))
            group["availability"] = {"kind": "renewal", "on": on, "off": "1m"}
        zone = {} if time_zone is None else {"time_zone": time_zone}
        groups.append({"name": name[:_LONGEST_NAME] or "unnamed", "devices": devices, **zone, **group})
        found[name] = about
    known = log.table.filter(pl.col("round").is_finite()) if "round" in log.table.columns else log.table.clear()
    cohort = int(np.median(known.group_by("round").len()["len"])) if len(known) else 1
    over_s = log.table["selected_s"] + log.table["length_s"]
    first_s = float(log.table["selected_s"][0])
    days = max(1, round((float(over_s.to_numpy().max()) - first_s) / DAY_S))
    scenario = {
        "start": format_instant(log.base + timedelta(days=first_s // DAY_S)),
        "stop": {"duration": f"{days}d"},
        "population": groups,
        "server": {"cohort": min(cohort, sum(group["devices"] for group in groups))},
    }
    return Calibrated(scenario, found)


def _lengths(sessions: pl.DataFrame) -> CensoredLengths:
    length, reported = sessions["length_s"].to_numpy(), (sessions["ended"] == "reported").to_numpy()
    return CensoredLengths(length[reported], length[~reported])


def _session(own: pl.DataFrame, base: datetime, time_zone: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the session and the weight of a class as in a scenario, and what was found of it."""
    lengths = _lengths(own)
    if len(lengths.whole) < _FEWEST:
        raise ValueError(f"{len(lengths.whole)} sessions reported; at least {_FEWEST} are needed")
    every = max(1, len(lengths.whole) // _MOST_TRIED)
    some = CensoredLengths(lengths.whole[::every], lengths.cut[::every])
    kind = fit_laws(some, place=TimeSource, digits=_DIGITS)[0].source["kind"]

    def fitted(sessions: pl.DataFrame) -> tuple[Any, dict[str, float]]:
        some, lost = _lengths(sessions), len(sessions.filter(ended="dropped"))
        law = FITTED[kind](some, None, float(some.whole.min())) if len(some.whole) > 1 else None
        if law is None:
            raise ValueError(f"a part of its sessions is too few to fit the law {kind} to")
        figures = {key: value for key, value in law.source.items() if key != "kind"}
        return law.law, figures | {"per_hour": lost / _hours(some)}

    _, best = fitted(own)
    try:  # clients are what is independent
        parts = [fitted(own.filter(pl.col("client") % GROUPS == number))[1] for number in range(GROUPS)]
        stated = {
            name: interval_of([part[name] for part in parts], value, GROUPS**-0.5)
            for name, value in best.items()
            if all(part[name] > 0 for part in parts)
        }
    except ValueError:
        stated = {}
    split = np.quantile(own["selected_s"], _TRAINED)
    (law, early), later = fitted(own.filter(pl.col("selected_s") < split)), own.filter(pl.col("selected_s") >= split)
    judged = _lengths(later)
    about: dict[str, Any] = {
        "sessions": len(own),
        "clients": own["client"].n_unique(),
        "ended": {how: len(own.filter(ended=how)) for how in OUTCOMES},
        "duration": {"kind": kind, **{name: value for name, value in best.items() if name != "per_hour"}},
        "drop_outs_per_hour": best["per_hour"],
        "intervals": stated,
        "held_out": {
            "ks": distance(judged, law.sf) if len(judged.whole) else None,
            "drop_outs": len(later.filter(ended="dropped")),
            "expected": early["per_hour"] * _hours(judged),
        },
        "by_hour": _by_hour(own.filter(ended="reported"), base, time_zone),
    }
    train = written_law(about["duration"], _DIGITS)
    if best.get("sigma", 1.0) <= _ALIKE:
        train = train["median"]
    group: dict[str, Any] = {"session": {"download": "0s", "train": train, "upload": "0s"}}
    if "weight" not in own.columns:
        return group, about
    weights = own.filter(pl.col("weight").is_between(1e-300, 1e300)).group_by("client", maintain_order=True)
    logs = np.log(weights.agg(pl.col("weight").mean())["weight"])
    if len(logs):
        median, sigma = float(np.exp(logs.mean())), float(logs.std(ddof=0) or 0.0)
        law = {"kind": "lognormal", "median": float(f"{median:.4g}"), "sigma": float(f"{sigma:.4g}")}
        group["weight"] = law if sigma > 1e-9 else law["median"]
        error = 1.96 * sigma / np.sqrt(len(logs))
        ends = np.exp(np.clip(logs.mean() + error * np.array([-1.0, 1.0]), -700, 700)).tolist()
        about["weight"] = {"median": median, "sigma": sigma, "interval": ends}
    return group, about


def _hours(lengths: CensoredLengths) -> float:
    return float(lengths.whole.sum() + lengths.cut.sum()) / HOUR_S


def _by_hour(sessions: pl.DataFrame, base: datetime, time_zone: str | None) -> dict[str, Any]:
    """Return the median length of sessions in each of the 24 hours, and whether more than chance differs."""
    zone = base.tzinfo if time_zone is None else ZoneInfo(time_zone)
    assert zone is not None, "an instant has a zone"
    since = base.timestamp() + sessions["selected_s"].to_numpy()
    offsets = np.array([offset_at(zone, instant) for instant in np.unique(since // HOUR_S) * HOUR_S])
    civil = since + offsets[np.unique(since // HOUR_S, return_inverse=True)[1]]
    hours, lengths = (civil // HOUR_S % 24).astype(np.int64), sessions["length_s"].to_numpy()
    parts = [lengths[hours == hour] for hour in range(24)]
    several = [np.log(part) for part in parts if len(part) > 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # lengths that are all alike
        chance = float(stats.f_oneway(*several).pvalue) if len(several) > 1 else None
    medians = [float(np.median(part)) if len(part) else None for part in parts]
    return {"medians": medians, "p": chance if chance is not None and np.isfinite(chance) else None}


def _only(trace: CleanTrace, keep: Bools) -> CleanTrace:
    names = tuple(name for name, kept in zip(trace.names, keep, strict=True) if kept)
    spans = {condition: select(part, keep) for condition, part in trace.spans.items()}
    return CleanTrace(names, spans, trace.report, None if trace.seen is None else trace.seen[keep])


def _availability(trace: CleanTrace, base: datetime, time_zone: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the model that predicts held-out days better, fitted to all, and how far each kind is from these days."""
    zone = None if time_zone is None else ZoneInfo(time_zone)
    first, last, *_ = extent(list(trace.spans.values()), windows=trace.seen)

    def part(since: float, until: float) -> Pattern:
        return build_pattern(trace, base, zone, "none", since=since, until=until, keep_empty=True)

    whole, errors, problems = part(first, last), dict[FitKind, float](), list[str]()
    days = int((last - first) // DAY_S)
    split = first + round(_TRAINED * days) * DAY_S if days >= _FEWEST_DAYS else None
    kinds: tuple[FitKind, ...] = ("renewal", "habits")
    for kind in kinds:
        try:
            if split is None:
                judged = fit(whole, kind).out_of_sample
                errors[kind] = np.inf if judged is None else judged.mean
            else:
                errors[kind] = error_of(part(first, split), kind, part(split, last))
        except TraceError as error:
            problems.append(error.message)
    if not errors:
        raise TraceError("; ".join(problems))
    best = min(errors, key=lambda kind: errors[kind])
    found = fit(whole, best, intervals=True)
    on = whole.spans
    ends = int((on.ends < (whole.begin + whole.covered)).sum())
    return found.availability, {
        "held_out": {kind: error for kind, error in errors.items() if np.isfinite(error)},
        "judged_by": "other devices" if split is None else f"the last {days - round(_TRAINED * days)} days",
        "intervals": found.intervals,
        "share": found.hours.of_trace,
        "ends_per_hour": ends / float((on.ends - on.starts).sum()) * HOUR_S,
        "problems": problems,
    }
