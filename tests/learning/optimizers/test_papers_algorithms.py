"""Optimizers whose server knows the changes alone, each against its paper's algorithm written out client by client."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learning import FedAvg, Optimizer
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg
from fedsim.learning.optimizers.fedavg import FedProx
from fedsim.learning.optimizers.focus import Focus
from fedsim.learning.optimizers.mifa import Area, FedVarp, Mifa
from fedsim.learning.optimizers.scaffold import Scaffold

from ..cases import quadratic
from .by_hand import COHORTS, Rule, Vector, assert_ends_there, change

CENTRES = quadratic().centres
Written = Callable[[int, float], Rule]
"""Makes the rule that turns a model and the changes of a cohort into the next model, from local steps and step size."""


def fedavg(_local_steps: int, _step: float) -> Rule:
    return lambda x, changes: np.asarray(x + np.mean(list(changes.values()), axis=0))


def debiased_fedavg(counting: str) -> Written:
    """Algorithm 1, the counts in a dictionary: of 1/|S_t|, or of participations."""

    def written(local_steps: int, step: float) -> Rule:
        counts = dict.fromkeys(range(6), 0.0)

        def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
            for i in changes:
                counts[i] += 1 if counting == "shares" else 1 / len(changes)
            nu = {i: sum(counts.values()) / (6 * counts[i]) for i in changes}
            moves = [change(quadratic(), i, x, local_steps, step * nu[i]) for i in changes]
            return np.asarray(x + np.mean(moves, axis=0))

        return rule

    return written


def fedprox(mu: float) -> Written:
    """K steps on f_i + mu/2 |y - x|^2."""

    def written(local_steps: int, step: float) -> Rule:
        def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
            ends = []
            for client in changes:
                y = x.copy()
                for _ in range(local_steps):
                    y = y - step * (y - CENTRES[client] + mu * (y - x))
                ends.append(y)
            return np.asarray(np.mean(ends, axis=0))

        return rule

    return written


def mifa(_local_steps: int, _step: float) -> Rule:
    """Everyone's last change, averaged over all six clients."""
    last = {i: np.zeros(3) for i in range(6)}

    def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
        last.update(changes)
        return x + sum(last.values(), np.zeros(3)) / 6

    return rule


def fedvarp(_local_steps: int, _step: float) -> Rule:
    """What the server remembers is averaged anew in each round."""
    y = {i: np.zeros(3) for i in range(6)}

    def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
        v = sum(y.values(), np.zeros(3)) / 6 + sum((d - y[i] for i, d in changes.items()), np.zeros(3)) / len(changes)
        y.update(changes)
        return x + v

    return rule


def area(_local_steps: int, _step: float) -> Rule:
    """Each client sends the difference from what it sent before; the server adds the sum over N."""
    sent = {i: np.zeros(3) for i in range(6)}

    def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
        differences = [x + delta - sent[i] for i, delta in changes.items()]
        sent.update({i: x + delta for i, delta in changes.items()})
        return np.asarray(x + np.sum(differences, axis=0) / 6)

    return rule


def scaffold(local_steps: int, step: float) -> Rule:
    """Each client alone, its control in a dictionary, c moved by |S|/N times the mean change of the controls."""
    controls = {i: np.zeros(3) for i in range(6)}
    c = np.zeros(3)

    def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
        nonlocal c
        moves, differences = [], []
        for client in changes:
            y = x.copy()
            for _ in range(local_steps):
                y = y - step * (y - CENTRES[client] - controls[client] + c)
            new = controls[client] - c + (x - y) / (local_steps * step)
            moves.append(y - x)
            differences.append(new - controls[client])
            controls[client] = new
        c = c + len(changes) / 6 * np.mean(differences, axis=0)
        return np.asarray(x + np.mean(moves, axis=0))

    return rule


def focus(local_steps: int, step: float) -> Rule:
    """Each client alone, as in the authors' code: what it pushes is added up at the server."""
    previous = {i: np.zeros(3) for i in range(6)}
    total = np.zeros(3)

    def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
        nonlocal total
        for client in changes:
            z, y = x, np.zeros(3)
            for k in range(local_steps):
                if k > 0:
                    z = z - step * y
                gradient = z - CENTRES[client]
                y = y + gradient - previous[client]
                previous[client] = gradient
            total = total + y
        return x - step * total

    return rule


@pytest.mark.parametrize(
    ("optimizer", "written", "longest"),
    [
        (FedAvg(), fedavg, 0.4),
        (DebiasedFedAvg(counts="pulls"), debiased_fedavg("pulls"), 0.3),
        (DebiasedFedAvg(counts="shares"), debiased_fedavg("shares"), 0.3),
        *((FedProx(mu), fedprox(mu), 0.2) for mu in (0.0, 0.6, 3.0)),
        *((Mifa(), mifa, 0.4), (FedVarp(), fedvarp, 0.4), (Area(), area, 0.4)),
        *((Scaffold(), scaffold, 0.2), (Focus(), focus, 0.05)),
    ],
)
@settings(max_examples=40, deadline=None)
@given(cohorts=COHORTS, local_steps=st.integers(1, 4), share=st.floats(0.05, 1.0))
def test_the_replay_ends_where_the_paper_says(
    optimizer: Optimizer, written: Written, longest: float, cohorts: list[list[int]], local_steps: int, share: float
) -> None:
    """Rounds without a report included; steps are some share of the longest for which the method is stable."""
    step = share * longest
    assert_ends_there(optimizer, cohorts, local_steps, step, written(local_steps, step))
