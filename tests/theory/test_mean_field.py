"""The mean field against the closed form, the exact law and Monte Carlo; and its own estimate of its error."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.common.errors import ChainError
from fedsim.theory import closed_form, exact, mean_field, monte_carlo

LAWS = ["midzuno", "successive", "bernoulli", "uniform"]


def _worst(shares: np.ndarray[tuple[int], np.dtype[np.float64]], truth: object) -> float:
    return float(np.abs(shares / np.asarray(truth) - 1.0).max())


@settings(deadline=None, max_examples=60)
@given(
    exponents=st.lists(st.floats(-12.0, 0.0), min_size=1, max_size=30),
    cohort=st.integers(1, 6),
    law=st.sampled_from(LAWS),
    data=st.data(),
)
def test_always_converges_when_the_demand_can_be_met(
    exponents: list[float], cohort: int, law: str, data: st.DataObject
) -> None:
    rounds = data.draw(st.lists(st.integers(0, 20), min_size=len(exponents), max_size=len(exponents)))
    supply = sum(1.0 / (1.0 + r) for r in rounds)
    if cohort > len(rounds) or (cohort > supply and law != "bernoulli"):
        with pytest.raises(ChainError):
            mean_field(10.0 ** np.array(exponents), rounds, cohort, law)
        return
    answer = mean_field(10.0 ** np.array(exponents), rounds, cohort, law)
    assert answer.pi.sum() == pytest.approx(1.0, abs=1e-12)
    assert (answer.pi >= 0.0).all()
    assert (answer.pi * min(cohort, supply) * (1.0 + np.array(rounds)) <= 1.0 + 1e-9).all()
    assert answer.error_bound is not None
    assert 0.0 <= answer.error_bound <= 1.0


def test_demand_above_supply_names_the_largest_feasible_cohort() -> None:
    with pytest.raises(ChainError, match=r"at most 4\.16667 participations a round.*lower the cohort to 4"):
        mean_field(np.ones(10), [1] * 5 + [2] * 5, 5)


@pytest.mark.parametrize("law", LAWS)
def test_without_separation_and_cohort_one_it_is_exact(law: str) -> None:
    weights = np.random.default_rng(1).random(8)
    expected = np.full(8, 0.125) if law == "uniform" else weights / weights.sum()
    answer = mean_field(weights, 0, 1, law)
    np.testing.assert_allclose(answer.pi, expected, rtol=1e-10)
    assert answer.error_bound == 0.0


@pytest.mark.parametrize("law", ["midzuno", "bernoulli"])
def test_without_separation_larger_cohorts_are_exact_too(law: str) -> None:
    weights = np.random.default_rng(2).random(9)
    np.testing.assert_allclose(mean_field(weights, 0, 4, law).pi, exact(weights, 0, 4, law).pi, rtol=1e-9)


def test_everyone_at_their_limit_takes_part_as_often_as_they_may() -> None:
    answer = mean_field([5.0, 1.0, 1.0], [1, 3, 3])
    np.testing.assert_allclose(answer.pi, [0.5, 0.25, 0.25])
    assert answer.error_bound == 0.0
    assert mean_field(np.ones(6), 1, 2, "cyclic").error_bound == 0.0


@pytest.mark.parametrize(("separation", "cohort"), [(5, 1), (60, 1), (8, 10), (30, 10)])
def test_approaches_the_closed_form_as_one_over_the_population(separation: int, cohort: int) -> None:
    """Ten times the clients, with cohorts (or separations) to match: about a tenth of the error."""
    errors = []
    for scale in (1, 10):
        weights = np.repeat(np.random.default_rng(3).uniform(0.2, 1.0, 400), scale)
        rounds, size = (separation * scale, 1) if cohort == 1 else (separation, cohort * scale)
        answer, truth = mean_field(weights, rounds, size), closed_form(weights, rounds, size)
        errors.append(_worst(answer.pi, truth.pi))
        assert answer.error_bound is not None
        assert errors[-1] < answer.error_bound
    assert errors[1] < 0.2 * errors[0] or errors[1] < 1e-6


@pytest.mark.long
@pytest.mark.parametrize("law", LAWS)
def test_error_estimate_covers_the_exact_error_in_most_small_systems(law: str) -> None:
    """Systems of 4 to 8 clients, where the mean field is at its worst: at least 90 % within the estimate."""
    rng = np.random.default_rng(11)
    within = total = 0
    while total < 40:
        clients, cohort = int(rng.integers(4, 9)), int(rng.integers(1, 3))
        weights = rng.uniform(0.05, 1.0, clients)
        rounds = rng.integers(0, clients // cohort // 2 + 1, clients)
        try:
            truth = exact(weights, rounds, cohort, law, limit=20_000)
        except ChainError:
            continue
        answer = mean_field(weights, rounds, cohort, law)
        total += 1
        within += _worst(answer.pi, truth.pi) <= (answer.error_bound or 0.0) + 1e-9
    assert within >= 0.9 * total


@pytest.mark.long
@pytest.mark.parametrize("law", LAWS)
def test_agrees_with_monte_carlo_at_a_hundred_clients(law: str) -> None:
    """Within its estimate and 5 standard errors; by chance alone once in 10^4 runs over the four laws."""
    rng = np.random.default_rng(5)
    weights = rng.uniform(0.2, 1.0, 100)
    rounds = rng.integers(0, 12, 100)
    answer, sampled = mean_field(weights, rounds, 4, law), monte_carlo(weights, rounds, 4, law, seed=3, rounds=4_000)
    assert answer.error_bound is not None
    assert sampled.standard_error is not None
    gap = np.abs(answer.pi - sampled.pi)
    assert (gap <= answer.error_bound * answer.pi + 5.0 * sampled.standard_error).all()
