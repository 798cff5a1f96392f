"""The use of the screen estimated from the times in which devices are idle.

A use can only be seen to begin while the device is idle: one that begins during another, or before the device has
settled, only makes the pause longer. So the rate of a person's uses in an hour of the day is the number of idle times
that end there, divided by the idle time there. Uses that begin by a Poisson process of rate r and keep a device busy
for a time S leave it idle with probability exp(-r E S) (the infinite server queue M/G/oo, whatever the law of S): E S
is the number for which these probabilities give the idle time that was seen.
"""

from typing import Any

import numpy as np

from fedsim.availability.trace.unions import Spans
from fedsim.common.arrays import Floats
from fedsim.scenario.units import format_duration
from fedsim.traces.fit_lengths import lognormal
from fedsim.traces.hours import time_by_hour

_HOUR = 3600.0
_FEWEST = 10
_LONGEST_SETTLE, _MINUTE, _LONGEST_USE = 2 * _HOUR, 60.0, _HOUR
_QUIET = 0.05  # share of the uses whose pauses are read as single uses: those at the lowest rates


def idle_habits(spans: Spans, begin: float, end: float) -> dict[str, Any]:
    """Estimate the use of the screen, as it is written in a scenario.

    Parameters
    ----------
    spans
        When each device is idle, in civil time from midnight of day 0.
    begin, end
        What was observed.

    Raises
    ------
    ValueError
        If too few uses were observed.
    """
    devices = spans.devices
    same = devices[1:] == devices[:-1]
    starts, lengths, users = spans.ends[:-1][same], (spans.starts[1:] - spans.ends[:-1])[same], devices[1:][same]
    if len(starts) < _FEWEST:
        raise ValueError(
            f"{len(starts)} uses of the screen are too few to tell habits from; at least {_FEWEST} are needed"
        )
    hours = (starts // _HOUR % 24).astype(np.int64)
    ended = spans.ends < end
    counts = np.zeros((len(spans), 24))
    np.add.at(counts, (devices[ended], (spans.ends[ended] // _HOUR % 24).astype(np.int64)), 1.0)
    rates = _rates(counts, time_by_hour(spans))
    settle = _settled(lengths)
    seen = time_by_hour(Spans(np.arange(len(spans) + 1), np.full(len(spans), begin), np.full(len(spans), end)))
    busy = _busy(rates, seen, float((spans.ends - spans.starts).sum()))
    # At low rates a pause is one use and the time to settle after it.
    rate = rates[users, hours]
    single = lengths[rate <= np.quantile(rate, _QUIET)] - settle
    median = float(np.median(np.maximum(single, 1.0)))
    sigma = _sigma(median, max(busy - settle, median))
    per_day = rates.sum(axis=1) * _HOUR
    some = counts.sum(axis=1) > 0
    # Chance makes the logarithms of counts differ too, by about one over the count.
    spread = np.log(per_day[some]).var() - (1 / counts.sum(axis=1)[some]).mean()
    weights = (counts.sum(axis=0) + 0.5) / np.maximum((time_by_hour(spans) * per_day[:, np.newaxis]).sum(axis=0), 1.0)
    return {
        "uses_per_day": round(min(float(per_day.mean()), 250.0), 2),
        "use": lognormal(median, sigma),
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
    from scipy import optimize  # takes long to import

    def excess(mean: float) -> float:
        return float((seen * np.exp(-rates * mean)).sum()) - idle

    most = _LONGEST_SETTLE + _LONGEST_USE
    return most if excess(most) > 0 else float(optimize.brentq(excess, 0.0, most))


def _sigma(median: float, mean: float) -> float:
    """Return sigma of the lognormal law with this median whose mean, of values cut at an hour, is as given."""
    from scipy import optimize
    from scipy.stats import norm

    def excess(sigma: float) -> float:
        cut = np.log(_LONGEST_USE / median) / sigma
        below = median * np.exp(sigma**2 / 2) * norm.cdf(cut - sigma)
        return float(below + _LONGEST_USE * norm.sf(cut)) - mean

    if excess(0.01) >= 0:
        return 0.01
    return 5.0 if excess(5.0) <= 0 else float(optimize.brentq(excess, 0.01, 5.0))
