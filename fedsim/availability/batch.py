"""What a batch is: the availability of many devices of one kind at once, at instants that never go back."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bits, Bools, Floats, Ints

Clients = Ints
Mask = Bools


class Spells(NamedTuple):
    """Stretches of time in which devices are available, whole and disjoint, in no particular order.

    Attributes
    ----------
    who
        (m,) positions in the array of clients that was asked about.
    starts, ends
        (m,) seconds.
    """

    who: NDArray[np.intp]
    starts: Floats
    ends: Floats


class Possible(NamedTuple):
    """Who may be available for some time.

    Attributes
    ----------
    bits
        Devices by their indices; of those of the batch nobody else is available, and of others nothing is said. None
        follow after the largest index of the batch.
    until
        The instant before which this holds.
    """

    bits: Bits
    until: float


def together(parts: Iterable[Spells]) -> Spells:
    """Return the spells of several parts as one."""
    none = Spells(np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0))
    return Spells(*(np.concatenate(column) for column in zip(none, *parts, strict=True)))


def joined(who: NDArray[np.intp], starts: Floats, ends: Floats) -> Spells:
    """Put together what follows one another at one client; sorted by client and start, and none overlaps the next."""
    opens = np.ones(len(who), dtype=np.bool_)
    opens[1:] = (who[1:] != who[:-1]) | (starts[1:] > ends[:-1])
    closes = np.ones(len(who), dtype=np.bool_)
    closes[:-1] = opens[1:]
    return Spells(who[opens], starts[opens], ends[closes])


class Batch(Protocol):
    """Devices of one kind in one place.

    All that is said here is exactly what the `intervals` of the devices say, to the last bit. A batch may remember
    where a device stands, so `instant` and `since` must never be earlier than in the last call of `at`.
    """

    follows: bool = False
    """Whether devices are followed from instant to instant, so that it pays to ask `at` now and then."""
    foreseeable_s: float = 0.0
    """For how many seconds it pays to work out everyone's spells, beside asking about everyone some times."""

    def at(self, clients: Clients, instant: float) -> Mask:
        """Say of each client (n,), which may come repeatedly, whether it is available."""
        ...

    def ends(self, clients: Clients, instant: float, until: Floats) -> Floats:
        """Return for each of some clients that are available the end of that time; infinite if it is after `until`.

        Where a batch has no faster answer, from the spells of the time up to the last `until`.
        """
        found = np.full(len(clients), np.inf)
        if len(clients):
            horizon = float(np.nextafter(until.max(), np.inf))
            spells = self.spells(clients, instant, horizon)
            now = (spells.starts <= instant) & (spells.ends < horizon)
            found[spells.who[now]] = spells.ends[now]
            found[found > until] = np.inf
        return found

    def spells(self, clients: Clients, since: float, until: float) -> Spells:
        """Return when the clients are available within [since, until), cut there."""
        ...

    def leaves(self, clients: Clients, since: float, until: float) -> Floats:  # noqa: ARG002
        """Return from when each client is never available again: `since` if it has gone, infinite after `until`.

        Where a batch says nothing else, nobody ever leaves.
        """
        return np.full(len(clients), np.inf)

    def possible(self, instant: float) -> Possible | None:  # noqa: ARG002
        """Return who may be available from an instant on; None where that is not known at a glance."""
        return None
