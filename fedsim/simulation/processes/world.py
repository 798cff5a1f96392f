"""The process engine: every condition of a device and every session a process on SimPy's clock."""

import math

import numpy as np

from fedsim.availability.model import condition_pieces
from fedsim.availability.population import Strata
from fedsim.availability.shocks import ShockedAvailability, availability_of, server_outages
from fedsim.common.arrays import Ints
from fedsim.common.instants import to_ms
from fedsim.common.keyed import Purpose, stream
from fedsim.common.reasons import REASON_OF
from fedsim.log.columns import Arrays
from fedsim.log.recorder import CODES, Recorder
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.simulation.clock import Clock
from fedsim.simulation.cooldown import NEVER, Cooldowns
from fedsim.simulation.processes.devices import condition, departures
from fedsim.simulation.processes.roster import IN_SESSION, SPENT, Roster
from fedsim.simulation.processes.sessions import ProcessBufferedSessions, ProcessRound, SessionProcess
from fedsim.simulation.selector import Selector
from fedsim.simulation.sessions import session_lengths


class ProcessWorld:
    """The state of one simulation: a `Federation` whose devices and sessions are processes.

    Parameters are those of the simulation.
    """

    def __init__(
        self,
        scenario: Scenario,
        population: Population,
        devices: Strata,
        clock: Clock,
        recorder: Recorder,
        replicate: int,
    ) -> None:
        self.scenario, self.population, self.clock, self.recorder = scenario, population, clock, recorder
        self.roster = Roster(clock, devices.of_client, scenario.server.block)
        self.selector = Selector(scenario, population, self.roster, recorder, replicate)
        draws = stream(scenario.seed, replicate, Purpose.SESSION)
        self._lengths = session_lengths(scenario, population, draws)
        self._cooldowns = Cooldowns(scenario.server, population)
        self._sessions: dict[int, SessionProcess] = {}  # the running ones, by client
        self._round: ProcessRound | None = None
        self.outages = server_outages(scenario, replicate)
        self._start_devices(devices, replicate)
        clock.process(self.roster.keep_time(to_ms(scenario.server.patience)))

    def _start_devices(self, devices: Strata, replicate: int) -> None:
        """Start a process for each condition of each device."""
        clock, scenario = self.clock, self.scenario
        availability = availability_of(scenario, devices, replicate)
        draws = stream(scenario.seed, replicate, Purpose.AVAILABILITY)
        for client, stratum in enumerate(devices.of_client.tolist()):
            found = dict(condition_pieces(devices.models[stratum], client, devices.places[stratum], draws, clock.now))
            if isinstance(availability, ShockedAvailability):
                found["reachable"] = iter(availability.outages.reachable(client, clock.now))
            for name, holds in found.items():
                without = int(REASON_OF[name])
                self.roster.hold(client, without)
                clock.process(condition(clock, self.roster, client, holds, without, self._drop_out))
        leaving, horizon = np.flatnonzero(availability.may_leave), scenario.stop.horizon
        clock.process(departures(clock, self.roster, availability, leaving, horizon))

    @property
    def current_round(self) -> ProcessRound | None:
        """The round whose reports still count."""
        return self._round if self._round is not None and self._round.open else None

    def start(self, number: int, cohort: Ints, row: int, target: int) -> ProcessRound:
        """Start a process for each session of a cohort."""
        round_ = self._round = ProcessRound(self.clock, target, self._session_ended)
        ends = (self.clock.now + self._lengths(cohort, number)).tolist()
        for place, (client, end) in enumerate(zip(cohort.tolist(), ends, strict=True), start=row):
            self._run_session(round_, number, client, place, end)
        if self.scenario.server.cooldown_from == "selected":
            self.cool_down(cohort, number)
        if not round_.sessions:
            round_.may_close.succeed()
        return round_

    def cool_down(self, clients: Ints, number: int) -> None:
        """Begin the cool-down of clients now, in a round or at a version."""
        now = self.clock.now
        found = self._cooldowns.begin(clients, number, now)
        for client, from_round, until in zip(clients.tolist(), *(column.tolist() for column in found), strict=True):
            if from_round == NEVER:
                self.roster.hold(client, SPENT)
            elif from_round > number:
                self.roster.separate(client, from_round)
            if until > now:
                self.roster.rest(client, until)

    def buffered_sessions(self) -> ProcessBufferedSessions:
        """Return what a buffered server needs of its sessions."""
        deadline = to_ms(self.scenario.server.deadline or math.inf)
        return ProcessBufferedSessions(self.clock, self.roster, self._sessions, self._lengths, deadline)

    def stop(self) -> None:
        """Cut all sessions short as late: the run is over."""
        for session in list(self._sessions.values()):
            session.cut("late")

    def finish(self) -> None:
        """Let the clock run until no session is left."""
        while self._sessions:
            self.clock.step()

    def state(self) -> Arrays:
        """Return all that is needed to go on at the opening of a round, except the clock and the log."""
        late = [(client, each.number, each.row, each.ends) for client, each in self._sessions.items()]
        return {
            **self.selector.state(),
            "separated": np.array(self.roster.separated(), dtype=np.int64).reshape(-1, 2),
            "resting": np.array(list(self.roster.resting.items()), dtype=np.int64).reshape(-1, 2),
            "sessions": np.array(late, dtype=np.int64).reshape(-1, 4),
            **self._cooldowns.state(),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned; the clock has been set, and the devices know what it says."""
        self.selector.restore(state)
        self._cooldowns.restore(state)
        for client in self._cooldowns.spent().tolist():
            self.roster.hold(client, SPENT)
        for client, number in state["separated"].tolist():
            self.roster.separate(client, number)
        for client, until in state["resting"].tolist():
            self.roster.rest(client, until)
        # Sessions that run while no round is open are late: their rounds have closed.
        closed = ProcessRound(self.clock, 0, self._session_ended)
        closed.open = False
        for client, number, row, ends in state["sessions"].tolist():
            self._run_session(closed, number, client, row, ends)

    def _run_session(self, round_: ProcessRound, number: int, client: int, row: int, ends: int) -> None:
        self.roster.hold(client, IN_SESSION)
        session = SessionProcess(self.clock, round_.ended, number, client, row, ends)
        round_.sessions[client] = self._sessions[client] = session

    def _drop_out(self, client: int) -> None:
        if client in self._sessions:
            self._sessions[client].cut("dropped")

    def _session_ended(self, session: SessionProcess, outcome: str) -> None:
        """Let a client go whose session has ended, with a cool-down where its report starts one."""
        self.recorder.end_one(session.number, session.row, self.clock.now, CODES[outcome])
        del self._sessions[session.client]
        if outcome == "reported" and self.scenario.server.cooldown_from == "reported":
            self.cool_down(np.array([session.client]), session.number)
        self.roster.lift(session.client, IN_SESSION)
