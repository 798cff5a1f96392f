"""What jobs on one fleet share; nothing, where a server has the fleet for itself."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar

import numpy as np
import simpy

from fedsim.common.arrays import Ints
from fedsim.common.instants import DAY, to_seconds
from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.common.reasons import Reason
from fedsim.log.recorder import Recorder
from fedsim.scenario import Scenario
from fedsim.selection.law import Remembers
from fedsim.selection.matching import Wish, ranking
from fedsim.simulation.clock import Clock, Turn


class Alone(Remembers):
    """What a server shares that has the fleet for itself."""

    remembered: ClassVar[tuple[str, ...]] = ()
    shortest = 0
    """Milliseconds that a session takes at least."""

    rosters: Sequence[Any] = ()
    """Those of all jobs, in the order in which they joined; a server that is alone keeps its own."""

    @property
    def against(self) -> list[tuple[Ints, Reason]]:
        """Until when each client is out, (N,) instants, with the reason."""
        return []

    def join(self, name: str, weight: float, recorder: Recorder, roster: Any) -> None:
        """Take the next job in."""

    def wait_to_select(self, job: int, since: int, wanted: int) -> Generator[simpy.Event, None, None]:
        """Wait until it is a job's turn to select, in this instant after all servers' turns.

        It has wanted devices `since` an instant.
        """
        yield from ()

    def or_news(self, event: simpy.Event) -> simpy.Event:
        """Return an event for what a server waits for, or for devices that another job has let go early."""
        return event

    def took(self, clients: Ints, ends: Ints) -> None:
        """Note sessions that begin now, and when each ends unless the server cuts it."""

    def freed(self, clients: Ints) -> None:
        """Note devices whose sessions the server has cut: who waits for devices looks again."""

    def in_session(self, clients: Ints) -> Ints:
        """Return the clients in a session of any job, given those of one."""
        return clients

    def free_from(self, clients: Ints | slice, until: Ints) -> Ints:
        """Return from which instant on nothing here keeps each client out, whom its server keeps out `until` one."""
        return until


class Sharing(Alone):
    """What jobs on one fleet share: who is in a session, what a day still allows, and whose turn it is.

    `busy_until` and `rest_until` (N,) are the instants until which each device is in a session of any job, as far as
    that is known, and has had its sessions of a day. `most_a_day` is their number, None for any; `rank` puts what jobs
    want at an instant in an order, and `draws` are the draws for it.
    """

    remembered = ("rest_until", "_taken", "_day")
    shortest = 1  # so that nobody serves two at once

    def __init__(
        self, clock: Clock, clients: int, rank: Callable[[Wish], float], draws: Stream, most_a_day: int | None
    ) -> None:
        self.rosters: list[Any] = []
        self._clock, self._rank, self._draws, self._most = clock, rank, draws, most_a_day
        self.busy_until, self.rest_until = np.zeros((2, clients), dtype=np.int64)
        self._taken, self._day = np.zeros(clients, dtype=np.int64), -1
        self._asking: list[tuple[float, int, simpy.Event]] = []
        self._jobs: list[tuple[str, float, Recorder]] = []
        self._news = clock.event()  # happens when devices have come free before the instant that was known

    @property
    def against(self) -> list[tuple[Ints, Reason]]:
        return [(self.busy_until, Reason.IN_SESSION), (self.rest_until, Reason.COOLDOWN)]

    def join(self, name: str, weight: float, recorder: Recorder, roster: Any) -> None:
        self.rosters.append(roster)
        self._jobs.append((name, weight, recorder))

    def wait_to_select(self, job: int, since: int, wanted: int) -> Generator[simpy.Event, None, None]:
        now, (name, weight, recorder) = self._clock.now, self._jobs[job]
        draw = float(self._draws.uniforms(job, now)[0])
        times = to_seconds(now), to_seconds(since)
        wish = Wish(name, weight, *times, wanted, recorder.counts.participations, draw)
        if not self._asking:
            self._clock.at(now, Turn.MATCH).callbacks.append(self._grant)
        self._asking.append((self._rank(wish), job, self._clock.event()))
        yield self._asking[-1][-1]

    def or_news(self, event: simpy.Event) -> simpy.Event:
        return event | self._news

    def took(self, clients: Ints, ends: Ints) -> None:
        self.busy_until[clients] = ends
        day, spent = self._clock.now // DAY, clients[:0]
        if self._most is not None:
            if day > self._day:
                self._taken[:], self._day = 0, day
            self._taken[clients] += 1
            spent = clients[self._taken[clients] >= self._most]
            self.rest_until[spent] = (day + 1) * DAY
        for roster in self.rosters:
            roster.look_again(spent, (day + 1) * DAY)

    def freed(self, clients: Ints) -> None:
        self.busy_until[clients] = np.minimum(self.busy_until[clients], self._clock.now)
        for roster in self.rosters:
            roster.look_again(clients[:0], self._clock.now)
        news, self._news = self._news, self._clock.event()
        news.succeed()

    def in_session(self, clients: Ints) -> Ints:
        return np.flatnonzero(self.busy_until > self._clock.now)

    def free_from(self, clients: Ints | slice, until: Ints) -> Ints:
        return np.maximum(until, np.maximum(self.busy_until[clients], self.rest_until[clients]))

    def _grant(self, _due: simpy.Event) -> None:
        asking, self._asking = sorted(self._asking, key=lambda each: each[:2]), []
        for *_, event in asking:
            event.succeed()  # in this order their servers go on, one after the other


def sharing(clock: Clock, scenario: Scenario, replicate: int) -> Alone:
    """Return what the jobs of a scenario share, or what a day allows to those of a single server."""
    if not scenario.jobs and scenario.most_a_day is None:
        return Alone()
    rank, draws = ranking(scenario.matching), stream(scenario.seed, replicate, Purpose.MATCHING)
    return Sharing(clock, scenario.devices, rank, draws, scenario.most_a_day)
