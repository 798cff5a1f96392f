"""The process engine: every condition of a device and every session a process on SimPy's clock."""

from collections.abc import Callable, Generator

import numpy as np
import simpy

from fedsim.availability.model import Pieces, condition_pieces
from fedsim.availability.population import PopulationAvailability
from fedsim.availability.shocks import ShockedAvailability, availability_of
from fedsim.common.arrays import Ints
from fedsim.common.instants import DAY, FOREVER, to_ms
from fedsim.common.keyed import Purpose, stream
from fedsim.common.outcomes import ROUND_OUTCOMES
from fedsim.common.reasons import REASON_OF
from fedsim.log.columns import Arrays
from fedsim.simulation.check_ins import Connections
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.cooldowns import NEVER
from fedsim.simulation.endings import ABORTED, DROPPED, LATE, REPORTED, Closing, EndedSession
from fedsim.simulation.processes.roster import GONE, IN_SESSION, NOT_CONNECTED, SPENT, Roster
from fedsim.simulation.selector import Selector
from fedsim.simulation.state import World


def condition(
    clock: Clock, roster: Roster, client: int, holds: Pieces, without: int, drop_out: Callable[[int], None]
) -> Generator[simpy.Event, None, None]:
    """Follow one condition of a client's device: its charger, its network, its screen, or that no shock has it out.

    `holds` says when the condition holds, as `AvailabilityModel.intervals` does, in milliseconds; otherwise there is
    the reason `without` against the client, as there is at first. When the condition ends, `drop_out` is called with
    the client: its running session drops out.
    """
    there = False
    for start, end in holds:
        if start > clock.now:  # otherwise it goes on
            if there:
                roster.hold(client, without)
                drop_out(client)
                there = False
            yield clock.at(start, Turn.DEVICE)
        if end > clock.now:
            if not there:
                roster.lift(client, without)
                there = True
            if end >= FOREVER:
                return
            yield clock.at(end, Turn.DEVICE)
    if there:
        roster.hold(client, without)
        drop_out(client)


def connection(
    clock: Clock, roster: Roster, client: int, connections: Connections
) -> Generator[simpy.Event, None, None]:
    """Follow when a client is connected to the server; it is held for that at first."""
    phase, every, window = int(connections.phase[client]), connections.every, connections.window
    there = False
    while True:
        number = (clock.now - phase) // every
        begin = phase + number * every
        comes = clock.now < begin + window and connections.comes(client, number)
        if comes != there:
            (roster.lift if comes else roster.hold)(client, NOT_CONNECTED)
            there = comes
        yield clock.at(begin + (window if comes else every), Turn.DEVICE)


def departures(
    clock: Clock, roster: Roster, availability: PopulationAvailability, clients: Ints, horizon: int
) -> Generator[simpy.Event, None, None]:
    """Note which clients will never be available again, and wake a waiting server each time.

    `clients` (n,) are those whose devices may leave for good; they are followed up to `horizon`.
    """
    while len(clients):
        until = max(clock.now, min(clock.now + DAY, horizon))
        availability.at(clients, clock.now)  # models that are followed step by step go on to here, for `leaves`
        leaves = availability.leaves(clients, clock.now, until)
        for instant, client in sorted(zip(leaves.tolist(), clients.tolist(), strict=True)):
            if instant > until:
                break
            yield clock.at(instant, Turn.DEVICE)
            roster.hold(client, GONE)
            roster.wake()
        if until >= horizon:
            return
        clients = clients[leaves > until]
        yield clock.at(until, Turn.DEVICE)


class SessionProcess:
    """One client's participation in the round or version `number`, in a row of the recorder, and its process.

    `ends` and `outcome`, a code, are when and how it ends if nothing cuts it. `on_end` is called with the session and
    its outcome when it has ended: a method of its own round, so that a late report can never count for another round,
    or of the sessions of a buffered server.
    """

    __slots__ = ("_clock", "_on_end", "_process", "client", "ends", "number", "outcome", "row")

    def __init__(
        self,
        clock: Clock,
        on_end: Callable[["SessionProcess", int], None],
        number: int,
        client: int,
        row: int,
        ends: int,
        outcome: int = REPORTED,
    ) -> None:
        self._clock, self._on_end, self.outcome, self.number = clock, on_end, outcome, number
        self.client, self.row, self.ends = client, row, ends
        self._process = clock.process(self._run())

    def _run(self) -> Generator[simpy.Event, None, None]:
        # Nothing happens between the phases that anyone could see, so one event stands for all three.
        try:
            yield self._clock.at(self.ends, Turn.SESSION)
        except simpy.Interrupt:
            return
        self._on_end(self, self.outcome)

    def cut(self, outcome: int) -> None:
        """End the session before its time."""
        self._process.interrupt()
        self._on_end(self, outcome)


class ProcessRound:
    """One round's sessions, and the event at which the round may close.

    `target` is the number of reports at which it may close; `on_end` is called with each session that has ended, and
    its outcome. While the round is `open`, reports count. `sessions` are those still running, by client, in order of
    position. `may_close` happens when enough have reported, nobody is left, or it is out of time: at that instant, not
    yet in the server's turn.
    """

    def __init__(
        self, clock: Clock, target: int, on_end: Callable[[SessionProcess, int], None], closing: Closing
    ) -> None:
        self._clock, self._target, self._on_end, self._closing = clock, target, on_end, closing
        self.open, self.reported, self._overtime = True, 0, False
        self.sessions: dict[int, SessionProcess] = {}
        self.may_close = clock.event()
        if closing.deadline < FOREVER:
            self._after(closing.deadline, self._out_of_time)

    def ended(self, session: SessionProcess, outcome: int) -> None:
        """Count a session that has ended; a report is late when the round has closed."""
        self._on_end(session, LATE if outcome == REPORTED and not self.open else outcome)
        del self.sessions[session.client]
        if not self.open:
            return
        self.reported += outcome == REPORTED
        grace, enough = self._closing.grace, self.reported >= self._target
        if not self.sessions or (self._overtime and self.reported >= self._closing.minimum) or (enough and not grace):
            self.let_close()
        elif outcome == REPORTED and self.reported == self._target:
            self._after(grace, self.let_close)

    def let_close(self, _event: simpy.Event | None = None) -> None:
        """Say that the round may close."""
        if not self.may_close.triggered:
            self.may_close.succeed()

    def _after(self, delay: int, then: Callable[[simpy.Event], None]) -> None:
        self._clock.at(self._clock.now + delay, Turn.SERVER).callbacks.append(then)

    def _out_of_time(self, _event: simpy.Event) -> None:
        if self._closing.overtime and self.reported < self._closing.minimum:
            self._overtime = True
            self._after(self._closing.overtime, self.let_close)
        else:
            self.let_close()

    @property
    def outcome(self) -> str:
        """How the round closes, if it closes now."""
        if not self._target:
            return "empty"
        if self.reported >= self._target:
            return "target"
        return "deadline" if self.sessions else "exhausted"

    @property
    def any_running(self) -> bool:
        """Whether any session still runs."""
        return bool(self.sessions)

    def close(self, outcome: str) -> None:
        """Take no more reports; after a deadline the others may go on, otherwise they are aborted."""
        self.open = False
        if ROUND_OUTCOMES[outcome].remaining == "aborted":
            for session in list(self.sessions.values()):
                session.cut(ABORTED)


class ProcessBufferedSessions:
    """The sessions of a buffered server, each of them a process.

    `running` has the session of each client that is in one; devices that become unavailable cut them. The server gives
    a session up `deadline` after its start.
    """

    def __init__(self, world: "ProcessWorld", running: dict[int, SessionProcess]) -> None:
        self._world, self._clock, self._roster, self._running = world, world.clock, world.roster, running
        self._ended = list[EndedSession]()

    @property
    def count(self) -> int:
        """Sessions that run."""
        return len(self._running)

    def start(self, version: int, key: int, cohort: Ints, row: int) -> None:
        """Start sessions; `key` is that of their lengths, `row` the recorder's of the first."""
        columns = (cohort, *self._world.given_up(cohort, key, row))
        for place, (client, *ending) in enumerate(zip(*(each.tolist() for each in columns), strict=True), start=row):
            self._running[client] = SessionProcess(self._clock, self._session_ended, version, client, place, *ending)

    def take_ended(self) -> list[EndedSession]:
        """Return the sessions that have ended since the last call, in the order of their rows."""
        ended, self._ended = sorted(self._ended), []
        return ended

    def wait(self, *, free: bool, until: int) -> simpy.Event:
        """Return an event of the next end or, with places free, of the first instant with somebody eligible."""
        return self._roster.wait_for(1 if free else FOREVER, until)

    def abort(self) -> list[EndedSession]:
        """Cut all sessions short as aborted: the run is over."""
        for session in list(self._running.values()):
            session.cut(ABORTED)
        return self.take_ended()

    def _session_ended(self, session: SessionProcess, outcome: int) -> None:
        del self._running[session.client]
        self._ended.append(EndedSession(session.row, session.client, session.number, outcome))
        self._world.release(session.client)
        self._roster.wake()


class ProcessWorld(World):
    """The state of one simulation: a `Federation` whose devices and sessions are processes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        scenario, clock, devices = self.scenario, self.clock, self.devices
        self.roster = Roster(clock, devices.of_client, scenario.server.block)
        for client in self.population.barred.tolist():
            self.roster.hold(client, SPENT)
        self.selector = Selector(scenario, self.population, self.roster, self.recorder, self.replicate, self.clock)
        self._sessions: dict[int, SessionProcess] = {}  # the running ones, by client
        self.last_round: ProcessRound | None = None
        availability = availability_of(scenario, devices, self.replicate)
        draws = stream(scenario.seed, self.replicate, Purpose.AVAILABILITY)
        for client, stratum in enumerate(devices.of_client.tolist()):
            pieces = dict(condition_pieces(devices.models[stratum], client, devices.places[stratum], draws, clock.now))
            if isinstance(availability, ShockedAvailability):
                pieces["reachable"] = iter(availability.outages.reachable(client, clock.now))
            for name, holds in pieces.items():
                without = int(REASON_OF[name])
                self.roster.hold(client, without)
                clock.process(condition(clock, self.roster, client, holds, without, self._drop_out))
        if self.connections is not None:
            for client in range(len(self.population)):
                self.roster.hold(client, NOT_CONNECTED)
                clock.process(connection(clock, self.roster, client, self.connections))
        # Its own, for the server: models that are followed step by step cannot go back.
        self.availability = availability_of(scenario, devices, self.replicate)
        leaving, horizon = np.flatnonzero(availability.may_leave), scenario.stop.horizon
        clock.process(departures(clock, self.roster, availability, leaving, horizon))
        clock.process(self.roster.keep_time(to_ms(scenario.server.patience)))

    def start(self, number: int, cohort: Ints, row: int, target: int) -> ProcessRound:
        """Start a process for each session of a cohort."""
        round_ = self.last_round = ProcessRound(self.clock, target, self._session_ended, self.closing)
        endings = self.limits(cohort, number, row).endings()
        self.take(cohort, endings.at)
        columns = (cohort, *endings)
        for place, (client, *ending) in enumerate(zip(*(each.tolist() for each in columns), strict=True), start=row):
            self._run_session(round_, number, client, place, *ending)
        if self.scenario.server.cooldown_from == "selected":
            self.cool_down(cohort, number)
        if not round_.sessions:
            round_.let_close()
        return round_

    def close(self, outcome: str) -> None:
        """Close the open round; after a deadline its sessions go on, otherwise they are aborted."""
        assert self.last_round is not None
        self.last_round.close(outcome)

    def cool_down(self, clients: Ints, number: int) -> None:
        """Begin the cool-down of clients now, in a round or at a version."""
        now = self.clock.now
        cooldowns = self._cooldowns.begin(clients, number, now)
        for client, from_round, until in zip(clients.tolist(), *(column.tolist() for column in cooldowns), strict=True):
            if from_round == NEVER:
                self.roster.hold(client, SPENT)
            elif from_round > number:
                self.roster.separate(client, from_round)
            if until > now:
                self.roster.rest(client, until)

    def take(self, clients: Ints, ends: Ints) -> None:
        """Keep clients out of every roster while they are in a session."""
        for roster in self.shared.rosters or (self.roster,):
            for client in clients.tolist():
                roster.hold(client, IN_SESSION)
        super().take(clients, ends)

    def release(self, client: int) -> None:
        """Let a client go whose session has ended."""
        for roster in self.shared.rosters or (self.roster,):
            roster.lift(client, IN_SESSION)

    def buffered_sessions(self) -> ProcessBufferedSessions:
        """Return what a buffered server needs of its sessions."""
        return ProcessBufferedSessions(self, self._sessions)

    def stop(self) -> None:
        """Cut all sessions short as late: the run is over."""
        for session in list(self._sessions.values()):
            session.cut(LATE)

    def finish(self) -> None:
        """Let the clock run until no session is left."""
        while self._sessions:
            self.clock.step()

    def state(self) -> Arrays:
        """Return the same, with who is kept out, and the sessions that are late."""
        late = [(client, each.number, each.row, each.ends, each.outcome) for client, each in self._sessions.items()]
        return {
            **super().state(),
            "separated": np.array(self.roster.separated(), dtype=np.int64).reshape(-1, 2),
            "resting": np.array(list(self.roster.resting.items()), dtype=np.int64).reshape(-1, 2),
            "sessions": np.array(late, dtype=np.int64).reshape(-1, 5),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned; the clock has been set, and the devices know what it says."""
        super().restore(state)
        for client in self._cooldowns.spent().tolist():
            self.roster.hold(client, SPENT)
        for client, number in state["separated"].tolist():
            self.roster.separate(client, number)
        for client, until in state["resting"].tolist():
            self.roster.rest(client, until)
        # Sessions that run while no round is open are late: their rounds have closed.
        closed = ProcessRound(self.clock, 0, self._session_ended, self.closing)
        closed.open = False
        for client, number, row, ends, outcome in state["sessions"].tolist():
            self.roster.hold(client, IN_SESSION)
            self._run_session(closed, number, client, row, ends, outcome)

    def _run_session(self, round_: ProcessRound, number: int, client: int, row: int, ends: int, outcome: int) -> None:
        session = SessionProcess(self.clock, round_.ended, number, client, row, ends, outcome)
        round_.sessions[client] = self._sessions[client] = session

    def _drop_out(self, client: int) -> None:
        if client in self._sessions:
            self._sessions[client].cut(DROPPED)

    def _session_ended(self, session: SessionProcess, outcome: int) -> None:
        """Let a client go whose session has ended, with a cool-down where its report starts one."""
        self.recorder.end_one(session.number, session.row, self.clock.now, outcome)
        del self._sessions[session.client]
        if outcome == REPORTED and self.scenario.server.cooldown_from == "reported":
            self.cool_down(np.array([session.client]), session.number)
        self.release(session.client)
