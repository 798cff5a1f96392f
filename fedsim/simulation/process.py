"""The process engine: every device and every session a SimPy process."""

from zoneinfo import ZoneInfo

from fedsim.availability import Place, intervals, kinds
from fedsim.keyed import Purpose, stream
from fedsim.log.recorder import Recorder
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.simulation.clock import Clock
from fedsim.simulation.device import device
from fedsim.simulation.roster import Roster
from fedsim.simulation.selection import selection_law
from fedsim.simulation.world import World


def process_world(
    scenario: Scenario, population: Population, clock: Clock, recorder: Recorder, replicate: int
) -> World:
    """Return a simulation in which a process for every device has been started."""
    server = scenario.server
    block = server.cohort if server.selection.kind == "groups" else 1
    world = World(
        scenario=scenario,
        population=population,
        clock=clock,
        roster=Roster(clock, population.group, block),
        recorder=recorder,
        law=selection_law(server.selection.kind, population.weight, server.cohort, scenario.seed, replicate),
        session_models=[group.session for group in scenario.population],
        session_draws=stream(scenario.seed, replicate, Purpose.SESSION),
        block=block,
        least=1 if server.shortage == "proceed" else server.wanted,
    )
    draws = stream(scenario.seed, replicate, Purpose.AVAILABILITY)
    places = [Place(scenario.start, ZoneInfo(group.time_zone)) for group in scenario.population]
    models = kinds(scenario)
    for client, group in enumerate(population.group.tolist()):
        clock.process(device(world, client, intervals(models[group], client, places[group], draws, clock.now)))
    clock.process(world.roster.keep_time(server.patience))
    return world
