"""What an optimizer may ask of its clients beside scaled steps: start points, corrections, a pull back, a rule."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.common.arrays import Floats
from fedsim.common.keyed import Purpose, stream
from fedsim.learning import (
    Cohort,
    Course,
    FedAvg,
    LearningError,
    LocalSteps,
    LocalWork,
    Optimizer,
    replay,
    replay_together,
)
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg
from fedsim.learning.problems.problem import Gradients
from fedsim.learning.problems.robust_regression import RobustRegression

from .buffered import Case, buffered_tables
from .cases import drawn_cohorts, quadratic, tables


def twice(models: Floats, gradients: Iterable[Gradients], step_sizes: Floats) -> Floats:
    """Take each step by the mean of the gradients at its beginning and at its end (Heun)."""
    assert len(gradients) == len([*gradients])  # type: ignore[arg-type]
    for gradient in gradients:
        first = gradient(models)
        models = models - step_sizes[:, None] * (first + gradient(models - step_sizes[:, None] * first)) / 2
    return models


@dataclass
class Asking:
    """Asks for drawn start points, corrections, pulls and scales, and steps by the mean; notes what it is given."""

    starts: bool = False
    corrections: int = 0
    proximal: int = -1
    rule: bool = False
    seen: list[tuple[Cohort, LocalSteps, Floats]] = field(default_factory=list)

    def init(self, _clients: int, dimension: int) -> int:
        return dimension

    def prepare(self, state: int, cohort: Cohort) -> tuple[int, LocalSteps]:
        draws = stream(8, 0, Purpose.OPTIMIZER)
        size = len(cohort.clients)

        def rows(family: int) -> Floats:
            return draws.normals(np.arange(size)[:, None], family * 1000 + cohort.round * 10 + np.arange(state))

        pulls = np.abs(rows(3)[:, 0])
        local = LocalSteps(
            scales=1.0 + pulls,
            starts=cohort.downloaded + rows(1) if self.starts else None,
            corrections=rows(2)[0] if self.corrections == 1 else rows(2) if self.corrections == 2 else None,
            proximal=pulls if self.proximal > 0 else max(0.0, float(self.proximal) + 0.7),
            rule=twice if self.rule else None,
        )
        self.seen.append((cohort, local, np.empty(0)))
        return state, local

    def apply(self, state: int, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[int, Floats]:
        assert self.seen[-1][0] is cohort
        self.seen[-1] = (*self.seen[-1][:2], deltas)
        return state, model + deltas.mean(axis=0)


ASKING = st.builds(Asking, st.booleans(), st.integers(0, 2), st.integers(-1, 1), st.booleans())


@settings(max_examples=30, deadline=None)
@given(asking=ASKING, local_steps=st.integers(1, 3), buffer=st.booleans())
def test_each_client_does_what_was_asked_of_it(asking: Asking, local_steps: int, buffer: bool) -> None:
    """Client by client, from what it downloaded; beside others that ask for other things, over both kinds of log."""
    problem = RobustRegression(clients=6, seed=3, dimension=3, samples=5)
    log, size = (buffered_tables(Case(clients=6, versions=12)), 2) if buffer else (tables(drawn_cohorts(8, 6, 2)), None)
    others: dict[str, Optimizer] = {
        "avg": FedAvg(),
        "it": asking,
        "other": Asking(True, 2, 1),
        "fair": DebiasedFedAvg(),
    }
    work = LocalWork.checked(problem, local_steps, lambda t: 0.05 / (1 + t))
    course = Course(Cohorts.read(*log, 6, size), others, stream(0, 0, Purpose.OPTIMIZER))
    replay_together([course], work)
    assert asking.seen
    for cohort, local, deltas in asking.seen:
        assert cohort.local_steps == local_steps
        np.testing.assert_allclose(cohort.step_sizes, [0.05 / (1 + cohort.round - tau) for tau in cohort.staleness])
        downloaded = np.broadcast_to(cohort.downloaded, deltas.shape)
        for row, client in enumerate(cohort.clients):
            anchor = downloaded[row]
            start = anchor if local.starts is None else local.starts[row]
            own = (
                local.corrections
                if local.corrections is None or local.corrections.ndim == 1
                else local.corrections[row]
            )
            added = 0.0 if own is None else own
            mu = float(np.broadcast_to(local.proximal, len(deltas))[row])
            assert local.scales is not None
            alpha = cohort.step_sizes[row] * local.scales[row]

            def slope(y: Floats, i: int = client, c: Any = added, mu: float = mu, x: Floats = anchor) -> Floats:
                slopes: Floats = problem.gradients(np.array([i]), y[None])[0] + c + mu * (y - x)
                return slopes

            y = start.copy()
            for _ in range(local_steps):
                g = slope(y)
                y = y - alpha * ((g + slope(y - alpha * g)) / 2 if asking.rule else g)
            np.testing.assert_allclose(deltas[row], y - start, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("local", "message"),
    [
        (LocalSteps(scales=np.ones(3)), r"scales has the shape \(3,\), expected \(2,\)"),
        (LocalSteps(starts=np.ones(3)), r"start points has the shape \(3,\), expected \(2, 3\)"),
        (LocalSteps(corrections=np.ones((3, 3))), r"corrections has the shape \(3, 3\), expected \(2, 3\)"),
        (LocalSteps(corrections=np.ones(2)), r"corrections has the shape \(2,\), expected \(3,\)"),
        (LocalSteps(proximal=np.ones(3)), r"proximal has the shape \(3,\), expected \(2,\)"),
        (LocalSteps(proximal=-0.5), r"proximal must be at least 0, got -0\.5"),
        (LocalSteps(proximal=float("nan")), r"proximal must be at least 0, got nan"),
    ],
)
def test_a_wrong_wish_is_told_with_optimizer_and_round(local: LocalSteps, message: str) -> None:
    class Wrong(FedAvg):
        def prepare(self, state: None, _cohort: Cohort) -> Any:
            return state, local

    with pytest.raises(LearningError, match=f"^optimizer 'it', prepare, round 0: .*{message}"):
        replay(quadratic(), {"it": Wrong()}, *tables([[0, 1]]), local_steps=1, step_size=0.1)


@pytest.mark.parametrize("fails", [True, False])
def test_a_rule_that_fails_or_returns_a_wrong_shape_is_told_by_name(fails: bool) -> None:
    def rule(models: Floats, _gradients: Iterable[Gradients], _step_sizes: Floats) -> Floats:
        if fails:
            raise ZeroDivisionError("nothing to divide by")
        wrong: Floats = models[:, 0]
        return wrong

    class Wrong(FedAvg):
        def prepare(self, state: None, _cohort: Cohort) -> Any:
            return state, LocalSteps(rule=rule)

    message = (
        r"ZeroDivisionError: nothing to divide by \(tests/learning/test_local_steps\.py:\d+\)$"
        if fails
        else r"has the shape \(2,\), expected \(2, 3\)"
    )
    with pytest.raises(LearningError, match=f"^local rule of optimizer 'it', round 0: .*{message}"):
        replay(quadratic(), {"avg": FedAvg(), "it": Wrong()}, *tables([[0, 1]]), local_steps=1, step_size=0.1)


@pytest.mark.parametrize("buffer", [None, 2])
def test_a_step_size_of_its_own_is_the_same_as_training_with_it_alone(buffer: int | None) -> None:
    """To the last bit, beside another optimizer, over both kinds of log; the cohort tells it."""
    log = tables(drawn_cohorts(20, 6, 2)) if buffer is None else buffered_tables(Case(clients=6, versions=12))
    problem, draws = quadratic(), stream(0, 0, Purpose.OPTIMIZER)

    def schedule(t: int) -> float:
        return 0.2 / (1 + t)

    work = LocalWork.checked(problem, 2, 0.05)
    asking = Asking()
    both: dict[str, Optimizer] = {"avg": FedAvg(), "it": DebiasedFedAvg(), "asking": asking}
    [beside] = replay_together(
        [Course(Cohorts.read(*log, 6, buffer), both, draws, {"it": schedule, "asking": schedule})], work
    )
    alone = replay(problem, {"it": DebiasedFedAvg()}, *log, local_steps=2, step_size=schedule, buffer=buffer)
    assert beside.table.filter(optimizer="it").equals(alone)
    plain = replay(problem, {"avg": FedAvg()}, *log, local_steps=2, step_size=0.05, buffer=buffer)
    assert beside.table.filter(optimizer="avg").equals(plain)
    for cohort, _, _ in asking.seen:
        np.testing.assert_array_equal(cohort.step_sizes, [schedule(cohort.round - tau) for tau in cohort.staleness])


@pytest.mark.parametrize(
    ("method", "returned", "message"),
    [
        ("prepare", None, r"must return \(state, scales or LocalSteps\), and returned NoneType"),
        ("prepare", LocalSteps(), r"must return \(state, scales or LocalSteps\), and returned LocalSteps"),
        ("apply", np.zeros(3), r"must return \(state, model\), and returned ndarray"),
    ],
)
def test_what_is_no_pair_is_told(method: str, returned: object, message: str) -> None:
    wrong = type("Wrong", (FedAvg,), {method: lambda *_: returned})()
    with pytest.raises(LearningError, match=f"^optimizer 'it', {method}, round 0: {message}"):
        replay(quadratic(), {"it": wrong}, *tables([[0, 1]]), local_steps=1, step_size=0.1)
