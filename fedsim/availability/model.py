"""What availability is: for each device the intervals [start, end) in which it is free to take part."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.always import intervals as always
from fedsim.availability.habits import intervals as habits
from fedsim.availability.place import Place
from fedsim.availability.renewal import intervals as renewal
from fedsim.availability.trace import recorded as replay
from fedsim.availability.trace.recorded import Replay
from fedsim.common.keyed import Stream
from fedsim.scenario.availability import Always, Renewal
from fedsim.scenario.habits import Habits

Intervals: TypeAlias = Iterator[tuple[float, float]]
Kind: TypeAlias = Always | Habits | Renewal | Replay


def intervals(kind: Kind, client: int, place: Place, draws: Stream, since: float = 0.0) -> Intervals:
    """Return the intervals in which one device is available.

    Parameters
    ----------
    kind
        The model of its group.
    client
        Index of the device, the key of its draws.
    place
        When simulated time begins, and the device's time zone.
    draws
        The stream for availability.
    since
        Leave out what is before this instant; habits are not even looked up there.

    Returns
    -------
    Pairs (start, end) in seconds of simulated time, half-open, disjoint and in order, no start before `since`; an end
    of infinity is the last. The iterator may be endless. So that nobody searches further ahead than they need, an
    interval may come in pieces, each starting where the one before ended, and a pair with start == end may say that
    nothing starts before it; `between` puts the pieces together.
    """
    match kind:
        case Always():
            return _from(always.intervals(), since)
        case Renewal():
            return _from(renewal.intervals(kind, client, draws), since)
        case Habits():
            return habits.intervals(kind, client, place, draws, since)
        case Replay():
            return _from(replay.intervals(kind, client, place, draws), since)


def conditions(kind: Kind, client: int, place: Place, draws: Stream) -> Mapping[str, Intervals]:
    """Return the intervals of each condition that one device must meet, by name; `intervals` is where all hold.

    Parameters and intervals as in `intervals`. Habits have those of charging, network and idle that the scenario
    requires, other kinds a single one, called available.
    """
    match kind:
        case Habits():
            return habits.conditions(kind, client, place, draws)
        case Replay():
            return replay.conditions(kind, client, place, draws)
        case _:
            return {"available": intervals(kind, client, place, draws)}


def available_at(
    kind: Kind, clients: NDArray[np.int64], instant: float, place: Place, draws: Stream
) -> NDArray[np.bool_]:
    """Say of each of many devices whether it is available at one instant: exactly where its `intervals` say so.

    Parameters
    ----------
    kind, place, draws
        As in `intervals`, the same for all these devices.
    clients
        (n,) indices of devices.
    instant
        Seconds of simulated time, 0 or later.

    Returns
    -------
    Mask (n,). Habits are looked up, at a cost that does not depend on the instant; a renewal process is followed from
    time 0, all devices at once.
    """
    match kind:
        case Always():
            return np.ones(len(clients), dtype=np.bool_)
        case Renewal():
            return renewal.available_at(kind, clients, instant, draws)
        case Habits():
            return habits.available_at(kind, clients, instant, place, draws)
        case Replay():
            return replay.available_at(kind, clients, instant, place, draws)


def between(pieces: Intervals, since: float, until: float) -> list[tuple[float, float]]:
    """Return the part of some intervals in [since, until), in whole intervals.

    Parameters
    ----------
    pieces
        As returned by `intervals` or `conditions`; read no further than `until`.
    since, until
        Seconds of simulated time.
    """
    whole: list[tuple[float, float]] = []
    for start, end in pieces:
        if start >= until:
            break
        first, last = max(start, since), min(end, until)
        if first < last:
            if whole and whole[-1][1] == first:
                first = whole.pop()[0]
            whole.append((first, last))
        if end >= until:
            break
    return whole


def _from(pieces: Intervals, since: float) -> Intervals:
    return ((max(start, since), end) for start, end in pieces if end > since) if since > 0.0 else pieces
