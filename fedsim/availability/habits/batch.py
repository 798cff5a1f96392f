"""Many devices with habits at once: their conditions are swept over a window, or looked up at one instant."""

from copy import copy

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Clients, Floats, Mask, Spells, ends_by_spells
from fedsim.availability.habits import bursts, charging, network
from fedsim.availability.habits import intervals as habits
from fedsim.availability.habits.civil import Civil, civil
from fedsim.availability.habits.connected import Connected
from fedsim.availability.habits.idle import uses
from fedsim.availability.habits.plugged import Plugged
from fedsim.availability.habits.troubled import Troubled, failing, used
from fedsim.availability.place import Place
from fedsim.common.compiled import compiled
from fedsim.common.keyed import Stream
from fedsim.scenario.habits import Habits

_CHUNK = 1_024  # devices that are swept at once: their arrays fit the processor's cache
_STEADY = 6 * 86_400.0  # further than any session reaches from the day to which it belongs


class HabitsBatch:
    """Devices with one set of habits in one place.

    Parameters
    ----------
    kind
        The habits.
    place
        When simulated time begins, and the devices' time zone.
    members
        (n,) indices of the devices.
    draws
        The stream for availability.

    Notes
    -----
    What is expensive to work out and holds for hours is remembered for each client: sessions on the charger, the
    outing of the day, an instant before which the client is surely not available (`_shut`), and one until which it
    stays on the charger and on the network (`_open`). Around a change of the clocks nothing is remembered.
    """

    def __init__(self, kind: Habits, place: Place, members: Clients, draws: Stream) -> None:
        self._kind, self._place, self._draws = kind, place, draws
        clients = int(members.max(initial=0)) + 1
        self._shut, self._open = np.zeros(clients), np.zeros(clients)
        self._lasting: list[Plugged | Connected] = []
        self._troubled: list[Troubled] = []
        if "charging" in kind.require:
            self._lasting.append(Plugged(kind.charging, members, draws))
        if "network" in kind.require:
            self._lasting.append(Connected(kind.network, clients, draws))
            self._troubled.append(failing(kind.network, clients, draws))
        if "idle" in kind.require:
            self._troubled.insert(0, used(kind.idle, clients, draws))

    def elsewhere(self, place: Place, members: Clients) -> "HabitsBatch":
        """Return a batch of other members, with no larger indices, in another place.

        What is remembered by client is shared, so that many places take no more memory than one.
        """
        other = copy(self)
        other._place = place
        other._lasting = [each.beside(members) if isinstance(each, Plugged) else each for each in self._lasting]
        return other

    def at(self, clients: Clients, instant: float) -> Mask:
        """Look it up, for those that are not known to be shut."""
        answer = np.zeros(len(clients), dtype=np.bool_)
        left = _not_before(clients, self._shut, instant)
        clock = civil(self._place, instant)
        if not _steady(clock, instant):
            answer[left] = habits.available_at(self._kind, clients[left], instant, self._place, self._draws)
            return answer
        some = clients[left]
        fails = (self._open[some] <= instant).nonzero()[0]
        if len(fails) and self._lasting:
            self._look_up(some[fails], instant, clock)
            left = left[self._shut[some] <= instant]
        for events in self._troubled:
            some = clients[left]
            free, until = events.state(some, instant, clock)
            fails = (~free).nonzero()[0]
            self._shut[some[fails]] = until[fails]
            left = left[free]
        answer[left] = True
        return answer

    def _look_up(self, clients: Clients, instant: float, clock: Civil) -> None:
        """Remember from when and until when the charger and the network are there."""
        ends = np.full(len(clients), np.inf)
        for condition in self._lasting:
            since, until = condition.spell(clients, instant, clock)
            self._shut[clients] = np.where(since > instant, since, instant)
            holds = (since <= instant).nonzero()[0]
            clients, ends = clients[holds], np.minimum(ends[holds], until[holds])
        self._open[clients] = ends

    def ends(self, clients: Clients, instant: float, until: Floats) -> Floats:
        """Look for the first condition that ceases to hold."""
        clock = civil(self._place, instant)
        if not _steady(clock, instant):
            return ends_by_spells(self, clients, instant, until)
        found = np.full(len(clients), np.inf)
        for events in self._troubled:
            found = np.minimum(found, events.next_start(clients, instant, until, clock))
        if self._lasting:
            unknown = (self._open[clients] <= instant).nonzero()[0]
            if len(unknown):
                self._look_up(clients[unknown], instant, clock)
            ends = self._open[clients]
            found = np.where(ends <= np.minimum(until, found), ends, found)
            # Beyond the horizon only a sweep can tell.
            horizon = min(condition.horizon(instant, clock) for condition in self._lasting)
            far = ((ends >= horizon) & (found <= until) & (found == ends)).nonzero()[0]
            if len(far):
                found[far] = ends_by_spells(self, clients[far], instant, until[far])
        return found

    def spells(self, clients: Clients, since: float, until: float) -> Spells:
        """Sweep over what begins and ends, some thousands of devices at a time."""
        parts = [Spells(np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0))]
        for first in range(0, len(clients), _CHUNK):
            part = self._sweep(clients[first : first + _CHUNK], since, until)
            parts.append(Spells(part.who + first, part.starts, part.ends))
        return Spells(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def leaves(self, clients: Clients, since: float, until: float) -> Floats:  # noqa: ARG002
        """Never: the next day may always bring a session."""
        return np.full(len(clients), np.inf)

    def _sweep(self, clients: Clients, since: float, until: float) -> Spells:
        """Count what goes on at each device; it is available where every condition follows from the counts."""
        kind, draws, clock = self._kind, self._draws, civil(self._place, since)
        days = np.arange(clock.day(since) - charging.BACK, clock.day(until) + charging.AHEAD + 1)
        sweep = _Sweep(len(clients), since, until)
        if "charging" in kind.require:
            sweep.add("charging", *_flat(*charging.sessions(kind.charging, clients, days, clock, draws)))
        if "network" in kind.require:
            home, work = network.access(kind.network, clients, draws)
            away_since, away_until, work_since, work_until = network.outings(kind.network, clients, days, clock, draws)
            sweep.add("away", *_flat(away_since, away_until))
            sweep.add("at work", *_flat(work_since, work_until))
            sweep.add("failing", *bursts.events(network.drop_outs(kind.network), clients, since, until, clock, draws))
        if "idle" in kind.require:
            sweep.add("used", *bursts.events(uses(kind.idle, clients, draws), clients, since, until, clock, draws))
        who, starts, ends, going = sweep.run()
        holds = np.ones(len(who), dtype=np.bool_)
        for condition in kind.require:
            match condition:
                case "charging":
                    holds &= going["charging"]
                case "network":
                    connected = (home[who] & ~going["away"]) | (work[who] & going["at work"])
                    holds &= connected & ~going["failing"]
                case "idle":
                    holds &= ~going["used"]
        return _runs(who, starts, ends, holds)


@compiled
def _not_before(clients: Clients, instants: Floats, now: float) -> Clients:
    """Return the places of the clients whose instant has come."""
    places, found = np.empty(len(clients), np.int64), 0
    for place in range(len(clients)):
        places[found] = place
        found += instants[clients[place]] <= now
    return places[:found]


def _steady(clock: Civil, instant: float) -> bool:
    """Say whether no clock is changed some days before and after."""
    near = clock.changes.searchsorted((instant - _STEADY, instant + _STEADY))
    return bool(near[0] == near[1])


class _Sweep:
    """Intervals of several kinds, cut at their starts and ends into pieces in which nothing changes."""

    def __init__(self, devices: int, since: float, until: float) -> None:
        self._devices, self._since, self._until = devices, since, until
        self._names: list[str] = []
        self._who: list[NDArray[np.intp]] = [np.arange(devices)]  # a piece begins with the window
        self._times: list[Floats] = [np.full(devices, since)]
        self._steps: list[NDArray[np.int64]] = [np.zeros(devices, dtype=np.int64)]

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


def _runs(who: NDArray[np.intp], starts: Floats, ends: Floats, holds: Mask) -> Spells:
    """Join the pieces that hold and follow one another."""
    who, starts, ends = who[holds], starts[holds], ends[holds]
    opens = np.ones(len(who), dtype=np.bool_)
    opens[1:] = (who[1:] != who[:-1]) | (starts[1:] > ends[:-1])
    closes = np.ones(len(who), dtype=np.bool_)
    closes[:-1] = opens[1:]
    return Spells(who[opens], starts[opens], ends[closes])
