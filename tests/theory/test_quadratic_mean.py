"""The mean model of FedAvg on quadratics: by hand, by brute force, and against simulation."""

import numpy as np
import pytest

from fedsim.common.errors import ChainError
from fedsim.theory import mean_model, stationary
from fedsim.theory.monte_carlo import rounds_of
from fedsim.theory.question import ask
from tests.theory.reference import mean_of_model, moves_of, summed_covariance

WEIGHTS = np.array([4.0, 3.0, 2.0, 1.0])
OPTIMA = np.arange(4.0)[:, None]


def test_independent_rounds_rest_where_the_weighted_pulls_cancel() -> None:
    pulls = np.array([[0.1], [0.4], [0.2], [0.3]])
    pulled = stationary(WEIGHTS, 0).pi[:, None] * pulls
    expected = (pulled * OPTIMA).sum() / pulled.sum()
    assert mean_model(pulls, OPTIMA, WEIGHTS, 0) == pytest.approx(expected, rel=1e-12)


def test_it_is_that_of_brute_force() -> None:
    """300 random systems of 3 to 6 clients, in which no round stalls, to 1e-9."""
    rng = np.random.default_rng(39)
    for _ in range(300):
        clients = int(rng.integers(3, 7))
        cohort = int(rng.integers(1, 3)) if clients > 4 else 1
        longest = min(3, (clients - 1 - (cohort > 1)) // cohort)
        separations = (
            rng.integers(0, longest, clients) if rng.random() < 0.5 else np.full(clients, rng.integers(longest))
        )
        law, weights = ("midzuno", "successive")[int(rng.integers(2))], 10.0 ** rng.uniform(-1.0, 1.0, clients)
        pulls, optima = rng.uniform(0.01, 1.5, (clients, 1)), rng.normal(size=(clients, 1))
        moves, _, law_of = moves_of(weights, separations.tolist(), cohort, law)
        expected = mean_of_model(moves, law_of, pulls[:, 0], optima[:, 0])
        model = mean_model(pulls, optima, weights, separations, cohort, law)
        assert model[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("many", [25, pytest.param(300, marks=pytest.mark.long)])
def test_to_second_order_it_is_a_matter_of_the_covariance_of_counts(many: int) -> None:
    """Theorem 12 of docs/theory, random systems of 3 to 6 clients: twice what short pulls give, less longer ones."""
    rng, apart = np.random.default_rng(40), []
    for _ in range(many):
        clients = int(rng.integers(3, 7))
        cohort = int(rng.integers(1, 3)) if clients > 4 else 1
        separation = int(rng.integers((clients - 1) // cohort))
        weights = 10.0 ** rng.uniform(-1.0, 1.0, clients)
        moves, _, law_of = moves_of(weights, [separation] * clients, cohort, "midzuno")
        pi, covariance = summed_covariance(weights, [separation] * clients, cohort, "midzuno")
        one_round = -np.outer(pi, pi)
        for source, _, chance, chosen in moves:
            one_round[np.ix_(chosen, chosen)] += law_of[source] * chance / cohort**2
        pulls, optima = rng.uniform(0.2, 1.5, clients), rng.normal(size=clients)
        away = optima - (first := pi * pulls @ optima / (pi @ pulls))
        expected = pulls @ (one_round - covariance) @ (pulls * away) / (2.0 * pi @ pulls)
        short, longer = ((mean_of_model(moves, law_of, size * pulls, optima) - first) / size for size in (5e-4, 1e-3))
        apart.append(abs(2.0 * short - longer - expected))
    assert max(apart) < 1e-4
    assert np.median(apart) < 1e-7


def test_a_simulation_rests_there_and_not_where_first_order_says() -> None:
    """5 local steps of size 0.2 and 0.6: 4,000 replicas of 100 rounds after 100, 5 standard errors."""
    pulls = 1.0 - (1.0 - np.array([[0.2], [0.2], [0.6], [0.6]])) ** 5
    mean = mean_model(pulls, OPTIMA, WEIGHTS, 2)[0]
    model, means = np.zeros(4_000), np.zeros(4_000)
    for now, played in zip(range(200), rounds_of(ask(WEIGHTS, 2), range(4_000), 7), strict=False):
        model += played.chosen @ (pulls * OPTIMA)[:, 0] - (played.chosen @ pulls[:, 0]) * model
        means += model * (now >= 100) / 100
    error = means.std() / np.sqrt(4_000)
    assert abs(means.mean() - mean) < 5.0 * error
    pulled = stationary(WEIGHTS, 2).pi[:, None] * pulls
    assert abs((pulled * OPTIMA).sum() / pulled.sum() - mean) > 15.0 * error


@pytest.mark.parametrize(
    ("pulls", "separation", "law", "words"),
    [
        (np.ones((3, 1)), 1, "midzuno", "must both be"),
        (np.full((4, 1), 2.0), 1, "midzuno", "between 0 and 2"),
        (np.ones((4, 1)), 3, "midzuno", "6 recurrent classes"),
        (np.ones((4, 1)), 1, "groups", "one by one"),
    ],
)
def test_what_has_no_answer_is_refused(pulls: np.ndarray, separation: int, law: str, words: str) -> None:
    with pytest.raises(ChainError, match=words):
        mean_model(pulls, OPTIMA, WEIGHTS, separation, law=law)
