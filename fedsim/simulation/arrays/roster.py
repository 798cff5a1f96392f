"""Who is eligible now, worked out for just the clients that are asked about."""

from typing import TYPE_CHECKING

import numpy as np
import simpy

from fedsim.common.arrays import Bits, Bools, Floats, Ints
from fedsim.log.columns import Arrays
from fedsim.simulation.arrays.foreseen import ForeseenAvailability
from fedsim.simulation.arrays.waiting import ready_at
from fedsim.simulation.caps import NEVER
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.cooldown import Cooldown
from fedsim.simulation.reasons import Reason, count_by_group, explain

if TYPE_CHECKING:
    from fedsim.simulation.arrays.kept_out import KeptOut

_CHUNK = 1 << 14  # clients that are looked at together, which bounds the memory
_MANY = 0.2
_FEW = 16  # of so many clients one is asked about for less than looking at all of them costs


class ArrayRoster:
    """When each client is free again, as arrays, beside the availability of all devices.

    Parameters
    ----------
    clock
        The simulation's clock.
    availability
        All devices.
    block
        Clients that can be selected only together.
    horizon_s
        When the run is stopped; nobody looks further ahead.
    """

    def __init__(self, clock: Clock, availability: ForeseenAvailability, block: int, horizon_s: float) -> None:
        self._clock, self._availability, self._block, self._horizon_s = clock, availability, block, horizon_s
        self._group, self._groups = availability.cell, int(availability.cell.max()) + 1
        self._clients = len(availability.cell)
        # From which round separation, and from which instant sessions and wall-clock cool-downs keep nobody out.
        self._free_round = np.zeros(self._clients, dtype=np.int64)
        self._free_s = np.zeros(self._clients)
        self._excludes = False  # whether a cool-down has ever kept anybody out
        self._busy: Ints = np.empty(0, dtype=np.int64)
        self._busy_until_s = np.empty(0)
        # When the last of them ends, and from when on neither a session nor a wall-clock cool-down keeps anybody out.
        self._last_busy_s = self._last_free_s = 0.0
        self._number = -1
        self._excluded_share = 0.0
        self._at: tuple[int, float] | None = None  # the round and the instant that the mask belongs to
        self._mask: Bools | None = None
        self._kept_out: KeptOut | None = None
        self._barred: Bits | None = None  # and the round and the instant that it belongs to
        self._barred_at = (-1, 0.0)

    def open_round(self, number: int) -> None:
        """Let in those whose separation is over in this round."""
        self._number = number

    def start(self, clients: Ints, ends_s: Floats) -> None:
        """Note who is in a session, and until when; a cool-down may keep them out for longer."""
        now = self._clock.now
        still = self._busy_until_s > now
        self._busy = np.concatenate([self._busy[still], clients])
        self._busy_until_s = np.concatenate([self._busy_until_s[still], ends_s])
        self._last_busy_s = float(self._busy_until_s.max(initial=now))
        self._last_free_s = max(self._last_free_s, self._last_busy_s)
        self._free_s[clients] = ends_s
        self._at = None

    def exclude(self, clients: Ints, until: Cooldown) -> None:
        """Keep clients out for a cool-down."""
        self._excludes = True
        self._free_round[clients] = until.until_round
        own_s = self._free_s[clients]
        by_clock = bool((until.until_s > own_s).any())  # and not just until the session ends
        if by_clock:
            self._free_s[clients] = np.maximum(own_s, until.until_s)
            self._last_free_s = max(self._last_free_s, float(until.until_s.max()))
        if self._kept_out is not None:
            self._kept_out.add(clients, by_clock)
            self._barred = None
        self._at = None

    def state(self) -> Arrays:
        """Return all that is needed to go on at the opening of a round."""
        return {
            "free_round": self._free_round,
            "free_s": self._free_s,
            "busy": self._busy,
            "busy_until_s": self._busy_until_s,
        }

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned."""
        self._free_round, self._free_s, self._excludes = state["free_round"], state["free_s"], True
        self._busy, self._busy_until_s = state["busy"], state["busy_until_s"]
        self._last_busy_s = float(self._busy_until_s.max(initial=0.0))
        self._last_free_s = float(self._free_s.max(initial=0.0))
        self._kept_out = self._barred = None

    @property
    def last_end_s(self) -> float:
        """When the last session that has been started ends."""
        return max(self._last_busy_s, self._clock.now)

    def eligible(self, clients: Ints) -> Bools:
        """Say of each of the clients whether it is eligible."""
        self._look()
        if self._mask is None and self._availability.foresees(self._clock.now):
            if _FEW * len(clients) < self._clients:
                return self._availability.at(clients, self._clock.now) & self._free(clients)
            self._everyone()
        if self._mask is not None:
            return self._mask[clients]
        # Whichever turns more clients away is asked first.
        if self._excluded_share > _MANY:
            answer = self._free(clients)
            self._excluded_share = 1.0 - float(answer.sum()) / max(1, len(answer))
            left = answer.nonzero()[0]
            answer[left] = self._availability.at(clients[left], self._clock.now)
        else:
            answer = self._availability.at(clients, self._clock.now)
            left = answer.nonzero()[0]
            free = self._free(clients[left])
            self._excluded_share = 1.0 - float(free.mean()) if len(left) else 0.0
            answer[left] = free
        return answer

    def barred(self) -> Bits | None:
        """Return clients who are surely not eligible, as bits; None where that is not known at a glance."""
        possible = self._availability.possible(self._clock.now)
        if possible is None:
            self._kept_out = self._barred = None
            return None
        at = (self._number, self._clock.now)
        if self._barred is not None and self._barred_at == at:
            return self._barred
        if self._kept_out is None:
            # It takes a compiler along, which only those shall load who need it.
            from fedsim.simulation.arrays.kept_out import KeptOut

            self._kept_out = KeptOut(self._free_round, self._free_s, self._number, self._clock.now)
        self._barred, self._barred_at = self._kept_out.with_impossible(possible, *at), at
        return self._barred

    def _free(self, clients: Ints) -> Bools:
        """Say of each of the clients whether neither a session nor a cool-down keeps it out."""
        number, now = self._number, self._clock.now
        if not self._excludes and number >= 0:
            free: Bools = self._free_s[clients] <= now if self._last_free_s > now else np.ones(len(clients), np.bool_)
            return free
        if self._last_free_s <= now and self._kept_out is not None and self._barred_at == (number, now):
            return self._kept_out.separated_long_enough(clients)
        return (self._free_s[clients] <= now) & (self._free_round[clients] <= number)

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
        if self._block > 1:
            return int((~gone.reshape(-1, self._block).any(axis=1)).sum()) * self._block
        return int((~gone).sum())

    def wait_for(self, wanted: int, until_s: float) -> simpy.Event:
        """Return an event for the first instant with `wanted` clients ready; there are fewer now.

        It happens at `until_s` at the latest, and before if too many leave for good.
        """
        now, limit_s = self._clock.now, min(until_s, self._horizon_s)
        units = wanted // self._block
        clients = self._separated_long_enough()
        enough_s = ready_at(self._availability, clients, self._free_s[clients], units, self._block, now, limit_s)
        leaves = self._availability.leaves(clients, now, min(limit_s, enough_s)).reshape(-1, self._block).min(axis=1)
        leaves = np.sort(leaves[leaves > now])
        too_few_s = float(leaves[len(leaves) - units]) if len(leaves) >= units else now
        return self._clock.at(min(enough_s, too_few_s, until_s), Turn.SERVER)

    def next_eligible_s(self, until_s: float) -> float:
        """Return the first instant at which somebody is eligible, infinite after `until_s`; nobody is now."""
        now, limit_s = self._clock.now, min(until_s, self._horizon_s)
        clients = self._separated_long_enough()
        return ready_at(self._availability, clients, self._free_s[clients], 1, self._block, now, limit_s)

    def counts(self, among: Ints | None) -> Ints:
        """Count (3, groups) available and eligible clients among some or all, and everyone in a session, by group."""
        total, now = np.zeros((2, self._groups), dtype=np.int64), self._clock.now
        for first in range(0, self._clients if among is None else len(among), _CHUNK):
            last = first + _CHUNK
            clients = np.arange(first, min(last, self._clients)) if among is None else among[first:last]
            # A session keeps a client from being eligible as a cool-down does.
            online, free = self._availability.at(clients, now), self._free(clients)
            reasons = np.where(online, 0, Reason.OFFLINE) | np.where(free, 0, Reason.COOLDOWN)
            total += count_by_group(reasons.astype(np.uint8), self._group[clients], self._groups)
        in_session = np.bincount(self._group[self._busy[self._busy_until_s > now]], minlength=self._groups)
        return np.array([*total, in_session])

    def explain(self, turn: str = "round") -> str:
        """Say in words what everyone is waiting for; `turn` is what the server counts by."""
        now, everyone = self._clock.now, np.arange(self._clients)
        reasons = np.zeros(self._clients, dtype=np.uint8)
        reasons[~self._availability.at(everyone, now)] = Reason.OFFLINE
        reasons[self._availability.leaves(everyone, now, now) <= now] |= np.uint8(Reason.GONE)
        spent = self._free_round == NEVER
        separated = (self._free_round > self._number) & ~spent
        reasons[separated] |= np.uint8(Reason.SEPARATION)
        reasons[spent] |= np.uint8(Reason.SPENT)
        # A session keeps a client out as a cool-down does, and counts as what it is.
        reasons[self._free_s > now] |= np.uint8(Reason.COOLDOWN)
        in_session = self._busy[self._busy_until_s > now]
        reasons[in_session] = reasons[in_session] & ~np.uint8(Reason.COOLDOWN) | np.uint8(Reason.IN_SESSION)
        later = self._free_round[separated]
        return explain(reasons, int(later.min(initial=np.iinfo(np.int64).max)), turn)

    def _look(self) -> None:
        """Forget what was true at another instant, or in another round."""
        if self._at != (self._number, self._clock.now):
            self._at, self._mask = (self._number, self._clock.now), None

    def _everyone(self) -> Bools:
        """Look at all clients, once in a round and instant."""
        self._look()
        if self._mask is None and (everyone := self._availability.everyone(self._clock.now)) is not None:
            self._mask = everyone & (self._free_s <= self._clock.now) & (self._free_round <= self._number)
        if self._mask is None:
            chunks = (np.arange(first, min(first + _CHUNK, self._clients)) for first in range(0, self._clients, _CHUNK))
            self._mask = np.concatenate([self.eligible(clients) for clients in chunks])
        return self._mask

    def _separated_long_enough(self) -> Ints:
        """Return the clients whom no separation keeps out; with blocks, members of whole blocks."""
        free = (self._free_round <= self._number).reshape(-1, self._block).all(axis=1)
        return np.flatnonzero(np.repeat(free, self._block))
