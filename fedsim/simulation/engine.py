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
from fedsim.log import TRANSITIONS, noted
from fedsim.log.columns import part_of, with_prefix
from fedsim.log.journal import Journal, damaged
from fedsim.log.recorder import InMemoryLog, LogSink, Recorder
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.scenario.stop import Counts
from fedsim.selection import Feedback, needs_feedback
from fedsim.simulation.arrays.world import ArrayWorld
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.gate import Closed, Gate, Learner
from fedsim.simulation.processes.world import ProcessWorld
from fedsim.simulation.server import BufferedRun, Federation, Steps, serve, stop_now
from fedsim.simulation.sharing import Alone, sharing
from fedsim.simulation.spending import spent_of

Progress = Callable[[Counts, float], None]
"""Called now and then with what has happened so far and the simulated time in seconds.

It may raise `Enough`.
"""


class Enough(Exception):  # noqa: N818  what is raised is no error
    """Ends a simulation where it stands, as if the duration of its run were over."""


FEW_DEVICES = 100
"""Up to so many devices `engine: auto` takes processes: over a week, arrays are faster from about 60 devices with
habits, and 300 of other kinds."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """A scenario without mistakes, and who follows its simulation; the same seed and replicate give the same log.

    `progress` is called at the opening of each round, every few hundred events, and at the end; it may raise `Enough`.
    `learner` tells a law that needs feedback the outcome of each round.
    """

    scenario: Scenario
    population: Population
    replicate: int = 0
    progress: Progress | None = None
    devices: Strata | None = None  # those of the scenario, if they are made already
    learner: Learner | None = None


def simulate_log(
    scenario: Scenario,
    population: Population,
    replicate: int = 0,
    progress: Progress | None = None,
    devices: Strata | None = None,
    learner: Learner | None = None,
) -> InMemoryLog:
    """Simulate a scenario in memory; the parameters are those of a `Simulation`.

    Raises
    ------
    StalledError
        If the federation can never make progress again; it has the log until then.
    """
    memory = InMemoryLog()
    try:
        memory.ended_s = simulate_into(memory, Simulation(scenario, population, replicate, progress, devices, learner))
    except StalledError as error:
        error.log, memory.ended_s = memory, error.ended_s
        raise
    return memory


def simulate_into(sink: LogSink, simulation: Simulation) -> float:
    """Simulate a scenario into a sink, into a journal from where it stands, and return when it ended, in seconds.

    With a journal, the memory that this takes does not grow with the number of rounds. Tables and errors are those of
    `simulate_log`; a `StalledError` is raised after the log until then is in the sink.
    """
    learner = simulation.learner
    steps = stepped(sink, simulation, gated=learner is not None)
    feedback: Feedback | None = None
    while True:
        try:
            closed = steps.send(feedback)
        except StopIteration as end:
            return float(end.value)
        assert learner is not None
        feedback = learner.train(closed)


def stepped(sink: LogSink, simulation: Simulation, *, gated: bool = True) -> Generator[Closed, Feedback | None, float]:
    """Simulate as `simulate_into` does, but yield each round once it has closed, and go on when that is sent feedback.

    The feedback goes to the law before its next selection; a law that needs none may be sent None. Without `gated`
    nothing is yielded. The state of a learner, whom somebody else asks, is kept in the journal.
    """
    journal, learner, progress = sink if isinstance(sink, Journal) else None, simulation.learner, simulation.progress
    state = None if journal is None else journal.state
    clock = Clock(0 if state is None else int(state["now"]))

    def opening(number: int) -> None:
        # All that a run needs to go on from here: the draws are functions of their keys, availability is one of time.
        if journal is not None and journal.due() and (trained := learner.state() if learner else {}) is not None:
            parts = with_prefix("log", recorder.state()) | with_prefix("world", world.state())
            parts |= with_prefix("learner", trained)
            journal.keep({**parts, "number": np.array(number), "now": np.array(clock.now)})
        notify()

    def notify() -> None:
        if progress is not None:
            progress(recorder.counts, to_seconds(clock.now))

    server = ServerRun(simulation, clock, sink, opening, gated=gated)
    world, recorder = server.world, server.world.recorder
    yield from served([server], notify)
    if server.stalled is not None:
        server.stalled.ended_s = to_seconds(server.ended)
        raise server.stalled
    return to_seconds(server.ended)


class ServerRun:
    """A server on a clock, with its devices; from where a journal stands, if the sink is one.

    `opening` is called with the number of each round before it is opened. `shared` is what it shares with the other
    jobs on the fleet, among which it has a `weight`. If it is `gated`, what closes is handed out.

    `ended` is the instant at which it has ended, -1 before, and `stalled` the error if it stalled.
    """

    def __init__(
        self,
        simulation: Simulation,
        clock: Clock,
        sink: LogSink,
        opening: Callable[[int], None],
        shared: Alone | None = None,
        weight: float = 1.0,
        *,
        gated: bool = False,
    ) -> None:
        scenario, population, replicate = simulation.scenario, simulation.population, simulation.replicate
        if needs_feedback(scenario.server.selection) and not gated:
            message = "the law goes by the outcome of earlier rounds, which nothing gives here"
            raise ScenarioError([scenario.mistake(("server", "selection"), message)])
        devices = simulation.devices or strata(scenario, population)
        server = scenario.server
        spent = partial(spent_of, scenario, population) if scenario.works else None
        recorder = Recorder(len(population), devices.names, sink, server.staleness, noted(scenario), spent)
        engine = ArrayWorld if engine_of(scenario) == "vectorized" else ProcessWorld
        shared = shared or sharing(clock, scenario, replicate)
        world: Federation = engine(scenario, population, devices, clock, recorder, replicate, shared)
        shared.join(scenario.job, weight, recorder, world.roster)
        number = self._restore(world, sink, simulation.learner) if isinstance(sink, Journal) else 0
        self._gate, self._gauges = Gate(world, steps=gated), _gauges(world, devices.of_client)
        self._stop: Callable[[], None]
        if scenario.server.selects_once:
            self._rounds, self._stop = serve(world, opening, self._gate, number), partial(stop_now, world)
        else:
            versions = BufferedRun(world, scenario.server, self._gate)
            self._rounds, self._stop = versions.serve(), versions.stop_now
        self._whole = self._serve_to_end()
        self.world, self.ended = world, -1
        self.stalled: StalledError | None = None
        self._served = False

    @staticmethod
    def _restore(world: Federation, journal: Journal, learner: Learner | None) -> int:
        """Go on from where a journal stands, and return the number of the next round."""
        if journal.state is None:
            return 0
        try:
            world.recorder.restore(part_of("log", journal.state))
            world.restore(part_of("world", journal.state))
            if learner is not None:
                learner.restore(part_of("learner", journal.state))
        except (LookupError, TypeError, ValueError) as error:
            raise damaged(journal.file, f"{type(error).__name__}: {error}") from None
        return int(journal.state["number"])

    def start(self) -> simpy.Event:
        """Begin to serve, and return the event that happens when the server has ended."""
        return self.world.clock.process(self._whole)

    def _serve_to_end(self) -> Steps:
        """Serve until the server has ended, has stalled, or the duration is over."""
        clock, horizon = self.world.clock, self.world.scenario.stop.horizon
        serving = clock.process(self._rounds)
        clock.process(self._gauges)
        stopping = clock.at(horizon, Turn.STOP) if horizon < FOREVER else None
        try:
            yield serving if stopping is None else serving | stopping
        except StalledError as error:
            self.stalled = error
            self.stop()
            return
        if stopping is None or clock.now < horizon:
            self.ended, self._served = clock.now, True
            return
        if not stopping.processed:
            yield stopping  # the last round may have closed at this very instant: let it run its course
        self.stop()

    def stop(self) -> None:
        """Cut the run off."""
        self._stop()
        self.ended = self.world.clock.now

    def finish(self) -> None:
        """Let sessions that are late end by themselves, if the server has served its rounds; complete the log."""
        if self._served and self.world.scenario.server.selects_once:
            self.world.finish()
            self.ended = max(self.ended, self.world.recorder.last_end)
        self.world.recorder.settle()

    def forget(self, _end: simpy.Event | None = None) -> None:
        """Break the reference cycle generator -> world -> clock -> generator, so that memory is freed at once."""
        for each in (self._whole, self._rounds, self._gauges):
            each.close()

    def hand_out(
        self, until: simpy.Event | None = None, progress: Callable[[], None] = lambda: None
    ) -> Generator[Closed, Feedback | None, None]:
        """Let the clock run until an event has happened, but yield what closes, and pass on what comes of it."""
        while True:
            closed = self._gate.closed
            while until is not None and not until.processed and not closed:
                for _ in range(256):
                    self.world.clock.step()
                    if until.processed or closed:
                        break
                progress()
            while closed:
                feedback = yield closed.pop(0)
                if feedback is not None and self.world.selector.informed:
                    self.world.selector.take(feedback)
            if until is None or until.processed:
                return


def served(servers: Sequence[ServerRun], notify: Callable[[], None]) -> Generator[Closed, Feedback | None, None]:
    """Let servers on one clock serve until all have ended, or `notify` raises `Enough`; yield what the first closes."""
    first, ends = servers[0], [each.start() for each in servers]
    for end, each in zip(ends, servers, strict=True) if len(servers) > 1 else ():
        end.callbacks.append(each.forget)  # its gauges end with it
    try:
        try:
            yield from first.hand_out(first.world.clock.all_of(ends) if len(servers) > 1 else ends[0], notify)
        except Enough:
            for each in [each for each in servers if each.ended < 0]:
                each.stop()
                each.forget()
        for each in servers:
            each.finish()
        yield from first.hand_out()  # the round that the stop has closed
    finally:
        for each in servers:
            each.forget()
    with suppress(Enough):
        notify()


def engine_of(scenario: Scenario) -> str:
    """Return the engine that simulates a scenario, ``process`` or ``vectorized``."""
    if scenario.engine == "auto":
        return "process" if scenario.devices <= FEW_DEVICES else "vectorized"
    return scenario.engine


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


def _gauges(world: Federation, cell: Ints) -> Steps:
    """Count the population, of which each client is in a cell (N,), as often as the scenario wants."""
    records = world.scenario.records
    if records.gauges is None:
        return
    counted, every = sample(cell, records.gauge_sample), to_ms(records.gauges)
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
        for condition, pieces in held.items():
            for start, end in between(pieces, 0, until):
                rows.append((start, client, condition, True))
                if end < until:
                    rows.append((end, client, condition, False))
    instants, *columns = zip(*sorted(rows), strict=True) if rows else ((), (), (), ())
    return pl.DataFrame([each_to_seconds(instants), *columns], schema=TRANSITIONS)
