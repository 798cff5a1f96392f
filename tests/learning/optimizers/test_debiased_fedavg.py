from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsim.learning import Cohort, FedAvg, LearningError, Optimizer, replay
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg

from ..cases import drawn_cohorts, quadratic, tables

BOTH: dict[str, Optimizer] = {"fedavg": FedAvg(), "debiased": DebiasedFedAvg()}
COHORTS = st.lists(st.lists(st.integers(0, 5), max_size=4, unique=True), min_size=1, max_size=12)


def by_hand(
    centres: NDArray[np.float64], cohorts: list[list[int]], local_steps: int, step_size: float, counting: str
) -> NDArray[np.float64]:
    """Algorithm 1 on the quadratic, client by client, the counts in a dictionary: of 1/|S_t|, or of participations."""
    x, counts = np.zeros(centres.shape[1]), dict.fromkeys(range(len(centres)), 0.0)
    for cohort in cohorts:
        for i in cohort:
            counts[i] += 1 if counting == "shares" else 1 / len(cohort)
        ends = []
        for i in cohort:
            nu = 1 / (len(centres) * counts[i] / sum(counts.values()))
            y = x
            for _ in range(local_steps):
                y = y - step_size * nu * (y - centres[i])
            ends.append(y)
        if ends:
            x = np.mean(ends, axis=0)
    return x


@pytest.mark.parametrize("counts", ["pulls", "shares"])
@settings(max_examples=30, deadline=None)
@given(cohorts=COHORTS, local_steps=st.integers(1, 4), step_size=st.floats(0.01, 0.3))
def test_it_is_the_papers_algorithm(
    counts: Literal["pulls", "shares"], cohorts: list[list[int]], local_steps: int, step_size: float
) -> None:
    """The replay ends where Algorithm 1 written out client by client ends."""
    problem, optimizer = quadratic(), DebiasedFedAvg(counts=counts)
    learning = replay(problem, {"it": optimizer}, *tables(cohorts), local_steps=local_steps, step_size=step_size)
    expected = problem.evaluate(by_hand(problem.centres, cohorts, local_steps, step_size, counts))
    np.testing.assert_allclose(learning["loss"][-1], expected["loss"], rtol=1e-11)
    np.testing.assert_allclose(learning["grad_norm"][-1], expected["grad_norm"], rtol=1e-8, atol=1e-11)


def test_with_cohorts_of_one_size_lambda_is_the_papers() -> None:
    """nu_i = 1 / (N lambda_i) with lambda_i = t_i / ((t + 1) B), t counted from 0."""
    optimizer, clients, size = DebiasedFedAvg(), 10, 3
    state = optimizer.init(clients, 1)
    participations = np.zeros(clients)
    for t, cohort in enumerate(drawn_cohorts(40, clients, size)):
        participations[cohort] += 1
        state, scales = optimizer.prepare(state, Cohort(t, np.array(cohort)))
        np.testing.assert_allclose(scales, (t + 1) * size / (clients * participations[cohort]), rtol=1e-15)


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


def test_a_prior_bounds_the_first_weights() -> None:
    """A client first seen in round t has nu_i = (c N + (t + 1) B) / (N (c + 1)) instead of (t + 1) B / N."""
    cohorts = [[0]] * 99 + [[1]]
    assert scales_of(DebiasedFedAvg(), cohorts, 4)[-1] == [25.0]
    assert scales_of(DebiasedFedAvg(prior=4.0), cohorts, 4)[-1] == [(16 + 100) / (4 * 5)]


def test_a_prior_from_theory_needs_one() -> None:
    with pytest.raises(LearningError, match="there is no theory for this scenario"):
        DebiasedFedAvg(prior=1.0, prior_from="theory")
    with pytest.raises(LearningError, match="expected 3 frequencies, got 2"):
        DebiasedFedAvg(prior=1.0, prior_from="theory", pi=np.array([0.5, 0.5])).init(3, 1)
