"""What an engine asks about many devices of one kind at once, at instants that never go back.

All instants are whole milliseconds of simulated time (`fedsim.common.instants`).
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.spells import Spells
from fedsim.common.arrays import Bits, Bools, Ints
from fedsim.common.instants import FOREVER
from fedsim.common.reasons import Reason

Reasons = NDArray[np.uint16]
"""Masks of `Reason`."""


class PossibleClients(NamedTuple):
    """Clients that may be available before `until`, as bits by index; no other client of the batch is."""

    bits: Bits
    until: int


class Batch(Protocol):
    """Devices of one kind in one place; its answers agree exactly with the `conditions` of each device.

    A batch may remember the state of a device, so `instant` and `since` must never be earlier than in the last call
    of `at`.
    """

    follows: bool = False
    """Whether devices are followed from instant to instant, so that it pays to ask `at` now and then."""
    may_leave: bool = False
    """Whether a device may become unavailable for good."""
    foreseeable: int = 0
    """Longest window, in milliseconds, worth precomputing for all devices; 0 disables it."""

    def at(self, clients: Ints, instant: int) -> Bools:
        """Return whether each client (n,) is available; a client may occur repeatedly."""
        return self.spells(clients, instant, instant + 1).has

    def reasons(self, clients: Ints, instant: int) -> Reasons:
        """Return why each client (n,) is not available; 0 where it is."""
        return np.where(self.at(clients, instant), 0, int(Reason.UNAVAILABLE)).astype(np.uint16)

    def ends(self, clients: Ints, instant: int, until: Ints) -> Ints:
        """Return when the availability of each client ends; all are available now. `FOREVER` if after `until` (n,).

        By default from the spells up to the last `until`.
        """
        ends = np.full(len(clients), FOREVER)
        if len(clients):
            horizon = int(until.max()) + 1
            spells = self.spells(clients, instant, horizon)
            now = (spells.starts <= instant) & (spells.ends < horizon)
            ends[spells.who[now]] = spells.ends[now]
            ends[ends > until] = FOREVER
        return ends

    def spells(self, clients: Ints, since: int, until: int) -> Spells:
        """Return when the clients are available within [since, until), cut there: disjoint, none touching.

        `who` are positions in the array of clients.
        """
        ...

    def leaves(self, clients: Ints, since: int, until: int) -> Ints:  # noqa: ARG002
        """Return from when each client is never available again: `since` if already, `FOREVER` if after `until`.

        By default no client ever leaves.
        """
        return np.full(len(clients), FOREVER)

    def possible(self, instant: int) -> PossibleClients | None:  # noqa: ARG002
        """Return which clients may be available from an instant on; None where that is not known cheaply."""
        return None
