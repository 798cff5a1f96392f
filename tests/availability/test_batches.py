"""Many devices at once say exactly what the intervals of each of them say."""

import math
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from fedsim.availability import AvailabilityModel, Place, between, intervals, open_models
from fedsim.availability.population import PopulationAvailability, population_availability
from fedsim.common.keyed import Purpose, stream
from fedsim.scenario import Scenario
from tests.availability.cases import model_of

DAY = 86_400.0
DRAWS = stream(11, 0, Purpose.AVAILABILITY)
DEVICES = 12
_ETERNAL = {"kind": "pareto", "mean": "1d", "shape": 1.01}
KINDS: dict[str, Any] = {
    "habits": "habits",
    "long nights": {
        "kind": "habits",
        "require": ["charging"],
        "charging": {"night": {"plug_in": "11:30", "between_persons": "3h", "between_days": "3h", "length": "16h"}},
    },
    "days that begin before midnight": {
        "kind": "habits",
        "require": ["charging", "network"],
        "charging": {"night": {"plug_in": "12:00", "between_persons": "3h", "between_days": "3h"}},
        "network": {"commute": "0s", "work": 0.9, "drop_outs": {"per_hour": 0}},
    },
    "uses without length": {
        "kind": "habits",
        "require": ["idle", "network"],
        "idle": {"settle": "0s", "use": "0s"},
        "network": {"drop_outs": {"per_hour": 20}},
    },
    "renewal": {"kind": "renewal", "on": "40m", "off": "1h"},
    "too short for the clock": {
        "kind": "renewal",
        "on": {"kind": "weibull", "mean": "1h", "shape": 0.1},
        "off": {"kind": "weibull", "mean": "1h", "shape": 0.1},
    },
    "for ever": {"kind": "renewal", "on": _ETERNAL, "off": _ETERNAL},
    "always": "always",
}
PLACES = {
    "nothing changes": ("2026-01-05T00:00:00+00:00", "UTC"),
    "forward": ("2026-03-02T07:13:00.125+00:00", "America/New_York"),
    "back": ("2026-10-20T00:00:00+02:00", "Europe/Berlin"),
    "a day is skipped": ("2011-12-25T00:00:00+00:00", "Pacific/Apia"),
}


def place(name: str) -> Place:
    start, zone = PLACES[name]
    return Place(datetime.fromisoformat(start), ZoneInfo(zone))


def together(kind: AvailabilityModel, where: Place) -> PopulationAvailability:
    return population_availability([kind], [where], np.zeros(DEVICES, dtype=np.int64), DRAWS)


def compare(kind: AvailabilityModel, where: Place, days: float = 14.0) -> None:
    devices, rng, now = together(kind, where), np.random.default_rng(3), 0.0
    true = [between(intervals(kind, client, where, DRAWS), 0.0, (days + 3) * DAY) for client in range(DEVICES)]
    while now < days * DAY:
        clients = rng.integers(0, DEVICES, 20)
        holding = [[span for span in true[client] if span[0] <= now < span[1]] for client in clients]
        available = devices.at(clients, now)
        assert available.tolist() == [bool(spans) for spans in holding]
        some = np.flatnonzero(available)
        until = now + rng.exponential(3_000.0, len(some))
        ends = [holding[index][0][1] for index in some.tolist()]
        expected = [end if end <= limit else math.inf for end, limit in zip(ends, until.tolist(), strict=True)]
        assert devices.ends(clients[some], now, until).tolist() == expected
        everyone, horizon = np.arange(DEVICES), now + rng.exponential(20_000.0)
        found: list[list[tuple[float, float]]] = [[] for _ in range(DEVICES)]
        spells = devices.spells(everyone, now, horizon)
        for who, start, end in sorted(zip(*(column.tolist() for column in spells), strict=True)):
            own = found[who]
            own.append((own.pop()[0] if own and own[-1][1] == start else start, end))
        assert found == [between(iter(spans), now, horizon) for spans in true]
        now += rng.exponential(25_000.0)


@pytest.mark.parametrize("name", [*KINDS])
@pytest.mark.parametrize("where", [*PLACES])
def test_a_batch_agrees_with_each_device(name: str, where: str) -> None:
    compare(model_of(KINDS[name]), place(where))


@pytest.mark.parametrize("repeat", ["week", "day", "none"])
@pytest.mark.parametrize("where", [*PLACES])
def test_a_trace_agrees_with_each_device(repeat: str, where: str, tmp_path: Any) -> None:
    rng = np.random.default_rng(5)
    lines = ["device,start_s,end_s"]
    for device in range(25):
        times = np.cumsum(rng.integers(1, 40_000, 20))
        lines += [f"d{device},{start},{end}" for start, end in times.reshape(-1, 2).tolist()]
    (tmp_path / "trace.csv").write_text("\n".join(lines) + "\n")
    start, zone = PLACES[where]
    trace = {"kind": "trace", "file": str(tmp_path / "trace.csv"), "base": "2025-12-30T00:00:00Z", "repeat": repeat}
    group = {"devices": DEVICES, "time_zone": zone, "availability": trace}
    data = {"start": start, "stop": {"rounds": 1}, "population": [group], "server": {"cohort": 1}}
    compare(open_models(Scenario.model_validate(data)).models[0], place(where))


def test_groups_of_one_kind_and_place_are_asked_together() -> None:
    renewal = model_of(KINDS["renewal"])
    habits = model_of("habits")
    here, there = place("nothing changes"), place("forward")
    group = np.repeat(np.arange(5), 10)
    mixed = population_availability(
        [renewal, habits, renewal, habits, habits], [here, here, there, there, here], group, DRAWS
    )
    assert len(mixed.batches) == 3
    clients = np.random.default_rng(1).permutation(50)
    kinds, places = [renewal, habits, renewal, habits, habits], [here, here, there, there, here]
    for now in (0.0, 30_000.0, 90_000.0):
        one_by_one = [
            bool(between(intervals(kinds[g], client, places[g], DRAWS), now, now + 1e-6))
            for client, g in ((client, int(group[client])) for client in clients.tolist())
        ]
        assert mixed.at(clients, now).tolist() == one_by_one
        spells = mixed.spells(clients, now, now + 3600.0)
        assert sorted(set(spells.who[spells.starts == now].tolist())) == np.flatnonzero(one_by_one).tolist()


def test_neighbours_may_live_in_different_places() -> None:
    """What is remembered by client is shared among the places of one kind, and must not be mixed up."""
    habits, names = model_of("habits"), [*PLACES][:3]
    places = [place(name) for name in names]
    group = np.arange(30) % 3
    mixed = population_availability([habits] * 3, places, group, DRAWS)
    alone = [population_availability([habits], [where], np.zeros(30, dtype=np.int64), DRAWS) for where in places]
    for now in np.arange(0.0, 20 * DAY, 7_777.0).tolist():
        together = mixed.at(np.arange(30), now)
        for number, one in enumerate(alone):
            own = np.flatnonzero(group == number)
            assert together[own].tolist() == one.at(own, now).tolist()
