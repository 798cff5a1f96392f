"""A row of d numbers for each client that has taken part: its last change, model or control.

Memory grows with the participants: 8 d bytes for each, and up to 2.5 times that while room for more is made; and 8
bytes for every client of the population, whether it takes part or not.
"""

from typing import ClassVar

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.optimizers.optimizer import Footprint


class ByParticipant:
    """A row of d numbers for each of N clients, zeros until it is first given one."""

    def __init__(self, clients: int, dimension: int) -> None:
        # Row 0 stays zero: all clients without a row of their own read it.
        self._row_of = np.zeros(clients, dtype=np.int64)
        self._rows = np.zeros((1, dimension))
        self._used = 1

    def __len__(self) -> int:
        """How many clients have a row."""
        return self._used - 1

    def of(self, clients: Ints) -> Floats:
        """Return the rows of these clients, shape (B, d), a copy."""
        return self._rows[self._row_of[clients]]

    def keep(self, clients: Ints, values: Floats) -> Floats:
        """Replace the rows of these clients by `values`, shape (B, d), and return the change of the sum of all rows.

        For a client that occurs several times the last row counts.
        """
        if len(np.unique(clients)) < len(clients):
            last = len(clients) - 1 - np.unique(clients[::-1], return_index=True)[1]
            clients, values = clients[last], values[last]
        new = clients[self._row_of[clients] == 0]
        if self._used + len(new) > len(self._rows):
            wanted = max(self._used + len(new), min(3 * self._used // 2, len(self._row_of) + 1))
            room = np.zeros((wanted, values.shape[1]))
            room[: self._used] = self._rows[: self._used]
            self._rows = room
        self._row_of[new] = np.arange(self._used, self._used + len(new))
        self._used += len(new)
        rows = self._row_of[clients]
        change: Floats = (values - self._rows[rows]).sum(axis=0)
        self._rows[rows] = values
        return change


class RemembersParticipants:
    """An optimizer whose state has a `ByParticipant`, or several; most release stored changes again in later rounds."""

    tables: ClassVar[int] = 1
    footprint: ClassVar[Footprint] = Footprint(server=1, per_participant=1)
    reuses_updates: ClassVar[bool] = True

    def memory(self, participants: int, dimension: int) -> int:
        return 20 * self.tables * participants * dimension


class Remembered:
    """The last row of each of N clients, zero before its first, and the mean over all of them, shape (d,)."""

    def __init__(self, clients: int, dimension: int) -> None:
        self.rows, self.mean, self.clients = ByParticipant(clients, dimension), np.zeros(dimension), clients

    def keep(self, clients: Ints, rows: Floats) -> None:
        """Replace the rows of these clients; updating the mean costs as much as the cohort, not as the population."""
        self.mean = self.mean + self.rows.keep(clients, rows) / self.clients
