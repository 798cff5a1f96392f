"""What the tests of availability share: a stream, places, and models written as in a scenario."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fedsim.availability import Intervals, Place, available_at, between, intervals
from fedsim.common.keyed import Purpose, stream
from fedsim.scenario.availability import Renewal
from fedsim.scenario.habits import Habits

DRAWS = stream(5, 0, Purpose.AVAILABILITY)
DAY = 86_400.0
HOUR = 3_600.0


def place(start: str = "2026-01-05T00:00:00+00:00", zone: str = "UTC") -> Place:
    return Place(datetime.fromisoformat(start), ZoneInfo(zone))


def habits(*require: str, **settings: Any) -> Habits:
    """Habits with these settings; `require` names the conditions, all three where it is empty."""
    if require:
        settings["require"] = list(require)
    return Habits.model_validate({"kind": "habits", **settings})


def renewal(on: Any, off: Any) -> Renewal:
    return Renewal.model_validate({"kind": "renewal", "on": on, "off": off})


def pieces(kind: Habits | Renewal, client: int, where: Place | None = None, since: float = 0.0) -> Intervals:
    return intervals(kind, client, where or place(), DRAWS, since)


def whole(
    kind: Habits | Renewal, client: int, since: float, until: float, where: Place | None = None
) -> list[tuple[float, float]]:
    return between(pieces(kind, client, where), since, until)


def share(kind: Habits | Renewal, count: int, instant: float, where: Place | None = None) -> float:
    """Share of the first `count` devices that are available."""
    clients: NDArray[np.int64] = np.arange(count)
    return float(available_at(kind, clients, instant, where or place(), DRAWS).mean())
