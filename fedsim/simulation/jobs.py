"""Runs several jobs on one fleet: a server process for each, on one clock."""

from collections.abc import Mapping

from fedsim.availability.population import Strata
from fedsim.common.errors import StalledError
from fedsim.common.instants import to_seconds
from fedsim.log.recorder import LogSink
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.scenario.stop import Counts
from fedsim.simulation.clock import Clock
from fedsim.simulation.engine import Progress, ServerRun, Simulation, served
from fedsim.simulation.sharing import sharing


def simulate_jobs(
    sinks: Mapping[str, LogSink],
    scenario: Scenario,
    views: Mapping[str, tuple[Scenario, Population, Strata]],
    replicate: int = 0,
    progress: Progress | None = None,
) -> dict[str, tuple[float, StalledError | None]]:
    """Simulate the jobs of a scenario into a sink each; return when each ended (s), and its error if it stalled.

    `views` are the scenarios of the jobs (`Scenario.of_job`) with what was made of them. A job ends by its own stop,
    and the others go on. `progress` is called as that of a `Simulation`, with the means of the jobs' counts.
    """
    clock = Clock(0)
    shared = sharing(clock, scenario, replicate)
    servers: dict[str, ServerRun] = {}

    def notify(_: int = 0) -> None:
        if progress is not None:
            columns = zip(*(each.world.recorder.counts for each in servers.values()), strict=True)
            progress(Counts(*(sum(column) // len(views) for column in columns)), to_seconds(clock.now))

    for name, (view, population, devices) in views.items():
        simulation = Simulation(view, population, replicate, devices=devices)
        servers[name] = ServerRun(simulation, clock, sinks[name], notify, shared, scenario.jobs[name].weight)
    for _ in served([*servers.values()], notify):
        raise AssertionError("no server of several hands out what closes")
    return {name: (to_seconds(each.ended), each.stalled) for name, each in servers.items()}
