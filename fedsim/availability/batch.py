"""What an engine asks about many devices of one kind at once, at instants that never go back.

All instants are whole milliseconds of simulated time (`fedsim.common.instants`).
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bits, Bools, Ints
from fedsim.common.instants import FOREVER
from fedsim.common.reasons import Reason

Reasons = NDArray[np.uint16]
"""Masks of `Reason`."""


class Spells(NamedTuple):
    """Disjoint intervals in which devices are available, in no particular order: arrays (m,).

    `who` are positions in the array of clients that was asked about, `starts` and `ends` milliseconds.
    """

    who: NDArray[np.intp]
    starts: Ints
    ends: Ints


class PossibleClients(NamedTuple):
    """Clients that may be available before `until`, as bits by index; no other client of the batch is."""

    bits: Bits
    until: int


def concatenate(parts: Iterable[Spells]) -> Spells:
    """Return the spells of several parts as one."""
    none = Spells(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    return Spells(*(np.concatenate(column) for column in zip(none, *parts, strict=True)))


def touching_joined(parts: Iterable[Spells]) -> Spells:
    """Return spells that do not overlap by client and start, those of a client that touch as one."""
    who, starts, ends = concatenate(parts)
    order = np.lexsort((starts, who))
    who, starts, ends = who[order], starts[order], ends[order]
    apart = (who[1:] != who[:-1]) | (starts[1:] > ends[:-1])
    opens, closes = (np.concatenate(each)[: len(who)] for each in (([True], apart), (apart, [True])))
    return Spells(who[opens], starts[opens], ends[closes])


def levels(owner: Ints, instants: Ints, steps: Ints) -> tuple[Ints, Ints, Ints]:
    """Return, by owner, the instants at which steps are taken, and the sum of the owner's steps up to and with it."""
    order = np.lexsort((instants, owner))
    owner, instants, level = owner[order], instants[order], np.cumsum(steps[order])
    last = np.ones(len(owner), dtype=np.bool_)  # of its instant: all that happens there has happened
    last[:-1] = (owner[1:] != owner[:-1]) | (instants[1:] > instants[:-1])
    return owner[last], instants[last], level[last]


def subtract(spells: Spells, outages: Spells, clients: int) -> Spells:
    """Return the spells of availability without the outages, disjoint and not touching.

    The spells of each client are disjoint; the outages may overlap. `clients` is the number of clients.
    """
    concerned = np.zeros(clients, dtype=np.bool_)
    concerned[outages.who] = True
    touched = concerned[spells.who]
    kept = Spells(spells.who[~touched], spells.starts[~touched], spells.ends[~touched])
    own = spells.who[touched]
    who = np.concatenate([own, own, outages.who, outages.who])
    instants = np.concatenate([spells.starts[touched], spells.ends[touched], outages.starts, outages.ends])
    steps = np.repeat([1, -1, -2, 2], [len(own), len(own), len(outages.who), len(outages.who)])
    # The level is 1 where available and without an outage: each outage takes away 2, so nothing else comes to 1.
    who, instants, level = levels(who, instants, steps)
    opens = np.flatnonzero(level == 1)
    return concatenate([kept, touching_joined([Spells(who[opens], instants[opens], instants[opens + 1])])])


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
        ...

    def reasons(self, clients: Ints, instant: int) -> Reasons:
        """Return why each client (n,) is not available; 0 where it is."""
        return np.where(self.at(clients, instant), 0, int(Reason.UNAVAILABLE)).astype(np.uint16)

    def ends(self, clients: Ints, instant: int, until: Ints) -> Ints:
        """Return when the availability of each client ends; all are available now. `FOREVER` if after `until` (n,).

        By default from the spells up to the last `until`.
        """
        found = np.full(len(clients), FOREVER)
        if len(clients):
            horizon = int(until.max()) + 1
            spells = self.spells(clients, instant, horizon)
            now = (spells.starts <= instant) & (spells.ends < horizon)
            found[spells.who[now]] = spells.ends[now]
            found[found > until] = FOREVER
        return found

    def spells(self, clients: Ints, since: int, until: int) -> Spells:
        """Return when the clients are available within [since, until), cut there."""
        ...

    def leaves(self, clients: Ints, since: int, until: int) -> Ints:  # noqa: ARG002
        """Return from when each client is never available again: `since` if already, `FOREVER` if after `until`.

        By default no client ever leaves.
        """
        return np.full(len(clients), FOREVER)

    def possible(self, instant: int) -> PossibleClients | None:  # noqa: ARG002
        """Return which clients may be available from an instant on; None where that is not known cheaply."""
        return None
