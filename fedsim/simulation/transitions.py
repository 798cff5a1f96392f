"""The life of chosen devices, condition by condition: when each began and ended to hold."""

import polars as pl

from fedsim.availability import between, conditions
from fedsim.availability.cells import cells
from fedsim.common.keyed import Purpose, stream
from fedsim.log import TRANSITIONS
from fedsim.population import Population
from fedsim.scenario import Scenario


def transitions_table(
    scenario: Scenario, population: Population, clients: list[int], until_s: float, replicate: int = 0
) -> pl.DataFrame:
    """Return the transitions of some devices, in the order of time, client and condition.

    Columns: ``time_s``, ``client``, ``condition`` (charging, network and idle, as far as the scenario requires them;
    available for devices without habits), ``on``. A condition that holds at time 0 begins there.

    Parameters
    ----------
    scenario, population
        Whose devices are followed.
    clients
        Their indices.
    until_s
        Simulated time up to which they are followed.
    replicate
        As in the simulation.
    """
    draws = stream(scenario.seed, replicate, Purpose.AVAILABILITY)
    devices = cells(scenario, population)
    rows: list[tuple[float, int, str, bool]] = []
    for client in clients:
        cell = int(devices.of_client[client])
        for condition, intervals in conditions(devices.models[cell], client, devices.places[cell], draws).items():
            for start, end in between(intervals, 0.0, until_s):
                rows.append((start, client, condition, True))
                if end < until_s:
                    rows.append((end, client, condition, False))
    return pl.DataFrame(sorted(rows), schema=TRANSITIONS, orient="row")
