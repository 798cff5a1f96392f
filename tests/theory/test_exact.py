"""The exact method: reachable windows, classes and periods, against the closed form and against brute force."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from fedsim.common.errors import ChainError
from fedsim.theory import closed_form, exact
from fedsim.theory.question import ask
from fedsim.theory.windows import cohorts, enumerate_windows
from tests.theory.reference import shortage_shares, turns


@pytest.mark.parametrize(
    ("clients", "cohort", "separation"),
    [(n, b, r) for n in range(1, 8) for b in (1, 2, 3) if b <= n for r in range(n // b)] + [(30, 1, 2), (10, 2, 2)],
)
def test_equals_the_closed_form_wherever_both_apply(clients: int, cohort: int, separation: int) -> None:
    weights = np.random.default_rng([clients, cohort, separation]).uniform(0.05, 1.0, clients)
    answer = exact(weights, separation, cohort)
    np.testing.assert_allclose(answer.pi, closed_form(weights, separation, cohort).pi, rtol=1e-11)
    assert answer.error_bound is not None
    assert answer.error_bound < 1e-10


def test_keeps_relative_precision_over_twelve_orders_of_magnitude() -> None:
    weights = 10.0 ** np.linspace(-12.0, 0.0, 6)
    for separation in range(5):
        np.testing.assert_allclose(exact(weights, separation).pi, closed_form(weights, separation).pi, rtol=1e-11)


@pytest.mark.parametrize(("clients", "cohort"), [(4, 1), (6, 2), (6, 3), (5, 1)])
def test_taking_turns_is_periodic_and_reducible_and_says_so(clients: int, cohort: int) -> None:
    """R = M - 1 with N = M B: after one pass the order repeats for ever, so it has period M and (M - 1)! B-orders."""
    turns = clients // cohort
    weights = np.random.default_rng(clients).random(clients)
    answer = exact(weights, turns - 1, cohort)
    assert answer.period == turns
    orders = len(set(permutations(np.repeat(np.arange(turns), cohort))))
    assert answer.recurrent_classes == orders // turns
    np.testing.assert_allclose(answer.pi, 1.0 / clients, rtol=1e-12)


@pytest.mark.parametrize(("clients", "cohort", "separation"), [(5, 1, 3), (5, 2, 1), (7, 3, 1), (6, 2, 1), (7, 2, 2)])
def test_shorter_separations_are_irreducible_and_aperiodic(clients: int, cohort: int, separation: int) -> None:
    """R <= M - 2, and R = M - 1 when N is not a multiple of B."""
    answer = exact(np.arange(1.0, clients + 1.0), separation, cohort)
    assert (answer.period, answer.recurrent_classes) == (1, 1)


def test_counts_the_windows() -> None:
    """Recurrent windows are ordered lists of R cohorts; those of fewer cohorts are passed on the way."""
    assert exact(np.arange(1.0, 6.0), 2).states == 1 + 5 + 5 * 4
    assert exact(np.arange(1.0, 8.0), 1, 3).states == 1 + 35


def test_uniform_law_with_different_separations_ignores_the_weights() -> None:
    rounds = [0, 1, 2, 1, 0]
    answer = exact([9.0, 1.0, 5.0, 2.0, 1.0], rounds, 2, "uniform")
    np.testing.assert_allclose(answer.pi, exact(np.ones(5), rounds, 2).pi, rtol=1e-13)
    assert answer.pi[0] == pytest.approx(answer.pi[4])
    assert answer.pi[0] > answer.pi[1] > answer.pi[2]


def test_groups_of_different_separations_are_the_chain_on_groups() -> None:
    weights = np.random.default_rng(8).random(8)
    answer = exact(weights, np.repeat([0, 1, 2, 0], 2), 2, "groups")
    of_groups = exact(weights.reshape(4, 2).sum(axis=1), [0, 1, 2, 0])
    np.testing.assert_allclose(answer.pi, np.repeat(of_groups.pi / 2.0, 2), rtol=1e-13)
    with pytest.raises(ChainError, match=r"group 1 are \[1, 0\]"):
        exact(weights, [0, 0, 1, 0, 0, 0, 0, 0], 2, "groups")


def test_cyclic_is_deterministic_with_the_length_of_its_turn_as_period() -> None:
    answer = exact(np.ones(6), 1, 2, "cyclic")
    assert (answer.period, answer.states, answer.l1_uniform) == (3, 3, 0.0)
    assert exact(np.ones(5), 0, 2, "cyclic").period == 5


def test_a_chain_that_can_stall_is_refused_naming_who_waits() -> None:
    """Two of three clients wait three rounds: both may be away when two are wanted."""
    with pytest.raises(
        ChainError, match=r"stalls: .* 1 of 4 clients are ready and a cohort takes 2.*client 1 for 1, client 2 for 1"
    ):
        exact(np.ones(4), [0, 2, 1, 1], 2)
    assert exact(np.ones(4), [0, 2, 1, 1], 2, "bernoulli").pi.sum() == pytest.approx(1.0)


@pytest.mark.long
def test_too_many_states_are_refused_with_their_number_and_what_to_use() -> None:
    with pytest.raises(ChainError, match=r"9\.0345e\+09 states or more, and 100000 is the limit.*'mean-field'"):
        exact(np.ones(100), 5)
    with pytest.raises(ChainError, match="7 states or more, and 6 is the limit"):
        exact(np.ones(6), [1, 1, 1, 1, 1, 2], limit=6)
    with pytest.raises(ChainError, match="transitions or more"):
        exact(np.ones(60), [1] * 59 + [0], 30)
    with pytest.raises(ChainError, match=r"10\^3130 transitions or more"):
        exact(np.ones(1_000_000), np.arange(1_000_000) % 7, 900)
    with pytest.raises(ChainError, match=r"9\.99994e\+23 states or more"):
        exact(np.ones(1_000_000), 900_000)
    with pytest.raises(ChainError, match=r"2\^20 cohorts"):
        exact(np.ones(20), 0, 2, "bernoulli")
    with pytest.raises(ChainError, match="cohort of 13"):
        exact(np.ones(14), 0, 13, "successive")


def test_long_waits_are_counted_in_full() -> None:
    """One client waits 400 rounds, two take turns or not meanwhile: it is drawn after 400 + 3 rounds on average."""
    answer = exact([1.0, 1.0, 1.0], [400, 0, 0])
    assert answer.states == 401
    np.testing.assert_allclose(answer.pi, [1.0 / 403.0, 201.0 / 403.0, 201.0 / 403.0], rtol=1e-12)


@pytest.mark.long
def test_tens_of_thousands_of_windows_are_counted() -> None:
    windows = enumerate_windows(ask(np.ones(3), [40_000, 0, 0]))
    assert (windows.count, windows.waits.max()) == (40_001, 40_000)


def test_cohorts_too_unlikely_for_a_double_are_left_out() -> None:
    weights = np.array([1.0, 1e-290, 1e-295, 1.0])
    members, chances = cohorts("successive", weights, 2)
    assert (chances > 0.0).all()
    assert len(members) < 6
    assert exact(weights, [0, 1, 0, 0], 2, "successive").pi[[0, 3]].tolist() == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(("first", "count"), [(0, 40), pytest.param(40, 260, marks=pytest.mark.long)])
def test_too_few_ready_clients_are_all_taken_as_enumeration_says(first: int, count: int) -> None:
    """Random systems of 2 to 6 clients who supply less than the cohort, or little more: shares and pulls to 1e-9.

    A few end in one of several classes, by chance, and are refused.
    """
    checked = short = settled = 0
    for seed in range(first, first + count):
        rng = np.random.default_rng(seed)
        clients = int(rng.integers(2, 7))
        separations = rng.integers(0, 4 if clients < 5 else 3, clients)
        size, weights = int(rng.integers(1, clients + 1)), 10.0 ** rng.uniform(-1.0, 1.0, clients)
        weights /= weights.sum()
        shares, pulls = shortage_shares(weights, separations.tolist(), size)
        try:
            answer = exact(weights, separations, size, "bernoulli")
        except ChainError as error:
            if "recurrent classes" not in str(error):
                raise
            continue
        assert answer.pull is not None
        np.testing.assert_allclose(answer.pi, shares, atol=1e-9)
        np.testing.assert_allclose(answer.pull, pulls, atol=1e-9)
        checked += 1
        most = 1.0 / (1.0 + separations)
        short += most.sum() < size
        settled += most.sum() < size and bool(np.allclose(answer.pi, most / most.sum(), rtol=1e-9))
    assert checked >= 0.95 * count
    assert short > count / 3
    assert 0.7 * short < settled < short


def test_turns_are_answered_where_nobody_is_skipped() -> None:
    """300 random systems of 2 to 7 clients in turn: 1/N up to floor(N/B) - 1 rounds of waiting, beyond it refused.

    Beyond it 1/N would be wrong: shares differ, or rounds lack clients.
    """
    rng = np.random.default_rng(6)
    refused = unequal = 0
    for _ in range(300):
        clients = int(rng.integers(2, 8))
        cohort = int(rng.integers(1, clients + 1))
        most = clients // cohort - 1
        separations = rng.integers(0, most + 2, clients)
        followed = turns(clients, cohort, separations.tolist())
        if separations.max() <= most:
            np.testing.assert_array_equal(exact(np.ones(clients), separations, cohort, "cyclic").pi, 1 / clients)
            assert followed == [Fraction(1, clients)] * clients
            continue
        with pytest.raises(ChainError, match=r"can wait at most|in turn, in cohorts of"):
            exact(np.ones(clients), separations, cohort, "cyclic")
        refused += 1
        unequal += followed != [Fraction(1, clients)] * clients
    assert refused > 50
    assert unequal > refused / 2
