"""How often each client took part, how far that is from theory or from chance, and how long each was available."""

import math
from dataclasses import dataclass
from itertools import chain

import numpy as np
import polars as pl

from fedsim.availability.population import Strata, strata
from fedsim.availability.shocks import availability_of
from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import DAY, to_ms
from fedsim.log import CLIENTS
from fedsim.measure.count import Counted
from fedsim.population import Population
from fedsim.scenario import Scenario

_MOST = 5_000  # devices that are followed, where there are more
_MOST_DEVICE_DAYS = 200_000.0
_FEWEST = 200
_BLOCK = 1 << 16
_LONGEST, _WINDOW = 1_000 * DAY, 7 * DAY


def clients_table(population: Population, counted: Counted, pi: Floats | None, method: str | None) -> pl.DataFrame:
    """Return the table of clients, with what was counted of the run, and the frequencies (N,) that theory predicts.

    `method` is how these were computed; both are None where there is no theory.
    """
    columns = {
        "client": np.arange(len(population)),
        "group": pl.Series(population.group_names, dtype=pl.String).gather(population.group),
        "weight": population.weight,
        "separation": population.separation,
        "participations": counted.counts,
        "frequency": counted.counts / max(counted.counts.sum(), 1),
        "reported": counted.reported,
        "pull": counted.pull,
        "pi": pl.repeat(None, len(population), dtype=pl.Float64, eager=True) if pi is None else pi,
        "pi_method": pl.repeat(method, len(population), dtype=pl.String, eager=True),
        "cooldown_s": population.cooldown_s,
        "speed": population.speed,
        "time_zone": pl.Series(population.zone_names, dtype=pl.String).gather(population.zone),
    }
    return pl.DataFrame(columns, schema=CLIENTS)


def l1(left: Floats, right: Floats | float) -> float:
    """Return the L1 distance, sum_i |left_i - right_i|, rounded once."""
    right = np.broadcast_to(right, left.shape)
    blocks = range(0, len(left), _BLOCK)  # a list of Python's numbers takes five times the memory
    parts = (np.abs(left[at : at + _BLOCK] - right[at : at + _BLOCK]).tolist() for at in blocks)
    return math.fsum(chain.from_iterable(parts))


def gini(counts: Ints) -> float:
    """Return the Gini coefficient of non-negative counts: 0 when all are equal, near 1 when one has all."""
    often = np.bincount(counts)
    upto = np.cumsum(often)  # the ranks of so many equals, 2 k - N - 1 for the k-th of all, sum up to a product
    ranks = often * (2 * upto - often - len(counts))
    return float(ranks @ np.arange(len(often))) / (len(counts) * int(counts.sum()))


def jain(counts: Ints) -> float:
    """Return Jain's fairness index, (sum x)^2 / (N sum x^2): 1 when all are equal, 1/N when one has all."""
    values = counts.astype(np.float64)
    return float(values.sum() ** 2 / (len(values) * (values @ values)))


@dataclass(frozen=True)
class AvailableTime:
    """The share of the time, (n,), for which devices were available: of the first 1,000 days of a longer run.

    `clients`, (n,), are the devices in order: all, or evenly spaced ones of a large population.
    """

    clients: Ints
    share: Floats


def available_time(
    scenario: Scenario, population: Population, ended_s: float, replicate: int = 0, devices: Strata | None = None
) -> AvailableTime | None:
    """Work out for which share of the run each device was available, shocks included.

    Of more than 5,000 devices, or 200,000 device-days, evenly spaced ones are followed, 200 at least. None is returned
    where every device was always available, no time passed, or a log was measured.
    """
    longest = min(to_ms(ended_s), _LONGEST)
    if scenario.log is not None or scenario.always_available or longest <= 0:
        return None
    size = len(population)
    taken = min(size, _MOST, max(_FEWEST, int(_MOST_DEVICE_DAYS * DAY / longest)))
    clients = (2 * np.arange(taken) + 1) * size // (2 * taken)
    availability = availability_of(scenario, devices or strata(scenario, population), replicate)
    total = np.zeros(taken)
    for since in range(0, longest, _WINDOW):
        spells = availability.spells(clients, since, min(since + _WINDOW, longest))
        total += np.bincount(spells.who, weights=spells.ends - spells.starts, minlength=taken)
    return AvailableTime(clients, total / longest)


def fair_counts(taken: int, clients: int) -> tuple[Ints, Floats]:
    """Return the counts that a client can have in a fair lottery, and the probabilities of no more than each.

    They are the binomial's; scipy, which has them, takes longer to import than a small run.
    """
    share = 1 / clients
    mean = taken * share
    far = 12 * np.sqrt(mean) + 40
    counts = np.arange(max(0, int(mean - far)), min(taken, int(mean + far)) + 1)
    more = np.log((taken - counts[:-1]) / (counts[:-1] + 1) * share / (1 - share)) if clients > 1 else np.zeros(0)
    logarithms = np.concatenate([[0.0], np.cumsum(more)])
    weights = np.exp(logarithms - logarithms.max())
    return counts, np.cumsum(weights) / weights.sum()


def fair_half(taken: int, clients: int) -> float:
    """Return which share of the reports the half of clients with the least has in a fair lottery."""
    counts, reached = fair_counts(taken, clients)
    least = np.diff(np.minimum(reached, 0.5), prepend=0.0)
    return float(least @ counts) * clients / taken
