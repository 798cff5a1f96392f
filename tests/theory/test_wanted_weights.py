"""Weights for a wanted participation: against enumeration of small chains, at the limits, and for many clients."""

import numpy as np
import pytest

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import ChainError
from fedsim.theory import exact, stationary
from fedsim.theory.wanted_weights import fitted, weights_for


def system(draws: np.random.Generator, number: int) -> tuple[Floats, int | Ints, int, str]:
    """Return a wanted participation that can be had, separations, a cohort and a law."""
    clients = int(draws.integers(3, 7))
    law = ("midzuno", "successive")[number % 2]
    cohort = int(draws.integers(1, clients // 2 + 1)) if law == "successive" else 1
    if number % 3:
        separation: int | Ints = int(draws.integers(0, clients // cohort))
        share = np.full(clients, 1.0 + separation)
    else:
        separation = draws.integers(0, 2, clients)
        share = 1.0 + separation
    target = draws.dirichlet(np.full(clients, 4.0))
    limit = 0.95 / (cohort * share)
    for _ in range(100):  # towards uniform, until all are within 95 % of the limit
        if (target <= limit).all():
            break
        target = 0.9 * target + 0.1 / clients
    return target, separation, cohort, law


@pytest.mark.parametrize(("first", "count"), [(0, 40), pytest.param(40, 400, marks=pytest.mark.long)])
def test_enumeration_finds_what_was_wanted(first: int, count: int) -> None:
    """Random systems of 3 to 6 clients, more than 310 in all, whose target is within 96 % of the limits: to 1e-9."""
    draws, tried = np.random.default_rng(first), 0
    for number in range(first, first + count):
        target, separation, cohort, law = system(draws, number)
        supply = (1.0 / (1.0 + np.broadcast_to(np.asarray(separation), target.shape))).sum()
        if (target > 0.96 / (cohort * (1.0 + np.asarray(separation)))).any() or cohort > 0.8 * supply:
            continue
        design = weights_for(target, separation, cohort, law)
        if design.cut.any():
            continue
        tried += 1
        pi = exact(design.weights, separation, cohort, law).pi
        np.testing.assert_allclose(pi, target, rtol=1e-9)
    assert tried > 0.65 * count


def test_uniform_weights_are_what_uniform_participation_needs() -> None:
    np.testing.assert_allclose(weights_for(np.ones(30), 4, 3).weights, 1.0, rtol=1e-9)


def test_poisson_and_bernoulli_too() -> None:
    target = np.arange(1.0, 31.0) + 10
    target /= target.sum()
    for law, separation in (("poisson", 3), ("bernoulli", 0)):
        design = weights_for(target, separation, 4, law, means=False)
        np.testing.assert_allclose(stationary(design.weights, separation, 4, law).pi, target, rtol=1e-8)


def test_separations_that_differ_are_made_up_for() -> None:
    separation = np.where(np.arange(400) % 2, 20, 0)
    design = weights_for(np.ones(400), separation, 10, "successive")
    np.testing.assert_allclose(design.shares, 1 / 400, rtol=1e-9)
    assert stationary(np.ones(400), separation, 10, "successive", "mean-field").tv_uniform > 0.1
    assert stationary(design.weights, separation, 10, "successive", "mean-field").tv_uniform < 1e-9


def test_who_cannot_have_it_gets_nearly_the_limit_and_the_others_keep_their_proportions() -> None:
    target = np.array([8.0, 2.0, 1.0, 1.0, 2.0, 2.0, 1.0, 1.0])
    design = weights_for(target, 3)
    assert design.cut.tolist() == [True] + [False] * 7
    assert design.shares[0] == pytest.approx(0.98 / 4, rel=1e-6)
    np.testing.assert_allclose(design.shares[1:] / design.shares[1], target[1:] / 2.0, rtol=1e-6)


def test_who_is_never_there_costs_the_others_nothing() -> None:
    """Two of 20 are never there, and two have half of what they want at most: the others have their proportions.

    Weights that grew without an end for the first two left all others the least weight that is tried.
    """
    target, often = np.linspace(1.0, 2.0, 20) / 30, np.append(np.ones(18), [0.0, 0.0])
    limit = np.append(np.full(2, 0.5), np.full(18, 2.0)) * target

    def expected(weights: Floats) -> Floats:
        share = np.minimum(often * weights / (often @ weights), limit)
        share[2:18] *= (1.0 - share[:2].sum()) / share[2:18].sum()
        return np.maximum(share, 1e-12)

    shares = expected(fitted(expected, target, np.arange(20.0, 0.0, -1.0), steps=60))
    np.testing.assert_allclose(shares[:2], limit[:2], rtol=1e-3)
    np.testing.assert_allclose(shares[2:18] / target[2:18], shares[2] / target[2], rtol=1e-3)


@pytest.mark.parametrize("size", [1e-16, 1e-13])
def test_rounding_does_not_matter(size: float) -> None:
    """Where some cannot have what they want, also their weights are the same whatever the last digits of the shares."""
    target = np.linspace(1.0, 2.0, 20) / 30
    limit = np.append(np.full(2, 0.5), np.full(18, 2.0)) * target

    def noisy(seed: int, size: float) -> Floats:
        draws = np.random.default_rng(seed)

        def expected(weights: Floats) -> Floats:
            share = np.minimum(weights / weights.sum(), limit)
            share[2:] *= (1.0 - share[:2].sum()) / share[2:].sum()
            return np.asarray(share * (1.0 + size * draws.standard_normal(20)))

        return fitted(expected, target, np.arange(20.0, 0.0, -1.0), steps=60)

    for seed in range(20):
        np.testing.assert_allclose(noisy(seed, size), noisy(0, 0.0), rtol=1e-9)


def test_many_clients() -> None:
    target = np.random.default_rng(2).gamma(4.0, size=50_000)
    design = weights_for(target, 50, 100, "successive")
    np.testing.assert_allclose(design.shares, target / target.sum(), rtol=1e-6)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ((np.ones(6), 1, 1, "uniform"), "does not take clients by their weights"),
        ((np.ones(6), 9, 1, "midzuno"), "can wait at most"),
        ((np.ones(6), 5, 1, "midzuno"), "nearly the same shares"),
        ((np.array([1.0, -1.0]), 0, 1, "midzuno"), "must be positive"),
    ],
)
def test_what_cannot_be_answered_is_said(question: tuple[object, ...], words: str) -> None:
    with pytest.raises(ChainError, match=words):
        weights_for(*question)  # type: ignore[arg-type]
