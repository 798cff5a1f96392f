import math

import numpy as np
import pytest

from fedsim.learning import FedAvg, replay
from fedsim.scenario.learning import ConstantSchedule, CosineSchedule, PowerSchedule, StagedSchedule

from .cases import Quadratic, tables


def test_a_constant_step_size_is_the_same_in_every_round() -> None:
    assert [ConstantSchedule(kind="constant", initial=0.3)(t) for t in (0, 10**6)] == [0.3, 0.3]


def test_power_falls_to_its_share_at_the_scale() -> None:
    steps = PowerSchedule(kind="power", initial=0.4, exponent=0.5, scale=100)
    assert steps(0) == 0.4
    assert steps(100) == pytest.approx(0.4 / math.sqrt(2))
    assert steps(300) == pytest.approx(0.2)


def test_cosine_goes_from_the_initial_to_the_final_value_and_stays() -> None:
    steps = CosineSchedule(kind="cosine", initial=1.0, rounds=100, final=0.2)
    assert steps(0) == 1.0
    assert steps(50) == pytest.approx(0.6)
    assert steps(100) == steps(5000) == pytest.approx(0.2)
    assert all(steps(t) > steps(t + 1) for t in range(100))


def test_stages_fall_at_milestones() -> None:
    steps = StagedSchedule(kind="stages", initial=1.0, milestones=[10, 20], factor=0.5)
    assert [steps(t) for t in (0, 9, 10, 19, 20, 99)] == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]


def test_training_asks_for_the_step_of_each_round() -> None:
    """One client that wants 1, from 0: what is left after each round is the product of the 1 - alpha_t."""
    problem = Quadratic(np.ones((1, 1)))
    steps = StagedSchedule(kind="stages", initial=0.5, milestones=[2], factor=0.2)
    rounds, participations = tables([[0], [], [0], [0]])
    loss = replay(problem, {"it": FedAvg()}, rounds, participations, local_steps=1, step_size=steps)["loss"]
    left = np.array([1.0, 0.5, 0.5, 0.5 * 0.9, 0.5 * 0.9**2])
    np.testing.assert_allclose(loss, left**2 / 2)
