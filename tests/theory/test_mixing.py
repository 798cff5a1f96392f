"""Mixing time and spectral gap, against matrix powers and chains that can be solved by hand."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsim.common.errors import ChainError
from fedsim.theory import mixing
from fedsim.theory.exact import recurrent_classes, stationary_vector
from fedsim.theory.question import ask
from fedsim.theory.windows import enumerate_windows


def _distances(weights: NDArray[np.float64], separation: int, rounds: int) -> list[float]:
    """Worst TV distance of the state after t rounds, by multiplying one matrix at a time."""
    matrix = enumerate_windows(ask(weights, separation)).matrix()
    (states,) = recurrent_classes(matrix)
    dense = matrix[states][:, states].toarray()
    distribution = np.full(len(states), 1.0 / len(states))
    for _ in range(5_000):
        distribution = distribution @ dense
    power, worst = np.eye(len(states)), []
    for _ in range(rounds):
        worst.append(float(np.abs(power - distribution).sum(axis=1).max()) / 2.0)
        power = power @ dense
    return worst


@pytest.mark.long
@pytest.mark.parametrize(("clients", "separation"), [(4, 1), (5, 2), (5, 3), (6, 3)])
@pytest.mark.parametrize("level", [0.25, 0.01])
def test_mixing_time_is_the_first_below_the_level(clients: int, separation: int, level: float) -> None:
    weights = np.random.default_rng(clients).uniform(0.2, 1.0, clients)
    answer = mixing(weights, separation, level=level)
    worst = np.array(_distances(weights, separation, 400))
    assert answer.mixing_time == int(np.argmax(worst <= level))


def test_spectral_gap_by_hand() -> None:
    """R = 1 and equal weights walk on the complete graph: eigenvalues 1 and -1 / (N - 1)."""
    assert mixing(np.ones(6), 1).spectral_gap == pytest.approx(0.8)
    assert mixing(np.ones(6), 0).spectral_gap == 1.0
    assert mixing(np.ones(6), 0).mixing_time == 1


@pytest.mark.long
def test_longer_separations_mix_more_slowly() -> None:
    gaps = [mixing(np.ones(6), rounds).spectral_gap for rounds in (1, 2, 3, 4)]
    assert (np.diff(gaps) < 0.0).all()


def test_a_periodic_chain_never_mixes() -> None:
    answer = mixing(np.arange(1.0, 6.0), 4)
    assert (answer.mixing_time, answer.spectral_gap, answer.period, answer.recurrent_classes) == (None, 0.0, 5, 24)


@pytest.mark.parametrize(
    ("separation", "law", "level", "words"),
    [
        (1, "midzuno", 0.0, "level is 0.0"),
        (1, "cyclic", 0.25, "does not mix"),
        (4, "midzuno", 0.25, "up to 1,500 recurrent states: leave mixing out"),
    ],
)
def test_questions_without_an_answer_are_refused(separation: int, law: str, level: float, words: str) -> None:
    with pytest.raises(ChainError, match=words):
        mixing(np.ones(10), separation, law=law, level=level)


@pytest.mark.long
def test_a_chain_too_slow_to_iterate_is_eliminated_or_refused() -> None:
    """Two halves joined by a thread of probability 1e-9."""
    from scipy import sparse

    def halves(count: int) -> "sparse.csr_array[np.float64, tuple[int, int]]":
        up = np.full(count - 1, 0.5)
        up[count // 2 - 1] = 1e-9
        down = np.full(count - 1, 0.5)
        down[count // 2 - 1] = 3e-9
        stay = 1.0 - np.r_[up, 0.0] - np.r_[0.0, down]
        return sparse.diags_array([down, stay, up], offsets=[-1, 0, 1]).tocsr()

    distribution = stationary_vector(halves(700))[0]
    np.testing.assert_allclose(distribution, np.repeat([0.75, 0.25], 350) / 350.0, rtol=1e-6)
    with pytest.raises(ChainError, match="mixes too slowly"):
        stationary_vector(halves(3_002))
