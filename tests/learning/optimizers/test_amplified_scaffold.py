import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learning import Cohort, Optimizer, replay
from fedsim.learning.optimizers.amplified import AmplifiedFedAvg, AmplifiedScaffold
from fedsim.learning.optimizers.scaffold import Scaffold

from ..cases import drawn_cohorts, quadratic, tables
from .by_hand import COHORTS, Vector, assert_ends_at


@settings(max_examples=60, deadline=None)
@given(
    cohorts=COHORTS, local_steps=st.integers(1, 3), step=st.floats(0.01, 0.2), p=st.integers(1, 5), eta=st.floats(1, 3)
)
def test_it_is_the_papers_algorithm(
    cohorts: list[list[int]], local_steps: int, step: float, p: int, eta: float
) -> None:
    """Gradient by gradient, with every gradient of an interval in a list."""
    centres, cohorts = quadratic().centres, [*cohorts, [0]]
    x = start = np.zeros(3)
    controls, gradients = np.zeros((6, 3)), dict[int, list[Vector]]()
    for t, cohort in enumerate(cohorts):
        ends = []
        for client in cohort:
            y = x
            for _ in range(local_steps):
                gradient = y - centres[client]
                gradients.setdefault(client, []).append(gradient)
                y = y - step * (gradient - controls[client] + controls.mean(axis=0))
            ends.append(y)
        x = np.mean(ends, axis=0) if ends else x
        if t % p == p - 1:
            x = start = start + eta * (x - start)
            for client, seen in gradients.items():
                controls[client] = np.mean(seen, axis=0)
            gradients.clear()
    assert_ends_at(AmplifiedScaffold(p, eta), cohorts, local_steps, step, x)


def test_over_single_rounds_without_amplification_it_is_scaffold() -> None:
    log = tables([cohort if t % 5 else [] for t, cohort in enumerate(drawn_cohorts(60, clients=6, size=2))])
    both = replay(
        quadratic(), {"it": AmplifiedScaffold(1, 1.0), "scaffold": Scaffold()}, *log, local_steps=3, step_size=0.1
    )
    of = both.partition_by("optimizer", as_dict=True, include_key=False)
    np.testing.assert_allclose(of["it",]["loss"], of["scaffold",]["loss"], rtol=1e-9)


def test_its_first_interval_is_amplified_fedavg() -> None:
    """The controls are zero until it ends; then they part."""
    log = tables(drawn_cohorts(8, clients=6, size=2))
    them: dict[str, Optimizer] = {"it": AmplifiedScaffold(6, 2.0), "avg": AmplifiedFedAvg(6, 2.0)}
    both = replay(quadratic(), them, *log, local_steps=3, step_size=0.1, evaluate_every=1)
    of = both.partition_by("optimizer", as_dict=True, include_key=False)
    same = np.isclose(of["it",]["loss"], of["avg",]["loss"], rtol=1e-12)
    assert same.tolist() == [True] * 7 + [False] * 2


@pytest.mark.parametrize("interval", [1, 4, 100])
def test_what_it_needs_grows_with_those_who_take_part(interval: int) -> None:
    """With two rows for each of them, and never more than it says beforehand."""
    it = AmplifiedScaffold(interval)
    state, model = it.init(1000, 30), np.zeros(30)
    for t in range(12):
        cohort = Cohort(t, np.array([t, t + 1]), downloaded=model)
        state, _ = it.prepare(state, cohort)
        state, model = it.apply(state, model, cohort, np.ones((2, 30)))
    assert len(state.sums) == 13
    assert len(state.rows) == (0 if interval == 100 else 13)
    assert 2 * 8 * 13 * 30 <= it.memory(13, 30) == 2 * 20 * 13 * 30
