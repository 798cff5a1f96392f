"""The process engine: every device and every session a SimPy process."""

import gc
import math
from collections.abc import Iterator
from contextlib import contextmanager

from fedsim.availability.cells import Cells
from fedsim.common.keyed import Purpose, stream
from fedsim.log.recorder import Recorder
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.selection import selection_law
from fedsim.simulation.clock import Clock
from fedsim.simulation.federation import wanted_together
from fedsim.simulation.processes.device import device
from fedsim.simulation.processes.intervals import DeviceIntervals
from fedsim.simulation.processes.roster import Roster
from fedsim.simulation.processes.world import World


def process_world(
    scenario: Scenario, population: Population, devices: Cells, clock: Clock, recorder: Recorder, replicate: int
) -> World:
    """Return a simulation in which a process for every device has been started."""
    server = scenario.server
    block, least = wanted_together(server)
    world = World(
        scenario=scenario,
        population=population,
        clock=clock,
        roster=Roster(clock, devices.of_client, block),
        recorder=recorder,
        law=selection_law(server.selection.kind, population.weight, block, scenario.seed, replicate),
        session_models=[group.session for group in scenario.population],
        session_draws=stream(scenario.seed, replicate, Purpose.SESSION),
        block=block,
        least=least,
    )
    draws = stream(scenario.seed, replicate, Purpose.AVAILABILITY)
    horizon_s = math.inf if scenario.stop.duration is None else scenario.stop.duration
    intervals = DeviceIntervals(devices, draws, clock.now, horizon_s)
    with _uncollected():
        for client in range(len(population)):
            clock.process(device(world, client, intervals.of(client)))
    clock.process(world.roster.keep_time(server.patience))
    return world


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector from looking through the processes again and again while more of them are made."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
