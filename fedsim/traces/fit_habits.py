"""Habits of charging estimated from a trace: night sessions and top-ups.

Only what the trace shows is estimated; everything else keeps its default. A night session is the longest one that is
plugged in between 18:00 and 06:00 and lasts at least three hours; all other sessions are top-ups.
"""

from typing import Any

import numpy as np

from fedsim.availability.trace.pattern import DAY_S
from fedsim.availability.trace.unions import Spans
from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.scenario.civil import format_clock
from fedsim.scenario.units import format_duration
from fedsim.traces.fit_lengths import short_lengths
from fedsim.traces.hours import pieces

_HOUR = 3600.0
_SHORTEST_NIGHT, _MOST_DEVIATION = 3 * _HOUR, 3 * _HOUR
_FEWEST = 10
_LEAST_OFF = 0.1  # of an hour in which nearly all are on the charger nothing can be told


def charging_habits(spans: Spans, begin: float, end: float, weekday: int) -> dict[str, Any]:
    """Estimate the habits of charging, as they are written in a scenario.

    Parameters
    ----------
    spans
        When each device is on a charger, in civil time from midnight of day 0.
    begin, end
        What was observed.
    weekday
        Of day 0, Monday being 0.

    Raises
    ------
    ValueError
        If less than two whole days, or too few sessions, were observed.
    """
    # Days that were observed from midnight to midnight.
    days = np.arange(np.ceil(begin / DAY_S - 1e-9), np.floor(end / DAY_S + 1e-9)).astype(np.int64)
    if len(days) < 2:
        raise ValueError(f"{len(days)} whole days are too few to tell habits from; at least two are needed")
    whole = (spans.starts > begin) & (spans.ends < end)
    starts, lengths, devices = spans.starts[whole], (spans.ends - spans.starts)[whole], spans.devices[whole]
    # A night belongs to the day in which it begins, up to noon of the next.
    day = np.floor((starts - DAY_S / 2) / DAY_S).astype(np.int64)
    evening = starts - day * DAY_S
    candidate = np.flatnonzero((lengths >= _SHORTEST_NIGHT) & (evening >= 18 * _HOUR) & (evening < 30 * _HOUR))
    longest = candidate[np.argsort(-lengths[candidate], kind="stable")]
    night = longest[np.unique(np.stack([devices[longest], day[longest]]), axis=1, return_index=True)[1]]
    if len(night) < _FEWEST:
        raise ValueError(f"{len(night)} nights on the charger are too few to tell habits from")
    rest = np.ones(len(starts), dtype=np.bool_)
    rest[night] = False
    free = (weekday + day[night] + 1) % 7 >= 5
    plugged = _usual(evening[night], free, devices[night])
    length = _usual(lengths[night], free, devices[night])
    inside = np.isin(day[night], days[:-1])
    return {
        "night": {
            "chance": round(min(1.0, float(inside.sum()) / ((len(days) - 1) * len(spans))), 3),
            "plug_in": format_clock(_to_minutes(plugged[0]) % DAY_S),
            "plug_in_weekend": format_clock(_to_minutes(plugged[1]) % DAY_S),
            "length": format_duration(_to_minutes(min(length[0], 16 * _HOUR))),
            "length_weekend": format_duration(_to_minutes(min(length[1], 16 * _HOUR))),
            "between_persons": format_duration(_to_minutes(plugged[2])),
            "between_days": format_duration(_to_minutes(plugged[3])),
            "length_between_persons": format_duration(_to_minutes(length[2])),
            "length_between_days": format_duration(_to_minutes(length[3])),
        },
        "top_up": _top_ups(starts[rest], lengths[rest], days, spans, weekday),
    }


def _top_ups(starts: Floats, lengths: Floats, days: Ints, spans: Spans, weekday: int) -> dict[str, Any]:
    """Estimate the short sessions: what begins while a device is on the charger already cannot be seen to begin."""
    held = pieces(spans)
    free_days = (weekday + days) % 7 >= 5
    expected = np.zeros((2, 24))  # sessions of all devices, those that cannot be seen included
    for side in (0, 1):
        own = days[free_days == side]
        seen = starts[np.isin(np.floor(starts / DAY_S).astype(np.int64), own)]
        inside = np.isin(held.hours // 24, own)
        on = np.bincount(held.hours[inside] % 24, held.seconds[inside], 24) / (max(len(own), 1) * len(spans) * _HOUR)
        counts = np.bincount((seen // _HOUR % 24).astype(np.int64), minlength=24)
        expected[side] = counts / np.maximum(1 - on, _LEAST_OFF)
    days_of = np.array([(~free_days).sum(), free_days.sum()]) * len(spans)
    rates = [float(own.sum() / count) if count else np.nan for own, count in zip(expected, days_of, strict=True)]
    rates = [next(rate for rate in (own, *rates) if np.isfinite(rate)) for own in rates]
    found: dict[str, Any] = {"per_day": round(min(rates[0], 4.0), 3), "per_day_weekend": round(min(rates[1], 4.0), 3)}
    if len(starts) >= _FEWEST:
        found |= {"length": short_lengths(lengths), "by_hour": _weights(expected.sum(axis=0))}
    return found


def _usual(values: Floats, free: Bools, persons: Ints) -> tuple[float, float, float, float]:
    """Return the medians before working days and before others, and how much persons, and their days, differ from them.

    The median is the common one where a kind of day is missing; the standard deviations between persons and from day to
    day are those of the analysis of variance.
    """
    working, other = (float(np.median(values[side] if side.any() else values)) for side in (~free, free))
    values = values - np.where(free, other, working)
    counts = np.bincount(persons)
    means = np.bincount(persons, values) / np.maximum(counts, 1)
    within = ((values - means[persons]) ** 2).sum() / max(len(values) - int((counts > 0).sum()), 1)
    several = counts > 1
    between = means[several].var() - (within / counts[several]).mean() if several.sum() > 1 else 0.0
    between_persons, between_days = np.minimum(np.sqrt([max(between, 0.0), within]), _MOST_DEVIATION).tolist()
    return working, other, between_persons, between_days


def _weights(counts: Floats) -> list[float]:
    """Return relative weights of the hours; half a count more for each, so that no hour is impossible."""
    counts = counts + 0.5
    return [round(float(weight), 2) for weight in 100 * counts / counts.sum()]


def _to_minutes(seconds: float) -> float:
    return 60.0 * round(seconds / 60)
