"""The life of chosen devices, condition by condition: when each began and ended to hold."""

import polars as pl

from fedsim.availability import between
from fedsim.availability.model import condition_pieces
from fedsim.availability.population import Strata, strata
from fedsim.availability.shocks import outages_of
from fedsim.common.instants import each_to_seconds, to_ms
from fedsim.common.keyed import Purpose, stream
from fedsim.log import TRANSITIONS
from fedsim.population import Population
from fedsim.scenario import Scenario


def transitions_table(
    scenario: Scenario,
    population: Population,
    clients: list[int],
    until_s: float,
    replicate: int = 0,
    devices: Strata | None = None,
) -> pl.DataFrame:
    """Return the transitions of some devices, in the order of time, client and condition.

    Columns: ``time_s``, ``client``, ``condition`` (charging, network and idle, as far as the scenario requires them;
    available for devices without habits; reachable, where there are shocks: none has the device out), ``on``. A
    condition that holds at time 0 begins there.
    """
    draws = stream(scenario.seed, replicate, Purpose.AVAILABILITY)
    devices = devices or strata(scenario, population)
    outages = outages_of(scenario, devices, replicate)
    until = to_ms(until_s)
    rows: list[tuple[float, int, str, bool]] = []
    for client in clients:
        stratum = int(devices.of_client[client])
        held = dict(condition_pieces(devices.models[stratum], client, devices.places[stratum], draws))
        if outages is not None:
            held["reachable"] = outages.reachable(client, 0)
        for condition, found in held.items():
            for start, end in between(found, 0, until):
                rows.append((start, client, condition, True))
                if end < until:
                    rows.append((end, client, condition, False))
    instants, *columns = zip(*sorted(rows), strict=True) if rows else ((), (), (), ())
    return pl.DataFrame([each_to_seconds(instants), *columns], schema=TRANSITIONS)
