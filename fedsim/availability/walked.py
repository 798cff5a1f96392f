"""Many devices of any model at once: each goes through its own intervals, and is remembered where it stands."""

from collections import deque

import numpy as np

from fedsim.availability.batch import Batch, Clients, Mask, Spells
from fedsim.availability.model import AvailabilityModel, Intervals, intervals
from fedsim.availability.place import Place
from fedsim.common.arrays import Floats
from fedsim.common.keyed import Stream


class _Walk:
    """One device: its intervals from the last instant asked about on, whole as far as they are known.

    Attributes
    ----------
    known
        Pairs (start, end).
    reached
        What begins before this instant is known; infinite where the last interval is.
    last
        The end of the last interval of those that are known.
    """

    __slots__ = ("_pieces", "known", "last", "reached")

    def __init__(self, pieces: Intervals) -> None:
        self._pieces, self.known = pieces, deque[tuple[float, float]]()
        self.reached = self.last = -np.inf

    def to(self, instant: float) -> deque[tuple[float, float]]:
        """Go on until all that begins up to an instant is known, and return what is."""
        while self.reached <= instant:
            piece = next(self._pieces, None)
            if piece is None:
                self.reached = np.inf
                break
            start, end = piece
            if start < end:
                if self.known and self.known[-1][1] == start:
                    start = self.known.pop()[0]
                self.known.append((start, end))
                self.last = end
            self.reached = end
        return self.known

    def forget(self, instant: float) -> None:
        """Leave behind what is over at an instant."""
        while self.known and self.known[0][1] <= instant:
            self.known.popleft()


class WalkedBatch(Batch):
    """Devices of one model in one place.

    Parameters
    ----------
    model
        Any; of it the intervals of each device are asked for.
    place
        When simulated time begins, and the devices' time zone.
    draws
        The stream for availability.
    """

    follows = True

    def __init__(self, model: AvailabilityModel, place: Place, draws: Stream) -> None:
        self._model, self._place, self._draws = model, place, draws
        self._walks: dict[int, _Walk] = {}

    def at(self, clients: Clients, instant: float) -> Mask:
        """Follow each device up to the instant."""
        return np.array([self._available(client, instant) for client in clients.tolist()], dtype=np.bool_)

    def spells(self, clients: Clients, since: float, until: float) -> Spells:
        """Go through the window device by device."""
        found = [
            (who, max(start, since), min(end, until))
            for who, client in enumerate(clients.tolist())
            for start, end in self._walk(client).to(until)
            if start < until and end > since
        ]
        columns = zip(*found, strict=True) if found else ((), (), ())
        who, starts, ends = (np.array(column, dtype=np.float64) for column in columns)
        return Spells(who.astype(np.intp), starts, ends)

    def leaves(self, clients: Clients, since: float, until: float) -> Floats:
        """Find those whose intervals end."""
        gone = np.full(len(clients), np.inf)
        for place, client in enumerate(clients.tolist()):
            walk = self._walk(client)
            walk.to(until)
            if walk.reached == np.inf and max(walk.last, since) <= until:
                gone[place] = max(walk.last, since)
        return gone

    def _available(self, client: int, instant: float) -> bool:
        walk = self._walk(client)
        known = walk.to(instant)
        walk.forget(instant)
        return bool(known) and known[0][0] <= instant

    def _walk(self, client: int) -> _Walk:
        walk = self._walks.get(client)
        if walk is None:
            walk = self._walks[client] = _Walk(intervals(self._model, client, self._place, self._draws))
        return walk
