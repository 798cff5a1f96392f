"""Availability from daily habits: where charging, network and idle hold together, as far as they are required.

Everything is a function of the device and of a local day (or of a five-minute slot): the intervals are worked out
some days at a time, and the state at any instant from the few days before it.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from fedsim.availability import spans
from fedsim.availability.habits import bursts, charging, network
from fedsim.availability.habits.civil import Civil, civil
from fedsim.availability.habits.idle import uses
from fedsim.availability.place import Place
from fedsim.availability.spans import Spans
from fedsim.common.keyed import Stream
from fedsim.scenario.habits import Condition, Habits

_FIRST_WINDOW = 2 * 86_400.0
_WINDOW = 28 * 86_400.0


def intervals(
    kind: Habits, client: int, place: Place, draws: Stream, since: float = 0.0
) -> Iterator[tuple[float, float]]:
    """Return the intervals in which one device meets all conditions, in pieces as told in `base.intervals`."""

    def available(first: float, last: float) -> Spans:
        return spans.intersection([_spans(kind, each, client, first, last, place, draws) for each in kind.require])

    return _pieces(available, since)


def conditions(
    kind: Habits, client: int, place: Place, draws: Stream, since: float = 0.0
) -> Mapping[str, Iterator[tuple[float, float]]]:
    """Return the intervals of each required condition of one device."""

    def holding(condition: Condition) -> Callable[[float, float], Spans]:
        return lambda first, last: _spans(kind, condition, client, first, last, place, draws)

    return {condition: _pieces(holding(condition), since) for condition in kind.require}


def available_at(
    kind: Habits, clients: NDArray[np.int64], instant: float, place: Place, draws: Stream
) -> NDArray[np.bool_]:
    """Say of each of many devices whether it meets all conditions at an instant."""
    clock, answer = civil(place, instant), np.zeros(len(clients), dtype=np.bool_)
    left = np.arange(len(clients))
    for condition in kind.require:  # later conditions only for those that meet the earlier ones
        left = left[_holds(kind, condition, clients[left], instant, clock, draws)]
    answer[left] = True
    return answer


def _pieces(window: Callable[[float, float], Spans], since: float) -> Iterator[tuple[float, float]]:
    until = since + _FIRST_WINDOW
    while True:
        starts, ends = window(since, until)
        yield from zip(starts.tolist(), ends.tolist(), strict=True)
        if not len(starts):
            yield until, until
        since, until = until, until + _WINDOW


def _days(clock: Civil, since: float, until: float) -> NDArray[np.int64]:
    return np.arange(clock.day(since) - charging.BACK, clock.day(until) + charging.AHEAD + 1)


def _spans(
    kind: Habits, condition: Condition, client: int, since: float, until: float, place: Place, draws: Stream
) -> Spans:
    """Return the instants of [since, until) at which one device meets a condition."""
    clock, one = civil(place, since), np.array([client])
    match condition:
        case "charging":
            starts, ends = charging.sessions(kind.charging, one, _days(clock, since, until), clock, draws)
            return spans.union(starts[0], ends[0], since, until)
        case "network":
            home, work = network.access(kind.network, one, draws)
            away = network.outings(kind.network, one, _days(clock, since, until), clock, draws)
            none = np.zeros(0)
            at_home = spans.complement(spans.union(away[0][0], away[1][0], since, until), since, until)
            starts = np.concatenate([at_home[0] if home[0] else none, away[2][0] if work[0] else none])
            ends = np.concatenate([at_home[1] if home[0] else none, away[3][0] if work[0] else none])
            _, fails, works_again = bursts.events(network.drop_outs(kind.network), one, since, until, clock, draws)
            working = spans.complement(spans.union(fails, works_again, since, until), since, until)
            return spans.intersection([spans.union(starts, ends, since, until), working])
        case "idle":
            _, starts, ends = bursts.events(uses(kind.idle, one, draws), one, since, until, clock, draws)
            return spans.complement(spans.union(starts, ends, since, until), since, until)


def _holds(
    kind: Habits, condition: Condition, clients: NDArray[np.int64], instant: float, clock: Civil, draws: Stream
) -> NDArray[np.bool_]:
    """Say of each device whether it meets a condition at an instant."""
    match condition:
        case "charging":
            starts, ends = charging.sessions(kind.charging, clients, _days(clock, instant, instant), clock, draws)
            return _covered(starts, ends, instant)
        case "network":
            home, work = network.access(kind.network, clients, draws)
            away = network.outings(kind.network, clients, _days(clock, instant, instant), clock, draws)
            at_home, at_work = ~_covered(away[0], away[1], instant), _covered(away[2], away[3], instant)
            fails = bursts.happens(network.drop_outs(kind.network), clients, instant, clock, draws)
            return ((home & at_home) | (work & at_work)) & ~fails
        case "idle":
            return ~bursts.happens(uses(kind.idle, clients, draws), clients, instant, clock, draws)


def _covered(starts: NDArray[np.float64], ends: NDArray[np.float64], instant: float) -> NDArray[np.bool_]:
    covered: NDArray[np.bool_] = np.any((starts <= instant) & (instant < ends), axis=1)
    return covered
