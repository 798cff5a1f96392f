"""Many devices of any model at once: each goes through its own intervals, and is remembered where it stands."""

from collections import deque

import numpy as np

from fedsim.availability.batch import Batch, Clients, Mask, Spells
from fedsim.availability.model import AvailabilityModel, Pieces, pieces
from fedsim.availability.place import Place
from fedsim.common.arrays import Ints
from fedsim.common.instants import FOREVER
from fedsim.common.keyed import Stream


class _Walk:
    """One device: its intervals from the last instant asked about on, whole as far as they are known.

    Attributes
    ----------
    known
        Pairs (start, end).
    reached
        What begins before this instant is known; `FOREVER` where the last interval is.
    last
        The end of the last interval of those that are known.
    """

    __slots__ = ("_pieces", "known", "last", "reached")

    def __init__(self, found: Pieces) -> None:
        self._pieces, self.known = found, deque[tuple[int, int]]()
        self.reached = self.last = -1

    def to(self, instant: int) -> deque[tuple[int, int]]:
        """Go on until all that begins up to an instant is known, and return what is."""
        while self.reached <= instant:
            piece = next(self._pieces, None)
            if piece is None:
                self.reached = FOREVER
                break
            start, end = piece
            if start < end:
                if self.known and self.known[-1][1] == start:
                    start = self.known.pop()[0]
                self.known.append((start, end))
                self.last = end
            self.reached = end
        return self.known


class WalkedBatch(Batch):
    """Devices of one model in one place; any model will do, because only the intervals of devices are asked for."""

    follows = may_leave = True

    def __init__(self, model: AvailabilityModel, place: Place, draws: Stream) -> None:
        self._model, self._place, self._draws = model, place, draws
        self._walks: dict[int, _Walk] = {}

    def at(self, clients: Clients, instant: int) -> Mask:
        """Follow each device up to the instant, and leave behind what is over."""
        answer = np.zeros(len(clients), dtype=np.bool_)
        for place, client in enumerate(clients.tolist()):
            known = self._walk(client).to(instant)
            while known and known[0][1] <= instant:
                known.popleft()
            answer[place] = bool(known) and known[0][0] <= instant
        return answer

    def spells(self, clients: Clients, since: int, until: int) -> Spells:
        """Go through the window device by device."""
        found = [
            (who, max(start, since), min(end, until))
            for who, client in enumerate(clients.tolist())
            for start, end in self._walk(client).to(until)
            if start < until and end > since
        ]
        return Spells(*np.array(found, dtype=np.int64).reshape(-1, 3).T)

    def leaves(self, clients: Clients, since: int, until: int) -> Ints:
        """Find those whose intervals end."""
        gone = np.full(len(clients), FOREVER)
        for place, client in enumerate(clients.tolist()):
            walk = self._walk(client)
            walk.to(until)
            last = max(walk.last, since)
            if walk.reached == FOREVER and last <= until:
                gone[place] = last
        return gone

    def _walk(self, client: int) -> _Walk:
        if client not in self._walks:
            self._walks[client] = _Walk(pieces(self._model, client, self._place, self._draws))
        return self._walks[client]
