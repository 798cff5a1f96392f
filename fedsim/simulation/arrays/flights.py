"""The sessions in flight of a buffered server, in a heap: when and how each ends is known when it starts."""

from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np
import simpy
from numpy.typing import NDArray

from fedsim.simulation.clock import Turn
from fedsim.simulation.federation import Landing
from fedsim.simulation.processes.session import session_lengths

if TYPE_CHECKING:
    from fedsim.simulation.arrays.world import ArrayWorld


class ArrayFlights:
    """What a buffered server needs of its sessions, in the vectorized engine.

    Parameters
    ----------
    world
        Whose clock, devices and roster they share.
    """

    def __init__(self, world: "ArrayWorld") -> None:
        self._world = world
        self._ends: list[tuple[float, Landing]] = []

    @property
    def count(self) -> int:
        """Sessions that run."""
        return len(self._ends)

    def start(self, version: int, key: int, cohort: NDArray[np.int64], row: int) -> None:
        """Work out how sessions end; `key` is that of their lengths, `row` the recorder's of the first."""
        world, now = self._world, self._world.clock.now
        deadline = world.scenario.server.deadline
        limit_s = np.inf if deadline is None else now + deadline
        own_ends = now + session_lengths(world.session_models, world.population, cohort, key, world.session_draws)
        ends = np.minimum(own_ends, limit_s)
        device_ends = world.devices.ends(cohort, now, ends)
        dropped = device_ends <= ends
        outcomes = np.where(dropped, "dropped", np.where(own_ends > limit_s, "late", "reported"))
        ends = np.where(dropped, device_ends, ends)
        world.roster.start(cohort, ends)
        world.roster.free_s[cohort] = ends
        for place, (end_s, client, outcome) in enumerate(
            zip(ends.tolist(), cohort.tolist(), outcomes.tolist(), strict=True), start=row
        ):
            heappush(self._ends, (end_s, Landing(place, client, version, outcome)))

    def landed(self) -> list[Landing]:
        """Return the sessions that have ended since the last call, in the order of their rows."""
        landed = []
        while self._ends and self._ends[0][0] <= self._world.clock.now:
            landed.append(heappop(self._ends)[1])
        return sorted(landed)

    def rest(self, clients: NDArray[np.int64], version: int) -> None:
        """Note from which version and which instant on nothing but their availability keeps these clients out."""
        roster, population = self._world.roster, self._world.population
        roster.free_round[clients] = version + 1 + population.separation[clients]
        rests = self._world.clock.now + population.cooldown_s[clients]
        roster.free_s[clients] = np.maximum(roster.free_s[clients], rests)
        roster.look_again()

    def wait(self, *, free: bool, until_s: float) -> simpy.Event:
        """Return an event in the server's turn of the next end, or of the first instant with somebody eligible."""
        roster = self._world.roster
        if not self._ends:
            return roster.wait_for(1, until_s)
        until_s = min(until_s, self._ends[0][0])
        return self._world.clock.at(min(until_s, roster.next_eligible_s(until_s)) if free else until_s, Turn.SERVER)

    def abort(self) -> list[Landing]:
        """Cut all sessions short: the run is over."""
        landed = sorted(landing._replace(outcome="aborted") for _, landing in self._ends)
        self._ends.clear()
        return landed
