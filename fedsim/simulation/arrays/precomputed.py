"""When devices are available, computed ahead for all of them where questions about them are frequent."""

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.population import PopulationAvailability
from fedsim.common.arrays import Bits, Bools, Ints
from fedsim.common.instants import DAY, FOREVER

_MOST = 1 << 16
"""Nothing is computed ahead for more clients: it would take memory, and few of them are asked about twice."""
_PER_CLIENT_AHEAD, _PER_CALL, _PER_CALL_AHEAD = 4, 300, 3_000  # costs, in clients asked about
_LONGEST = DAY


class PrecomputedAvailability:
    """The availability of all devices; answers as `PopulationAvailability` does, at instants that never go back.

    Each call costs about as much as asking about `_PER_CALL` clients; computing the spells of all ahead costs as much
    as asking about `_PER_CALL_AHEAD`, and `_PER_CLIENT_AHEAD` times about each. Once that much has been asked within a
    day, the spells of the next day (or of as long as it pays) are computed, but not beyond `horizon`. Until then a
    client's availability is one number: the end of its present spell.
    """

    def __init__(self, availability: PopulationAvailability, horizon: int) -> None:
        self._availability, self._horizon = availability, horizon
        self.stratum: Ints = availability.stratum
        self.reasons, self.spells = availability.reasons, availability.spells
        self._some_leave = bool(availability.may_leave.any())
        clients = len(self.stratum)
        self._length = min(availability.foreseeable, _LONGEST) if clients <= _MOST else 0
        self._since, self._asked = -FOREVER, 0
        self._covered_until = -1  # everything before this instant is worked out
        self._instant = -1  # and has been gone up to this one
        self._until: Ints = np.empty(0, dtype=np.int64)  # the end of each one's spell that began last
        self._who: NDArray[np.intp] = np.empty(0, dtype=np.intp)  # of the spells in the order in which they begin,
        self._starts: Ints = np.empty(0, dtype=np.int64)
        self._ends: Ints = np.empty(0, dtype=np.int64)
        self._begun = 0  # so many of which have

    def covers(self, instant: int) -> bool:
        """Say whether it is known of all clients, at an instant, whether they are available."""
        if not self._length:
            return False
        if instant == self._instant:
            return True
        if instant >= self._covered_until:
            if not self._is_worth_it(instant):
                return False
            self._look_ahead(instant)
        last = int(self._starts.searchsorted(instant, side="right"))
        if last > self._begun:
            new = slice(self._begun, last)
            self._until[self._who[new]] = self._ends[new]  # of several spells of a client, the last one
            self._begun = last
        self._instant = instant
        return True

    def anybody(self, instant: int) -> Ints:
        """Return the clients that are worth asking about, all of them."""
        return np.arange(len(self.stratum))

    def possible(self, instant: int) -> Bits | None:
        """Return the devices that may be available at an instant, as bits; None where that is not known at a glance."""
        return None if self.covers(instant) else self._availability.possible(instant)

    def everyone(self, instant: int) -> Bools | None:
        """Say of all clients whether they are available; None where that has to be looked up."""
        self._asked += _PER_CALL
        return self._until > instant if self.covers(instant) else None

    def at(self, clients: Ints, instant: int) -> Bools:
        """Say of each client whether it is available."""
        self._asked += len(clients) + _PER_CALL
        if self.covers(instant):
            return self._until[clients] > instant
        return self._availability.at(clients, instant)

    def ends(self, clients: Ints, instant: int, until: Ints) -> Ints:
        """Return for each of some clients that are available the end of that time, if it is not after `until`."""
        self._asked += len(clients) + _PER_CALL
        if not self.covers(instant):
            return self._availability.ends(clients, instant, until)
        ends = self._until[clients]
        answer = np.where(ends <= until, ends, FOREVER)
        if ends.max(initial=-1) >= self._covered_until:  # cut there
            cut = ((ends >= self._covered_until) & (until >= self._covered_until)).nonzero()[0]
            answer[cut] = self._availability.ends(clients[cut], instant, until[cut])
        return answer

    def leaves(self, clients: Ints, since: int, until: int) -> Ints:
        """Return from when each client is never available again, `FOREVER` after `until`."""
        if not self._some_leave:
            return np.full(len(clients), FOREVER)
        return self._availability.leaves(clients, since, until)

    def _is_worth_it(self, instant: int) -> bool:
        """Say whether enough has been asked, of late or in the time that was looked ahead for."""
        within, ahead = instant - self._since, self._since < self._covered_until
        enough = _PER_CALL_AHEAD + _PER_CLIENT_AHEAD * len(self.stratum)
        worth_it = self._asked > enough * (within / self._length if ahead else 1.0)
        if worth_it or ahead or within >= _LONGEST:
            self._since, self._asked = instant, 0
        return worth_it

    def _look_ahead(self, instant: int) -> None:
        """Work out the spells of all that begin soon."""
        everyone = np.arange(len(self.stratum))
        until = max(instant, min(instant + self._length - 1, self._horizon)) + 1
        if len(followed := everyone[self._availability.followed]):  # from here on, and not from time 0
            self._availability.at(followed, instant)
        spells = self._availability.spells(everyone, instant, until)
        self._who, self._starts, self._ends = spells.where(np.argsort(spells.starts, kind="stable"))
        self._until, self._begun, self._covered_until = np.full(len(everyone), -1), 0, until
