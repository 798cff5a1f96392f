"""The study of the paper's rates trains what `fedsim.learning` trains, and its numbers are what they are said to be."""

import numpy as np
import polars as pl
import pytest

from fedsim.learning import FedAvg, build_optimizer, replay
from reports.make import rates

ROUNDS = 60


@pytest.mark.parametrize("separation", [0, 8])
def test_it_trains_what_the_optimizers_train(separation: int) -> None:
    """Errors of all iterates and the mean model of two replicas, each with its data, against the replay of its log."""
    chosen = rates.participations(separation, ROUNDS, 2)
    problems = [rates.problem(draw) for draw in range(2)]
    errors, last, mean = rates.trained(problems, chosen[:, None], ROUNDS)
    rounds = pl.DataFrame({"round": range(ROUNDS), "closed_s": np.arange(1.0, ROUNDS + 1)})
    for replica, problem in enumerate(problems):
        members = 5 * chosen[:, replica, None] + np.arange(5)
        log = pl.DataFrame(
            {
                "round": np.repeat(np.arange(ROUNDS), 5),
                "client": members.reshape(-1),
                "position": np.tile(np.arange(5), ROUNDS),
                "outcome": ["reported"] * 5 * ROUNDS,
            }
        )
        optimizers = {"fedavg": FedAvg(), "debiased_fedavg": build_optimizer("debiased_fedavg", {})}
        table = replay(problem, optimizers, rounds, log, local_steps=5, step_size=rates.step_size(ROUNDS))
        for column, name in enumerate(rates.OPTIMIZERS):
            slopes = table.filter(pl.col("optimizer") == name)["grad_norm"].to_numpy()
            assert errors[0, column, replica] == pytest.approx((slopes[:-1] ** 2).mean(), rel=1e-9)
            assert problem.evaluate(last[0, column, replica])["grad_norm"] == pytest.approx(slopes[-1], rel=1e-9)
    assert mean.shape == last.shape


def test_the_floor_is_where_short_steps_lead() -> None:
    """At R = 19 groups take turns and there is none; at R = 0 it lies where the objective weighed by pi is least."""
    problem = rates.problem(3)
    assert rates.floor(problem, 19) < 1e-12
    pi = np.repeat(rates.WEIGHTS / rates.WEIGHTS.sum() / 5, 5)[:, None]
    least = (pi * problem.curvatures * problem.centres).sum(axis=0) / (pi * problem.curvatures).sum(axis=0)
    assert rates.floor(problem, 0) == pytest.approx(problem.evaluate(least)["grad_norm"] ** 2, rel=1e-6)


def test_exponents_are_those_of_powers() -> None:
    horizons = (500, 1000, 2000, 4000, 8000)
    errors = np.outer(np.array(horizons, dtype=float) ** -0.5, [1.0, 2.0, 5.0])
    middle, half = rates.slope(errors, horizons)
    assert middle == pytest.approx(-0.5)
    assert half < 1e-9


def test_counted_frequencies_are_off_like_those_of_independent_choice() -> None:
    """At R = 0 a client of the most frequent group of 5 has t E (lambda - pi)^2 = p (1 - p) / 25, p its group's.

    This bounds the largest from below.
    """
    found = rates.counting(0, (50, 400), replicas=200)
    pi = rates.WEIGHTS / rates.WEIGHTS.sum()
    for t in (50, 400):
        middle, half = found["frequencies"][str(t)]
        assert t * (middle + 2 * half) > pi[0] * (1 - pi[0]) / 25
        assert t * (middle - 2 * half) < 2 * pi[0] * (1 - pi[0]) / 25
    assert found["all_seen"]["50"] < found["all_seen"]["400"]
