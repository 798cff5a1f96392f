"""When enough clients will be ready: found from what each of them will do, not by looking again and again."""

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Ints
from fedsim.common.instants import DAY, FOREVER, MINUTE
from fedsim.simulation.arrays.foreseen import ForeseenAvailability

_FIRST_WINDOW, _LONGEST_WINDOW = 5 * MINUTE, DAY


def ready_at(
    availability: ForeseenAvailability,
    clients: Ints,
    free: Ints,
    units: int,
    block: int,
    now: int,
    limit: int,
) -> int:
    """Return the first instant after `now` at which enough clients are ready, or `FOREVER` if that is after `limit`.

    Parameters
    ----------
    availability
        All devices.
    clients
        (n,) those who may become ready; with blocks, all members of whole blocks, in order.
    free
        (n,) from when nothing but their availability keeps them out.
    units
        How many clients, or blocks, are wanted.
    block
        Clients that count only together.
    now, limit
        There are fewer than `units` ready now.

    Notes
    -----
    A client is ready within its available intervals from `free` on; the number of ready units changes where one of
    these begins or ends. All changes within a window are sorted and summed up; windows grow until one holds the answer.
    """
    since, length = now, _FIRST_WINDOW
    while since < limit:
        until = min(since + length, limit + 1)
        # A block whose last member is free later cannot be ready in this window.
        some = np.flatnonzero(np.repeat((free < until).reshape(-1, block).all(axis=1), block))
        found = _first(availability, clients[some], free[some], units, block, since, until, now)
        if found is not None:
            return found
        since, length = until, min(2 * length, _LONGEST_WINDOW)
    return FOREVER


def _first(
    availability: ForeseenAvailability,
    clients: Ints,
    free: Ints,
    units: int,
    block: int,
    since: int,
    until: int,
    now: int,
) -> int | None:
    """Look for the instant in one window [since, until)."""
    if len(clients) < units * block:
        return None
    spells = availability.spells(clients, since, until)
    starts = np.maximum(spells.starts, free[spells.who])
    some = starts < spells.ends
    starts, ends, who = starts[some], spells.ends[some], spells.who[some]
    if block > 1:
        starts, ends = _together(who // block, starts, ends, block)
    if len(starts) < units:
        return None
    instants = np.concatenate([starts, ends])
    steps = np.repeat([1, -1], [len(starts), len(ends)])
    order = np.argsort(instants, kind="stable")
    instants, count = instants[order], np.cumsum(steps[order])
    last = np.ones(len(instants), dtype=np.bool_)  # of its instant: all that happens there has happened
    last[:-1] = instants[1:] > instants[:-1]
    enough = last & (count >= units) & (instants > now)
    return int(instants[np.argmax(enough)]) if enough.any() else None


def _together(of_block: NDArray[np.intp], starts: Ints, ends: Ints, block: int) -> tuple[Ints, Ints]:
    """Return the intervals in which all members of a block are ready."""
    owner, instants = np.concatenate([of_block, of_block]), np.concatenate([starts, ends])
    steps = np.repeat([1, -1], [len(starts), len(ends)])
    order = np.lexsort((instants, owner))
    owner, instants, count = owner[order], instants[order], np.cumsum(steps[order])
    last = np.ones(len(owner), dtype=np.bool_)
    last[:-1] = (owner[1:] != owner[:-1]) | (instants[1:] > instants[:-1])
    owner, instants, count = owner[last], instants[last], count[last]
    whole = np.flatnonzero(count == block)
    return instants[whole], instants[whole + 1]
