"""Variances of shares are those of the law by which reports are drawn."""

import numpy as np
import pytest

from fedsim.common.intervals import student_quantile
from fedsim.measure.verdict import effective_draws, share_variance

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
