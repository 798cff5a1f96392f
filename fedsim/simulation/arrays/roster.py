"""Who is eligible now, worked out for just the clients that are asked about."""

from collections.abc import Iterator

import numpy as np
import simpy
from numpy.typing import NDArray

from fedsim.availability.population import PopulationAvailability
from fedsim.log.columns import Arrays
from fedsim.selection import Law, Request
from fedsim.simulation.arrays.waiting import ready_at
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.processes.roster import Bar, count_bars, explain_bars

_CHUNK = 1 << 14  # clients that are looked at together, which bounds the memory
_MANY = 0.2


class _TooFewError(Exception):
    """Fewer clients are ready than a trial selection wants."""


class ArrayRoster:
    """When each client is free again, as arrays, beside the availability of all devices.

    Parameters
    ----------
    clock
        The simulation's clock.
    availability
        All devices.
    law
        The selection law.
    block
        Clients that can be selected only together.
    fixed_size
        Whether a cohort has as many clients as were asked for.
    horizon_s
        When the run is stopped; nobody looks further ahead.

    Attributes
    ----------
    free_round
        (N,) round from which the separation allows the next participation.
    free_s
        (N,) instant from which neither a session nor the wall-clock cool-down keeps the client out.
    """

    def __init__(
        self,
        clock: Clock,
        availability: PopulationAvailability,
        law: Law,
        block: int,
        fixed_size: bool,
        horizon_s: float,
    ) -> None:
        self._clock, self._availability, self._law, self._block, self._horizon_s = (
            clock,
            availability,
            law,
            block,
            horizon_s,
        )
        self._fixed_size = fixed_size
        self._group, self._groups = availability.cell, int(availability.cell.max()) + 1
        self.clients = len(availability.cell)
        self.free_round = np.zeros(self.clients, dtype=np.int64)
        self.free_s = np.zeros(self.clients)
        self._busy: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._busy_until_s = np.empty(0)
        self._number = -1
        self._barred_share = 0.0
        self._at: tuple[int, float] | None = None  # the round and the instant that the next two belong to
        self._mask: NDArray[np.bool_] | None = None
        self._chosen: tuple[Request, NDArray[np.int64]] | None = None
        self._most = 0  # wanted in a trial selection
        self.last_selected = -1

    def open_round(self, number: int) -> None:
        """Let in those whose separation is over in this round."""
        self._number = number

    def start(self, clients: NDArray[np.int64], ends_s: NDArray[np.float64]) -> None:
        """Note who is in a session, and until when."""
        now = self._clock.now
        still = self._busy_until_s > now
        self._busy = np.concatenate([self._busy[still], clients])
        self._busy_until_s = np.concatenate([self._busy_until_s[still], ends_s])
        self._at = None

    def state(self) -> Arrays:
        """Return all that is needed to go on at the opening of a round."""
        return {
            "free_round": self.free_round,
            "free_s": self.free_s,
            "busy": self._busy,
            "busy_until_s": self._busy_until_s,
            "last_selected": np.array(self.last_selected),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned."""
        self.free_round, self.free_s = state["free_round"], state["free_s"]
        self._busy, self._busy_until_s = state["busy"], state["busy_until_s"]
        self.last_selected = int(state["last_selected"])

    def look_again(self) -> None:
        """Forget who was eligible at this instant: a cool-down has begun."""
        self._at = None

    @property
    def last_end_s(self) -> float:
        """When the last session that has been started ends."""
        return float(self._busy_until_s.max(initial=self._clock.now))

    def eligible(self, clients: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say of each of the clients whether it is eligible."""
        self._look()
        if self._mask is not None:
            return self._mask[clients]
        # Whichever turns more clients away is asked first.
        if self._barred_share > _MANY:
            answer = self._free(clients)
            self._barred_share = 1.0 - float(answer.mean())
            left = answer.nonzero()[0]
            answer[left] = self._availability.at(clients[left], self._clock.now)
        else:
            answer = self._availability.at(clients, self._clock.now)
            left = answer.nonzero()[0]
            free = self._free(clients[left])
            self._barred_share = 1.0 - float(free.mean()) if len(left) else 0.0
            answer[left] = free
        return answer

    def _free(self, clients: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say of each of the clients whether neither a session nor a cool-down keeps it out."""
        answer: NDArray[np.bool_] = self.free_s[clients] <= self._clock.now
        return answer & (self.free_round[clients] <= self._number)

    def all_eligible(self) -> NDArray[np.bool_]:
        """Return the mask (N,) of eligible clients."""
        self._look()
        if self._mask is None:
            parts = [self.eligible(clients) for clients in self._chunks()]
            self._mask = np.concatenate(parts)
        if self._most and self._count(self._mask) < self._most:
            raise _TooFewError
        return self._mask

    @property
    def eligible_count(self) -> int:
        """Eligible clients; O(N)."""
        return int(self.all_eligible().sum())

    def ready(self, most: int) -> int:
        """Clients that could be selected now, counted up to `most`.

        A trial selection tells without looking at all clients: when it finds so many, they are there.
        """
        self._look()
        if self._mask is not None and self._count(self._mask) < most:
            return self._count(self._mask)
        cohort = self._try(Request(self._number, most, self.last_selected))
        if cohort is None:
            assert self._mask is not None, "it was counted"
            return self._count(self._mask)
        return len(cohort) if self._fixed_size and len(cohort) < most else most

    def fewer_than(self, places: int, key: int, /) -> NDArray[np.int64] | None:
        """Return all eligible clients, in order, if there are fewer than `places`, else None."""
        self._look()
        if self._mask is None or self._count(self._mask) >= places:
            cohort = self._try(Request(key, places, self.last_selected))
            if cohort is not None and len(cohort) == places:
                return None
        return np.flatnonzero(self.all_eligible())

    def _try(self, request: Request) -> NDArray[np.int64] | None:
        """Select, and keep the cohort if it is whole; None if it was found that too few are eligible."""
        self._most = request.count
        try:
            cohort = self._law(request, self)
        except _TooFewError:
            return None
        finally:
            self._most = 0
        if not self._fixed_size or len(cohort) == request.count:
            self._chosen = request, cohort
        return cohort

    def select(self, request: Request) -> NDArray[np.int64]:
        """Choose a cohort by the selection law, unless a trial has chosen it."""
        self._look()
        cohort = self._chosen[1] if self._chosen is not None and self._chosen[0] == request else None
        return self._law(request, self) if cohort is None else cohort

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
        enough_s = ready_at(self._availability, clients, self.free_s[clients], units, self._block, now, limit_s)
        leaves = self._availability.leaves(clients, now, min(limit_s, enough_s)).reshape(-1, self._block).min(axis=1)
        leaves = np.sort(leaves[leaves > now])
        too_few_s = float(leaves[len(leaves) - units]) if len(leaves) >= units else now
        return self._clock.at(min(enough_s, too_few_s, until_s), Turn.SERVER)

    def next_eligible_s(self, until_s: float) -> float:
        """Return the first instant at which somebody is eligible, infinite after `until_s`; nobody is now."""
        now, limit_s = self._clock.now, min(until_s, self._horizon_s)
        clients = self._separated_long_enough()
        return ready_at(self._availability, clients, self.free_s[clients], 1, self._block, now, limit_s)

    def counts(self, among: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Count (3, groups) available and eligible clients among some or all, and everyone in a session, by group."""
        total, now = np.zeros((2, self._groups), dtype=np.int64), self._clock.now
        for first in range(0, self.clients if among is None else len(among), _CHUNK):
            last = first + _CHUNK
            clients = np.arange(first, min(last, self.clients)) if among is None else among[first:last]
            # A session keeps a client from being eligible as a cool-down does.
            online, free = self._availability.at(clients, now), self._free(clients)
            bars = np.where(online, 0, Bar.OFFLINE) | np.where(free, 0, Bar.COOLDOWN)
            total += count_bars(bars.astype(np.uint8), self._group[clients], self._groups)
        in_session = np.bincount(self._group[self._busy[self._busy_until_s > now]], minlength=self._groups)
        return np.array([*total, in_session])

    def explain(self, turn: str = "round") -> str:
        """Say in words what everyone is waiting for; `turn` is what the server counts by."""
        now, everyone = self._clock.now, np.arange(self.clients)
        bars = self._bars(everyone, self._in_session())
        bars[self._availability.leaves(everyone, now, now) <= now] |= np.uint8(Bar.GONE)
        later = self.free_round[self.free_round > self._number]
        return explain_bars(bars, int(later.min(initial=np.iinfo(np.int64).max)), turn)

    def _look(self) -> None:
        """Forget what was true at another instant, or in another round."""
        now = self._number, self._clock.now
        if self._at != now:
            self._at, self._mask, self._chosen = now, None, None

    def _chunks(self) -> Iterator[NDArray[np.int64]]:
        for first in range(0, self.clients, _CHUNK):
            yield np.arange(first, min(first + _CHUNK, self.clients))

    def _count(self, mask: NDArray[np.bool_]) -> int:
        if self._block > 1:
            return int(mask.reshape(-1, self._block).all(axis=1).sum()) * self._block
        return int(mask.sum())

    def _separated_long_enough(self) -> NDArray[np.int64]:
        """Return the clients whom no separation keeps out; with blocks, members of whole blocks."""
        free = (self.free_round <= self._number).reshape(-1, self._block).all(axis=1)
        return np.flatnonzero(np.repeat(free, self._block))

    def _in_session(self) -> NDArray[np.bool_]:
        mask = np.zeros(self.clients, dtype=np.bool_)
        mask[self._busy[self._busy_until_s > self._clock.now]] = True
        return mask

    def _bars(self, clients: NDArray[np.int64], in_session: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """Return the reasons against clients, as the processes of the other engine keep them."""
        now = self._clock.now
        bars = np.where(self._availability.at(clients, now), 0, np.uint8(Bar.OFFLINE)).astype(np.uint8)
        busy = in_session[clients]
        bars[busy] |= np.uint8(Bar.IN_SESSION)
        bars[(self.free_s[clients] > now) & ~busy] |= np.uint8(Bar.COOLDOWN)
        bars[self.free_round[clients] > self._number] |= np.uint8(Bar.SEPARATION)
        return bars
