"""What a batch is: the availability of many devices of one kind at once, at instants that never go back.

All instants are whole milliseconds of simulated time (`fedsim.common.instants`).
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bits, Bools, Ints
from fedsim.common.instants import FOREVER
from fedsim.common.reasons import Reason

Clients = Ints
Mask = Bools
Reasons = NDArray[np.uint16]
"""Masks of `Reason`."""


class Spells(NamedTuple):
    """Stretches of time in which devices are available, whole and disjoint, in no particular order.

    Attributes
    ----------
    who
        (m,) positions in the array of clients that was asked about.
    starts, ends
        (m,) milliseconds.
    """

    who: NDArray[np.intp]
    starts: Ints
    ends: Ints


class Possible(NamedTuple):
    """Who may be available for some time.

    Attributes
    ----------
    bits
        Devices of the batch by their indices; no other of the batch is available.
    until
        The instant before which this holds.
    """

    bits: Bits
    until: int


def together(parts: Iterable[Spells]) -> Spells:
    """Return the spells of several parts as one."""
    none = Spells(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    return Spells(*(np.concatenate(column) for column in zip(none, *parts, strict=True)))


def joined(who: NDArray[np.intp], starts: Ints, ends: Ints) -> Spells:
    """Put together what follows one another at one client; sorted by client and start, and none overlaps the next."""
    apart = (who[1:] != who[:-1]) | (starts[1:] > ends[:-1])
    opens, closes = (np.concatenate(each)[: len(who)] for each in (([True], apart), (apart, [True])))
    return Spells(who[opens], starts[opens], ends[closes])


class Batch(Protocol):
    """Devices of one kind in one place.

    All that is said here is exactly what the `conditions` of the devices say. A batch may remember where a device
    stands, so `instant` and `since` must never be earlier than in the last call of `at`.
    """

    follows: bool = False
    """Whether devices are followed from instant to instant, so that it pays to ask `at` now and then."""
    may_leave: bool = False
    """Whether a device may become unavailable for good."""
    foreseeable: int = 0
    """Longest window, in milliseconds, that is worth working out for all devices ahead of time; 0: none."""

    def at(self, clients: Clients, instant: int) -> Mask:
        """Say of each client (n,), which may come repeatedly, whether it is available."""
        ...

    def reasons(self, clients: Clients, instant: int) -> Reasons:
        """Return what keeps each client (n,) from being available; nothing, where it is."""
        return np.where(self.at(clients, instant), 0, int(Reason.UNAVAILABLE)).astype(np.uint16)

    def ends(self, clients: Clients, instant: int, until: Ints) -> Ints:
        """Return for each of some clients that are available the end of that time; `FOREVER` if it is after `until`.

        Where a batch has no faster answer, from the spells of the time up to the last `until`.
        """
        found = np.full(len(clients), FOREVER)
        if len(clients):
            horizon = int(until.max()) + 1
            spells = self.spells(clients, instant, horizon)
            now = (spells.starts <= instant) & (spells.ends < horizon)
            found[spells.who[now]] = spells.ends[now]
            found[found > until] = FOREVER
        return found

    def spells(self, clients: Clients, since: int, until: int) -> Spells:
        """Return when the clients are available within [since, until), cut there."""
        ...

    def leaves(self, clients: Clients, since: int, until: int) -> Ints:  # noqa: ARG002
        """Return from when each client is never available again: `since` if it has gone, `FOREVER` after `until`.

        Where a batch says nothing else, nobody ever leaves.
        """
        return np.full(len(clients), FOREVER)

    def possible(self, instant: int) -> Possible | None:  # noqa: ARG002
        """Return who may be available from an instant on; None where that is not known at a glance."""
        return None
