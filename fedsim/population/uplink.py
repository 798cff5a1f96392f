"""The server's own link, which the uploads of a round share."""

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.compiled import compiled


def shared(phases: Floats, bits: Floats, leaves_s: Floats, capacity: float) -> tuple[Floats, Floats]:
    """Return how long the uploads of a round take together, in seconds, and how many bits each sends, both (n,).

    The link is shared fairly (max-min): an upload has its own speed, or as much as every other one that wants more.

    Parameters
    ----------
    phases
        (3, n) seconds of download, training, and upload on the device's own link, by session.
    bits
        (n,) to upload; a session with none takes as long as it would alone.
    leaves_s
        (n,) seconds from the beginning of the session at which the device is gone; its upload ends there.
    capacity
        Bits a second.
    """
    starts, took, sent = phases[0] + phases[1], phases[2].copy(), np.zeros(len(bits))
    who = np.flatnonzero((bits > 0) & (leaves_s > starts))
    speed = bits[who] / phases[2, who]
    order = np.argsort(speed, kind="stable")
    who, speed = who[order], speed[order]
    by_start = np.argsort(starts[who], kind="stable")
    took[who], sent[who] = _share(starts[who], took[who], bits[who], speed, leaves_s[who], by_start, capacity)
    return took, sent


@compiled
def _share(
    starts: Floats, alone: Floats, bits: Floats, speed: Floats, leaves: Floats, by_start: Ints, capacity: float
) -> tuple[Floats, Floats]:
    """Go from each instant at which an upload begins or ends to the next; uploads are in order of speed."""
    many = len(bits)
    took, left, rate, ends = alone.copy(), bits.copy(), np.zeros(many), np.zeros(many)
    slowed, active = np.zeros(many, dtype=np.bool_), np.zeros(many, dtype=np.int64)
    begun, running, now = 0, 0, 0.0
    while begun < many or running:
        if not running:
            now = starts[by_start[begun]]
        while begun < many and starts[by_start[begun]] <= now:
            place = running
            while place and active[place - 1] > by_start[begun]:
                active[place] = active[place - 1]
                place -= 1
            active[place] = by_start[begun]
            begun, running = begun + 1, running + 1
        room, until = capacity, starts[by_start[begun]] if begun < many else np.inf
        for place in range(running):
            each = active[place]
            rate[each] = min(speed[each], room / (running - place))
            slowed[each] |= rate[each] < speed[each]
            room -= rate[each]
            ends[each] = now + left[each] / rate[each]
            until = min(until, ends[each], leaves[each])
        kept = 0
        for place in range(running):
            each = active[place]
            if ends[each] <= until:
                left[each] = 0.0
                if slowed[each]:  # otherwise it took as long as it would alone, to the last bit
                    took[each] = ends[each] - starts[each]
                continue
            left[each] = max(0.0, left[each] - rate[each] * (until - now))
            if leaves[each] <= until:
                took[each] = leaves[each] - starts[each]
                continue
            active[kept] = each
            kept += 1
        running, now = kept, until
    return took, bits - left
