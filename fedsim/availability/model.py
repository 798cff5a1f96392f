"""What an availability model is: for each device the intervals [start, end) in which it is free to take part.

A model needs one method, `intervals`. What else the engines ask is worked out from it, and a model that knows a faster
or a finer answer says so by one of the methods of `Conditional`, `LookedUp` and `Batched`.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import inf, isnan, nextafter
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from fedsim.availability.batch import Batch, Clients
from fedsim.availability.place import Place
from fedsim.common.arrays import Bools
from fedsim.common.errors import PluginError
from fedsim.common.keyed import Stream

Intervals: TypeAlias = Iterator[tuple[float, float]]
_STANDSTILL = 10_000  # pieces without progress, after which there will be none


class AvailabilityModel(Protocol):
    """When devices are available. Its class takes options, and what is offered at `models.MODELS`, when it is made."""

    def intervals(self, client: int, place: Place, draws: Stream) -> Intervals:
        """Return the intervals in which one device is available.

        Parameters
        ----------
        client
            Index of the device, the key of its draws.
        place
            When simulated time begins, and the device's time zone and days.
        draws
            The stream for availability; draws of different indices below 2**40 are independent.

        Returns
        -------
        Pairs (start, end) in seconds of simulated time, half-open, disjoint and in order; what is before 0 does not
        count, and an end of infinity is the last. The iterator may be endless; one that ends says that the device never
        comes back. It depends on nothing but the arguments. So that nobody searches further ahead than they need, an
        interval may come in pieces, each starting where the one before ended, and a pair with start == end may say that
        nothing starts before it.
        """
        ...


@runtime_checkable
class Conditional(Protocol):
    """A model in which several conditions must hold together."""

    def conditions(self, client: int, place: Place, draws: Stream) -> Mapping[str, Intervals]:
        """Return the intervals of each condition of one device, by name; `intervals` is where all hold."""
        ...


@runtime_checkable
class LookedUp(Protocol):
    """A model that tells about many devices at one instant without going through their intervals."""

    def available_at(self, clients: Clients, instant: float, place: Place, draws: Stream) -> Bools:
        """Say of each device (n,) whether it is available: exactly where its `intervals` say so."""
        ...


@runtime_checkable
class Batched(Protocol):
    """A model that answers for many devices at once."""

    def batches(self, homes: Sequence[tuple[Place, Clients]], draws: Stream) -> Sequence[Batch]:
        """Return a batch for each place and the clients who live there, in ascending order; two may be the same."""
        ...


def intervals(model: AvailabilityModel, client: int, place: Place, draws: Stream) -> Intervals:
    """Return the intervals in which one device is available, from time 0 on: checked, in pieces as the model has them.

    Raises
    ------
    PluginError
        Where the model fails, or yields what cannot be; it names the model and the client.
    """
    reached, still = -inf, 0
    for start, end in _told(model, client, place, draws):
        wrong = _wrong(start, end, reached)
        still = still + 1 if end <= reached else 0
        if still > _STANDSTILL:
            wrong = f"yields empty intervals at {reached:g} s for ever; it must go on in time, or end"
        if wrong:
            raise PluginError(f"{_named(model, client)} {wrong}")
        reached = end
        if end > 0.0:
            yield max(start, 0.0), end


def conditions(model: AvailabilityModel, client: int, place: Place, draws: Stream) -> Mapping[str, Intervals]:
    """Return the intervals of each condition that one device must meet, by name; `intervals` is where all hold.

    Parameters and intervals as in `intervals`. Habits have those of charging, network and idle that the scenario
    requires, a trace those of its file; a model without conditions has a single one, called available.
    """
    if isinstance(model, Conditional):
        return model.conditions(client, place, draws)
    return {"available": intervals(model, client, place, draws)}


def available_at(model: AvailabilityModel, clients: Clients, instant: float, place: Place, draws: Stream) -> Bools:
    """Say of each of many devices whether it is available at one instant: exactly where its `intervals` say so.

    Parameters
    ----------
    model, place, draws
        As in `intervals`, the same for all these devices.
    clients
        (n,) indices of devices.
    instant
        Seconds of simulated time, 0 or later.

    Returns
    -------
    Mask (n,). Habits and traces are looked up, at a cost that does not depend on the instant; any other process is
    followed from time 0.
    """
    if isinstance(model, LookedUp):
        return model.available_at(clients, instant, place, draws)
    until = nextafter(instant, inf)
    found = (between(intervals(model, client, place, draws), instant, until) for client in clients.tolist())
    return np.array([bool(whole) for whole in found], dtype=np.bool_)


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


def _told(model: AvailabilityModel, client: int, place: Place, draws: Stream) -> Intervals:
    """Yield what a model says; where it fails, say so."""
    try:
        for start, end in model.intervals(client, place, draws):
            yield float(start), float(end)
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(f"{_named(model, client)} fails: {type(error).__name__}: {error}") from error


def _wrong(start: float, end: float, reached: float) -> str:
    """Say what is wrong with a piece after those that end at `reached`; nothing, where all is well."""
    shown = f"yields the interval ({start:g}, {end:g})"
    if isnan(start) or isnan(end):
        return f"{shown}: its times must be numbers"
    if abs(start) == inf:
        return f"{shown}: only an end may be infinite"
    if end < start:
        return f"{shown}: it ends before it starts"
    if start < reached:
        return f"{shown} after one that ends at {reached:g}: intervals must be disjoint and in order"
    return ""


def _named(model: AvailabilityModel, client: int) -> str:
    return f"availability model '{type(model).__module__}:{type(model).__qualname__}', client {client}:"
