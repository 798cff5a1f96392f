"""Which clients are eligible: the reasons against each, added and removed by the processes."""

from array import array
from collections import defaultdict
from collections.abc import Generator

import numpy as np
import simpy

from fedsim.availability.batch import Reasons
from fedsim.common.arrays import Bools, Ints
from fedsim.common.reasons import Reason
from fedsim.selection import Eligibility
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.exclusions import count_by_group, explain

# Numbers, which are much faster than an IntFlag.
SEPARATION, COOLDOWN, SPENT = int(Reason.SEPARATION), int(Reason.COOLDOWN), int(Reason.SPENT)
IN_SESSION, GONE, NOT_CONNECTED = int(Reason.IN_SESSION), int(Reason.GONE), int(Reason.NOT_CONNECTED)


class Roster(Eligibility):
    """The reasons against every client, and how many clients (or whole blocks) have none.

    `group`, (N,), is what `counts` counts apart. Clients are selected in consecutive blocks of the size `block`.
    `masks`, (N,), are the mask of `Reason` of each client, and `eligible_count` is the number of those without any.
    `resting` says until when its wall-clock cool-down keeps a client out.
    """

    counted = True  # `ready` costs nothing here

    def __init__(self, clock: Clock, group: Ints, block: int = 1) -> None:
        self._clock, self._block = clock, block
        self._group, self._groups = group, int(group.max()) + 1
        self._against = array("H", bytes(2 * len(group)))  # single numbers for the processes,
        self.masks: Reasons = np.frombuffer(self._against, dtype=np.uint16)  # and the same memory for numpy
        self._released: dict[int, list[int]] = defaultdict(list)
        self.resting: dict[int, int] = {}
        self.eligible_count = len(group)
        self._ready_members, self._ready_blocks = [block] * (len(group) // block), len(group) // block
        self._enough: simpy.Event | None = None  # what the server waits for
        self._wanted, self._until = 0, -1

    def hold(self, client: int, reason: int) -> None:
        """Add a reason against a client."""
        before = self._against[client]
        self._against[client] = before | reason
        if not before:
            self.eligible_count -= 1
            if self._block > 1:
                block = client // self._block
                self._ready_blocks -= self._ready_members[block] == self._block
                self._ready_members[block] -= 1

    def lift(self, client: int, reason: int) -> None:
        """Take a reason away; when it was the last, the client is eligible, and a waiting server may go on."""
        before = self._against[client]
        after = before & ~reason
        self._against[client] = after
        if before and not after:
            self.eligible_count += 1
            if self._block > 1:
                block = client // self._block
                self._ready_members[block] += 1
                self._ready_blocks += self._ready_members[block] == self._block
            if self._enough is not None and self._ready() >= self._wanted:
                self.wake()

    def separate(self, client: int, release: int) -> None:
        """Keep a client out until round `release` opens."""
        self.hold(client, SEPARATION)
        self._released[release].append(client)

    def separated(self) -> list[tuple[int, int]]:
        """Return the clients whom their separation keeps out, each with the round that lets it in."""
        return [(client, number) for number, clients in self._released.items() for client in clients]

    def open_round(self, number: int) -> None:
        """Let in those whose separation is over in this round."""
        for client in self._released.pop(number, ()):
            self.lift(client, SEPARATION)

    def rest(self, client: int, until: int) -> None:
        """Keep a client out until an instant: the wall-clock part of its cool-down."""
        if until > self.resting.get(client, -1):  # a longer one may be on already, where several jobs share devices
            self.hold(client, COOLDOWN)
            self.resting[client] = until
            self._clock.process(self._rest(client, until))

    def _rest(self, client: int, until: int) -> Generator[simpy.Event, None, None]:
        yield self._clock.at(until, Turn.DEVICE)
        if self.resting.get(client) == until:
            del self.resting[client]
            self.lift(client, COOLDOWN)

    def look_again(self, spent: Ints, until: int) -> None:
        """Keep clients out until an instant; who else is in a session is always known."""
        for client in spent.tolist():
            self.rest(client, until)

    def ready(self, most: int) -> int:
        """Clients that could be selected now, counted up to `most`; with blocks, those in wholly eligible blocks."""
        return min(most, self._ready())

    def _ready(self) -> int:
        return self.eligible_count if self._block == 1 else self._ready_blocks * self._block

    def eligible(self, clients: Ints) -> Bools:
        """Say of each of the clients whether it is eligible."""
        return np.equal(self.masks[clients], 0)

    def all_eligible(self) -> Bools:
        """Return the mask (N,) of eligible clients."""
        return np.equal(self.masks, 0)

    def attainable(self) -> int:
        """Clients that could be ready together while the round number stands still."""
        possible = (self.masks & (SEPARATION | GONE | SPENT)) == 0
        return int(possible.reshape(-1, self._block).all(axis=1).sum()) * self._block

    def wait_for(self, wanted: int, until: int) -> simpy.Event:
        """Return an event for the first instant with `wanted` clients ready; there are fewer now.

        It may also happen when there are still fewer: when a client has left for good, when a session of a buffered
        server has ended, at `until` if `keep_time` runs, or when the instant that lets a client in also takes it out.
        """
        self._wanted, self._until, self._enough = wanted, until, self._clock.event()
        return self._enough

    def wake(self) -> None:
        """Let a waiting server look again."""
        if self._enough is not None:
            self._enough.succeed()
            self._enough = None

    def keep_time(self, patience: int) -> Generator[simpy.Event, None, None]:
        """Wake a server whose patience is over.

        One process with one event ahead: SimPy cannot take a timer back, and one for every wait would fill its queue.
        """
        while True:
            # A wait ends `patience` after it begins, or later: sleeping that long never misses the end of one.
            until = self._until
            if until <= self._clock.now:
                self.wake()
                until = self._clock.now + patience
            yield self._clock.at(until, Turn.SERVER)

    def counts(self, among: Ints | None) -> Ints:
        """Count some clients or all by group, as `count_by_group` does."""
        some = slice(None) if among is None else among
        return count_by_group(self.masks[some], self._group[some], self._groups)

    def in_session(self) -> Ints:
        """Count everyone in a session by group."""
        return np.bincount(self._group[(self.masks & IN_SESSION) != 0], minlength=self._groups)

    def explain(self, noun: str = "round") -> str:
        """Say in words what everyone is waiting for; `noun` is what the server counts by."""
        return explain(self.masks, min(self._released, default=0), noun)
