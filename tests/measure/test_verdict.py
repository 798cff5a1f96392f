"""Variances of shares are those of the law by which reports are drawn."""

import numpy as np
import pytest

from fedsim.common.intervals import independent, student_quantile
from fedsim.measure.verdict import compare_shares, effective_draws, share_variance

LAW = np.array([0.5, 0.3, 0.2])


def test_intervals_of_shares_cover_the_law_of_independent_draws() -> None:
    """Two thousand runs of 20 spans: 95 % of the intervals, give or take 1.5 (false alarm: one in a thousand)."""
    rng, inside = np.random.default_rng(4), []
    for _ in range(2_000):
        counts = rng.multinomial(100, LAW, size=20)
        margins = student_quantile(20) * np.sqrt(share_variance(counts))
        inside.append(np.abs(counts.sum(axis=0) / counts.sum() - LAW) <= margins)
    assert np.mean(inside, axis=0) == pytest.approx(0.95, abs=0.016)


def test_independent_draws_know_as_much_as_they_are() -> None:
    spans = np.random.default_rng(4).multinomial(100, LAW, size=2_000)
    assert effective_draws(spans) == pytest.approx(spans.sum(), rel=0.1)


def test_equal_shares_of_many_parts_are_not_told_apart() -> None:
    """Of 3,000 parts none is, in three runs of fair draws; one that is three times its share is."""
    parts, taken, rng = 3_000, 60_000, np.random.default_rng(4)
    fair, known = np.full(parts, 1 / parts), (np.full(parts, float(taken)), np.full(parts, 1e6))
    for _ in range(3):
        shares = rng.multinomial(taken, fair) / taken
        assert not any(look.significant for look in compare_shares(shares, fair, *known, 0.025))
    shares[7] = 3 / parts
    looks = compare_shares(shares, fair, *known, 0.025)
    assert [row for row, look in enumerate(looks) if look.significant] == [7]
    assert all(look.significant != (look.low <= 1 / parts <= look.high) for look in looks)
    assert all(look.low <= look.value <= look.high for look in looks)


@pytest.mark.parametrize("r", [0.0, 0.5, 0.8])
def test_neighbours_that_are_alike_know_less(r: float) -> None:
    """Of a long autoregression n (1 - r) / (1 + r) values, within a tenth; of a few, never more than they are."""
    values = np.random.default_rng(4).standard_normal((50, 20_000))
    for place in range(1, values.shape[1]):
        values[:, place] += r * values[:, place - 1]
    assert independent(values) == pytest.approx(20_000 * (1 - r) / (1 + r), rel=0.1)
    assert (independent(values[:, :20]) <= 20).all()


def test_the_least_variance_of_many_parts_is_chance() -> None:
    """Ten spans of 300 parts alike: a part whose counts happen to differ little tells no more than all together."""
    spans = np.random.default_rng(3).poisson(10.0, (10, 300)).astype(np.int64)
    spans[:, 0] = 8
    draws = effective_draws(spans)
    assert draws.max() <= 1.05 * spans.sum()
    assert effective_draws(spans[:, :5])[0] > 2 * spans[:, :5].sum()  # of few parts it may be known better
