from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsim.theory import stationary
from fedsim.theory.closed_form import closed_form
from fedsim.theory.exact import exact
from fedsim.theory.mean_field import mean_field
from fedsim.theory.monte_carlo import monte_carlo
from fedsim.theory.pull import independent_pulls


def by_enumeration(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """E[1{i in S}/|S|] of independent clients over all 2^N cohorts."""
    pulls = np.zeros(len(chances))
    for members in product([0.0, 1.0], repeat=len(chances)):
        cohort = np.array(members)
        pulls += np.where(cohort > 0, chances, 1 - chances).prod() * cohort / max(cohort.sum(), 1)
    return np.asarray(pulls / pulls.sum())


@pytest.mark.parametrize("clients", [1, 2, 5, 10])
def test_independent_clients_pull_as_enumeration_says(clients: int) -> None:
    chances = np.random.default_rng(clients).uniform(0, 1, clients)
    chances[0] = 1.0  # one is certain
    np.testing.assert_allclose(independent_pulls(chances, chances), by_enumeration(chances), rtol=1e-12)


def test_cohorts_of_one_size_have_the_pull_of_the_shares() -> None:
    """Each of 12 clients has a place of its own a third of the time: four others are there for certain."""
    taken = np.random.default_rng(0).dirichlet(np.ones(12)) * 4
    np.testing.assert_allclose(independent_pulls(taken, np.ones(12)), taken / 4, rtol=1e-6)


@pytest.mark.parametrize("separation", [0, [0, 1, 2, 3, 1, 0, 2, 4]])
def test_poisson_cohorts_have_an_exact_pull(separation: int | list[int]) -> None:
    """Clients are independent renewals, so that a round's cohort is one of independent clients."""
    weights = np.arange(1.0, 9.0) ** -1.5
    answer = closed_form(weights, separation, 3, "poisson")
    q = np.minimum(1.0, 3 * weights / weights.sum())
    assert answer.pull is not None
    np.testing.assert_allclose(answer.pull, by_enumeration(1 / (np.asarray(separation) + 1 / q)), rtol=1e-12)


@pytest.mark.parametrize(("clients", "size", "separation"), [(8, 2, 1), (7, 2, 2), (9, 3, 1)])
def test_bernoulli_pulls_agree(clients: int, size: int, separation: int) -> None:
    """Exact by the chain; Monte Carlo within its noise; the mean field nearer than the shares are."""
    weights = np.random.default_rng(clients).lognormal(0, 1, clients)
    enumerated, estimated = (
        exact(weights, separation, size, "bernoulli"),
        mean_field(weights, separation, size, "bernoulli"),
    )
    assert enumerated.pull is not None
    assert estimated.pull is not None
    drawn = monte_carlo(weights, separation, size, "bernoulli", replicas=16, rounds=4000).pull
    assert drawn is not None
    assert np.abs(drawn - enumerated.pull).sum() < 0.01
    apart = np.abs(enumerated.pull - enumerated.pi).sum()
    assert np.abs(estimated.pull - enumerated.pull).sum() < apart
    assert apart > 0.05


def test_bernoulli_without_separation_is_one_of_independent_clients() -> None:
    weights = np.arange(1.0, 11.0) ** -1.0
    answer = exact(weights, 0, 3, "bernoulli")
    pull = mean_field(weights, 0, 3, "bernoulli").pull
    assert answer.pull is not None
    assert pull is not None
    np.testing.assert_allclose(pull, answer.pull, rtol=1e-12)


def test_other_laws_pull_by_their_shares() -> None:
    assert stationary([3.0, 2.0, 1.0, 1.0], 1, 2).pull is None


@pytest.mark.parametrize(
    ("rounds", "size", "several"),
    [([5] * 4, 2, True), ([1, 2, 4, 6], 2, False), ([1, 1, 3, 3, 5, 5], 4, True), ([2] * 4, 3, True)],
)
def test_bernoulli_takes_all_that_are_ready_where_these_are_too_few(
    rounds: list[int], size: int, several: bool
) -> None:
    """Against 2,000 replicas of 240 rounds: 0.002 of pi, half a participation, and 0.01 of pull, 4 standard errors."""
    weights = np.random.default_rng(4).uniform(0.3, 1.0, len(rounds))
    answer = exact(weights, rounds, size, "bernoulli")
    drawn = monte_carlo(weights, rounds, size, "bernoulli", replicas=2_000, rounds=240, burn_in=240)
    assert answer.recurrent_classes is not None
    assert (answer.recurrent_classes > 1) == several
    assert answer.pull is not None
    assert drawn.pull is not None
    np.testing.assert_allclose(answer.pi, drawn.pi, atol=0.002)
    np.testing.assert_allclose(answer.pull, drawn.pull, atol=0.01)
    if several:  # all found a time of their own, and take part as often as they may
        most = 1.0 / (1.0 + np.array(rounds))
        np.testing.assert_allclose(answer.pi, most / most.sum(), rtol=1e-9)
