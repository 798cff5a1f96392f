"""The weight that an eligible client competes with, beside enumeration and beside exact chains."""

from itertools import product

import numpy as np

from fedsim.selection.eligible_weight import competing_weight
from fedsim.theory import exact


def test_it_is_that_of_enumeration() -> None:
    """300 random systems of up to 7 clients whose weights differ by factors of up to thousands."""
    rng = np.random.default_rng(38)
    for _ in range(300):
        size = int(rng.integers(1, 8))
        eligible, weights = rng.random(size), np.exp(rng.normal(0.0, 2.0, size))
        inverse = np.zeros(size)
        for each in product([0, 1], repeat=size):
            there = np.array(each)
            chance = float(np.where(there, eligible, 1.0 - eligible).prod())
            inverse += there * chance / max(float(there @ weights), 1e-300) / eligible
        np.testing.assert_allclose(competing_weight(eligible, weights) * inverse, 1.0, rtol=1e-9)


def test_light_clients_are_taken_together() -> None:
    """A thousand of them, beside a simulation; the heaviest has as much weight as all others."""
    rng = np.random.default_rng(1)
    weights, eligible = np.append(rng.uniform(0.5, 1.5, 1000), 1000.0), np.append(rng.random(1000), 0.2)
    there = rng.random((4000, 1001)) < eligible
    for client in (0, 1000):
        there[:, client] = True
        inverse = (1.0 / (there @ weights)).mean()
        assert abs(competing_weight(eligible, weights)[client] * inverse - 1.0) < 0.03
        there[:, client] = rng.random(4000) < eligible[client]


def test_one_device_that_outweighs_all_others_is_foreseen() -> None:
    """One heavy client among twelve that rest for three rounds, beside the exact chain: within 1 %."""
    weights = np.append(np.ones(11), 12.0)
    chances = np.full(12, 1 / 12)
    for _ in range(200):
        ready = 1.0 - 3.0 * chances
        chances += 0.3 * (ready * weights / competing_weight(ready, weights) - chances)
    assert np.abs(chances / exact(weights, 3).pi - 1.0).max() < 0.01
