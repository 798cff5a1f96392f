import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsim.learning import FedAvg, replay

from ..cases import quadratic, tables


def by_hand(
    centres: NDArray[np.float64], cohorts: list[list[int]], local_steps: int, step_size: float
) -> NDArray[np.float64]:
    """FedAvg on the quadratic, client by client."""
    x = np.zeros(centres.shape[1])
    for cohort in cohorts:
        ends = []
        for i in cohort:
            y = x
            for _ in range(local_steps):
                y = y - step_size * (y - centres[i])
            ends.append(y)
        if ends:
            x = np.mean(ends, axis=0)
    return x


@settings(max_examples=30, deadline=None)
@given(
    cohorts=st.lists(st.lists(st.integers(0, 5), max_size=4, unique=True), min_size=1, max_size=12),
    local_steps=st.integers(1, 4),
    step_size=st.floats(0.01, 0.5),
)
def test_fedavg_averages_the_local_models(cohorts: list[list[int]], local_steps: int, step_size: float) -> None:
    """The replay ends where FedAvg written out client by client ends, rounds without a report included."""
    problem = quadratic()
    learning = replay(problem, {"fedavg": FedAvg()}, *tables(cohorts), local_steps=local_steps, step_size=step_size)
    expected = problem.evaluate(by_hand(problem.centres, cohorts, local_steps, step_size))
    np.testing.assert_allclose(learning["loss"][-1], expected["loss"], rtol=1e-12)
    np.testing.assert_allclose(learning["grad_norm"][-1], expected["grad_norm"], rtol=1e-9, atol=1e-12)
