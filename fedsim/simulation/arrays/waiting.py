"""When enough clients will be ready: found from what each of them will do, not by looking again and again."""

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Ints
from fedsim.common.instants import DAY, FOREVER, MINUTE
from fedsim.simulation.arrays.precomputed import PrecomputedAvailability

_FIRST_WINDOW, _LONGEST_WINDOW = 5 * MINUTE, DAY


def ready_at(
    availability: PrecomputedAvailability,
    clients: Ints,
    free: Ints,
    units: int,
    block: int,
    now: int,
    limit: int,
) -> int:
    """Return the first instant after `now` at which enough clients are ready, or `FOREVER` if that is after `limit`.

    Wanted are `units` clients, or whole blocks of them, and fewer are ready now. From `free` (n,) on only availability
    keeps out `clients` (n,), which are members of whole blocks in order. The number of ready units changes where an
    available interval begins or ends: all changes within a window are sorted and summed up, and windows grow until one
    holds the answer.
    """
    since, length = now, _FIRST_WINDOW
    while since < limit:
        until = min(since + length, limit + 1)
        # A block whose last member is free later cannot be ready in this window.
        some = np.flatnonzero(np.repeat((free < until).reshape(-1, block).all(axis=1), block))
        if len(some) >= units * block:
            who, starts, ends = availability.spells(clients[some], since, until)
            starts = np.maximum(starts, free[some[who]])
            ready = starts < ends
            who, starts, ends = who[ready], starts[ready], ends[ready]
            if block > 1:
                starts, ends = _common_intervals(who // block, starts, ends, block)
            if len(starts) >= units and (found := _first(starts, ends, units, now)) is not None:
                return found
        since, length = until, min(2 * length, _LONGEST_WINDOW)
    return FOREVER


def _first(starts: Ints, ends: Ints, units: int, now: int) -> int | None:
    """Return the first instant after `now` that lies in `units` intervals."""
    instants = np.concatenate([starts, ends])
    steps = np.repeat([1, -1], [len(starts), len(ends)])
    order = np.argsort(instants, kind="stable")
    instants, count = instants[order], np.cumsum(steps[order])
    last = np.ones(len(instants), dtype=np.bool_)  # of its instant: all that happens there has happened
    last[:-1] = instants[1:] > instants[:-1]
    enough = last & (count >= units) & (instants > now)
    return int(instants[np.argmax(enough)]) if enough.any() else None


def _common_intervals(of_block: NDArray[np.intp], starts: Ints, ends: Ints, block: int) -> tuple[Ints, Ints]:
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
