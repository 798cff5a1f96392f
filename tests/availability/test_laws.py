"""Laws as tables: how far they are from the laws that they tabulate."""

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import norm

from fedsim.availability.habits.days import TABLE_SIZE, quantile_at, quantile_table
from fedsim.common.compiled import compiled
from fedsim.population.distributions import Distribution, distribution
from fedsim.population.distributions.families import (
    Constant,
    Exponential,
    Lognormal,
    MeanPareto,
    Uniform,
    Weibull,
    WholeUniform,
)
from fedsim.scenario.habits import Habits
from tests.availability.exact import Law

HABITS = Habits(kind="habits")
LAWS: dict[str, tuple[Distribution, float]] = {
    "uses of the screen": (distribution(HABITS.idle.use), 3600.0),
    "top-ups": (distribution(HABITS.charging.top_up.length), 28_800.0),
    "failures": (distribution(HABITS.network.drop_outs.length), 3600.0),
    "constant": (Constant(60.0), 3600.0),
    "uniform": (Uniform(10.0, 900.0), 3600.0),
    "exponential": (Exponential(180.0), 1e6),
    "lognormal of sigma 2": (Lognormal(40.0, sigma=2.0), 28_800.0),
    "Weibull of shape 0.5": (Weibull(600.0, 0.5), 28_800.0),
    "Pareto of shape 1.5": (MeanPareto(300.0, 1.5), 28_800.0),
}


@compiled
def every(tables: Any, table: int, bits: Any) -> Any:
    values = np.empty(len(bits), np.int64)
    for place in range(len(bits)):
        values[place] = quantile_at(tables, table, bits[place])
    return values


def draws(count: int) -> Any:
    """Evenly spaced draws, in the middles of as many parts of the unit interval."""
    return ((np.arange(count) + 0.5) / count * 2**32).astype(np.int64)


def check(table: Any, quantile: Any, longest_s: float, scale_s: float) -> None:
    """Kolmogorov-Smirnov distance below 1e-3, and the mean within 0.1 % of its own or of a scale."""
    bits = draws(1 << 20)
    values, p = every(table, 0, bits), (np.arange(1 << 20) + 0.5) / (1 << 20)
    assert (np.diff(values) >= 0).all()
    exact = 1000.0 * np.minimum(quantile(p), longest_s)
    # A draw of rank p whose value lies between the exact values of ranks p - d and p + d: a distance of at most d.
    below, above = quantile(np.clip(p - 1e-3, 1e-12, None)), quantile(np.clip(p + 1e-3, None, 1 - 1e-12))
    assert (values >= 1000.0 * np.minimum(below, longest_s) - 1.0).all()
    assert (values <= 1000.0 * np.minimum(above, longest_s) + 1.0).all()
    assert abs(values.mean() - exact.mean()) < 1e-3 * max(abs(exact.mean()), 1000.0 * scale_s) + 0.5


@pytest.mark.parametrize("name", LAWS)
def test_a_table_is_within_a_thousandth_of_its_law(name: str) -> None:
    law, longest_s = LAWS[name]
    check(quantile_table(law.quantile, longest_s), law.quantile, longest_s, 0.0)


@pytest.mark.parametrize("deviation_s", [0.0, 60.0, 2400.0, 10_800.0])
def test_deviations_are_normal_within_three_standard_deviations(deviation_s: float) -> None:
    def quantile(p: Any) -> Any:
        return deviation_s * np.clip(ndtri(p), -3, 3)

    table = quantile_table(quantile, np.inf)
    check(table, quantile, np.inf, deviation_s)
    values = every(table, 0, draws(1 << 20))
    expected = deviation_s * 1000.0 * np.sqrt(norm.expect(lambda x: np.clip(x, -3, 3) ** 2))
    assert values.std() == pytest.approx(expected, rel=1e-3, abs=0.5)


def test_hours_of_top_ups_are_those_of_the_weights() -> None:
    weights = np.array(HABITS.charging.top_up.by_hour)
    until = np.concatenate([[0.0], np.cumsum(weights)]) / weights.sum()
    table = quantile_table(lambda p: np.interp(p, until, np.arange(25) * 3600.0), 86_400.0)
    hours = np.bincount(every(table, 0, draws(1 << 20)) // 3_600_000, minlength=24)[:24] / (1 << 20)
    assert np.abs(np.cumsum(hours) - until[1:]).max() < 1e-3


def test_a_look_up_is_exact_at_every_place_of_a_table() -> None:
    """Several tables one after the other, against bisection over the ends of all bins."""
    laws = [distribution(HABITS.idle.use), WholeUniform(3.0, 9.0)]
    tables = np.concatenate([quantile_table(law.quantile, 3600.0) for law in laws])
    rng = np.random.default_rng(1)
    tail, end = np.arange(0, 2**26, 2**16), np.arange(0, 2**20, 2**10)
    begins = np.concatenate([np.arange(0, 2**32, 2**22), tail, end, 2**32 - 2**16 - tail, 2**32 - 2**10 - end])
    bits = np.concatenate([begins, begins[begins > 0] - 1, rng.integers(0, 2**32, 10_000), [2**32 - 1]])
    for number in range(2):
        law = Law(tables[number * TABLE_SIZE : (number + 1) * TABLE_SIZE])
        assert every(tables, number * TABLE_SIZE, bits).tolist() == [law.of(each) for each in bits.tolist()]
