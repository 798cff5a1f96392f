"""What the processes are told is what the intervals of each device say, for every kind, whatever the horizon."""

import math
from pathlib import Path
from typing import Any

import pytest

from fedsim.availability import between, intervals
from fedsim.availability.cells import Cells, cells
from fedsim.availability.population import PopulationAvailability, population_availability
from fedsim.common.keyed import Purpose, stream
from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.simulation.processes.intervals import DeviceIntervals

DAY = 86_400.0
DRAWS = stream(3, 0, Purpose.AVAILABILITY)
TRACE = "device,start_s,end_s\na,0,50000\na,90000,200000\nb,10,20\nc,700000,700600\nd,5,5\n"


def world(folder: Path, start: str) -> Cells:
    (folder / "trace.csv").write_text(TRACE)
    trace = {"kind": "trace", "file": str(folder / "trace.csv"), "base": "2026-01-05T00:00:00Z", "assign": "in_order"}
    lasting = {"kind": "pareto", "mean": "1d", "shape": 1.01}
    zones = ["America/New_York", "Asia/Kolkata", "UTC", "Australia/Lord_Howe"]
    groups: list[dict[str, Any]] = [
        {"availability": "habits", "time_zone": zones},
        {"availability": "always"},
        {"availability": {"kind": "renewal", "on": "3h", "off": "1h"}},
        {"availability": {"kind": "renewal", "on": lasting, "off": lasting}},
        {"availability": {**trace, "repeat": "none", "without_intervals": "keep"}, "time_zone": zones},
        {"availability": {**trace, "repeat": "week", "without_intervals": "keep"}, "time_zone": zones},
    ]
    data = {
        "seed": 3,
        "start": start,
        "stop": {"rounds": 1},
        "population": [{"devices": 4, "name": str(number), **group} for number, group in enumerate(groups)],
        "server": {"cohort": 1},
    }
    scenario = Scenario.model_validate(data)
    return cells(scenario, build_population(scenario))


def lives(devices: Cells) -> PopulationAvailability:
    return population_availability(devices.models, devices.places, devices.of_client, DRAWS)


@pytest.mark.parametrize("start", ["2026-01-05T00:00:00Z", "2026-03-06T05:00:00.5Z", "2026-03-28T20:30:00Z"])
@pytest.mark.parametrize("horizon", [math.inf, DAY, 2.5 * DAY])
def test_the_processes_intervals_agree_with_each_device(tmp_path: Path, start: str, horizon: float) -> None:
    """Processes ask in the order of time, each for its next piece when the last one ends."""
    devices = world(tmp_path, start)
    since, until = 0.3 * DAY, 12 * DAY
    told = DeviceIntervals(devices, lives(devices), since, horizon)
    clients = range(len(devices.of_client))
    pieces = {client: told.of(client) for client in clients}
    found: dict[int, list[tuple[float, float]]] = {client: [] for client in clients}
    due = dict.fromkeys(clients, since)
    while due:
        client = min(due, key=lambda each: due[each])
        piece = next(pieces[client], None)
        if piece is None or piece[0] >= until:
            del due[client]
            continue
        found[client].append(piece)
        due[client] = piece[1]
    for client, cell in enumerate(devices.of_client.tolist()):
        own = intervals(devices.models[cell], client, devices.places[cell], DRAWS)
        assert between(iter(found[client]), since, until) == between(own, since, until)


def test_devices_that_never_come_back_leave_at_once(tmp_path: Path) -> None:
    """With their last piece, so that a server that waits for them learns it then."""
    devices = world(tmp_path, "2026-01-05T00:00:00Z")
    told = DeviceIntervals(devices, lives(devices), 0.0, math.inf)
    assert list(told.of(19)) == []  # recorded without intervals
    assert [piece for piece in told.of(18) if piece[0] < piece[1]] == [(700_000.0, 700_600.0)]
