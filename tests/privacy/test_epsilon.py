"""From noise to epsilon: another library, arithmetic with fifty digits, and published numbers."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedsim.privacy.epsilon import epsilon_of, epsilon_of_best, epsilon_of_rho, log_delta, noise_for, rho_of

SIGMAS = st.floats(math.log(0.3), math.log(20.0)).map(math.exp)
DELTAS = st.floats(math.log(1e-12), math.log(1e-3)).map(math.exp)


def exact_delta(epsilon: float, sigma: float) -> mpmath.mpf:
    """Return delta by the formula as it stands, with fifty digits."""
    with mpmath.workdps(50):
        e, s = mpmath.mpf(epsilon), mpmath.mpf(sigma)
        return mpmath.ncdf(1 / (2 * s) - e * s) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s)


def epsilon_of_rho_2016(rho: float, delta: float) -> float:
    """Return the epsilon of rho-zCDP by Bun and Steinke, arXiv:1605.02065, Proposition 1.3, an upper bound."""
    return rho + 2.0 * math.sqrt(-rho * math.log(delta))


@pytest.mark.parametrize(
    ("sigma", "delta", "epsilon"),
    [(1.0, 1e-10, 6.547924066865), (0.5, 1e-6, 10.997151214221), (4.22, 1e-10, 1.410713284770)],
)
def test_published_numbers(sigma: float, delta: float, epsilon: float) -> None:
    assert epsilon_of(sigma, delta) == pytest.approx(epsilon, rel=1e-12)


def test_three_conversions_of_one_rho() -> None:
    sigma = math.sqrt(1 / (2 * 0.81))
    assert rho_of(sigma) == pytest.approx(0.81)
    assert epsilon_of(sigma, 1e-10) == pytest.approx(8.549, abs=5e-4)
    assert epsilon_of_rho(0.81, 1e-10) == pytest.approx(8.92, abs=5e-3)
    assert epsilon_of_rho_2016(0.81, 1e-10) == pytest.approx(9.447, abs=5e-4)


@given(sigma=SIGMAS, delta=DELTAS)
def test_delta_at_the_epsilon_found(sigma: float, delta: float) -> None:
    epsilon = epsilon_of(sigma, delta)
    assert float(exact_delta(epsilon, sigma)) == pytest.approx(delta, rel=1e-9)
    assert epsilon < epsilon_of_rho(rho_of(sigma), delta) <= epsilon_of_rho_2016(rho_of(sigma), delta) * (1 + 1e-12)


@given(sigma=SIGMAS, epsilon=st.floats(0.0, 60.0))
def test_the_logarithm_of_delta(sigma: float, epsilon: float) -> None:
    assert log_delta(epsilon, sigma) == pytest.approx(float(mpmath.log(exact_delta(epsilon, sigma))), rel=1e-9)


@given(epsilon=st.floats(0.05, 30.0), delta=DELTAS)
def test_the_noise_is_the_least_that_reaches_epsilon(epsilon: float, delta: float) -> None:
    sigma = noise_for(epsilon, delta)
    assert epsilon_of(sigma, delta) == pytest.approx(epsilon, rel=1e-9)
    assert epsilon_of(sigma * 0.999, delta) > epsilon


def test_so_much_noise_that_nothing_is_left_to_tell() -> None:
    assert epsilon_of(1e4, 1e-3) == 0.0


@pytest.mark.extras
@given(sigma=SIGMAS, delta=DELTAS)
def test_another_library_says_the_same(sigma: float, delta: float) -> None:
    judge = pytest.importorskip("dp_accounting", reason="the extra `privacy` is not installed")
    assert epsilon_of(sigma, delta) == pytest.approx(judge.get_epsilon_gaussian(sigma, delta, tol=1e-12), abs=1e-6)


@pytest.mark.parametrize(("sigma", "runs"), [(1.0, 6), (4.0, 50), (0.7, 1000)])
def test_the_best_of_a_geometric_number_of_runs_is_within_its_epsilon(sigma: float, runs: float) -> None:
    """By the law of the largest of K normal numbers, all shifted by one client or not: the generating function of K."""
    x, delta = np.linspace(-12, 14, 400_001) * max(1.0, sigma), 1e-4
    epsilon, densities = epsilon_of_best(sigma, delta, runs), []
    for mean in (0.0, 1.0):
        below, within = stats.norm.sf(-x, loc=-mean, scale=sigma), stats.norm.pdf(x, loc=mean, scale=sigma)
        densities.append(within / runs / np.square(1.0 - (1.0 - 1.0 / runs) * below))
    for p, q in (densities, densities[::-1]):
        assert p.sum() * (x[1] - x[0]) == pytest.approx(1.0, abs=1e-3)
        assert np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * (x[1] - x[0]) <= delta
    assert epsilon_of_best(sigma, delta, 1.0) == pytest.approx(epsilon_of_rho(rho_of(sigma), delta))
