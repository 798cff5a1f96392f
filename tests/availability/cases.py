"""What the tests of availability share: a stream, places, and models written as in a scenario."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsim.availability import AvailabilityModel, Intervals, Place, available_at, between, build_model, intervals
from fedsim.common import instants as ms
from fedsim.common.keyed import Purpose, stream

DRAWS = stream(5, 0, Purpose.AVAILABILITY)
DAY = 86_400.0
HOUR = 3_600.0


def instants(most: int) -> st.SearchStrategy[int]:
    """Milliseconds from 0 to `most`, late ones as often as early ones: of so wide a range Hypothesis prefers these."""
    hours, rests = st.integers(0, most // ms.HOUR), st.integers(0, ms.HOUR - 1)
    return st.builds(lambda hour, rest: min(hour * ms.HOUR + rest, most), hours, rests)


def place(start: str = "2026-01-05T00:00:00+00:00", zone: str = "UTC") -> Place:
    return Place(datetime.fromisoformat(start), ZoneInfo(zone))


model_of = build_model


def habits(*require: str, **settings: Any) -> AvailabilityModel:
    """Habits with these settings; `require` names the conditions, all three where it is empty."""
    if require:
        settings["require"] = list(require)
    return model_of({"kind": "habits", **settings})


def renewal(on: Any, off: Any) -> AvailabilityModel:
    return model_of({"kind": "renewal", "on": on, "off": off})


def pieces(model: AvailabilityModel, client: int, where: Place | None = None) -> Intervals:
    return intervals(model, client, where or place(), DRAWS)


def whole(
    model: AvailabilityModel, client: int, since: float, until: float, where: Place | None = None
) -> list[tuple[float, float]]:
    return between(pieces(model, client, where), since, until)


def share(model: AvailabilityModel, count: int, instant: float, where: Place | None = None) -> float:
    """Share of the first `count` devices that are available."""
    clients: NDArray[np.int64] = np.arange(count)
    return float(available_at(model, clients, instant, where or place(), DRAWS).mean())
