"""A scenario from the log of a federation: how long sessions take, how they end, when devices can take part.

*Durations*: a session that reported, in time or late, shows its length; one that ended otherwise is censored, as all
that is known is that it would have taken longer. *Drop-outs* have two causes: the device became unavailable, where a
check-in of it ends at the same time, or the session failed; failures have a rate in the time that sessions last.
*Availability* comes from check-ins, by the model that predicts the hours of held-out days better. What is independent
is the clients: dealt into twenty groups, their spread gives the intervals (by Student's law, of logarithms).
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from fedsim.availability.civil import offset_at
from fedsim.availability.spells import intersection
from fedsim.availability.trace.bulk import extent
from fedsim.availability.trace.pattern import Pattern, build_pattern
from fedsim.availability.trace.rows import CleanTrace, TraceError
from fedsim.common.arrays import Bools, Floats
from fedsim.common.formatting import percent
from fedsim.common.instants import DAY_S, HOUR_S, each_to_ms
from fedsim.common.later import stats
from fedsim.common.outcomes import HOWS
from fedsim.scenario.sources import TimeSource
from fedsim.scenario.units import format_instant
from fedsim.traces.fit import FitKind, error_of, fit
from fedsim.traces.fit_renewal import FITTED, GROUPS, CensoredLengths, fit_laws, interval_of, written_law
from fedsim.traces.log_rounds import server_of
from fedsim.traces.logs import SessionLog

_FEWEST, _MOST_TRIED, _TRAINED = 50, 2_000, 0.8
_FEWEST_DAYS, _LONGEST_NAME = 4, 200
_DIGITS = 3  # of a second
_ALIKE = 1e-3  # the least sigma that is fitted: all lengths are the same
_TOGETHER_S = 2.0  # so near to the end of a check-in, a session ended with it
_SLACK_S = 0.01  # by which times of two files may differ that are the same
_OUTSIDE = 0.02  # of the sessions, so many may begin outside of their device's check-ins without a note
_MOST_COMPARED, _FEWEST_HOUR = 100_000, 20  # sessions of which hours are compared, and those of an hour


@dataclass(frozen=True)
class Calibrated:
    """A scenario as plain data; what was measured of each class, figures with their intervals; and lines about all."""

    scenario: dict[str, Any]
    evidence: dict[str, dict[str, Any]]
    notes: tuple[str, ...]


def calibrate(log: SessionLog, check_ins: CleanTrace | None = None, time_zone: str | None = None) -> Calibrated:
    """Make a scenario of a log, with a group for each class of devices and each of its time zones.

    `check_ins` are when devices could take part, in seconds since the log's base; `time_zone` is that of all devices
    where the log has none of each. Raises a `TraceError` if a class has too few sessions.
    """
    offset, table = log.base.tzinfo, _censored(with_groups(log, time_zone))
    server, lines = server_of(log)
    if check_ins is not None:
        table, notes = _with_causes(table, log, check_ins)
        lines += notes
    groups, evidence = list[dict[str, Any]](), dict[str, dict[str, Any]]()
    for (name,), rows in table.sort("class", maintain_order=True).group_by("class", maintain_order=True):
        try:
            made, about = _session(rows)
        except ValueError as error:
            raise TraceError(f"class {name!r}: {error}") from None
        evidence[str(name)] = about = about | {"by_hour": by_hour(rows, log.base, offset)}
        if check_ins is not None:
            group_of_all, about["availability"] = _of_class(check_ins, rows, log, alone=table["class"].n_unique() == 1)
        zones = rows["time_zone"].unique().sort().to_list()
        for zone in zones:
            devices = rows.filter(time_zone=zone)["client"].n_unique()
            if check_ins is not None and len(zones) == 1:
                devices = max(devices, about["availability"]["devices"])
            label = rows.filter(time_zone=zone)["group"][0]
            there = {"time_zone": zone} if zone else {}
            available = {"availability": "always" if check_ins is None else group_of_all}
            groups.append({"name": label, "devices": devices, **there, **made, **available})
    first_s, last_s = float(table["selected_s"].min() or 0.0), float(table["ended_s"].max() or 0.0)  # type: ignore[arg-type]
    most = sum(group["devices"] for group in groups)
    size = "concurrency" if log.buffered else "cohort"
    scenario = {
        "start": format_instant(log.base + timedelta(days=first_s // DAY_S)),
        "stop": {"duration": f"{max(1, round((last_s - first_s) / DAY_S))}d"},
        "population": groups,
        "server": {key: value for key, value in server.items() if key != "deadline_s"}
        | {size: min(server[size], most)},
    }
    return Calibrated(scenario, evidence, (*log.notes, *lines))


def evidence_of_sessions(log: SessionLog, time_zone: str | None) -> dict[str, dict[str, Any]]:
    """Return the evidence of the sessions of each class that has enough, as of `calibrate` without check-ins."""
    evidence = dict[str, dict[str, Any]]()
    for (name,), rows in _censored(with_groups(log, time_zone)).group_by("class", maintain_order=True):
        with suppress(ValueError):
            evidence[str(name)] = _session(rows)[1]
    return evidence


def _censored(table: pl.DataFrame) -> pl.DataFrame:
    """Say of each session how long it took, whether that is all of it, and whether it ``failed``."""
    stopped = (pl.col("how") == "late") & (pl.col("ended_s") >= table["ended_s"].max())
    return table.with_columns(
        length_s=(pl.col("ended_s") - pl.col("selected_s")).clip(1e-3),
        whole=pl.col("how").is_in(["reported", "late"]) & ~stopped,
        failed=pl.col("how") == "dropped",
    )


def with_groups(log: SessionLog, time_zone: str | None) -> pl.DataFrame:
    """Return the sessions of a log with a class, a time zone, and the group that a scenario makes of both."""
    missing = {"class": pl.lit("devices"), "time_zone": pl.lit(time_zone or "")}
    table = log.table.with_columns(**{role: value for role, value in missing.items() if role not in log.table.columns})
    name = pl.col("class").str.slice(0, _LONGEST_NAME // 2)
    several = pl.col("time_zone").n_unique().over("class") > 1
    return table.with_columns(group=pl.when(several).then(pl.format("{} in {}", name, "time_zone")).otherwise(name))


def _lengths(sessions: pl.DataFrame) -> CensoredLengths:
    length, whole = sessions["length_s"].to_numpy(), sessions["whole"].to_numpy()
    return CensoredLengths(length[whole], length[~whole])


def _session(table: pl.DataFrame) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the session and the weight of a class as in a scenario, and what was found of it."""
    lengths = _lengths(table)
    if len(lengths.whole) < _FEWEST:
        raise ValueError(f"{len(lengths.whole)} sessions reported; at least {_FEWEST} are needed")
    every = max(1, len(lengths.whole) // _MOST_TRIED)
    some = CensoredLengths(lengths.whole[::every], lengths.cut[::every])
    kind = fit_laws(some, place=TimeSource, digits=_DIGITS)[0].source["kind"]

    def fitted(sessions: pl.DataFrame) -> dict[str, float]:
        some = _lengths(sessions)
        distribution = FITTED[kind](some, None, float(some.whole.min())) if len(some.whole) > 1 else None
        if distribution is None:
            raise ValueError(f"a part of its sessions is too few to fit the law {kind} to")
        return {key: value for key, value in distribution.source.items() if key != "kind"}

    best, dealt = fitted(table), table.with_columns(part=pl.col("client").rank("dense") % GROUPS)
    try:  # clients are what is independent
        parts = [fitted(dealt.filter(part=number)) for number in range(GROUPS)]
        stated = {n: interval_of([part[n] for part in parts], value, GROUPS**-0.5) for n, value in best.items()}
    except ValueError:
        stated = {}
    counted = dealt.drop_nulls("failed").group_by("part").agg(pl.col("failed", "length_s").sum())
    failures, hours = counted["failed"].to_numpy(), counted["length_s"].to_numpy() / HOUR_S
    rate = float(failures.sum() / max(hours.sum(), 1e-9))
    without = (failures.sum() - failures) / (hours.sum() - hours) if len(hours) == GROUPS else np.zeros(1)
    if (without > 0).all():
        stated["per_hour"] = interval_of(without.tolist(), rate, (GROUPS - 1) / GROUPS**0.5)
    about: dict[str, Any] = {
        "sessions": len(table),
        "clients": table["client"].n_unique(),
        "ended": {how: len(table.filter(how=how)) for how in HOWS},
        "duration": {"kind": kind, **best},
        "fails_per_hour": rate,
        "intervals": stated,
    }
    train = written_law(about["duration"], _DIGITS)
    if best.get("sigma", 1.0) <= _ALIKE:
        train = train["median"]
    group: dict[str, Any] = {"session": {"download": "0s", "train": train, "upload": "0s"}}
    if rate > 0:
        group["session"]["fails"] = {"per_hour": float(f"{min(rate, 3600.0):.4g}")}
    if "weight" not in table.columns:
        return group, about
    mean = table.group_by("client", maintain_order=True).agg(pl.col("weight").mean())["weight"]
    logs = np.log(mean.filter(mean.is_between(1e-300, 1e300)))
    if none := int((mean <= 0).sum()):
        about["weight"] = {"none": none}
    elif len(logs):
        median, sigma = float(np.exp(logs.mean())), float(logs.std(ddof=0) or 0.0)
        lognormal = {"kind": "lognormal", "median": float(f"{median:.4g}"), "sigma": float(f"{sigma:.4g}")}
        group["weight"] = lognormal if sigma > 1e-9 else lognormal["median"]
        error = 1.96 * sigma / np.sqrt(len(logs))
        ends = np.exp(np.clip(logs.mean() + error * np.array([-1.0, 1.0]), -700, 700)).tolist()
        about["weight"] = {"median": median, "sigma": sigma, "interval": ends}
    return group, about


def by_hour(sessions: pl.DataFrame, base: datetime, offset: Any) -> dict[str, Any]:
    """Return the median length of sessions in each of the 24 local hours, and the chance of such differences.

    Medians are those of Kaplan and Meier, None where fewer than half of the sessions have ended. The chance is that of
    the log-rank test, which compares at each length the sessions that still ran: what ends a session before its time
    may depend on the others. Its variance is that between clients (Lin and Wei, 1989), by Hotelling's law; None where
    these are too few. Hours with fewer than 20 sessions are left out.
    """
    some = sessions.gather_every(max(1, len(sessions) // _MOST_COMPARED)).sort("length_s")
    civil = civil_s(base.timestamp() + some["selected_s"].to_numpy(), some["time_zone"], offset)
    hours = (civil // HOUR_S % 24).astype(np.int64)
    length, whole, client = (some[name].to_numpy() for name in ("length_s", "whole", "client"))
    medians = [_median(length[hours == hour], whole[hours == hour]) for hour in range(24)]
    kept = np.bincount(hours, minlength=24)[hours] >= _FEWEST_HOUR
    length, whole, client, hours = (each[kept] for each in (length, whole, client, hours))
    present, at = np.unique(hours, return_inverse=True)
    people = np.unique(client, return_inverse=True)[1]
    clients, degrees = int(people.max(initial=-1)) + 1, len(present) - 1
    if clients < 2 * degrees + 10 or degrees < 1 or np.ptp(length[whole]) == 0:
        return {"medians": medians, "p": None}
    ones = np.eye(len(present))[at][:, :-1]
    _, first, tied = np.unique(length, return_index=True, return_inverse=True)
    running = len(length) - first
    left = np.cumsum(ones[::-1], axis=0)[::-1][first]  # sessions of each hour that ran at each length
    share = left / running[:, None]
    hazard = np.bincount(tied, whole) / running
    expected = np.cumsum(hazard), np.cumsum(share * hazard[:, None], axis=0)
    score = whole[:, None] * (ones - share[tied]) - (ones * expected[0][tied, None] - expected[1][tied])
    scores = np.zeros((clients, degrees))
    np.add.at(scores, people, score)
    total = scores.sum(axis=0)
    square = float(total @ np.linalg.pinv(scores.T @ scores) @ total)
    ratio = square / max(clients - square, 1e-9) * (clients - degrees) / degrees
    return {"medians": medians, "p": float(stats.f.sf(ratio, degrees, clients - degrees))}


def civil_s(since: Floats, zones: pl.Series, offset: Any = UTC) -> Floats:
    """Return clock times (n,) of instants, seconds since 1970, each in its time zone; where that is "", by `offset`."""
    clock = since.copy()
    for zone in zones.unique():
        there, place = (zones == zone).to_numpy(), ZoneInfo(zone) if zone else offset
        hours, of_hour = np.unique(since[there] // HOUR_S, return_inverse=True)
        clock[there] += np.array([offset_at(place, hour * HOUR_S) for hour in hours])[of_hour]
    return clock


def _median(length: Floats, whole: Bools) -> float | None:
    if not whole.any():
        return None
    survival = stats.ecdf(stats.CensoredData(uncensored=length[whole], right=length[~whole])).sf
    under = np.flatnonzero(survival.probabilities <= 0.5)
    return float(survival.quantiles[under[0]]) if len(under) else None


def _with_causes(table: pl.DataFrame, log: SessionLog, check_ins: CleanTrace) -> tuple[pl.DataFrame, list[str]]:
    """Say of each session whether it ``failed`` while its device was there; null where no check-in covers its begin."""
    spans = intersection([*check_ins.conditions.values()])
    place = pl.Series(check_ins.names, dtype=pl.String)
    device = log.names.replace_strict(place, pl.int_range(len(place), eager=True), default=-1, return_dtype=pl.Int64)
    owner, begin = device.gather(table["client"]).to_numpy(), table["selected_s"].to_numpy()
    of, row = spans.near(owner, each_to_ms(begin - _SLACK_S), each_to_ms(begin + _SLACK_S))
    over = np.full(len(table), np.nan)
    over[of] = spans.ends_s[row]
    inside, gone = np.isfinite(over), np.abs(over - table["ended_s"].to_numpy()) <= _TOGETHER_S
    failed = pl.Series((table["how"] == "dropped").to_numpy() & ~gone).set(pl.Series(~inside), None)
    outside = 1.0 - float(inside.mean())
    text = (
        f"{percent(outside)} of the sessions begin outside of all check-ins of their device: some check-ins are missing"
    )
    notes = [f"{text}, and devices are available for longer than they say"] if outside > _OUTSIDE else []
    return table.with_columns(failed=failed), notes


def _of_class(
    trace: CleanTrace, sessions: pl.DataFrame, log: SessionLog, *, alone: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fit the availability of a class by the check-ins of its clients or, where it is `alone`, of all devices.

    Several time zones are laid on one local time, by their offsets in the middle of the log.
    """
    first = sessions.unique("client", keep="first", maintain_order=True)
    clients = first.select("time_zone", name=log.names.gather(first["client"]))
    names = pl.DataFrame({"name": pl.Series(trace.names, dtype=pl.String)})
    zones = names.join(clients, on="name", how="left", maintain_order="left")["time_zone"]
    if not zones.is_not_null().any():
        raise TraceError(f"no client of class {sessions['class'][0]!r} has a check-in; both name devices alike")
    if sessions["time_zone"].n_unique() == 1:
        keep = np.ones(len(names), dtype=np.bool_) if alone else zones.is_not_null().to_numpy()
        return _availability(_only(trace, keep), log.base, sessions["time_zone"][0])
    middle = log.base.timestamp() + float(sessions["selected_s"].median() or 0.0)  # type: ignore[arg-type]
    keep = zones.is_not_null().to_numpy()
    kept, offset = _only(trace, keep), {zone: offset_at(ZoneInfo(zone), middle) for zone in zones.drop_nulls().unique()}
    later = zones.drop_nulls().replace_strict(offset, return_dtype=pl.Float64).to_numpy()
    shift = each_to_ms(later)
    spans = {
        condition: replace(each, starts=each.starts + shift[each.who], ends=each.ends + shift[each.who])
        for condition, each in kept.spans.items()
    }
    seen = None if kept.seen is None else kept.seen + later[:, None] * [1.0, 1.0, 0.0]
    return _availability(CleanTrace(kept.names, spans, kept.report, seen), log.base.astimezone(UTC), "")


def _only(trace: CleanTrace, keep: Bools) -> CleanTrace:
    names = tuple(name for name, kept in zip(trace.names, keep, strict=True) if kept)
    spans = {condition: part.select(keep) for condition, part in trace.spans.items()}
    return CleanTrace(names, spans, trace.report, None if trace.seen is None else trace.seen[keep])


def _availability(trace: CleanTrace, base: datetime, time_zone: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the model that predicts held-out days better, fitted to all, and how far each kind is from these days."""
    zone = ZoneInfo(time_zone) if time_zone else None
    first, last, *_ = extent(list(trace.conditions.values()), windows=trace.seen)

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
    fitted = fit(whole, best, intervals=True, judged=False)
    on = whole.spans
    ends = int((on.ends_s < (whole.begin + whole.covered)).sum())
    return fitted.availability, {
        "held_out": {kind: error for kind, error in errors.items() if np.isfinite(error)},
        "judged_by": "other devices" if split is None else f"the last {days - round(_TRAINED * days)} days",
        "intervals": fitted.intervals,
        "devices": len(trace.names),
        "share": fitted.hours.of_trace,
        "ends_per_hour": ends / float((on.ends_s - on.starts_s).sum()) * HOUR_S,
        "problems": problems,
    }
