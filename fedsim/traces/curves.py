"""The share of devices that is available in each hour of the day: of a trace, and of a model beside it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np

from fedsim.availability import Place, available_at, build_model
from fedsim.availability.trace.unions import Spans
from fedsim.common.arrays import Floats
from fedsim.common.keyed import Purpose, stream
from fedsim.scenario.habits import Habits

_PERSONS, _DAYS = 400, 14
_MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


@dataclass(frozen=True)
class Misfit:
    """How far a model's curve of 24 hours is from the trace's.

    Attributes
    ----------
    mean, largest
        Mean and largest absolute difference of the shares.
    share, of_trace
        Share of all time available, in the model and in the trace.
    """

    mean: float
    largest: float
    share: float
    of_trace: float


def hourly_shares(spans: Spans, begin: float, end: float) -> Floats:
    """Return the share of device time that is available in each of the 24 hours; NaN for hours never seen.

    Parameters
    ----------
    spans
        Positions in civil time, 0 being midnight.
    begin, end
        What was observed.

    Notes
    -----
    The time available up to an instant, over all devices, is linear between the starts and ends: it is looked up at
    every full hour, which is exact, and O((n + hours) log n).
    """
    edges = np.arange(np.floor(begin / 3600), np.ceil(end / 3600) + 1) * 3600.0
    inside = np.clip(edges, begin, end)
    seen = np.diff(inside) * len(spans)
    instants = np.concatenate([[begin], spans.starts, spans.ends])
    order = np.argsort(instants)
    available = np.cumsum(np.repeat([0, 1, -1], [1, len(spans.starts), len(spans.ends)])[order])
    passed = np.append(0.0, np.cumsum(available[:-1] * np.diff(instants[order])))
    held = np.diff(np.interp(inside, instants[order], passed))
    hours = ((edges[:-1] // 3600) % 24).astype(np.int64)
    with np.errstate(invalid="ignore"):
        shares: Floats = np.bincount(hours, held, 24) / np.bincount(hours, seen, 24)
    return shares


def habits_shares(habits: Habits) -> Floats:
    """Return the same for a model of habits: 400 persons, looked at every half hour for two weeks."""
    model = build_model(habits)
    draws, place = stream(0, 0, Purpose.AVAILABILITY), Place(_MONDAY, ZoneInfo("UTC"))
    counts = np.zeros(24)
    for half in range(48 * _DAYS):
        mask = available_at(model, np.arange(_PERSONS), half * 1800.0 + 900.0, place, draws)
        counts[half // 2 % 24] += mask.sum()
    return counts / (2 * _DAYS * _PERSONS)


def misfit(model: Floats, trace: Floats) -> Misfit:
    """Compare two curves in the hours that the trace has."""
    seen = np.isfinite(trace)
    apart = np.abs(model - trace)[seen]
    means = float(model[seen].mean()), float(trace[seen].mean())
    return Misfit(float(apart.mean()), float(apart.max()), *means)
