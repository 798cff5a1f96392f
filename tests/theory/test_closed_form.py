"""The closed form against brute force, rational arithmetic, and the paper's setting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsim.common.errors import ChainError
from fedsim.theory import closed_form, distances, exact
from fedsim.theory.question import normalised

from .recurrences import distances_by_recurrence
from .reference import conditional_poisson, largest_relative_error, midzuno_windows, participation

TWENTY_GROUPS = np.arange(1.0, 21.0) ** -1.5
REFERENCE_L1 = {0: 1.139611, 1: 1.001403, 4: 0.715145, 8: 0.458147, 12: 0.262346, 16: 0.103121, 18: 0.033107, 19: 0.0}
SMALL = [(n, b, r) for n in range(1, 9) for b in (1, 2, 3) if b <= n for r in range(n // b)]


@pytest.mark.parametrize(("clients", "cohort", "separation"), SMALL)
def test_equals_the_stationary_vector_found_by_brute_force(clients: int, cohort: int, separation: int) -> None:
    """Every N <= 8, B <= 3 and R, at random weights, agrees with power iteration over windows to 1e-12."""
    weights = np.random.default_rng([clients, cohort, separation]).uniform(0.1, 1.0, clients)
    answer = closed_form(weights, separation, cohort)
    np.testing.assert_allclose(answer.pi, midzuno_windows(weights, cohort, separation), rtol=0.0, atol=1e-12)


def _hard_inputs() -> list[tuple[str, NDArray[np.float64]]]:
    rng = np.random.default_rng(20241001)
    return [
        ("twelve orders of magnitude", 10.0 ** np.linspace(-12.0, 0.0, 25)),
        ("twelve orders, shuffled at random", 10.0 ** rng.uniform(-12.0, 0.0, 24)),
        ("forty orders of magnitude", 10.0 ** rng.uniform(-40.0, 0.0, 12)),
        ("one client holds almost all", np.r_[1e12, rng.random(19)]),
        ("one client holds almost nothing", np.r_[1e-12, rng.random(19)]),
        ("two clusters", np.r_[np.full(6, 1.0), np.full(14, 1e-9)]),
        ("almost equal", 1.0 + 1e-9 * rng.random(20)),
        ("all equal", np.full(18, 0.3)),
        ("two clients", np.array([1.0, 1e-12])),
    ]


@pytest.mark.long
@pytest.mark.parametrize(("weights"), [pytest.param(w, id=name) for name, w in _hard_inputs()])
@pytest.mark.parametrize("cohort", [1, 2, 3])
def test_relative_error_of_every_client_is_below_1e_10_on_hard_inputs(
    weights: NDArray[np.float64], cohort: int
) -> None:
    """Each R, R = M - 2 and N - n = 1 among them, against rational arithmetic; the bound covers the error."""
    weights = normalised(weights)
    count = weights.size
    if cohort > count:
        return
    for separation in range(count // cohort):
        n = separation + 1
        reference = participation(conditional_poisson(weights.tolist(), n), count, cohort, n)
        answer = closed_form(weights, separation, cohort)
        error = largest_relative_error(answer.pi, reference)
        assert error < 1e-10
        assert answer.error_bound is not None
        assert error <= answer.error_bound + 4e-16


@settings(deadline=None, max_examples=100)
@given(exponents=st.lists(st.floats(-12.0, 0.0), min_size=2, max_size=14), data=st.data())
def test_relative_error_is_below_1e_10_wherever_hypothesis_looks(exponents: list[float], data: st.DataObject) -> None:
    weights = normalised(10.0 ** np.array(exponents))
    n = data.draw(st.integers(1, weights.size))
    reference = participation(conditional_poisson(weights.tolist(), n), weights.size, 1, n)
    assert largest_relative_error(closed_form(weights, n - 1).pi, reference) < 1e-10


@pytest.mark.parametrize(("separation", "distance"), REFERENCE_L1.items())
def test_groups_give_the_reference_distances(separation: int, distance: float) -> None:
    """M = 20 groups of 5, p_g proportional to g^-1.5."""
    weights = np.repeat(TWENTY_GROUPS, 5)
    answer = closed_form(weights, separation, 5, "groups")
    assert answer.l1_uniform == pytest.approx(distance, abs=1e-6)
    assert answer.tv_uniform == answer.l1_uniform / 2.0
    assert distances(weights, [separation], 5, "groups")[0] == pytest.approx(distance, abs=1e-6)


def test_groups_are_the_chain_on_groups_shared_equally_inside() -> None:
    weights = np.random.default_rng(3).random(12)
    shares = closed_form(weights, 2, 3, "groups").pi.reshape(4, 3)
    of_groups = closed_form(weights.reshape(4, 3).sum(axis=1), 2).pi
    np.testing.assert_allclose(shares, np.repeat(of_groups[:, None] / 3.0, 3, axis=1), rtol=1e-14)


def test_the_largest_separation_gives_exactly_uniform() -> None:
    weights = np.random.default_rng(2).random(12)
    for cohort in (1, 2, 3, 4):
        assert closed_form(weights, 12 // cohort - 1, cohort).l1_uniform == 0.0


def test_equal_weights_and_the_uniform_laws_give_exactly_uniform() -> None:
    for law in ("midzuno", "groups", "uniform", "cyclic"):
        assert (closed_form(np.full(12, 7.0), 1, 3, law).pi == 1.0 / 12.0).all()
    weights = np.arange(1.0, 13.0)
    for law in ("uniform", "cyclic"):
        answer = closed_form(weights, 2, 3, law)
        assert (answer.pi == 1.0 / 12.0).all()
        assert answer.error_bound == 0.0


def test_successive_draws_of_one_client_are_the_same_law_as_midzuno() -> None:
    weights = np.random.default_rng(4).random(9)
    np.testing.assert_array_equal(closed_form(weights, 3, 1, "successive").pi, closed_form(weights, 3).pi)


def test_only_ratios_of_weights_matter() -> None:
    weights = np.random.default_rng(5).random(50)
    np.testing.assert_allclose(closed_form(weights * 1e200, 7).pi, closed_form(weights, 7).pi, rtol=1e-13)


@pytest.mark.parametrize(("clients", "cohort", "law"), [(300, 1, "midzuno"), (300, 7, "midzuno"), (60, 3, "groups")])
def test_distances_are_those_of_recurrences_over_sample_sizes(clients: int, cohort: int, law: str) -> None:
    """The recurrence and the inverted characteristic function are independent."""
    rng = np.random.default_rng(clients)
    for weights in (rng.random(clients), 10.0 ** rng.uniform(-12.0, 0.0, clients)):
        l1 = distances(weights, range(clients // cohort), cohort, law)
        np.testing.assert_allclose(distances_by_recurrence(weights, cohort, law), l1, rtol=1e-11, atol=1e-14)


def test_distances_hold_at_weights_near_the_smallest_allowed() -> None:
    weights = np.r_[1.0, np.full(4, 1e-280), 1e-290, 1e-150]
    by_recurrence = distances_by_recurrence(weights, 1, "midzuno")
    np.testing.assert_allclose(by_recurrence, distances(weights, range(7)), rtol=1e-12, atol=1e-15)


def test_distances_are_of_the_separations_asked_for() -> None:
    weights = np.random.default_rng(6).random(5_000)
    few = [4000, 3, 3]
    alone = [closed_form(weights, rounds).l1_uniform for rounds in few]
    np.testing.assert_array_equal(distances(weights, few), alone)
    assert distances(weights, []).size == 0
    assert (distances(weights, [2, 1], law="uniform") == 0.0).all()


@settings(deadline=None)
@given(exponents=st.lists(st.floats(-6.0, 0.0), min_size=2, max_size=40), cohort=st.integers(1, 4))
def test_distance_falls_as_the_separation_grows(exponents: list[float], cohort: int) -> None:
    cohort = min(cohort, len(exponents))
    l1 = distances(10.0 ** np.array(exponents), range(len(exponents) // cohort), cohort)
    assert (np.diff(l1) <= 1e-13).all()


def test_a_million_clients_keep_their_probabilities() -> None:
    weights = np.random.default_rng(7).pareto(1.2, 1_000_000) + 1.0
    for separation in (0, 50, 900_000, 999_998):
        answer = closed_form(weights, separation)
        assert answer.pi.sum() == pytest.approx(1.0, abs=1e-12)
        assert answer.error_bound is not None
        assert answer.error_bound < 1e-10
        assert answer.pi.max() <= (1.0 + 1e-12) / (separation + 1)


@pytest.mark.parametrize(
    ("law", "cohort", "separation", "words"),
    [
        ("successive", 2, 1, "no closed form"),
        ("bernoulli", 1, 1, "no closed form"),
        ("midzuno", 1, [0, 1, 2, 0], "one common separation"),
    ],
)
def test_questions_without_a_closed_form_name_the_methods_that_answer(
    law: str, cohort: int, separation: int | list[int], words: str
) -> None:
    with pytest.raises(ChainError, match=words) as raised:
        closed_form([1.0, 2.0, 3.0, 4.0], separation, cohort, law)
    assert "exact" in str(raised.value)


def test_the_papers_worked_example() -> None:
    """N = 3, B = 1, R = 1, p = 1/4, 1/4, 1/2: pi = 0.3, 0.3, 0.4, also by enumeration (arXiv:2410.01209, appendix)."""
    weights = [0.25, 0.25, 0.5]
    np.testing.assert_allclose(closed_form(weights, 1).pi, [0.3, 0.3, 0.4], rtol=1e-14)
    np.testing.assert_allclose(exact(weights, 1).pi, [0.3, 0.3, 0.4], rtol=1e-14)


@given(clients=st.integers(4, 30), scale=st.floats(0.0, 0.5), seed=st.integers(0, 2**32))
def test_nearly_equal_weights_end_within_one_over_n(clients: int, scale: float, seed: int) -> None:
    """Theorem 2's neighbourhood: with deltas of at most half the mean weight, L1 falls with R and ends within 1/N."""
    weights = 1.0 + scale * np.random.default_rng(seed).uniform(-1.0, 1.0, clients)
    l1 = distances(weights, range(clients))
    assert (np.diff(l1) <= 1e-12).all()
    assert l1[-2] <= 1.0 / clients
    assert l1[-1] <= 1e-12
