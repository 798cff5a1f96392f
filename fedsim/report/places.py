"""Where devices are: the groups of a run with their time zones, and the clock that a chart of hours goes by."""

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fedsim.report.rundir import Json, Run


@dataclass(frozen=True)
class Place:
    """A group of devices and where it is.

    Parameters
    ----------
    group
        Its name.
    devices
        How many it has.
    zone
        The IANA name of its time zone.
    """

    group: str
    devices: int
    zone: str


def places(run: Run) -> tuple[Place, ...]:
    """Return the groups in the order of the clients; a zone that the manifest does not name is UTC."""
    sizes = run.clients.group_by("group", maintain_order=True).len()
    population = run.scenario("population")
    zones: dict[Json, Json] = {}
    for entry in population if isinstance(population, list) else []:
        if isinstance(entry, dict) and isinstance(name := entry.get("name"), str):
            zones[name] = entry.get("time_zone")
    return tuple(Place(str(group), int(devices), _known(zones.get(group))) for group, devices in sizes.iter_rows())


def _known(zone: Json) -> str:
    try:
        ZoneInfo(str(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"
    return str(zone)


def start_of(run: Run) -> datetime:
    """Return the instant of simulated time 0; the epoch of 1970 where the manifest does not say."""
    start = run.scenario("start")
    try:
        found = datetime.fromisoformat(str(start))
    except ValueError:
        return datetime(1970, 1, 1, tzinfo=UTC)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
