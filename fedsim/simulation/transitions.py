"""The life of chosen devices, condition by condition: when each began and ended to hold."""

import numpy as np
import polars as pl

from fedsim.availability import between, conditions
from fedsim.availability.batch import Spells
from fedsim.availability.cells import cells
from fedsim.availability.shocks import Outages, outages_of, without
from fedsim.common.keyed import Purpose, stream
from fedsim.log import TRANSITIONS
from fedsim.population import Population
from fedsim.scenario import Scenario


def transitions_table(
    scenario: Scenario, population: Population, clients: list[int], until_s: float, replicate: int = 0
) -> pl.DataFrame:
    """Return the transitions of some devices, in the order of time, client and condition.

    Columns: ``time_s``, ``client``, ``condition`` (charging, network and idle, as far as the scenario requires them;
    available for devices without habits; reachable, where there are shocks: none has the device out), ``on``. A
    condition that holds at time 0 begins there.

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
    outages = outages_of(scenario, devices, replicate)
    rows: list[tuple[float, int, str, bool]] = []
    for client in clients:
        cell = int(devices.of_client[client])
        held = dict(conditions(devices.models[cell], client, devices.places[cell], draws))
        if outages is not None:
            held["reachable"] = iter(_reachable(outages, client, until_s))
        for condition, intervals in held.items():
            for start, end in between(intervals, 0.0, until_s):
                rows.append((start, client, condition, True))
                if end < until_s:
                    rows.append((end, client, condition, False))
    return pl.DataFrame(sorted(rows), schema=TRANSITIONS, orient="row")


def _reachable(outages: Outages, client: int, until_s: float) -> list[tuple[float, float]]:
    """Return when no shock has a device out, in order."""
    always = Spells(np.zeros(1, dtype=np.intp), np.zeros(1), np.full(1, until_s))
    _, starts, ends = without(always, outages.spells(np.array([client]), 0.0, until_s), 1)
    return sorted(zip(starts.tolist(), ends.tolist(), strict=True))
