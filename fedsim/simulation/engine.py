"""Runs a simulation: one server process on one SimPy clock, with the devices as one of the engines keeps them.

It also tells the life of chosen devices, condition by condition.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
import simpy

from fedsim.availability import between
from fedsim.availability.model import condition_pieces
from fedsim.availability.population import Strata, strata
from fedsim.availability.shocks import outages_of
from fedsim.common.arrays import Ints
from fedsim.common.errors import ScenarioError, StalledError
from fedsim.common.instants import FOREVER, each_to_seconds, to_ms, to_seconds
from fedsim.common.keyed import Purpose, stream
from fedsim.log import TRANSITIONS, Log
from fedsim.log.columns import part_of, with_prefix
from fedsim.log.journal import Journal, damaged
from fedsim.log.recorder import InMemoryLog, LogSink, Recorder
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.selection import Feedback, needs_feedback
from fedsim.selection.matching import ranking
from fedsim.simulation.arrays.world import ArrayWorld
from fedsim.simulation.gate import Closed, Gate, Learner
from fedsim.simulation.processes.world import ProcessWorld
from fedsim.simulation.server import BufferedRun, Federation, Steps, serve, stop_now
from fedsim.simulation.world import Clock, Sharing, Turn

Progress = Callable[[int, float], None]
"""Called now and then with the number of rounds closed and the simulated time in seconds.

It may raise `Enough`.
"""


class Enough(Exception):  # noqa: N818  what is raised is no error
    """Ends a simulation where it stands, as if the duration of its run were over."""


FEW_DEVICES = 100
"""Up to so many devices `engine: auto` takes processes: over a week, arrays are faster from about 60 devices with
habits, and 300 of other kinds."""


def simulate_log(
    scenario: Scenario,
    population: Population,
    replicate: int = 0,
    progress: Progress | None = None,
    devices: Strata | None = None,
    learner: Learner | None = None,
) -> Log:
    """Simulate a scenario without mistakes; the same seed and replicate give the same log.

    `progress` is called at the opening of each round, every few hundred events, and at the end; it may raise `Enough`.
    `learner` tells a law that needs feedback what came of each round.

    Raises
    ------
    StalledError
        If the federation can never make progress again; it has the log until then.
    """
    memory = InMemoryLog()
    try:
        return memory.log(simulate_into(memory, scenario, population, replicate, progress, devices, learner))
    except StalledError as error:
        error.log = memory.log(error.ended_s)
        raise


def simulate_into(
    sink: LogSink,
    scenario: Scenario,
    population: Population,
    replicate: int = 0,
    progress: Progress | None = None,
    devices: Strata | None = None,
    learner: Learner | None = None,
) -> float:
    """Simulate a scenario into a sink, into a journal from where it stands, and return when it ended, in seconds.

    With a journal, the memory that this takes does not grow with the number of rounds. Parameters and errors are those
    of `simulate_log`, and so are the tables; a `StalledError` is raised after the log until then is in the sink.
    """
    steps = stepped(sink, scenario, population, replicate, progress, devices, learner, gated=learner is not None)
    told: Feedback | None = None
    while True:
        try:
            closed = steps.send(told)
        except StopIteration as end:
            return float(end.value)
        assert learner is not None
        told = learner.tell(closed)


def stepped(
    sink: LogSink,
    scenario: Scenario,
    population: Population,
    replicate: int = 0,
    progress: Progress | None = None,
    devices: Strata | None = None,
    learner: Learner | None = None,
    *,
    gated: bool = True,
) -> Generator[Closed, Feedback | None, float]:
    """Simulate as `simulate_into` does, but yield each round once it has closed, and go on when that is sent feedback.

    The feedback goes to the law before its next selection; a law that needs none may be sent None. Without `gated`
    nothing is yielded. The state of a learner, whom somebody else asks, is kept in the journal.
    """
    journal = sink if isinstance(sink, Journal) else None
    state = None if journal is None else journal.state
    clock = Clock(0 if state is None else int(state["now"]))

    def opening(number: int) -> None:
        # All that a run needs to go on from here: the draws are functions of their keys, availability is one of time.
        if journal is not None and journal.due() and (trained := learner.state() if learner else {}) is not None:
            parts = with_prefix("log", recorder.state()) | with_prefix("world", world.state())
            parts |= with_prefix("learner", trained)
            journal.keep({**parts, "number": np.array(number), "now": np.array(clock.now)})
        if progress is not None:
            progress(number, to_seconds(clock.now))

    devices = devices or strata(scenario, population)
    begun = begin(scenario, population, devices, clock, sink, replicate, opening, journal, learner=learner, gated=gated)
    world, recorder, serving = begun.world, begun.world.recorder, clock.process(begun.steps)
    if begun.gauges is not None:
        clock.process(begun.gauges)
    try:
        stalled = yield from _run_to_end(begun, serving, progress)
    finally:
        begun.forget()
    recorder.settle()
    if progress is not None:
        with suppress(Enough):
            progress(recorder.closed, to_seconds(clock.now))
    if stalled is not None:
        stalled.ended_s = to_seconds(clock.now)
        raise stalled
    return to_seconds(clock.now)


@dataclass(frozen=True, eq=False)
class Begun:
    """A server on a clock: `steps` and `gauges` are to be run as processes, and `stop` cuts the run off."""

    world: Federation
    steps: Steps
    stop: Callable[[], None]
    gauges: Steps | None
    gate: Gate | None

    def forget(self) -> None:
        """Break the reference cycle generator -> world -> clock -> generator, so that memory is freed at once."""
        self.steps.close()
        if self.gauges is not None:
            self.gauges.close()


def begin(
    scenario: Scenario,
    population: Population,
    devices: Strata,
    clock: Clock,
    sink: LogSink,
    replicate: int,
    opening: Callable[[int], None],
    journal: Journal | None = None,
    shared: Sharing | None = None,
    weight: float = 1.0,
    learner: Learner | None = None,
    *,
    gated: bool = False,
) -> Begun:
    """Make what a simulation needs on a clock, from where a journal stands, perhaps with a gate.

    `shared` is what it shares with the other jobs on the fleet, among which it has a `weight`.
    """
    if needs_feedback(scenario.server.selection) and not gated:
        message = "the law goes by what came of earlier rounds, which nothing tells here"
        raise ScenarioError([scenario.mistake(("server", "selection"), message)])
    state = None if journal is None else journal.state
    recorder = Recorder(len(population), devices.names, sink, scenario.server.staleness)
    engine = ArrayWorld if engine_of(scenario) == "vectorized" else ProcessWorld
    if shared is None and scenario.most_a_day is not None:
        shared = sharing(clock, scenario, replicate)
    world: Federation = engine(scenario, population, devices, clock, recorder, replicate, shared)
    if shared is not None:
        shared.join(scenario.job, weight, recorder, world.roster)
    if journal is not None and state is not None:
        try:
            recorder.restore(part_of("log", state))
            world.restore(part_of("world", state))
            if learner is not None:
                learner.restore(part_of("learner", state))
        except (LookupError, TypeError, ValueError) as error:
            raise damaged(journal.file, f"{type(error).__name__}: {error}") from None
    gauges, records, gate = None, scenario.records, Gate(world) if gated else None
    if records.gauges is not None:
        gauges = _gauge(world, devices.of_client, to_ms(records.gauges), records.gauge_sample)
    if scenario.server.selects_once:
        steps = serve(world, opening, 0 if state is None else int(state["number"]), gate)
        begun = Begun(world, steps, partial(stop_now, world), gauges, gate)
    else:
        versions = BufferedRun(world, scenario.server, gate)
        begun = Begun(world, versions.serve(), versions.stop_now, gauges, gate)
    return begun


def sharing(clock: Clock, scenario: Scenario, replicate: int) -> Sharing:
    """Return what the jobs of a scenario share."""
    policy, draws = ranking(scenario.matching_policy), stream(scenario.seed, replicate, Purpose.MATCHING)
    return Sharing(clock, scenario.devices, policy.rank, draws, scenario.most_a_day)


def engine_of(scenario: Scenario) -> str:
    """Return the engine that simulates a scenario, ``process`` or ``vectorized``."""
    if scenario.engine == "auto":
        return "process" if scenario.devices <= FEW_DEVICES else "vectorized"
    return scenario.engine


def _run_to_end(
    begun: Begun, serving: simpy.Event, progress: Progress | None
) -> Generator[Closed, Feedback | None, StalledError | None]:
    """Run until the server has ended or the duration is over; return the error of a server that stalled."""
    world, clock, stop = begun.world, begun.world.clock, begun.world.scenario.stop.horizon
    stopping = clock.at(stop, Turn.STOP) if stop < FOREVER else None

    def tell() -> None:
        if progress is not None:
            progress(world.recorder.closed, to_seconds(clock.now))

    try:
        yield from _stepped(begun, serving if stopping is None else serving | stopping, tell)
    except Enough:
        begun.stop()
    except StalledError as error:
        begun.stop()
        return error
    else:
        if stopping is not None and clock.now >= stop:
            # The last round may have closed at the very instant of the stop: let that instant run its course.
            yield from _stepped(begun, stopping, lambda: None)
            begun.stop()
        elif world.scenario.server.selects_once:
            # Sessions that are late may still be on their way: let them end.
            world.finish()
    yield from _through(begun)  # the round that the stop has closed
    return None


def run_until(clock: Clock, event: simpy.Event, tell: Callable[[], None], closed: Sequence[Closed] = ()) -> None:
    """Let the clock run until an event has happened, or something has closed; `tell` is called every so often."""
    while not event.processed and not closed:
        for _ in range(256):
            clock.step()
            if event.processed or closed:
                break
        tell()


def _stepped(begun: Begun, event: simpy.Event, tell: Callable[[], None]) -> Generator[Closed, Feedback | None, None]:
    """Let the clock run until an event has happened, but hand out what closes, and pass on what comes of it."""
    gate = begun.gate
    while gate is not None and not event.processed:
        run_until(begun.world.clock, event, tell, gate.closed)
        yield from _through(begun)
    run_until(begun.world.clock, event, tell)


def _through(begun: Begun) -> Generator[Closed, Feedback | None, None]:
    while begun.gate is not None and begun.gate.closed:
        told = yield begun.gate.closed.pop(0)
        if told is not None and begun.world.selector.informed:
            begun.world.selector.take(told)


@dataclass(frozen=True)
class Sample:
    """Clients (n,) that stand for all, None for everyone; with the size of each cell, and how many of it are in."""

    clients: Ints | None
    sizes: Ints
    taken: Ints

    def scaled(self, counts: Ints) -> Ints:
        """Return what counts (..., cells) in the sample say of the whole cells, to the nearest client."""
        return (2 * counts * self.sizes + self.taken) // (2 * self.taken)


def sample(cell: Ints, most: int | None) -> Sample:
    """Choose whom to count.

    `cell` (N,) is the cell of each client; `most` clients are chosen, or everyone where it is None. They are spread
    evenly over the cells, and what a small cell does not need goes to the others; each has one at least.
    """
    sizes = np.bincount(cell)
    if most is None or len(cell) <= most:
        return Sample(None, sizes, sizes)
    taken, left = np.empty_like(sizes), most
    for rank, each in enumerate(np.argsort(sizes, kind="stable").tolist()):
        taken[each] = min(int(sizes[each]), max(1, left // (len(sizes) - rank)))
        left -= int(taken[each])
    firsts, order = np.cumsum(sizes) - sizes, np.argsort(cell, kind="stable")
    number = np.arange(taken.sum()) - np.repeat(np.cumsum(taken) - taken, taken)
    spaced = (2 * number + 1) * np.repeat(sizes, taken) // (2 * np.repeat(taken, taken))
    return Sample(np.sort(order[np.repeat(firsts, taken) + spaced]), sizes, taken)


def _gauge(world: Federation, cell: Ints, every: int, most: int | None) -> Steps:
    """Count the population every so many milliseconds; the other parameters are those of `sample`."""
    counted = sample(cell, most)
    while True:
        yield world.clock.at(world.recorder.ticks * every, Turn.GAUGE)
        available, eligible, *against = counted.scaled(world.roster.counts(counted.clients))
        world.recorder.gauge(world.clock.now, np.array([available, eligible, world.roster.in_session(), *against]))


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
