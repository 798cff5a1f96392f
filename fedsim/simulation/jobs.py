"""Runs several jobs on one fleet: a server process for each, on one clock."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from fedsim.availability.population import Strata
from fedsim.common.errors import StalledError
from fedsim.common.instants import FOREVER, to_seconds
from fedsim.log.recorder import LogSink
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.simulation.engine import Begun, Enough, Progress, begin, run_until, sharing
from fedsim.simulation.processes.world import ProcessWorld
from fedsim.simulation.server import Steps
from fedsim.simulation.world import Clock, Turn


@dataclass
class JobRun:
    """How a job's part of a run ended: the simulated time, and the error if it stalled."""

    begun: Begun
    ended: int = -1
    stalled: StalledError | None = None
    served: bool = False  # so that its late sessions may end by themselves


def simulate_jobs(
    sinks: Mapping[str, LogSink],
    scenario: Scenario,
    views: Mapping[str, tuple[Scenario, Population, Strata]],
    replicate: int = 0,
    progress: Progress | None = None,
) -> dict[str, tuple[float, StalledError | None]]:
    """Simulate the jobs of a scenario into a sink each; return when each ended (s), and its error if it stalled.

    `views` are the scenarios of the jobs (`Scenario.of_job`) with what was made of them. A job ends by its own stop,
    and the others go on. `progress` is called as that of `fedsim.simulation.engine.simulate_log`, with the mean number
    of rounds that the jobs have closed.
    """
    clock = Clock(0)
    shared = sharing(clock, scenario, replicate)
    runs: list[JobRun] = []

    def tell(_: int = 0) -> None:
        if progress is not None:
            progress(sum(each.begun.world.recorder.closed for each in runs) // len(views), to_seconds(clock.now))

    for name, (view, population, devices) in views.items():
        weight = scenario.jobs[name].weight
        begun = begin(view, population, devices, clock, sinks[name], replicate, tell, shared=shared, weight=weight)
        runs.append(JobRun(begun))
    worlds = [run.begun.world for run in runs]
    rosters = [world.roster for world in worlds if isinstance(world, ProcessWorld)]
    for world in worlds:
        if isinstance(world, ProcessWorld):
            world.rosters = rosters
    ends = [clock.process(_serve_to_end(clock, run)) for run in runs]
    try:
        run_until(clock, clock.all_of(ends), tell)
    except Enough:
        for run in runs:
            if run.ended < 0:
                _stop(clock, run)
    for run in runs:
        if run.served:
            run.begun.world.finish()
            run.ended = max(run.ended, run.begun.world.recorder.last_end)
        run.begun.world.recorder.settle()
    with suppress(Enough):
        tell()
    return {name: (to_seconds(run.ended), run.stalled) for name, run in zip(views, runs, strict=True)}


def _serve_to_end(clock: Clock, run: JobRun) -> Steps:
    """Run one job until its server has ended or its duration is over; its gauges end with it."""
    horizon = run.begun.world.scenario.stop.horizon
    serving = clock.process(run.begun.steps)
    if run.begun.gauges is not None:
        clock.process(run.begun.gauges)
    stopping = clock.at(horizon, Turn.STOP) if horizon < FOREVER else None
    try:
        yield serving if stopping is None else serving | stopping
    except StalledError as error:
        run.stalled = error
        _stop(clock, run)
        return
    if stopping is not None and clock.now >= horizon:
        if not stopping.processed:
            yield stopping  # the last round may have closed at this very instant: let it run its course
        _stop(clock, run)
    else:
        run.ended, run.served = clock.now, run.begun.world.scenario.server.selects_once
        run.begun.forget()


def _stop(clock: Clock, run: JobRun) -> None:
    run.begun.stop()
    run.begun.forget()
    run.ended = clock.now
