"""On and off by turns: an alternating renewal process, stationary from the first instant.

Draw 0 decides whether the device starts on, with probability mean_on / (mean_on + mean_off); draw k >= 1 decides the
k-th length. The first length is what is left of a running interval (`lengths.remaining_lengths`), so the process
looks at time 0 as it does at any other.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedsim.availability import lengths
from fedsim.common.keyed import Stream
from fedsim.scenario.availability import Renewal

_BLOCK = 64  # drawn at once: drawing one by one costs ten times as much
FOREVER = 1e13  # 300,000 years: heavy tails may reach further than seconds can be told apart


def intervals(kind: Renewal, client: int, draws: Stream) -> Iterator[tuple[float, float]]:
    """Return the available intervals of one device; they depend on its key alone.

    Parameters
    ----------
    kind
        The laws of the lengths on and off.
    client
        Index of the device.
    draws
        The stream for availability.
    """
    clients = np.array([client])
    starts_on, left = starting(kind, clients, draws)
    state, since = bool(starts_on[0]), 0.0  # since when the device has been in this state
    instant, first = np.zeros(1), 1
    while True:
        ends = _ends(kind, clients, instant, first, starts_on, left, draws)
        for end in ends[0].tolist():
            if end > since:  # lengths too short for the clock would leave intervals that touch
                if state:
                    yield since, (end if end < FOREVER else math.inf)
                if end >= FOREVER:
                    return
            since, state = end, not state
        instant, first = ends[:, -1], first + _BLOCK


def available_at(kind: Renewal, clients: NDArray[np.int64], instant: float, draws: Stream) -> NDArray[np.bool_]:
    """Say of each of many devices whether it is available at one instant; parameters as in `intervals`.

    A device has changed its state once for each of its ends up to and including that instant. Its lengths are added
    up from time 0, all devices at once, so the cost grows with the instant.
    """
    answer, left = starting(kind, clients, draws)
    starts_on, following = answer.copy(), np.arange(len(clients))
    now, first = np.zeros(len(clients)), 1
    while len(following):
        some = clients[following]
        ends = _ends(kind, some, now, first, starts_on[following], left[following], draws)
        answer[following] ^= (np.sum(ends <= instant, axis=1) % 2).astype(np.bool_)
        further = ends[:, -1] <= instant
        following, now, first = following[further], ends[further, -1], first + _BLOCK
    return answer


def starting(kind: Renewal, clients: NDArray[np.int64], draws: Stream) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return whether each device starts on, and how long it stays so."""
    mean_on, mean_off = lengths.mean(kind.on), lengths.mean(kind.off)
    share = mean_on / (mean_on + mean_off)
    lot = draws.uniforms(clients, 0)
    starts_on = lot < share
    # Given the side on which it fell, the lot is uniform there: a second draw at no cost.
    rest = np.where(starts_on, lot / share, (lot - share) / (1 - share) if share < 1 else 0.0)
    u = draws.uniforms(clients, 1)
    on = lengths.remaining_lengths(kind.on, u, rest)
    return starts_on, np.where(starts_on, on, lengths.remaining_lengths(kind.off, u, rest))


def _ends(
    kind: Renewal,
    clients: NDArray[np.int64],
    instant: NDArray[np.float64],
    first: int,
    starts_on: NDArray[np.bool_],
    left: NDArray[np.float64],
    draws: Stream,
) -> NDArray[np.float64]:
    """Return the ends (n, block) of the lengths numbered from `first`, which is odd; `instant` is where they begin."""
    u = draws.uniforms(clients[:, None], np.arange(first, first + _BLOCK))
    turn = (np.arange(_BLOCK) % 2 == 0) == starts_on[:, None]
    block = np.where(turn, lengths.lengths(kind.on, u), lengths.lengths(kind.off, u))
    if first == 1:
        block[:, 0] = left
    ends: NDArray[np.float64] = np.cumsum(np.column_stack([instant, block]), axis=1)[:, 1:]
    return ends
