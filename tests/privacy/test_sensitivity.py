"""Sensitivities: brute force over every pattern of participation, published numbers, what is refused."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.common.arrays import Floats
from fedsim.privacy import ParticipationBounds, error, sensitivity
from fedsim.privacy.bounds import widest
from fedsim.privacy.mechanisms.blt import Blt
from fedsim.privacy.mechanisms.fixed import square_root

MAX_ERROR_OF_SQRT = {1000: 1.8069319524, 2000: 1.8669971782}
PUBLISHED = [
    (2000, 100, None, 17.1905746705, 32.0947544012),
    (2000, 400, None, 5.2934811409, 9.8829143527),
    (2000, 2000, None, 1.8669971782, 3.4856784633),
    (2000, 100, 5, 6.3923570120, 11.9345125033),
    (1000, 7, None, 114.7543992566, 207.3533906974),
]


def toeplitz(coefficients: Floats, n: int) -> Floats:
    """Return C as a dense matrix."""
    c = np.zeros(n)
    c[: len(coefficients)] = coefficients
    lag = np.subtract.outer(np.arange(n), np.arange(n))
    return np.where(lag >= 0, c[np.abs(lag)], 0.0)


def by_brute_force(coefficients: Floats, n: int, b: int, k: int) -> float:
    """Return the largest norm of a sum of columns that keeps its distances, over all patterns."""
    matrix = toeplitz(coefficients, n)
    patterns = (
        pattern
        for count in range(1, k + 1)
        for pattern in combinations(range(n), count)
        if all(later - earlier >= b for earlier, later in pairwise(pattern))
    )
    return max(float(np.linalg.norm(matrix[:, list(pattern)].sum(axis=1))) for pattern in patterns)


@given(data=st.data())
def test_the_formula_is_the_largest_over_all_patterns(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 11))
    b = data.draw(st.integers(1, n + 1))
    k = data.draw(st.integers(1, n) | st.none())
    number = st.floats(0, 1, allow_subnormal=False)
    c = np.array(sorted(data.draw(st.lists(number, min_size=1, max_size=n)), reverse=True)) + 1e-3
    largest = sensitivity(c, ParticipationBounds(n, b, k))
    assert largest == pytest.approx(by_brute_force(c, n, b, n if k is None else k), rel=1e-9)


@given(data=st.data())
def test_of_clients_with_bounds_of_their_own_the_worst_counts(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 9))
    pairs = data.draw(st.lists(st.tuples(st.integers(1, n), st.integers(1, n)), min_size=1, max_size=4))
    c = square_root(n)
    separation, most = (np.array(each) for each in zip(*pairs, strict=True))
    most = np.minimum(most, -(-n // separation))
    kept = widest(separation, most)
    bounds = ParticipationBounds(n, int(separation.min()), int(most.max()), kept)
    assert sensitivity(c, bounds) == pytest.approx(max(by_brute_force(c, n, *pair) for pair in pairs), rel=1e-9)


def test_one_buffer_serves_a_cap_and_a_separation() -> None:
    """R = 0 with a cap of 5 beside R = 100: one buffer, fitted to the phones, serves both."""
    both = ParticipationBounds(2000, 1, 20, ((1, 5), (101, 20)))
    c = Blt(buffers=1).coefficients(both)
    assert sensitivity(c, both) * error(c, 2000).rms == pytest.approx(21.7, rel=0.01)


@given(data=st.data())
def test_within_b_bands_the_coefficients_may_rise(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 10))
    b = data.draw(st.integers(1, n))
    c = np.array(data.draw(st.lists(st.floats(-1, 1, allow_subnormal=False), min_size=1, max_size=b)))
    assert sensitivity(c, ParticipationBounds(n, b)) == pytest.approx(by_brute_force(c, n, b, n), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("n", "b", "k", "expected", "product"), PUBLISHED)
def test_published_numbers(n: int, b: int, k: int | None, expected: float, product: float) -> None:
    c = square_root(n)
    spread = sensitivity(c, ParticipationBounds(n, b, k))
    assert spread == pytest.approx(expected, rel=1e-9)
    assert error(c, n).max == pytest.approx(MAX_ERROR_OF_SQRT[n], rel=1e-9)
    assert spread * error(c, n).max == pytest.approx(product, rel=1e-9)


def test_the_error_is_that_of_the_rows_of_a_dense_matrix() -> None:
    c = np.array([1.0, 0.6, 0.5, 0.1])
    rows = np.linalg.norm(np.tril(np.ones((9, 9))) @ np.linalg.inv(toeplitz(c, 9)), axis=1)
    assert error(c, 9) == pytest.approx((rows.max(), np.sqrt(np.mean(rows**2))), rel=1e-12)


def test_a_worst_pattern_that_is_not_known_is_refused() -> None:
    c = np.array([1, 0.2, 0.9, 0.1, 0.8, 0.1])  # the formula would give 2.249 where the truth is 2.278
    assert by_brute_force(c, 6, 3, 2) == pytest.approx(2.278, abs=5e-4)
    with pytest.raises(ValueError, match="must not be negative, nor rise, where they reach further than b = 3 rounds"):
        sensitivity(c, ParticipationBounds(6, 3, 2))
    assert sensitivity(c, ParticipationBounds(6, 3, 1)) == pytest.approx(np.linalg.norm(c))


@pytest.mark.parametrize(
    ("coefficients", "words"),
    [([1.0, np.inf], "is not finite"), ([1.0] * 6, "has 1 to 5 coefficients"), ([], "has 1 to 5 coefficients")],
)
def test_coefficients_that_are_none_are_refused(coefficients: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sensitivity(np.array(coefficients), ParticipationBounds(5))


def test_bounds_are_whole_and_positive() -> None:
    with pytest.raises(ValueError, match="min_separation must be at least 1, not 0"):
        ParticipationBounds(5, 0)
    assert ParticipationBounds(1001, 100).participations == 11
    assert ParticipationBounds(1001, 100, 5).participations == 5
    assert ParticipationBounds(1001, 100, 5).capped
    assert not ParticipationBounds(1001, 100, 11).capped
