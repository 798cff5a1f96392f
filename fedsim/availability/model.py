"""What an availability model is: for each device the intervals [start, end) in which it can take part.

A model needs one method, `intervals`, in seconds; everything else is derived from it. The built-in models know their
times in whole milliseconds, tell conditions apart, and answer for many devices at once (`ExactModel`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from math import inf, isnan
from typing import Any, Protocol, TypeAlias

import numpy as np

from fedsim.availability.batch import Batch
from fedsim.availability.civil import Place
from fedsim.common.arrays import Bools, Ints
from fedsim.common.errors import PluginError, told, users_line
from fedsim.common.instants import to_ms, to_seconds
from fedsim.common.keyed import Stream

Intervals: TypeAlias = Iterator[tuple[float, float]]
"""Pairs (start, end) in seconds."""
Pieces: TypeAlias = Iterator[tuple[int, int]]
"""The same in whole milliseconds; `FOREVER` for an end that never comes."""
_STANDSTILL = 10_000  # pieces without progress, after which there will be none


class AvailabilityModel(Protocol):
    """When devices are available. Its constructor takes options, and what `models.MODELS` offers."""

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
        Pairs (start, end) in seconds of simulated time, half-open, disjoint and in order; times before 0 are ignored,
        and an end of infinity is the last. They are rounded to milliseconds. The iterator may be endless; one that ends
        says that the device never comes back. It depends on nothing but the arguments. An interval may come in pieces,
        each starting where the one before ended, and a pair with start == end only says that none starts before it:
        this bounds how far a search has to look ahead.
        """
        ...


class ExactModel(ABC):
    """A model that knows its times in whole milliseconds, and answers for many devices at once."""

    @abstractmethod
    def pieces(self, client: int, place: Place, draws: Stream) -> Pieces:
        """Return the intervals in which all conditions hold, in pieces as in `AvailabilityModel.intervals`."""

    @abstractmethod
    def batches(self, homes: Sequence[tuple[Place, Ints]], draws: Stream) -> Sequence[Batch]:
        """Return a batch for each place and the clients who live there, in ascending order; two may be the same."""

    def conditions(self, client: int, place: Place, draws: Stream, since: int = 0) -> Mapping[str, Pieces]:  # noqa: ARG002
        """Return when each condition of one device holds, by name, from an instant on; by default there is one."""
        return {"available": self.pieces(client, place, draws)}

    def intervals(self, client: int, place: Place, draws: Stream) -> Intervals:
        """Return the same in seconds."""
        return in_seconds(self.pieces(client, place, draws))


def in_seconds(pieces: Pieces) -> Intervals:
    """Return pieces with their times in seconds."""
    return ((to_seconds(start), to_seconds(end)) for start, end in pieces)


def pieces(model: AvailabilityModel, client: int, place: Place, draws: Stream) -> Pieces:
    """Return the checked intervals in which one device is available, from time 0 on, in pieces as the model has them.

    Raises a `PluginError` where the model fails or yields invalid intervals; it names the model and the client.
    """
    yield from ((max(start, 0), end) for start, end in _checked(model, client, place, draws) if end > 0)


def condition_pieces(
    model: AvailabilityModel, client: int, place: Place, draws: Stream, since: int = 0
) -> Mapping[str, Pieces]:
    """Return when each condition that one device must meet holds, by name; it is available where all do.

    Habits have those of charging, network and idle that the scenario requires, a trace those of its file; a model
    without conditions has a single one, called available. What ends before `since` may be left out.
    """
    if isinstance(model, ExactModel):
        return model.conditions(client, place, draws, since)
    return {"available": pieces(model, client, place, draws)}


def intervals(model: AvailabilityModel, client: int, place: Place, draws: Stream) -> Intervals:
    """Return `pieces` in seconds."""
    return in_seconds(pieces(model, client, place, draws))


def conditions(model: AvailabilityModel, client: int, place: Place, draws: Stream) -> Mapping[str, Intervals]:
    """Return `condition_pieces` from time 0 on, in seconds."""
    return {name: in_seconds(held) for name, held in condition_pieces(model, client, place, draws).items()}


def available_at(model: AvailabilityModel, clients: Ints, instant: float, place: Place, draws: Stream) -> Bools:
    """Return whether each of many devices is available at one instant, exactly as their `intervals` say.

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
    Mask (n,). The cost for habits and traces does not depend on the instant; other processes are followed from time 0.
    """
    at = to_ms(instant)
    if isinstance(model, ExactModel) and len(clients):
        (batch,) = model.batches([(place, np.unique(clients))], draws)
        return batch.at(np.asarray(clients), at)
    parts = (between(pieces(model, client, place, draws), at, at + 1) for client in clients.tolist())
    return np.array([bool(whole) for whole in parts], dtype=np.bool_)


def between(parts: Iterator[tuple[float, float]], since: float, until: float) -> list[tuple[float, float]]:
    """Return the part of some intervals in [since, until), in whole intervals; `parts` is read no further than `until`.

    The intervals are those of `intervals` or `conditions`, or of `pieces`, in the same unit as the limits.
    """
    whole: list[tuple[float, float]] = []
    for start, end in parts:
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


def _checked(model: AvailabilityModel, client: int, place: Place, draws: Stream) -> Pieces:
    """Yield the intervals of a model in milliseconds, and raise a `PluginError` at the first invalid one."""
    if isinstance(model, ExactModel):
        yield from model.pieces(client, place, draws)
        return
    named = f"availability model '{type(model).__module__}:{type(model).__qualname__}', client {client}:"
    reached, still = -inf, 0
    answer: Any = model.intervals
    try:
        answer = model.intervals(client, place, draws)
        for start, end in answer:
            wrong = _wrong(float(start), float(end), reached)
            still = still + 1 if end <= reached else 0
            if still > _STANDSTILL:
                wrong = f"yields empty intervals at {reached:g} s for ever; it must go on in time, or end"
            if wrong:
                raise PluginError(wrong)  # noqa: TRY301
            reached = float(end)
            yield to_ms(float(start)), to_ms(reached)
    except BaseException as error:
        if isinstance(error, GeneratorExit) and not users_line(error):  # nobody asks further
            raise
        stands = answer if hasattr(answer, "gi_frame") else model.intervals
        fails = "" if isinstance(error, PluginError) else "fails: "
        raise PluginError(f"{named} {fails}{told(error, stands)}") from error


def _wrong(start: float, end: float, reached: float) -> str:
    """Return what is wrong with a piece that follows one ending at `reached`; empty if nothing is."""
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
