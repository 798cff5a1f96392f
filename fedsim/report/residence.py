"""Where devices are: the groups of a run with their time zones, and the clock that a chart of hours goes by."""

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl

from fedsim.report.finished_run import FinishedRun, Json


@dataclass(frozen=True)
class Residence:
    """Devices of one group in one time zone.

    Parameters
    ----------
    group
        Name of the group.
    devices
        How many there are.
    zone
        The IANA name of the time zone.
    """

    group: str
    devices: int
    zone: str


def residences(run: FinishedRun) -> tuple[Residence, ...]:
    """Return who lives where, in the order of the clients; a zone that is not known is UTC."""
    if "time_zone" in run.clients.columns:
        living = run.clients.group_by("group", "time_zone", maintain_order=True).len()
        return tuple(Residence(str(group), int(devices), _known(zone)) for group, zone, devices in living.iter_rows())
    sizes = run.clients.group_by("group", maintain_order=True).len()
    population = run.scenario("population")
    zones: dict[Json, Json] = {}
    for entry in population if isinstance(population, list) else []:
        if isinstance(entry, dict) and isinstance(name := entry.get("name"), str):
            zone = entry.get("time_zone")
            zones[name] = zone.get("value") if isinstance(zone, dict) else zone
    return tuple(Residence(str(group), int(devices), _known(zones.get(group))) for group, devices in sizes.iter_rows())


def living_in(zone: str, found: tuple[Residence, ...], frame: pl.DataFrame) -> pl.Expr:
    """Return what picks the rows of a table that are about devices in a time zone."""
    if "time_zone" in frame.columns:
        return pl.col("time_zone") == zone
    return pl.col("group").is_in([residence.group for residence in found if residence.zone == zone])


def _known(zone: Json) -> str:
    try:
        ZoneInfo(str(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"
    return str(zone)


def start_of(run: FinishedRun) -> datetime:
    """Return the instant of simulated time 0; the epoch of 1970 where the manifest does not say."""
    start = run.scenario("start")
    try:
        found = datetime.fromisoformat(str(start))
    except ValueError:
        return datetime(1970, 1, 1, tzinfo=UTC)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
