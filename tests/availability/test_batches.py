"""Many devices at once say exactly what the intervals of each of them say."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from fedsim.availability import AvailabilityModel, Place, between, open_models
from fedsim.availability.model import condition_pieces, pieces
from fedsim.availability.population import PopulationAvailability, population_availability
from fedsim.common.instants import DAY, FOREVER, HOUR
from fedsim.common.keyed import Purpose, stream
from fedsim.common.reasons import REASON_OF
from fedsim.scenario import Scenario
from tests.availability.cases import model_of

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
    "a few milliseconds": {"kind": "renewal", "on": "20m", "off": {"kind": "weibull", "mean": "2ms", "shape": 0.5}},
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
    devices, rng, now = together(kind, where), np.random.default_rng(3), 0
    last = int((days + 3) * DAY)
    true = [between(pieces(kind, client, where, DRAWS), 0, last) for client in range(DEVICES)]
    while now < days * DAY:
        clients = rng.integers(0, DEVICES, 20)
        holding = [[span for span in true[client] if span[0] <= now < span[1]] for client in clients]
        available = devices.at(clients, now)
        assert available.tolist() == [bool(spans) for spans in holding]
        some = np.flatnonzero(available)
        until = now + rng.exponential(3e6, len(some)).astype(np.int64)
        ends = [holding[index][0][1] for index in some.tolist()]
        expected = [end if end <= limit else FOREVER for end, limit in zip(ends, until.tolist(), strict=True)]
        assert devices.ends(clients[some], now, until).tolist() == expected
        everyone, horizon = np.arange(DEVICES), now + 1 + int(rng.exponential(2e7))
        found: list[list[tuple[float, float]]] = [[] for _ in range(DEVICES)]
        spells = devices.spells(everyone, now, horizon)
        assert {column.dtype for column in spells} == {np.dtype(np.int64)}
        for who, start, end in sorted(zip(*(column.tolist() for column in spells), strict=True)):
            own = found[who]
            own.append((own.pop()[0] if own and own[-1][1] == start else start, end))
        assert found == [between(iter(spans), now, horizon) for spans in true]
        now += int(rng.exponential(2.5e7))


def told(kind: AvailabilityModel, where: Place, instants: list[int]) -> None:
    """Compare the reasons at some instants with the conditions: those of each device alone, from then on."""
    devices, everyone = together(kind, where), np.arange(DEVICES)
    for now in sorted(instants):
        expected = np.zeros(DEVICES, dtype=np.int64)
        for client in range(DEVICES):
            for name, found in condition_pieces(kind, client, where, DRAWS, now).items():
                if not between(found, now, now + 1):
                    expected[client] |= REASON_OF[name]
        reasons = devices.reasons(everyone, now)
        assert reasons.dtype == np.uint16
        assert reasons.tolist() == expected.tolist()
        assert (reasons == 0).tolist() == devices.at(everyone, now).tolist()


@pytest.mark.long
@pytest.mark.parametrize("name", [*KINDS])
@pytest.mark.parametrize("where", [*PLACES])
def test_a_batch_agrees_with_each_device(name: str, where: str) -> None:
    compare(model_of(KINDS[name]), place(where))
    told(model_of(KINDS[name]), place(where), np.random.default_rng(8).integers(0, 9 * DAY, 9).tolist())


@pytest.mark.parametrize("repeat", ["week", "day", "none"])
@pytest.mark.parametrize("where", [*PLACES])
@pytest.mark.parametrize("conditions", [["available"], ["charging", "network", "idle"]], ids=len)
def test_a_trace_agrees_with_each_device(repeat: str, where: str, conditions: list[str], tmp_path: Any) -> None:
    """With times between the milliseconds, and intervals and gaps of less than one."""
    rng = np.random.default_rng(5)
    lines = ["device,start_s,end_s,condition"]
    for device in range(25):
        for condition in conditions:
            lengths = np.where(rng.random(40) < 0.3, rng.uniform(0, 0.002, 40), rng.uniform(1, 40_000, 40))
            times = np.cumsum(lengths).reshape(-1, 2)
            lines += [f"d{device},{start:.6f},{end:.6f},{condition}" for start, end in times.tolist()]
    (tmp_path / "trace.csv").write_text("\n".join(lines) + "\n")
    start, zone = PLACES[where]
    trace = {"kind": "trace", "file": str(tmp_path / "trace.csv"), "base": "2025-12-30T00:00:00Z", "repeat": repeat}
    group = {"devices": DEVICES, "time_zone": zone, "availability": trace}
    data = {"start": start, "stop": {"rounds": 1}, "population": [group], "server": {"cohort": 1}}
    model = open_models(Scenario.model_validate(data)).models[0]
    compare(model, place(where))
    instants = np.random.default_rng(8).integers(0, 9 * DAY, 9).tolist()
    edges = [edge for pair in between(pieces(model, 0, place(where), DRAWS), 0, DAY) for edge in pair][:9]
    told(model, place(where), [*instants, *(int(edge) for edge in edges), *(int(edge) - 1 for edge in edges if edge)])


@pytest.mark.parametrize(
    ("repeat", "keep", "leave"), [("week", "drop", False), ("week", "keep", True), ("none", "drop", True)]
)
def test_who_may_leave_for_good(repeat: str, keep: str, leave: bool, tmp_path: Any) -> None:
    (tmp_path / "trace.csv").write_text("device,start_s,end_s\na,0,9\nb,,\n")
    trace = {"kind": "trace", "file": str(tmp_path / "trace.csv"), "base": "2025-12-30T00:00:00Z", "repeat": repeat}
    group = {"devices": DEVICES, "availability": {**trace, "without_intervals": keep}}
    data = {"stop": {"rounds": 1}, "population": [group], "server": {"cohort": 1}}
    model = open_models(Scenario.model_validate(data)).models[0]
    assert together(model, place("nothing changes")).may_leave.tolist() == [leave] * DEVICES


@pytest.mark.parametrize(("name", "leave"), [("renewal", False), ("a few milliseconds", False), ("for ever", True)])
def test_which_renewals_may_leave_for_good(name: str, leave: bool) -> None:
    """Those of which somebody leaves: of 5,000 devices, where there is a chance at all."""
    model, where = model_of(KINDS[name]), place("nothing changes")
    many = population_availability([model], [where], np.zeros(5_000, dtype=np.int64), DRAWS)
    assert (many.may_leave == leave).all()
    assert (many.leaves(np.arange(5_000), 0, DAY) < FOREVER).any() == leave


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
    for now in (0, 8 * HOUR, DAY):
        one_by_one = [
            bool(between(pieces(kinds[g], client, places[g], DRAWS), now, now + 1))
            for client, g in ((client, int(group[client])) for client in clients.tolist())
        ]
        assert mixed.at(clients, now).tolist() == one_by_one
        spells = mixed.spells(clients, now, now + HOUR)
        assert sorted(set(spells.who[spells.starts == now].tolist())) == np.flatnonzero(one_by_one).tolist()


def test_neighbours_may_live_in_different_places() -> None:
    """What is remembered by client is shared among the places of one kind, and must not be mixed up."""
    habits, names = model_of("habits"), [*PLACES][:3]
    places = [place(name) for name in names]
    group = np.arange(30) % 3
    mixed = population_availability([habits] * 3, places, group, DRAWS)
    alone = [population_availability([habits], [where], np.zeros(30, dtype=np.int64), DRAWS) for where in places]
    for now in range(0, 20 * DAY, 7_777_000):
        together = mixed.at(np.arange(30), now)
        for number, one in enumerate(alone):
            own = np.flatnonzero(group == number)
            assert together[own].tolist() == one.at(own, now).tolist()
