"""A federation whose devices are looked up and whose sessions are arrays."""

import math

import numpy as np

from fedsim.availability.cells import Cells
from fedsim.availability.shocks import availability_of, server_outages
from fedsim.common.arrays import Ints
from fedsim.common.instants import to_ms
from fedsim.common.keyed import Purpose, stream
from fedsim.log.columns import Arrays, Columns, part_of, within
from fedsim.log.recorder import CODES, Recorder
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.simulation.arrays.buffered_sessions import ArrayBufferedSessions
from fedsim.simulation.arrays.foreseen import ForeseenAvailability
from fedsim.simulation.arrays.roster import ArrayRoster
from fedsim.simulation.arrays.round import ArrayRound
from fedsim.simulation.caps import Caps
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.cooldown import cooldown, cools
from fedsim.simulation.selector import Selector
from fedsim.simulation.sessions import session_lengths


class ArrayWorld:
    """The state of one simulation: a `Federation` without a process for anything but the server.

    Devices are looked up when they are asked about. Parameters are those of the simulation.
    """

    def __init__(
        self,
        scenario: Scenario,
        population: Population,
        devices: Cells,
        clock: Clock,
        recorder: Recorder,
        replicate: int,
    ) -> None:
        self.scenario, self.population, self.clock, self.recorder = scenario, population, clock, recorder
        self.outages = server_outages(scenario, replicate)
        self._horizon = to_ms(scenario.stop.duration or math.inf)
        self._devices = ForeseenAvailability(availability_of(scenario, devices, replicate), self._horizon)
        after_report = scenario.server.cooldown_from == "reported"
        self.roster = ArrayRoster(clock, self._devices, scenario.server.block, self._horizon, after_report=after_report)
        self.selector = Selector(scenario, population, self.roster, recorder, replicate)
        draws = stream(scenario.seed, replicate, Purpose.SESSION)
        self._lengths = session_lengths(scenario, population, draws)
        self._caps, self._cools = Caps(population.most), cools(scenario.server, population)
        self._deadline = to_ms(scenario.server.deadline or math.inf)
        self._round: ArrayRound | None = None
        # Sessions that end after the stop, unless it comes too late to matter.
        self._beyond = Columns(number="i8", row="i8", at="i8", outcome="i1")

    @property
    def open_round(self) -> ArrayRound | None:
        """The round whose reports still count."""
        return None if self._round is None or self._round.closed else self._round

    def start(self, number: int, cohort: Ints, row: int, target: int) -> ArrayRound:
        """Work out how the sessions of a cohort end."""
        clock, now = self.clock, self.clock.now
        own_ends = now + self._lengths(cohort, number)
        device_ends = self._devices.ends(cohort, now, own_ends)
        round_ = ArrayRound(clock, number, target, own_ends, device_ends, self._deadline)
        self.roster.start(cohort, round_.ends.at)
        if not self._cools:
            pass
        elif self.scenario.server.cooldown_from == "selected":
            self.cool_down(cohort, number)
        else:
            reported = round_.ends.outcome == CODES["reported"]
            self.cool_down(cohort[reported], number, round_.ends.at[reported])
        ends = round_.ends
        if not len(cohort):
            pass
        elif ends.at.max() <= self._horizon:
            self.recorder.end(number, range(row, row + len(cohort)), ends.at, ends.outcome)
        else:
            inside, rows = ends.at <= self._horizon, row + np.arange(len(cohort))
            if inside.any():
                self.recorder.end(number, rows[inside], ends.at[inside], ends.outcome[inside])
            rows, at, outcome = rows[~inside], ends.at[~inside], ends.outcome[~inside]
            self._beyond.add(len(rows), number=number, row=rows, at=at, outcome=outcome)
        self._round = round_
        return round_

    def state(self) -> Arrays:
        """Return all that is needed to go on at the opening of a round, beside the clock and the log."""
        last = {**self.selector.state(), **self._caps.state()}
        return {**last, **within("roster", self.roster.state()), **within("beyond", self._beyond.state())}

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned; the clock has been set."""
        self.selector.restore(state)
        self._caps.restore(state)
        self.roster.restore(part_of("roster", state))
        self._beyond.restore(part_of("beyond", state))

    def cool_down(self, clients: Ints, number: int, since: Ints | None = None) -> None:
        """Begin the cool-down of clients in a round or at a version: now, or at some instants."""
        begins = self.clock.now if since is None else since
        until = cooldown(self.scenario.server, self.population, clients, number, begins)
        self.roster.exclude(clients, self._caps.count(clients, until))

    def buffered_sessions(self) -> ArrayBufferedSessions:
        """Return what a buffered server needs of its sessions."""
        return ArrayBufferedSessions(self.clock, self.roster, self._devices, self._lengths, self._deadline)

    def stop(self) -> None:
        """Cut all sessions short: the run is over."""
        rest = self._beyond.take(self._beyond.end)
        stopped = -1 if self._round is None or not self._round.stopped else self._round.number
        rest["outcome"] = np.where(rest["number"] == stopped, CODES["aborted"], CODES["late"])
        self._end(rest | {"at": np.full(len(rest["row"]), self.clock.now)})

    def finish(self) -> None:
        """Let the clock run until no session is left."""
        last = self.clock.at(self.roster.last_end, Turn.SESSION)
        while not last.processed and self.roster.last_end > self.clock.now:
            self.clock.step()
        self._end(self._beyond.take(self._beyond.end))

    def _end(self, rest: Arrays) -> None:
        for number in np.unique(rest["number"]).tolist():
            own = rest["number"] == number
            self.recorder.end(number, rest["row"][own], rest["at"][own], rest["outcome"][own])
