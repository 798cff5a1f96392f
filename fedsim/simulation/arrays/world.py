"""The vectorized engine: devices are looked up, and when and how each session ends is known when it starts."""

from heapq import heappop, heappush

import numpy as np
import simpy

from fedsim.availability.shocks import availability_of
from fedsim.common.arrays import Ints
from fedsim.common.outcomes import ROUND_OUTCOMES
from fedsim.log.columns import Arrays, Columns, part_of, with_prefix
from fedsim.simulation.arrays.precomputed import PrecomputedAvailability
from fedsim.simulation.arrays.roster import ArrayRoster
from fedsim.simulation.check_ins import ConnectedAvailability
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.endings import ABORTED, LATE, REPORTED, Closing, EndedSession, Limits
from fedsim.simulation.selector import Selector
from fedsim.simulation.state import World


class ArrayRound:
    """One round whose sessions are arrays: `endings` are when each ends, and how, unless the run is cut off before.

    `rows` are the recorder's. `may_close` happens when enough have reported or nobody is left: at the instant of the
    report that reaches the target, or of the last end, or when it is out of time.
    """

    def __init__(self, clock: Clock, number: int, rows: range, target: int, limits: Limits, closing: Closing) -> None:
        ends, outcomes = self.endings = limits.endings()
        reports = np.sort(ends[outcomes == REPORTED])
        last = int(ends.max(initial=clock.now))
        close, until = closing.instants(clock.now, target, reports, last)
        self.number, self.rows, self.open, self.stopped = number, rows, True, False
        self._clock, self._target, self._reports, self._all_ends = clock, target, reports, ends
        self.may_close = clock.at(min(close, until), Turn.SERVER)
        if close > until:
            self.endings = limits.endings(until, ROUND_OUTCOMES["deadline"].remaining, cuts=False)
        elif close < last:
            self.endings = limits.endings(close, ROUND_OUTCOMES["target"].remaining)

    @property
    def any_running(self) -> bool:
        """Whether any session still runs."""
        return bool((self._all_ends > self._clock.now).any())

    @property
    def outcome(self) -> str:
        """How the round closes, if it closes now."""
        if not self._target:
            return "empty"
        if self._reports.searchsorted(self._clock.now, side="right") >= self._target:
            return "target"
        return "deadline" if self.any_running else "exhausted"

    def close(self, outcome: str) -> None:
        """Take no more reports; what follows for the sessions has been known from the start, but for a stop."""
        self.open, self.stopped = False, outcome == "stopped"


class ArrayBufferedSessions:
    """The running sessions of a buffered server, in a heap by their ends.

    The server gives a session up `deadline` after its start.
    """

    def __init__(self, world: "ArrayWorld") -> None:
        self._world, self._clock, self._roster = world, world.clock, world.roster
        self._ends: list[tuple[int, EndedSession]] = []

    @property
    def count(self) -> int:
        """Sessions that run."""
        return len(self._ends)

    def start(self, version: int, key: int, cohort: Ints, row: int) -> None:
        """Work out how sessions end; `key` is that of their lengths, `row` the recorder's of the first."""
        columns = (cohort, *self._world.given_up(cohort, key, row))
        ends = zip(*(each.tolist() for each in columns), strict=True)
        for place, (client, end, outcome) in enumerate(ends, start=row):
            heappush(self._ends, (end, EndedSession(place, client, version, outcome)))

    def take_ended(self) -> list[EndedSession]:
        """Return the sessions that have ended since the last call, in the order of their rows."""
        ended = []
        while self._ends and self._ends[0][0] <= self._clock.now:
            ended.append(heappop(self._ends)[1])
        return sorted(ended)

    def wait(self, *, free: bool, until: int) -> simpy.Event:
        """Return an event in the server's turn of the next end, or of the first instant with somebody eligible."""
        if not self._ends:
            return self._roster.wait_for(1, until)
        until = min(until, self._ends[0][0])
        return self._clock.at(min(until, self._roster.next_eligible(until)) if free else until, Turn.SERVER)

    def abort(self) -> list[EndedSession]:
        """Cut all sessions short: the run is over."""
        ended = sorted(session._replace(outcome=ABORTED) for _, session in self._ends)
        self._ends.clear()
        self._world.shared.freed(self._roster.working)
        return ended


class ArrayWorld(World):
    """The state of one simulation: a `Federation` without a process for anything but the server.

    Devices are looked up when they are asked about.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        scenario, server, horizon = self.scenario, self.scenario.server, self.scenario.stop.horizon
        availability = availability_of(scenario, self.devices, self.replicate)
        self.availability = PrecomputedAvailability(availability, horizon)
        seen: PrecomputedAvailability | ConnectedAvailability = self.availability
        after = server.cooldown_from == "reported"
        if (connections := self.connections) is not None:
            seen = ConnectedAvailability(self.availability, connections)
            if connections.pace is not None and not availability.followed.any():
                connections.pace.availability = availability  # which answers about any instant
        self.roster = ArrayRoster(self.clock, seen, self.shared, server.block, horizon, after_report=after)
        self.roster.bar(self.population.barred)
        self.selector = Selector(scenario, self.population, self.roster, self.recorder, self.replicate, self.clock)
        self.last_round: ArrayRound | None = None
        # Sessions that outlast their rounds. A stall may end the run at any round, so that nothing is recorded ahead.
        self._late = Columns(number="i8", row="i8", at="i8", outcome="i1")

    def start(self, number: int, cohort: Ints, row: int, target: int) -> ArrayRound:
        """Work out how the sessions of a cohort end."""
        rows = range(row, row + len(cohort))
        round_ = ArrayRound(self.clock, number, rows, target, self.limits(cohort, number, row), self.closing)
        ends, outcomes = round_.endings
        self.take(cohort, ends)
        if self._cooldowns.exclude and self.scenario.server.cooldown_from == "selected":
            self.cool_down(cohort, number)
        elif self._cooldowns.exclude:
            reported = outcomes == REPORTED
            self.cool_down(cohort[reported], number, ends[reported])
        self.last_round = round_
        return round_

    def close(self, outcome: str) -> None:
        """Close the open round, and record the sessions that have ended by now; after a deadline the others go on."""
        assert self.last_round is not None
        self.last_round.close(outcome)
        number, rows, (ends, outcomes) = self.last_round.number, self.last_round.rows, self.last_round.endings
        if rows and ends.max() <= self.clock.now:
            self.recorder.end(number, rows, ends, outcomes)
        elif rows:
            self._late.add(len(rows), number=number, row=rows, at=ends, outcome=outcomes)
        self.record_late()

    def state(self) -> Arrays:
        """Return the same, with the roster and the sessions that are late."""
        roster, late = with_prefix("roster", self.roster.state()), with_prefix("late", self._late.state())
        return super().state() | roster | late

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned; the clock has been set."""
        super().restore(state)
        self.roster.restore(part_of("roster", state))
        self._late.restore(part_of("late", state))

    def cool_down(self, clients: Ints, number: int, since: Ints | None = None) -> None:
        """Begin the cool-down of clients in a round or at a version: now, or at some instants."""
        begins = self.clock.now if since is None else since
        self.roster.exclude(clients, self._cooldowns.begin(clients, number, begins))

    def take(self, clients: Ints, ends: Ints) -> None:
        """Note which clients are in a session, and until when."""
        self.roster.start(clients, ends)
        super().take(clients, ends)

    def device_ends(self, cohort: Ints, ends: Ints, until: int) -> Ints:
        """Return when devices leave during sessions that end at `ends`, before `until`."""
        return self.availability.ends(cohort, self.clock.now, np.minimum(ends, until))

    def buffered_sessions(self) -> ArrayBufferedSessions:
        """Return what a buffered server needs of its sessions."""
        return ArrayBufferedSessions(self)

    def stop(self) -> None:
        """Cut all sessions short: the run is over."""
        self.shared.freed(self.roster.working)
        self.record_late()
        stopped = self.last_round.number if self.last_round is not None and self.last_round.stopped else -1
        self._late.get("at")[:] = self.clock.now
        self._late.get("outcome")[:] = np.where(self._late.get("number") == stopped, ABORTED, LATE)
        self.record_late()

    def finish(self) -> None:
        """Let the clock run until no session is left."""
        last = self.clock.at(self.roster.last_end, Turn.SESSION)
        while not last.processed and self.roster.last_end > self.clock.now:
            self.clock.step()
        self.record_late()

    def record_late(self) -> None:
        """Record the late sessions that have ended."""
        over = self._late.get("at") <= self.clock.now
        if not over.any():
            return  # as nearly always: most rounds leave none
        held = self._late.take(self._late.end)
        self._late.add(int((~over).sum()), **{name: values[~over] for name, values in held.items()})
        for number in np.unique(held["number"][over]).tolist():
            rows = over & (held["number"] == number)
            self.recorder.end(number, held["row"][rows], held["at"][rows], held["outcome"][rows])
