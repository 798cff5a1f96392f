"""A federation whose devices are looked up and whose sessions are arrays."""

import numpy as np

from fedsim.availability.shocks import availability_of
from fedsim.common.arrays import Ints
from fedsim.log.columns import Arrays, Columns, part_of, with_prefix
from fedsim.log.recorder import CODES
from fedsim.simulation.arrays.precomputed import PrecomputedAvailability
from fedsim.simulation.arrays.roster import ArrayRoster
from fedsim.simulation.arrays.sessions import ArrayBufferedSessions, ArrayRound
from fedsim.simulation.clock import Turn
from fedsim.simulation.selector import Selector
from fedsim.simulation.world import World


class ArrayWorld(World):
    """The state of one simulation: a `Federation` without a process for anything but the server.

    Devices are looked up when they are asked about.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        scenario, server, self._horizon = self.scenario, self.scenario.server, self.scenario.stop.horizon
        availability = availability_of(scenario, self.devices, self.replicate)
        self._availability = PrecomputedAvailability(availability, self._horizon)
        after_report = server.cooldown_from == "reported"
        self.roster = ArrayRoster(
            self.clock, self._availability, server.block, self._horizon, after_report=after_report
        )
        self.selector = Selector(scenario, self.population, self.roster, self.recorder, self.replicate)
        self._round: ArrayRound | None = None
        # Sessions that end after the stop, unless it comes too late to matter.
        self._beyond = Columns(number="i8", row="i8", at="i8", outcome="i1")

    @property
    def current_round(self) -> ArrayRound | None:
        """The round whose reports still count."""
        return None if self._round is None or self._round.closed else self._round

    def start(self, number: int, cohort: Ints, row: int, target: int) -> ArrayRound:
        """Work out how the sessions of a cohort end."""
        clock, now = self.clock, self.clock.now
        own_ends = now + self._lengths(cohort, number)
        device_ends = self._availability.ends(cohort, now, own_ends)
        round_ = ArrayRound(clock, number, target, own_ends, device_ends, self._deadline)
        ends, outcome = round_.ends, round_.outcomes
        self.roster.start(cohort, ends)
        if self._cooldowns.exclude and self.scenario.server.cooldown_from == "selected":
            self.cool_down(cohort, number)
        elif self._cooldowns.exclude:
            reported = outcome == CODES["reported"]
            self.cool_down(cohort[reported], number, ends[reported])
        if len(cohort) and ends.max() <= self._horizon:
            self.recorder.end(number, range(row, row + len(cohort)), ends, outcome)
        elif len(cohort):
            inside, rows = ends <= self._horizon, row + np.arange(len(cohort))
            if inside.any():
                self.recorder.end(number, rows[inside], ends[inside], outcome[inside])
            later = {"row": rows[~inside], "at": ends[~inside], "outcome": outcome[~inside]}
            self._beyond.add(len(later["row"]), number=number, **later)
        self._round = round_
        return round_

    def state(self) -> Arrays:
        """Return all that is needed to go on at the opening of a round, beside the clock and the log."""
        own = self.selector.state() | self._cooldowns.state()
        return {**own, **with_prefix("roster", self.roster.state()), **with_prefix("beyond", self._beyond.state())}

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned; the clock has been set."""
        self.selector.restore(state)
        self._cooldowns.restore(state)
        self.roster.restore(part_of("roster", state))
        self._beyond.restore(part_of("beyond", state))

    def cool_down(self, clients: Ints, number: int, since: Ints | None = None) -> None:
        """Begin the cool-down of clients in a round or at a version: now, or at some instants."""
        begins = self.clock.now if since is None else since
        self.roster.exclude(clients, self._cooldowns.begin(clients, number, begins))

    def buffered_sessions(self) -> ArrayBufferedSessions:
        """Return what a buffered server needs of its sessions."""
        return ArrayBufferedSessions(self.clock, self.roster, self._availability, self._lengths, self._deadline)

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
