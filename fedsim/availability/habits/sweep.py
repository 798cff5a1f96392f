"""When devices meet conditions: what begins and ends in a window, counted; each condition is said here once."""

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Clients, Mask, Spells, joined, together
from fedsim.availability.habits import bursts, charging, network
from fedsim.availability.place import Place
from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Stream
from fedsim.population.members import propensity
from fedsim.scenario.habits import Condition, Habits

_CHUNK = 1_024  # devices that are swept at once: their arrays fit the processor's cache


def meeting(
    habits: Habits,
    conditions: Collection[Condition],
    clients: Clients,
    since: float,
    until: float,
    place: Place,
    draws: Stream,
) -> Spells:
    """Return when each of some devices meets all of some conditions within [since, until), cut there.

    Parameters
    ----------
    habits
        The habits of the persons behind them.
    conditions
        Which must hold together.
    clients
        (n,) indices of devices.
    since, until
        Seconds of simulated time.
    place
        When simulated time begins, and the devices' time zone.
    draws
        The stream for availability.
    """
    parts = (
        (first, _meeting(habits, conditions, clients[first : first + _CHUNK], since, until, place, draws))
        for first in range(0, len(clients), _CHUNK)
    )
    return together(part._replace(who=part.who + first) for first, part in parts)


def meeting_at(habits: Habits, clients: Clients, instant: float, place: Place, draws: Stream) -> Mask:
    """Say of each of some devices whether it meets all conditions that are required, at one instant."""
    answer, left = np.zeros(len(clients), dtype=np.bool_), np.arange(len(clients))
    until = math.nextafter(instant, math.inf)
    for condition in habits.require:  # later conditions only for those that meet the earlier ones
        left = left[meeting(habits, [condition], clients[left], instant, until, place, draws).who]
    answer[left] = True
    return answer


def _meeting(
    habits: Habits,
    conditions: Collection[Condition],
    clients: Clients,
    since: float,
    until: float,
    place: Place,
    draws: Stream,
) -> Spells:
    """Count what goes on at each device; a condition follows from the counts."""
    clock = place.clock(since)
    days = np.arange(clock.day(since) - charging.BACK, clock.day(until) + charging.AHEAD + 1)
    sweep = _Sweep(len(clients), since, until)
    if "charging" in conditions:
        sweep.add("charging", *_flat(*charging.sessions(habits.charging, clients, days, clock, draws)))
    if "network" in conditions:
        home, work = network.access(habits.network, clients, propensity(clients, draws), draws)
        leave, back, work_since, work_until = network.outings(habits.network, clients, days, clock, draws)
        sweep.add("away", *_flat(leave, back))
        sweep.add("at work", *_flat(work_since, work_until))
        failures = bursts.drop_outs(habits.network)
        sweep.add("failing", *bursts.events(failures, clients, since, until, clock, draws))
    if "idle" in conditions:
        sweep.add("used", *bursts.events(bursts.uses(habits.idle), clients, since, until, clock, draws))
    who, starts, ends, going = sweep.run()
    holds = np.ones(len(who), dtype=np.bool_)
    if "charging" in conditions:
        holds &= going["charging"]
    if "network" in conditions:
        holds &= ((home[who] & ~going["away"]) | (work[who] & going["at work"])) & ~going["failing"]
    if "idle" in conditions:
        holds &= ~going["used"]
    return joined(who[holds], starts[holds], ends[holds])


class _Sweep:
    """Intervals of several kinds, cut at their starts and ends into pieces in which nothing changes."""

    def __init__(self, devices: int, since: float, until: float) -> None:
        self._devices, self._since, self._until = devices, since, until
        self._names: list[str] = []
        self._who: list[NDArray[np.intp]] = [np.arange(devices)]  # a piece begins with the window
        self._times: list[Floats] = [np.full(devices, since)]
        self._steps: list[Ints] = [np.zeros(devices, dtype=np.int64)]

    def add(self, name: str, who: NDArray[np.intp], starts: Floats, ends: Floats) -> None:
        """Add intervals of one kind; they may overlap, be empty, or lie outside the window."""
        some = (starts < ends) & (ends > self._since) & (starts < self._until)
        who, starts, ends = who[some], starts[some], ends[some]
        # Kinds are counted in digits of one number: less than 2**12 at once of each.
        step = np.int64(1) << np.int64(12 * len(self._names))
        self._names.append(name)
        self._who += [who, who]
        self._times += [np.maximum(starts, self._since), np.minimum(ends, self._until)]
        self._steps += [np.full(len(who), step), np.full(len(who), -step)]

    def run(self) -> tuple[NDArray[np.intp], Floats, Floats, dict[str, Mask]]:
        """Return the pieces: device, start, end, and for each kind whether it goes on."""
        who, times = np.concatenate(self._who), np.concatenate(self._times)
        order = np.argsort(times)  # of what happens at one instant, only the sum matters
        order = order[np.argsort(who[order].astype(np.uint16), kind="stable")]  # few bits are sorted by their digits
        who, times = who[order], times[order]
        counts = np.cumsum(np.concatenate(self._steps)[order])
        last = np.ones(len(who), dtype=np.bool_)  # of its instant
        last[:-1] = (who[1:] != who[:-1]) | (times[1:] > times[:-1])
        who, starts, counts = who[last], times[last], counts[last]
        ends = np.full(len(who), self._until)
        same = who[1:] == who[:-1]
        ends[:-1][same] = starts[1:][same]
        inside = starts < ends
        who, starts, ends, counts = who[inside], starts[inside], ends[inside], counts[inside]
        digits = {name: (counts >> np.int64(12 * place)) & 0xFFF for place, name in enumerate(self._names)}
        return who, starts, ends, {name: digit > 0 for name, digit in digits.items()}


def _flat(starts: Floats, ends: Floats) -> tuple[NDArray[np.intp], Floats, Floats]:
    return np.repeat(np.arange(starts.shape[0]), starts.shape[1]), starts.ravel(), ends.ravel()
