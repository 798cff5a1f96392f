"""What the processes of one simulation share: the clock, the roster, the log, and who is in a session."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedsim.common.keyed import Stream
from fedsim.log.columns import Arrays
from fedsim.log.recorder import Recorder
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.scenario.models import Session as SessionModel
from fedsim.selection import Law, Request
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.processes.device import cooldown
from fedsim.simulation.processes.flights import ProcessFlights
from fedsim.simulation.processes.roster import Bar, Roster
from fedsim.simulation.processes.session import Round, Session, session_lengths


@dataclass
class World:
    """The shared state of one simulation: a `Federation` whose devices and sessions are processes.

    Attributes
    ----------
    law
        The selection law.
    session_models, session_draws
        Session model of each group, and the stream for session lengths.
    block
        Clients that can be selected only together.
    least
        Fewest ready clients with which a round can start.
    sessions
        The running session of each client that is in one.
    last_selected
        The client selected last, -1 before the first.
    resting
        Until when its wall-clock cool-down keeps each client out.
    """

    scenario: Scenario
    population: Population
    clock: Clock
    roster: Roster
    recorder: Recorder
    law: Law
    session_models: list[SessionModel]
    session_draws: Stream
    block: int
    least: int
    sessions: dict[int, Session] = field(default_factory=dict)
    last_selected: int = -1
    resting: dict[int, float] = field(default_factory=dict)
    _round: Round | None = None

    @property
    def open_round(self) -> Round | None:
        """The round whose reports still count."""
        return self._round if self._round is not None and self._round.open else None

    def select(self, request: Request) -> NDArray[np.int64]:
        """Choose a cohort by the selection law."""
        return self.law(request, self.roster)

    def start(self, number: int, cohort: NDArray[np.int64], row: int, target: int) -> Round:
        """Start a process for each session of a cohort."""
        lengths = session_lengths(self.session_models, self.population, cohort, number, self.session_draws)
        self._round = Round(self, number, target)
        for place, (client, length_s) in enumerate(zip(cohort.tolist(), lengths.tolist(), strict=True), start=row):
            self.session_starts(client, number)
            session = Session(self.clock, self._round, number, client, place, self.clock.now + length_s)
            self._round.sessions[client] = self.sessions[client] = session
        if not self._round.sessions:
            self.clock.trigger(self._round.may_close, Turn.SERVER)
        return self._round

    def flights(self) -> ProcessFlights:
        """Return what a buffered server needs of its sessions."""
        return ProcessFlights(self)

    def stop(self) -> None:
        """Cut all sessions short: the run is over."""
        for session in list(self.sessions.values()):
            session.cut("late")

    def finish(self) -> None:
        """Let the clock run until no session is left."""
        while self.sessions:
            self.clock.step()

    def state(self) -> Arrays:
        """Return all that is needed to go on at the opening of a round, beside the clock and the log."""
        late = [(client, each.number, each.row, each.ends_s) for client, each in self.sessions.items()]
        return {
            "last_selected": np.array(self.last_selected),
            "separated": np.array(self.roster.separated(), dtype=np.int64).reshape(-1, 2),
            "resting": np.array(list(self.resting.items()), dtype=np.float64).reshape(-1, 2),
            "sessions": np.array(late, dtype=np.float64).reshape(-1, 4),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned; the clock has been set, and the devices know what it says."""
        self.last_selected = int(state["last_selected"])
        for client, number in state["separated"].tolist():
            self.roster.bar_until_round(client, number)
        for client, until_s in state["resting"].tolist():
            self.clock.process(cooldown(self, int(client), until_s))
        # Sessions that run while no round is open are late: their rounds have closed.
        rounds: dict[int, Round] = {}
        for client, number, row, ends_s in state["sessions"].tolist():
            round_ = rounds.setdefault(int(number), Round(self, int(number), 0))
            round_.open = False
            session = Session(self.clock, round_, int(number), int(client), int(row), ends_s)
            round_.sessions[int(client)] = self.sessions[int(client)] = session
            self.roster.bar(int(client), Bar.IN_SESSION)

    def session_starts(self, client: int, number: int) -> None:
        """Take a selected client out of those who are eligible."""
        self.roster.bar(client, Bar.IN_SESSION)
        if self.scenario.server.cooldown_from == "selected":
            self._cool_down(client, number)

    def session_ended(self, client: int, number: int, outcome: str) -> None:
        """Let a client go whose session has ended, with a cool-down where its report starts one."""
        del self.sessions[client]
        if outcome == "reported" and self.scenario.server.cooldown_from == "reported":
            self._cool_down(client, number)
        self.roster.clear(client, Bar.IN_SESSION)

    def _cool_down(self, client: int, number: int) -> None:
        separation = int(self.population.separation[client])
        if separation:
            self.roster.bar_until_round(client, number + 1 + separation)
        rest_s = float(self.population.cooldown_s[client])
        if rest_s:
            self.clock.process(cooldown(self, client, self.clock.now + rest_s))
