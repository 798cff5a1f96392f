import numpy as np
import pytest

from fedsim.learning import Cohort, LearningError
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg

from ..cases import drawn_cohorts


def test_a_client_twice_in_a_cohort_counts_twice() -> None:
    """Counting adds repeated clients up."""
    optimizer = DebiasedFedAvg()
    state, scales = optimizer.prepare(optimizer.init(4, 1), Cohort(0, np.array([1, 1, 2])))
    assert state.of_client.tolist() == [0, 2, 1, 0]
    np.testing.assert_allclose(scales, [3 / 8, 3 / 8, 3 / 4])


def test_a_clip_bounds_the_weights_and_nothing_else() -> None:
    """nu_i <- min(nu_i, clip), in every round; off by default."""
    clipped, free = DebiasedFedAvg(clip=1.5), DebiasedFedAvg()
    states = clipped.init(6, 1), free.init(6, 1)
    largest = 0.0
    for t, cohort in enumerate(drawn_cohorts(40, 6, 2)):
        _, bounded = clipped.prepare(states[0], Cohort(t, np.array(cohort)))
        _, scales = free.prepare(states[1], Cohort(t, np.array(cohort)))
        np.testing.assert_array_equal(bounded, np.minimum(scales, 1.5))
        largest = max(largest, scales.max())
    assert largest > 3.0


def scales_of(optimizer: DebiasedFedAvg, cohorts: list[list[int]], clients: int) -> list[list[float]]:
    """Return the nu_i of each cohort."""
    state, scales = optimizer.init(clients, 1), []
    for t, cohort in enumerate(cohorts):
        state, nu = optimizer.prepare(state, Cohort(t, np.array(cohort)))
        scales.append(nu.tolist())
    return scales


def test_in_the_warm_up_everyone_counts_alike_and_is_counted() -> None:
    cohorts = [[0, 1], [0, 1], [0, 2], [2, 3]]
    plain, warm = (scales_of(DebiasedFedAvg(warm_up=rounds), cohorts, 4) for rounds in (0, 3))
    assert warm[:3] == [[1.0, 1.0]] * 3
    assert warm[3] == plain[3] == [8 / (4 * 2), 8 / (4 * 1)]


def test_a_prior_counts_in_advance() -> None:
    """lambda_i = (c N b_i + t_i) / (c N + sum_j t_j), written out; the prior fades as participations come in."""
    cohorts = [[0, 1], [0, 2]]
    uniform = scales_of(DebiasedFedAvg(prior=3.0), cohorts, 4)
    np.testing.assert_allclose(uniform, [[14 / (4 * 4)] * 2, [16 / (4 * 5), 16 / (4 * 4)]])
    pi = np.array([0.4, 0.3, 0.2, 0.1])
    theory = scales_of(DebiasedFedAvg(prior=3.0, prior_from="theory", pi=pi), cohorts, 4)
    np.testing.assert_allclose(theory[1], [16 / (4 * (4.8 + 2)), 16 / (4 * (2.4 + 1))])
    plain, late = (scales_of(DebiasedFedAvg(prior=prior), [[0, 1]] * 3000, 4)[-1] for prior in (0.0, 3.0))
    np.testing.assert_allclose(late, plain, rtol=2e-3)


def test_a_prior_from_theory_needs_one() -> None:
    with pytest.raises(LearningError, match="there is no theory for this scenario"):
        DebiasedFedAvg(prior=1.0, prior_from="theory")
    with pytest.raises(LearningError, match="expected 3 frequencies, got 2"):
        DebiasedFedAvg(prior=1.0, prior_from="theory", pi=np.array([0.5, 0.5])).init(3, 1)
