"""A production log as a run: the same tables, facts and series as those of a simulated one, but for what it lacks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fedsim.availability.population import strata
from fedsim.availability.spells import Spells, intersection
from fedsim.availability.trace.bulk import extent
from fedsim.availability.trace.rows import CleanTrace, TraceError
from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import Mistake, ScenarioError
from fedsim.common.files import UNREADABLE
from fedsim.common.instants import each_to_ms, to_ms
from fedsim.common.outcomes import COUNTED_OUTCOMES
from fedsim.log import BUFFERED, GAUGES, PARTICIPATIONS, ROUNDS
from fedsim.log.recorder import InMemoryLog
from fedsim.measure.frequencies import AvailableTime
from fedsim.measure.metrics.own import OwnMetrics, made_metrics
from fedsim.population import Population
from fedsim.run.federation import PreparedFederation
from fedsim.scenario import Scenario
from fedsim.scenario.units import format_duration, format_instant
from fedsim.traces.imports import import_trace
from fedsim.traces.log_rounds import numbered, rounds_told, server_of
from fedsim.traces.logs import SessionLog, read_log
from fedsim.traces.table_form import scan_table

_OF_CLIENTS = {"group": pl.String, "time_zone": pl.String, "weight": pl.Float64, "separation": pl.Int64}
_OF_CLIENTS |= {"cooldown_s": pl.Float64, "speed": pl.Float64}
_LONGEST_NAME = 200
_FILES = "file", "clients", "rounds", "check_ins"
_DEFAULTS = {"group": "clients", "time_zone": "UTC", "weight": 1.0, "separation": 0, "cooldown_s": 0.0, "speed": 1.0}


class Measured(NamedTuple):
    """A log that was read: what it tells of its federation, its tables, the clients' names, and how it was read."""

    federation: PreparedFederation
    log: InMemoryLog
    names: pl.Series
    notes: tuple[str, ...]


def federation_of_log(scenario: Scenario) -> Measured:
    """Read the `log` of a scenario.

    The scenario of its federation has the population, server, start and end that the log tells, where none are given. A
    `ScenarioError` says what is wrong with the log, with its place.
    """
    asked = scenario.log
    assert asked is not None, "whose log is asked for"
    own_metrics, mistakes = made_metrics(scenario)
    if mistakes:
        raise ScenarioError(mistakes)
    try:
        paths = {key: scenario.locate(name) for key in _FILES if (name := getattr(asked, key))}
    except ValueError as error:
        raise ScenarioError([scenario.mistake(("log",), str(error))]) from None
    try:
        log = read_log(paths["file"], asked)
        named = asked.check_in_columns or None
        trace = import_trace(paths["check_ins"], base=log.base, columns=named).trace if "check_ins" in paths else None
        clients = clients_of(log, paths.get("clients"), () if trace is None else trace.names)
        table = None if "rounds" not in paths else _table(paths["rounds"], ROUNDS, ("round", "opened_s", "closed_s"))
        return federation_from(scenario, log, clients, table, trace, own_metrics)
    except TraceError as error:
        raise ScenarioError([Mistake(error.place, (), error.message)]) from None


def federation_from(
    scenario: Scenario,
    log: SessionLog,
    clients: pl.DataFrame,
    table: pl.DataFrame | None = None,
    trace: CleanTrace | None = None,
    own_metrics: Sequence[OwnMetrics] = (),
) -> Measured:
    """Lay out a log that was read, of these `clients`, with its table of rounds and its check-ins where it has them.

    A `TraceError` says that the table lacks rounds.
    """
    asked, given = scenario.log, scenario.as_written
    assert asked is not None, "whose log is laid out"
    (server, notes), written = server_of(log), given.get("server", {})
    if "deadline" in written:
        server["deadline_s"] = scenario.server.deadline
    rounds = _rounds(log, server | written, table)
    ended_s = max(float(log.table["ended_s"].max() or 0.0), float(rounds["closed_s"].max() or 0.0))  # type: ignore[arg-type]
    groups = clients.group_by("group", maintain_order=True).agg(pl.len(), pl.col("time_zone").unique())
    population = [
        {"name": name or "unnamed", "devices": size, **({"time_zone": zones[0]} if len(zones) == 1 else {})}
        for name, size, zones in groups.iter_rows()
    ]
    values: dict[str, Any] = {"log": {**asked.model_dump(mode="json"), "columns": dict(log.columns)}}
    values |= {"population": population}
    values["server"] = {key: value for key, value in server.items() if key != "deadline_s"} | written
    stop = {"duration": format_duration(math.ceil(max(ended_s, 1e-3) * 1000) / 1000)}
    values |= {} if "stop" in given else {"stop": stop}
    values |= {} if "start" in given else {"start": format_instant(log.base)}
    if "stop" in given and scenario.stop.most_s < math.inf:
        ended_s = scenario.stop.most_s
    scenario = scenario.with_values(values)
    people, sessions, gauges = _population(clients), _participations(log, clients), pl.DataFrame(schema=GAUGES)
    available = None
    if trace is not None:
        watched = _Watched.of(trace, clients, sessions, ended_s)
        rounds, available = watched.eligible(rounds), watched.available
        gauges = gauges if (every_s := scenario.records.gauges) is None else watched.gauges(every_s)
        if strangers := len(trace.names) - watched.members:
            notes.append(f"left out {strangers:,} devices with check-ins that are none of the clients")
    federation = PreparedFederation(
        scenario, people, strata(scenario, people), own_metrics=own_metrics, available=available
    )
    tables = rounds, sessions, gauges
    return Measured(federation, InMemoryLog(tables, ended_s=ended_s), clients["name"], (*log.notes, *notes))


def _table(path: Path, kinds: Mapping[str, Any], needed: tuple[str, ...]) -> pl.DataFrame:
    """Read the columns of a table that have a kind here; a `TraceError` says which is missing or cannot be read."""
    scan, _ = scan_table(path)
    try:
        there = scan.collect_schema().names()
        if missing := [name for name in needed if name not in there]:
            raise TraceError(f"has no column {missing[0]!r}; it has {', '.join(there)[:200]}", str(path))
        return scan.select(pl.col(name).cast(kind) for name, kind in kinds.items() if name in there).collect()
    except UNREADABLE as error:
        raise TraceError(str(error).strip().partition("\n")[0], str(path)) from None


def clients_of(log: SessionLog, roster: Path | None, devices: Sequence[str] = ()) -> pl.DataFrame:
    """Return all clients that are known, those of one group together: ``name`` and what is known of each.

    They are those of the roster or, without one, of the log and the `devices` that check in.
    """
    traits = {"class": pl.col("class").first().alias("group"), "time_zone": pl.col("time_zone").first()}
    traits["weight"] = pl.col("weight").mean()
    seen = log.table.group_by("client").agg(each for role, each in traits.items() if role in log.table.columns)
    seen = seen.sort("client")
    seen = seen.with_columns(name=log.names.gather(seen["client"])).drop("client")
    others = pl.DataFrame({"name": devices}, {"name": pl.String})
    clients = seen.join(others, on="name", how="full", coalesce=True, maintain_order="left_right")
    if roster is not None:
        clients = _table(roster, {"client": pl.String, **_OF_CLIENTS, "class": pl.String}, ("client",))
        group = {} if "group" in clients.columns else {"class": "group"}
        clients = clients.rename({"client": "name", **group}, strict=False)
        if clients["name"].is_duplicated().any():
            twice = clients["name"].filter(clients["name"].is_duplicated())[0]
            raise TraceError(f"has client {twice!r} twice", str(roster))
        strange = log.names.filter(~log.names.is_in(clients["name"].implode()))
        if len(strange):
            raise TraceError(f"lacks {len(strange):,} clients of the log, such as {strange[0]!r}", str(roster))
        more = [name for name in seen.columns if name not in clients.columns]
        clients = clients.join(seen.select("name", *more), on="name", how="left", maintain_order="left")
    missing = {name: pl.lit(value) for name, value in _DEFAULTS.items() if name not in clients.columns}
    clients = clients.with_columns(**missing)
    clients = clients.with_columns(pl.col(name).fill_null(value) for name, value in _DEFAULTS.items())
    clients = clients.with_columns(pl.col("group").str.slice(0, _LONGEST_NAME))
    places = clients["group"].unique(maintain_order=True)
    return clients.sort(pl.col("group").cast(pl.Enum(places)), maintain_order=True)


@dataclass(frozen=True)
class _Watched:
    """When clients could take part, by their check-ins, from the first of these to the last; all in seconds.

    A client is eligible while it is available and in no session: what else the server asks for no log tells.
    """

    clients: pl.DataFrame
    spans: Spells
    sessions: pl.DataFrame  # client, selected_s, ended_s: of all
    busy: pl.DataFrame  # the same, of those that began while their client was available, and as long as it was
    window: tuple[float, float]
    members: int  # devices that check in and are clients

    @classmethod
    def of(cls, trace: CleanTrace, clients: pl.DataFrame, sessions: pl.DataFrame, ended_s: float) -> "_Watched":
        numbers = clients.select("name", place=pl.int_range(pl.len()))
        place = pl.DataFrame({"name": trace.names}).join(numbers, on="name", how="left", maintain_order="left")["place"]
        there = intersection([*trace.conditions.values()])
        owner, members = place.fill_null(-1).to_numpy()[there.who], place.count()
        theirs = there.where(owner >= 0)
        spans = Spells(owner[owner >= 0], theirs.starts, theirs.ends, len(clients)).joined()
        first, last, *_ = extent([there], windows=trace.seen)
        begun = sessions["selected_s"].to_numpy()
        instant = each_to_ms(begun)
        of, row = spans.near(sessions["client"].to_numpy().astype(np.int64), instant, instant)
        busy = sessions.select("client", "selected_s", "ended_s")[of]
        busy = busy.with_columns(pl.min_horizontal("ended_s", pl.Series(spans.ends_s[row])))
        return cls(clients, spans, sessions, busy, (max(first, 0.0), min(last, ended_s)), members)

    @property
    def available(self) -> AvailableTime | None:
        """For which share of the time each client was available; None where that is no time."""
        first, last = self.window
        inside = self.spans.clip(to_ms(first), to_ms(last))
        total = np.bincount(inside.who, inside.ends_s - inside.starts_s, minlength=len(self.clients))
        return AvailableTime(np.arange(len(self.clients)), total / (last - first)) if last > first else None

    def eligible(self, rounds: pl.DataFrame) -> pl.DataFrame:
        """Return rounds with how many clients were eligible just before they selected."""
        at = rounds["selected_s"].fill_null(np.nan).to_numpy()
        begun, ended = self.busy["selected_s"].to_numpy(), self.busy["ended_s"].to_numpy()
        count = _covering(self.spans.starts_s, self.spans.ends_s, at)
        count -= np.searchsorted(np.sort(begun), at) - np.searchsorted(np.sort(ended), at, "right")
        seen = (at >= self.window[0]) & (at <= self.window[1])
        return rounds.with_columns(eligible=pl.Series(count).set(pl.Series(~seen), None))

    def gauges(self, every_s: float) -> pl.DataFrame:
        """Count the clients of each group and time zone as often as a run does."""
        first, last = self.window
        times: Floats = every_s * np.arange(math.ceil(first / every_s), math.floor(last / every_s) + 1.0)
        parts = list[pl.DataFrame]()
        homes = self.clients.select("group", "time_zone").with_row_index("client")
        for (group, zone), rows in homes.group_by("group", "time_zone", maintain_order=True):
            mine = np.isin(np.arange(len(homes)), rows["client"].to_numpy())
            there = self.spans.where(mine[self.spans.who])
            available = _covering(there.starts_s, there.ends_s, times)
            running, busy = (
                _covering(part["selected_s"].to_numpy(), part["ended_s"].to_numpy(), times)
                for each in (self.sessions, self.busy)
                for part in [each.filter(pl.Series(mine[each["client"].to_numpy()]))]
            )
            counts = {"available": available, "eligible": available - busy, "in_session": running}
            parts.append(pl.DataFrame({"time_s": times, "group": group, "time_zone": zone, **counts}))
        table = pl.concat(parts).sort("time_s", maintain_order=True)
        lacking = {name: pl.lit(None, dtype) for name, dtype in GAUGES.items() if name not in table.columns}
        return table.with_columns(**lacking).select(pl.col(name).cast(dtype) for name, dtype in GAUGES.items())


def _covering(starts: Floats, ends: Floats, at: Floats) -> Ints:
    """Return how many of some half-open intervals cover each instant."""
    begun, ended = (np.searchsorted(np.sort(each), at, "right") for each in (starts, ends))
    return (begun - ended).astype(np.int64)


def _population(clients: pl.DataFrame) -> Population:
    names = {name: clients[name].unique(maintain_order=True) for name in ("group", "time_zone")}
    codes = {name: clients[name].cast(pl.Enum(labels)).to_physical().to_numpy() for name, labels in names.items()}
    weight = clients["weight"].clip(0.0).to_numpy()
    return Population(
        group=codes["group"].astype(np.int64),
        group_names=tuple(names["group"]),
        weight=weight / (weight.sum() or 1.0),
        separation=clients["separation"].to_numpy(),
        cooldown_s=clients["cooldown_s"].to_numpy(),
        speed=clients["speed"].to_numpy(),
        zone=codes["time_zone"].astype(np.int16),
        zone_names=tuple(names["time_zone"]),
    )


def _rounds(log: SessionLog, server: Mapping[str, Any], table: pl.DataFrame | None) -> pl.DataFrame:
    """Return the table of rounds, with when they opened and closed where a table says so."""
    rounds = rounds_told(log, server).drop("aborted")
    if table is not None:
        if len(missing := rounds.join(table, on="round", how="anti")):
            raise TraceError(f"the table of rounds lacks {len(missing):,} of the log, such as {missing['round'][0]}")
        rounds = table.join(rounds, on="round", how="left", suffix="_told", maintain_order="left")
        shared = [name for name in ROUNDS if f"{name}_told" in rounds.columns]
        rounds = rounds.with_columns(pl.coalesce(name, f"{name}_told") for name in shared)
        rounds = rounds.with_columns(pl.col("selected", *COUNTED_OUTCOMES).fill_null(0))
        rounds = rounds.with_columns(pl.col("outcome").fill_null("skipped"))
    else:
        rounds = rounds.with_columns(opened_s=pl.col("selected_s"))
    lacking = {name: pl.lit(None, dtype) for name, dtype in ROUNDS.items() if name not in rounds.columns}
    return rounds.with_columns(**lacking).select(pl.col(name).cast(dtype) for name, dtype in ROUNDS.items())


def _participations(log: SessionLog, clients: pl.DataFrame) -> pl.DataFrame:
    """Return the sessions in the order of round and position, with the numbers of the clients."""
    place = clients.select("name", place=pl.int_range(pl.len(), dtype=pl.Int32))
    of_client = pl.DataFrame({"name": log.names}).join(place, on="name", how="left", maintain_order="left")["place"]
    table = numbered(log).with_columns(client=of_client.gather(log.table["client"]))
    schema = BUFFERED if log.buffered else PARTICIPATIONS
    number, client = table["round"].to_numpy(), table["client"].to_numpy()
    order = np.argsort(client, kind="stable")
    again = client[order[1:]] == client[order[:-1]]
    gap, before = np.zeros(len(table), dtype=np.int32), np.zeros(len(table), dtype=np.bool_)
    gap[order[1:][again]] = np.diff(number[order])[again]
    before[order[1:][again]] = True
    return table.with_columns(
        position=np.arange(len(table)) - number.searchsorted(number),
        gap=pl.Series(gap).set(pl.Series(~before), None),
        **({"version": pl.col("round")} if log.buffered else {}),
    ).select(pl.col(name).cast(dtype) for name, dtype in schema.items())
