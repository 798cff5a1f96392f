"""Which clients are eligible, computed for just the clients that are asked about."""

from collections.abc import Iterator

import numpy as np
import simpy

from fedsim.availability.batch import Reasons
from fedsim.availability.spells import levels
from fedsim.common.arrays import Bits, Bools, Ints
from fedsim.common.instants import DAY, FOREVER, MINUTE
from fedsim.common.reasons import Reason
from fedsim.log.columns import Arrays
from fedsim.selection.law import Remembers
from fedsim.simulation.arrays.precomputed import PrecomputedAvailability
from fedsim.simulation.check_ins import ConnectedAvailability
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.cooldowns import NEVER, Cooldown
from fedsim.simulation.exclusions import KINDS, count_by_group, explain
from fedsim.simulation.sharing import Alone

_CHUNK = 1 << 14  # clients that are looked at together, which bounds the memory
_FIRST_WINDOW, _LONGEST_WINDOW = 5 * MINUTE, DAY  # of a wait
_SEPARATION, _COOLDOWN, _SPENT = np.uint16(Reason.SEPARATION), np.uint16(Reason.COOLDOWN), np.uint16(Reason.SPENT)
_IN_SESSION, _GONE = np.uint16(Reason.IN_SESSION), np.uint16(Reason.GONE)


class ArrayRoster(Remembers):
    """When each client is free again, as arrays, beside the availability of all devices.

    A `block` of clients can be selected only together. Nothing is looked up beyond the `horizon`, when the run is
    stopped. `after_report` says that a cool-down begins when a session has reported, and not when it begins.
    """

    remembered = ("_free_round", "_free_at", "_busy", "_busy_until", "_busy_rest")

    def __init__(
        self,
        clock: Clock,
        availability: PrecomputedAvailability | ConnectedAvailability,
        shared: Alone,
        block: int,
        horizon: int,
        *,
        after_report: bool,
    ) -> None:
        self._clock, self._availability, self._block, self._horizon = clock, availability, block, horizon
        self._group, self._groups = availability.stratum, int(availability.stratum.max()) + 1
        self._clients = len(availability.stratum)
        # From which round separation, and from which instant sessions and wall-clock cool-downs keep nobody out.
        self._free_round = np.zeros(self._clients, dtype=np.int64)
        self._free_at = np.zeros(self._clients, dtype=np.int64)
        self._after_report = after_report
        # Who is in a session, until when, and until when a wall-clock cool-down lasts that has begun with it.
        self._busy: Ints = np.empty(0, dtype=np.int64)
        self._busy_until, self._busy_rest = self._busy, self._busy
        self._shared = shared
        self._number = 0
        # What was found out about everyone, and the round and the instant that it belongs to.
        self._at: tuple[int, int] | None = None
        self._mask: Bools | None = None
        self._possible: Bits | None = None

    def bar(self, clients: Ints) -> None:
        """Keep clients out for good, before the run begins."""
        self._free_round[clients] = NEVER

    def open_round(self, number: int) -> None:
        """Let in those whose separation is over in this round."""
        self._number = number

    def start(self, clients: Ints, ends: Ints) -> None:
        """Note which clients are in a session, and until when; a cool-down may keep them out for longer."""
        now = self._clock.now
        still = self._busy_until > now
        self._busy = np.concatenate([self._busy[still], clients])
        self._busy_until = np.concatenate([self._busy_until[still], ends])
        self._busy_rest = np.concatenate([self._busy_rest[still], np.zeros_like(clients)])
        self._free_at[clients] = ends
        self._at = None

    def exclude(self, clients: Ints, until: Cooldown) -> None:
        """Keep clients out for a cool-down; if it begins with their sessions, these have been started last."""
        if not self._after_report:
            self._busy_rest[len(self._busy) - len(clients) :] = until.from_instant
        self._free_round[clients] = until.from_round
        self._free_at[clients] = np.maximum(self._free_at[clients], until.from_instant)
        self._at = None

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned."""
        super().restore(state)
        self._at = None

    def look_again(self, spent: Ints, until: int) -> None:  # noqa: ARG002  what is shared says until when
        """Forget who was eligible: another job has begun or ended sessions."""
        self._at = None

    @property
    def working(self) -> Ints:
        """The clients in a session of this server."""
        return self._busy[self._busy_until > self._clock.now]

    def _free_from(self, clients: Ints | slice) -> Ints:
        """Return from which instant nothing but separation and availability keeps each client out."""
        return self._shared.free_from(clients, self._free_at[clients])

    @property
    def last_end(self) -> int:
        """When the last session that has been started ends."""
        return int(self._busy_until.max(initial=self._clock.now))

    def eligible(self, clients: Ints) -> Bools:
        """Say of each of the clients whether it is eligible."""
        self._look()
        if self._mask is not None:
            return self._mask[clients]
        answer = (self._free_from(clients) <= self._clock.now) & (self._free_round[clients] <= self._number)
        left = answer.nonzero()[0]
        answer[left] = self._availability.at(clients[left], self._clock.now)
        return answer

    def possible(self) -> Bits | None:
        """Return the clients who may be available, as bits; None where that is not known at a glance."""
        self._look()
        if self._possible is None:
            self._possible = self._availability.possible(self._clock.now)
        return self._possible

    def all_eligible(self) -> Bools:
        """Return the mask (N,) of eligible clients."""
        return self._everyone().copy()

    @property
    def eligible_count(self) -> int:
        """Eligible clients; O(N)."""
        return int(self._everyone().sum())

    @property
    def counted(self) -> bool:
        """Whether all clients have been looked at, in this round at this instant."""
        return self._mask is not None and self._at == (self._number, self._clock.now)

    def ready(self, most: int) -> int:
        """Clients that could be selected now, counted up to `most`; with blocks, those in wholly eligible blocks."""
        mask = self._everyone()
        if self._block > 1:
            mask = np.repeat(mask.reshape(-1, self._block).all(axis=1), self._block)
        return min(most, int(mask.sum()))

    def attainable(self) -> int:
        """Clients that could be ready together while the round number stands still."""
        now = self._clock.now
        clients = self._separated_long_enough()
        gone = self._availability.leaves(clients, now, now) <= now
        return int((~gone.reshape(-1, self._block).any(axis=1)).sum()) * self._block

    def wait_for(self, wanted: int, until: int) -> simpy.Event:
        """Return an event for the first instant with `wanted` clients ready; there are fewer now.

        It happens at `until` at the latest, and before if too many leave for good.
        """
        now, limit, units = self._clock.now, min(until, self._horizon), wanted // self._block
        clients = self._separated_long_enough()
        enough = self._ready_at(clients, units, limit)
        leaves = self._availability.leaves(clients, now, min(limit, enough)).reshape(-1, self._block).min(axis=1)
        leaves = np.sort(leaves[leaves > now])
        too_few = int(leaves[len(leaves) - units]) if len(leaves) >= units else now
        return self._clock.at(min(enough, too_few, until), Turn.SERVER)

    def next_eligible(self, until: int) -> int:
        """Return the first instant at which somebody is eligible, `FOREVER` after `until`; nobody is now."""
        return self._ready_at(self._separated_long_enough(), 1, min(until, self._horizon))

    def _ready_at(self, clients: Ints, units: int, limit: int) -> int:
        """Return the first instant after now at which enough clients are ready, or `FOREVER` if that is after `limit`.

        Wanted are `units` of some clients, or whole blocks of them in order, and fewer are ready now. Only sessions,
        wall-clock cool-downs and availability keep them out. The number of ready units changes where an available
        interval begins or ends: all changes within a window are sorted and summed up, and windows grow until one holds
        the answer.
        """
        now, block, free = self._clock.now, self._block, self._free_from(clients)
        since, length = now, _FIRST_WINDOW
        while since < limit:
            until = min(since + length, limit + 1)
            # A block whose last member is free later cannot be ready in this window, nor can who does not come.
            mask = np.repeat((free < until).reshape(-1, block).all(axis=1), block)
            some = np.flatnonzero(mask)
            if len(some) >= units * block:
                spells = self._availability.spells(clients[some], since, until)
                who, starts, ends = spells.clip(free[some[spells.who]], FOREVER)
                if block > 1:
                    instants, count = _intervals_at(who // block, starts, ends)
                    whole = np.flatnonzero(count == block)
                    starts, ends = instants[whole], instants[whole + 1]
                instants, count = _intervals_at(np.zeros_like(starts), starts, ends)
                enough = instants[(count >= units) & (instants > now)]
                if len(enough):
                    return int(enough[0])
            since, length = until, min(2 * length, _LONGEST_WINDOW)
        return FOREVER

    def counts(self, among: Ints | None) -> Ints:
        """Count some clients or all by group, as `count_by_group` does."""
        total = np.zeros((KINDS, self._groups), dtype=np.int64)
        for clients in _chunks(np.arange(self._clients) if among is None else among):
            total += count_by_group(self.reasons(clients), self._group[clients], self._groups)
        return total

    def in_session(self) -> Ints:
        """Count everyone in a session by group."""
        who = self._shared.in_session(self.working)
        return np.bincount(self._group[who], minlength=self._groups)

    def reasons(self, clients: Ints) -> Reasons:
        """Return the mask of `Reason` of each of some clients."""
        now, release = self._clock.now, self._free_round[clients]
        of_devices = self._availability.reasons(clients, now)
        of_devices[self._availability.leaves(clients, now, now) <= now] |= _GONE
        of_server = np.where(release > self._number, _SEPARATION, np.uint16(0))
        of_server[release == NEVER] = _SPENT
        of_server[self._free_at[clients] > now] |= _COOLDOWN
        # A session keeps a client out as a cool-down does; its own cool-down may begin with it, or has not begun.
        runs = self._busy_until > now
        who, where, place = np.intersect1d(self._busy[runs], clients, return_indices=True)
        if len(who):
            begun = np.where(self._busy_rest[runs][where] > now, _COOLDOWN, np.uint16(0))
            if not self._after_report:
                begun |= of_server[place] & (_SEPARATION | _SPENT)
            of_server[place] = begun | _IN_SESSION
        for until, reason in self._shared.against:
            of_server[until[clients] > now] |= np.uint16(reason)
        return of_devices | of_server

    def explain(self, noun: str = "round") -> str:
        """Say in words what everyone is waiting for; `noun` is what the server counts by."""
        reasons = self.reasons(np.arange(self._clients))
        due = self._free_round[(reasons & _SEPARATION) != 0].min(initial=np.iinfo(np.int64).max)
        return explain(reasons, int(due), noun)

    def _look(self) -> None:
        """Forget what was true at another instant, or in another round."""
        if self._at != (self._number, self._clock.now):
            self._at, self._mask, self._possible = (self._number, self._clock.now), None, None

    def _everyone(self) -> Bools:
        """Look at all clients, once in a round and instant."""
        self._look()
        if self._mask is None and (everyone := self._availability.everyone(self._clock.now)) is not None:
            free = self._free_from(slice(None))
            self._mask = everyone & (free <= self._clock.now) & (self._free_round <= self._number)
        if self._mask is None:
            mask = np.zeros(self._clients, dtype=np.bool_)
            for clients in _chunks(self._availability.anybody(self._clock.now)):
                mask[clients] = self.eligible(clients)
            self._mask = mask
        return self._mask

    def _separated_long_enough(self) -> Ints:
        """Return the clients whom no separation keeps out; with blocks, members of whole blocks."""
        free = (self._free_round <= self._number).reshape(-1, self._block).all(axis=1)
        return np.flatnonzero(np.repeat(free, self._block))


def _chunks(clients: Ints) -> Iterator[Ints]:
    return (clients[first : first + _CHUNK] for first in range(0, len(clients), _CHUNK))


def _intervals_at(owner: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Return the instants at which intervals begin or end, owner by owner, and how many of the owner's go on then."""
    steps = np.repeat([1, -1], len(starts))
    _, instants, count = levels(np.tile(owner, 2), np.concatenate([starts, ends]), steps)
    return instants, count
