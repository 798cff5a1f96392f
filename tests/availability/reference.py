"""The habits told once more: a slow, plain simulation of one day of many persons, in UTC, with its own randomness.

It shares with the package neither draws nor formulas nor code: the Monte Carlo expectation that the package's curves
are compared with.
"""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from fedsim.scenario.habits import Habits

HOUR, DAY = 3600.0, 86_400.0
NORMAL = NormalDist()
Shares = dict[str, NDArray[np.float64]]


def shares(habits: Habits, weekday: int, persons: int, rng: np.random.Generator) -> Shares:
    """Return the shares of persons (24,) that charge, are on the network, are idle, and all three, at half past.

    `weekday` is 0 for Monday. Lognormal lengths and exponential failures, as the defaults have them.
    """
    count = {name: np.zeros(24) for name in ("charging", "network", "idle", "all")}
    moments = np.arange(HOUR / 2, DAY, HOUR)
    for _ in range(persons):
        z = rng.normal()
        charges = _charging(habits, weekday, z, moments, rng)
        online = _network(habits, weekday, z, moments, rng)
        idle = _idle(habits, z, moments, rng)
        for name, holds in (("charging", charges), ("network", online), ("idle", idle)):
            count[name] += holds
        count["all"] += charges & online & idle
    return {name: counted / persons for name, counted in count.items()}


def _clipped(rng: np.random.Generator) -> float:
    return float(min(3.0, max(-3.0, rng.normal())))


def _tilted(mean: float, spread: float, z: float) -> float:
    """Return the chance, given z, that a normal variable of variance 1 + spread^2 with spread z in it is low enough."""
    return NORMAL.cdf(NormalDist(0, float(np.hypot(1, spread))).inv_cdf(mean) + spread * z)


def _charging(
    habits: Habits, weekday: int, z: float, moments: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.bool_]:
    night, top_up, spread = habits.charging.night, habits.charging.top_up, habits.charging.spread
    holds = np.zeros(24, dtype=np.bool_)
    later_person, longer_person = night.between_persons * _clipped(rng), night.length_between_persons * _clipped(rng)
    for day in (-3, -2, -1, 0, 1):
        free = (weekday + day + 1) % 7 in {5, 6}
        usual = night.plug_in_weekend if free else night.plug_in
        start = day * DAY + usual + (DAY if usual < DAY / 2 else 0) + later_person + night.between_days * _clipped(rng)
        length = (night.length_weekend if free else night.length) + longer_person
        length += night.length_between_days * _clipped(rng)
        if rng.random() < _tilted(night.chance, spread, z):
            holds |= (start <= moments) & (moments < start + min(16 * HOUR, max(0.0, length)))
        mean = top_up.per_day_weekend if (weekday + day) % 7 in {5, 6} else top_up.per_day
        for _ in range(rng.binomial(4, _tilted(mean / 4, spread, z))):
            weights = np.array(top_up.by_hour)
            begin = day * DAY + HOUR * (rng.choice(24, p=weights / weights.sum()) + rng.random())
            length = top_up.length.median * np.exp(top_up.length.sigma * rng.normal())
            holds |= (begin <= moments) & (moments < begin + min(8 * HOUR, length))
    return holds


def _network(
    habits: Habits, weekday: int, z: float, moments: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.bool_]:
    network = habits.network
    free = weekday in {5, 6}
    outing = network.weekend if free else network.weekday
    home, work = (rng.random() < _tilted(each, network.spread, z) for each in (network.home, network.work))
    leave, back = (
        min(DAY, max(0.0, usual + network.between_persons * _clipped(rng) + network.between_days * _clipped(rng)))
        for usual in (outing.leave, outing.back)
    )
    away = (leave <= moments) & (moments < back) & (rng.random() < outing.chance)
    working = away & (leave + network.commute <= moments) & (moments < back - network.commute) & (not free)
    failed = np.zeros(24, dtype=np.bool_)
    for begin in np.flatnonzero(rng.random(300) < -np.expm1(-network.drop_outs.per_hour / 12)):
        start = (begin - 12 + rng.random()) * 300
        length = rng.exponential(network.drop_outs.length.mean)
        failed |= (start <= moments) & (moments < start + min(HOUR, length))
    return ((home & ~away) | (work & working)) & ~failed


def _idle(habits: Habits, z: float, moments: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.bool_]:
    idle = habits.idle
    slots = np.arange(-36, 288)
    per_hour = idle.uses_per_day * np.exp(-idle.spread * z - idle.spread**2 / 2) / np.sum(idle.by_hour)
    chances = 1 - np.exp(-per_hour * np.array(idle.by_hour)[slots // 12 % 24] / 12)
    begins = 300 * (slots[rng.random(len(slots)) < chances])
    starts = begins + 300 * rng.random(len(begins))
    lengths = idle.use.median * np.exp(idle.use.sigma * rng.normal(size=len(begins)))
    ends = starts + np.minimum(HOUR, lengths) + idle.settle
    used: NDArray[np.bool_] = ((starts <= moments[:, None]) & (moments[:, None] < ends)).any(axis=1)
    return ~used
