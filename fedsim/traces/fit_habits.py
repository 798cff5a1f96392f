"""Habits of charging and of using the screen, estimated from a trace.

Only what the trace shows is estimated; everything else keeps its default.

*Charging*: a night session is the longest one that is plugged in between 18:00 and 06:00 and lasts at least three
hours; all other sessions are top-ups.

*Use of the screen*: a use can only be seen to begin while the device is idle; one that begins during another, or before
the device has settled, only makes the pause longer. So the rate of a person's uses in an hour of the day is the number
of idle times that end there, divided by the idle time there. Uses that begin by a Poisson process of rate r and keep a
device busy for a time S leave it idle with probability exp(-r E S) (the infinite server queue M/G/oo, whatever the law
of S): E S is the number for which these probabilities give the idle time that was seen.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fedsim.availability.spells import Spells
from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.instants import DAY_S, HOUR_S, each_to_ms
from fedsim.common.later import optimize, special, stats
from fedsim.scenario.units import format_clock, format_duration
from fedsim.traces.fit_renewal import CensoredLengths, fit_laws, limits

_SHORTEST_NIGHT, _MOST_DEVIATION = 3 * HOUR_S, 3 * HOUR_S
_FEWEST = 10
_LEAST_OFF = 0.1  # an hour in which nearly all are on the charger says nothing
_LONGEST_SETTLE, _MINUTE, _LONGEST_USE = 2 * HOUR_S, 60.0, HOUR_S
_QUIET = 0.05  # share of the uses whose pauses are read as single uses: those at the lowest rates
_LARGEST_SIGMA, _MOST_SPREAD = 10.0, 3.0


def charging_habits(spans: Spells, seen: Spells, weekday: int) -> dict[str, Any]:
    """Estimate the habits of charging, as they are written in a scenario.

    `spans` are the times on a charger in civil time from midnight of day 0, whose weekday is given (Monday is 0);
    `seen` is when each device was observed. Raises a `ValueError` if no device was observed for two whole days, or too
    few sessions were.
    """
    begin, end = limits(seen)
    first, last = np.ceil(begin / DAY_S - 1e-9), np.floor(end / DAY_S + 1e-9)
    some = last > first
    days = _WholeDays(np.where(some, first, 0), np.where(some, last, 0))
    most = int((days.last - days.first).max(initial=0))
    if most < 2:
        raise ValueError(f"{most} whole days are too few to tell habits from; at least two are needed")
    owners = spans.who
    whole = (spans.starts_s > begin[owners]) & (spans.ends_s < end[owners])
    starts, lengths, devices = spans.starts_s[whole], (spans.ends_s - spans.starts_s)[whole], owners[whole]
    # A night belongs to the day in which it begins, up to noon of the next.
    day = np.floor((starts - DAY_S / 2) / DAY_S).astype(np.int64)
    evening = starts - day * DAY_S
    candidate = np.flatnonzero((lengths >= _SHORTEST_NIGHT) & (evening >= 18 * HOUR_S) & (evening < 30 * HOUR_S))
    longest = candidate[np.argsort(-lengths[candidate], kind="stable")]
    night = longest[np.unique(np.stack([devices[longest], day[longest]]), axis=1, return_index=True)[1]]
    if len(night) < _FEWEST:
        raise ValueError(f"{len(night)} nights on the charger are too few to tell habits from")
    rest = np.ones(len(starts), dtype=np.bool_)
    rest[night] = False
    free = (weekday + day[night] + 1) % 7 >= 5
    plugged = _usual(evening[night], free, devices[night])
    length = _usual(lengths[night], free, devices[night])
    inside = days.has(devices[night], day[night]) & days.has(devices[night], day[night] + 1)
    nights = np.maximum(days.last - days.first - 1, 0).astype(np.int64)
    taken = np.minimum(np.bincount(devices[night][inside], minlength=len(nights)), nights)
    chance = float(taken.sum() / nights.sum())
    return {
        "spread": round(_spread(taken, nights, chance), 2),
        "night": {
            "chance": round(chance, 3),
            "plug_in": format_clock(_to_minutes(plugged[0]) % DAY_S),
            "plug_in_weekend": format_clock(_to_minutes(plugged[1]) % DAY_S),
            "length": format_duration(_to_minutes(min(length[0], 16 * HOUR_S))),
            "length_weekend": format_duration(_to_minutes(min(length[1], 16 * HOUR_S))),
            "between_persons": format_duration(_to_minutes(plugged[2])),
            "between_days": format_duration(_to_minutes(plugged[3])),
            "length_between_persons": format_duration(_to_minutes(length[2])),
            "length_between_days": format_duration(_to_minutes(length[3])),
        },
        "top_up": _top_ups(starts[rest], lengths[rest], devices[rest], days, spans, weekday),
    }


def _spread(taken: Ints, nights: Ints, chance: float) -> float:
    """Return how much persons differ in how often they charge, on the probit scale: the likeliest for their nights.

    `taken` and `nights` (persons,) are nights on a charger, and nights observed. A person's chance is that of
    `fedsim.availability.habits.persons.individual_chance`, whose score is summed over by Gauss and Hermite's rule.
    """
    if not 0.0 < chance < 1.0:
        return 0.0
    counts, people = np.unique(np.stack([taken, nights]), axis=1, return_counts=True)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)

    def unlikely(spread: float) -> float:
        levels = special.ndtri(chance) * np.sqrt(1 + spread**2) + spread * nodes
        there, away = (
            counts[0][:, None] * special.log_ndtr(levels),
            (counts[1] - counts[0])[:, None] * special.log_ndtr(-levels),
        )
        likely = np.exp(there + away) @ weights
        return -float(people @ np.log(np.maximum(likely, 1e-300)))

    likeliest = float(optimize.minimize_scalar(unlikely, bounds=(0.0, _MOST_SPREAD), method="bounded").x)
    return likeliest if unlikely(likeliest) < unlikely(0.0) else 0.0


class _WholeDays(NamedTuple):
    """The days that each device was observed from midnight to midnight: from `first` to before `last`, (devices,)."""

    first: Floats
    last: Floats

    def has(self, devices: Ints, days: Ints) -> Bools:
        """Return whether each of some days is one of a device's, both (n,)."""
        return (days >= self.first[devices]) & (days < self.last[devices])

    def numbers(self, weekday: int) -> Ints:
        """Return how many working and how many other days there are, of all devices."""
        days = np.arange(self.first.min(), self.last.max()).astype(np.int64)
        begun, over = (np.searchsorted(np.sort(each), days, side="right") for each in self)
        return np.bincount(((weekday + days) % 7 >= 5).astype(np.int64), begun - over, 2).astype(np.int64)


def _top_ups(
    starts: Floats, lengths: Floats, devices: Ints, days: _WholeDays, spans: Spells, weekday: int
) -> dict[str, Any]:
    """Estimate the short sessions: what begins while a device is on the charger already cannot be seen to begin."""
    first, last = (each[spans.who] * DAY_S for each in days)
    starts_ms, ends_ms = (each_to_ms(each.clip(first, last)) for each in (spans.starts_s, spans.ends_s))
    whole = replace(spans, starts=starts_ms, ends=ends_ms)
    days_of, day = days.numbers(weekday), np.floor(starts / DAY_S).astype(np.int64)
    weekend = (weekday + np.arange(7)) % 7 >= 5
    expected = np.zeros((2, 24))  # sessions of all devices, those that cannot be seen included
    for side in (0, 1):
        seen = starts[days.has(devices, day) & (weekend[day % 7] == side)]
        held = np.array([seconds_in_hour(whole, hour, weekend == side).sum() for hour in range(24)])
        on = held / (max(days_of[side], 1) * HOUR_S)
        counts = np.bincount((seen // HOUR_S % 24).astype(np.int64), minlength=24)
        expected[side] = counts / np.maximum(1 - on, _LEAST_OFF)
    rates = [float(each.sum() / count) if count else np.nan for each, count in zip(expected, days_of, strict=True)]
    rates = [next(rate for rate in (preferred, *rates) if np.isfinite(rate)) for preferred in rates]
    habits: dict[str, Any] = {"per_day": round(min(rates[0], 4.0), 3), "per_day_weekend": round(min(rates[1], 4.0), 3)}
    if len(starts) >= _FEWEST:
        habits |= {"length": short_lengths(lengths), "by_hour": _weights(expected.sum(axis=0))}
    return habits


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


def idle_habits(spans: Spells, seen: Spells) -> dict[str, Any]:
    """Estimate the use of the screen, as it is written in a scenario.

    `spans` are the idle times in civil time from midnight of day 0; `seen` is when each device was observed. Raises a
    `ValueError` if too few uses were observed.
    """
    devices = spans.who
    same = devices[1:] == devices[:-1]
    starts, lengths, users = spans.ends_s[:-1][same], (spans.starts_s[1:] - spans.ends_s[:-1])[same], devices[1:][same]
    if len(starts) < _FEWEST:
        raise ValueError(
            f"{len(starts)} uses of the screen are too few to tell habits from; at least {_FEWEST} are needed"
        )
    hours = (starts // HOUR_S % 24).astype(np.int64)
    ended = spans.ends_s < limits(seen)[1][spans.who]
    counts = np.zeros((spans.count, 24))
    np.add.at(counts, (devices[ended], (spans.ends_s[ended] // HOUR_S % 24).astype(np.int64)), 1.0)
    rates = _rates(counts, time_by_hour(spans))
    settle = _settled(lengths)
    busy = _busy(rates, time_by_hour(seen), float((spans.ends_s - spans.starts_s).sum()))
    # At low rates a pause is one use and the time to settle after it.
    rate = rates[users, hours]
    single = lengths[rate <= np.quantile(rate, _QUIET)] - settle
    median = float(np.median(np.maximum(single, 1.0)))
    sigma = _sigma(median, max(busy - settle, median))
    per_day = rates.sum(axis=1) * HOUR_S
    some = counts.sum(axis=1) > 0
    # Chance makes the logarithms of counts differ too, by about one over the count.
    spread = np.log(per_day[some]).var() - (1 / counts.sum(axis=1)[some]).mean()
    weights = (counts.sum(axis=0) + 0.5) / np.maximum((time_by_hour(spans) * per_day[:, np.newaxis]).sum(axis=0), 1.0)
    return {
        "uses_per_day": round(min(float(per_day.mean()), 250.0), 2),
        "use": _lognormal(median, sigma),
        "by_hour": [round(float(weight), 2) for weight in 100 * weights / weights.sum()],
        "settle": format_duration(settle),
        "spread": round(min(float(np.sqrt(max(spread, 0.0))), 5.0), 3),
    }


def _rates(counts: Floats, idle: Floats) -> Floats:
    """Return each person's rate in each hour, in 1/s: a person's level times the hour's, fitted by turns."""
    level, hour = np.ones(len(counts)), np.ones(24)
    for _ in range(20):
        hour = counts.sum(axis=0) / np.maximum(level @ idle, 1e-9)
        level = counts.sum(axis=1) / np.maximum(idle @ hour, 1e-9)
    return np.outer(level, hour)


def _settled(lengths: Floats) -> float:
    """Return the time to settle: no pause is shorter. Whole minutes; 0 where pauses are as short as uses are."""
    shortest = float(np.quantile(lengths, min(0.001, 1 / len(lengths))))
    return float(min(_MINUTE * np.floor(shortest / _MINUTE), _LONGEST_SETTLE))


def _busy(rates: Floats, seen: Floats, idle: float) -> float:
    """Return the mean time for which a use keeps a device busy: the idle time expected by it is the one seen."""

    def excess(mean: float) -> float:
        return float((seen * np.exp(-rates * mean)).sum()) - idle

    most = _LONGEST_SETTLE + _LONGEST_USE
    return most if excess(most) > 0 else float(optimize.brentq(excess, 0.0, most))


def _sigma(median: float, mean: float) -> float:
    """Return sigma of the lognormal law with this median whose mean, of values cut at an hour, is as given."""

    def excess(sigma: float) -> float:
        cut = np.log(_LONGEST_USE / median) / sigma
        below = median * np.exp(sigma**2 / 2) * stats.norm.cdf(cut - sigma)
        return float(below + _LONGEST_USE * stats.norm.sf(cut)) - mean

    if excess(0.01) >= 0:
        return 0.01
    return 5.0 if excess(5.0) <= 0 else float(optimize.brentq(excess, 0.01, 5.0))


def short_lengths(lengths: Floats) -> dict[str, Any]:
    """Return the law of some lengths, exponential or lognormal, as it is written in a scenario.

    `lengths` (n,) are positive seconds, in an order that is independent of them.
    """
    source = fit_laws(CensoredLengths(lengths, np.empty(0)), kinds=("exponential", "lognormal"))[0].source
    if source["kind"] == "lognormal":
        return _lognormal(source["median"], source["sigma"])
    return {"kind": "exponential", "mean": format_duration(max(float(round(source["mean"])), 1.0))}


def _lognormal(median: float, sigma: float) -> dict[str, Any]:
    """Write a lognormal law, to the second."""
    written = format_duration(max(float(round(median)), 1.0))
    return {"kind": "lognormal", "median": written, "sigma": round(min(sigma, _LARGEST_SIGMA), 3)}


def seconds_in_hour(spans: Spells, hour: int, some_days: Bools = np.ones(7, dtype=np.bool_)) -> Floats:  # noqa: B008
    """Return how many seconds of each interval (n,) lie in one of the 24 hours, of some days in seven.

    Positions are civil time from midnight of day 0, the first of the seven.
    """
    earlier = np.append(0, np.cumsum(some_days))

    def passed(times: Floats) -> Floats:
        day = np.floor(times / DAY_S).astype(np.int64)
        today = np.clip(times - day * DAY_S - hour * HOUR_S, 0, HOUR_S) * some_days[day % 7]
        return np.asarray(HOUR_S * (day // 7 * earlier[7] + earlier[day % 7]) + today, dtype=np.float64)

    return passed(spans.ends_s) - passed(spans.starts_s)


def time_by_hour(spans: Spells) -> Floats:
    """Return how many seconds of each device's intervals lie in each of the 24 hours, shape (devices, 24)."""
    held = (np.bincount(spans.who, seconds_in_hour(spans, hour), spans.count) for hour in range(24))
    return np.column_stack(list(held))
