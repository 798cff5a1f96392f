import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learning import OPTIMIZERS, SERVER_UPDATES, FedAvg, LearningError, build_optimizer, check_optimizer, replay
from fedsim.learning.optimizers.mifa import Mifa
from fedsim.learning.server_updates import Adagrad, Adam, Composed, Momentum, Sgd, Yogi

from .cases import drawn_cohorts, quadratic, tables
from .optimizers.by_hand import COHORTS, Vector, assert_ends_there

EVEN = np.full(6, 1 / 6)


@settings(max_examples=20, deadline=None)
@given(cohorts=COHORTS, eta=st.floats(0.1, 1.5), beta=st.floats(0.0, 0.9))
def test_momentum_is_the_heavy_ball(cohorts: list[list[int]], eta: float, beta: float) -> None:
    """FedAvgM written out."""
    m = np.zeros(3)

    def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
        m[:] = beta * m + np.mean(list(changes.values()), axis=0)
        return x + eta * m

    assert_ends_there(Composed(FedAvg(), Momentum(beta, eta)), cohorts, 2, 0.1, rule)


@pytest.mark.parametrize(
    "made",
    [
        *(Adam(eta, 0.9, beta_2, 0.01) for eta, beta_2 in ((0.01, 0.5), (0.5, 0.99))),
        *(Yogi(0.1, 0.9, 0.99, 0.01), Adagrad(0.1, 0.5, tau=0.01)),
    ],
)
@settings(max_examples=20, deadline=None)
@given(cohorts=COHORTS)
def test_adam_yogi_and_adagrad_are_those_of_the_source(made: Adam, cohorts: list[list[int]]) -> None:
    """Algorithm 2 of Reddi et al. written out, one coordinate at a time."""
    m, w = [0.0] * 3, [0.01**2] * 3

    def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
        after = x.copy()
        for j in range(3):
            v = sum(d[j] for d in changes.values()) / len(changes)
            m[j] = made.beta_1 * m[j] + (1 - made.beta_1) * v
            if isinstance(made, Yogi):
                w[j] -= (1 - made.beta_2) * v**2 * float(np.sign(w[j] - v**2))
            else:
                w[j] = w[j] + v**2 if isinstance(made, Adagrad) else made.beta_2 * w[j] + (1 - made.beta_2) * v**2
            after[j] += made.step_size * m[j] / (w[j] ** 0.5 + 0.01)
        return after

    assert_ends_there(Composed(FedAvg(), made), cohorts, 2, 0.1, rule)


@settings(max_examples=20, deadline=None)
@given(cohorts=COHORTS, eta=st.floats(0.1, 1.5))
def test_a_server_step_goes_with_any_optimizer(cohorts: list[list[int]], eta: float) -> None:
    """MIFA with eta: everyone's last change, times eta / N."""
    last = {i: np.zeros(3) for i in range(6)}

    def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
        last.update(changes)
        return x + eta * sum(last.values(), np.zeros(3)) / 6

    assert_ends_there(Composed(Mifa(), Sgd(eta)), cohorts, 2, 0.1, rule)


@pytest.mark.parametrize("server", SERVER_UPDATES)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_every_server_update_goes_with_every_optimizer(kind: str, server: str) -> None:
    """By name, as a scenario writes it; the model moves towards the optimum."""
    optimizer = build_optimizer(kind, {"server": server}, pi=EVEN, frequency=EVEN)
    log = tables(drawn_cohorts(40, 6, 2))
    loss = replay(quadratic(), {"it": optimizer}, *log, local_steps=2, step_size=0.01)["loss"]
    assert loss.min() < loss[0]


def test_what_the_optimizer_can_tell_passes_through() -> None:
    """Its memory always, its rest where the server update is linear."""
    assert Composed(Mifa(), Adam()).memory(5, 3) == Mifa().memory(5, 3) > 0
    assert Composed(FedAvg(), Adam()).memory(5, 3) == 0
    assert Composed(FedAvg(), Adam()).long_run(EVEN) is None
    limit = Composed(FedAvg(), Momentum()).long_run(EVEN)
    assert limit is not None
    np.testing.assert_array_equal(limit.weights, EVEN)


@pytest.mark.parametrize(
    ("server", "path", "message"),
    [
        ("adm", ("server", "kind"), "unknown server update 'adm'; did you mean 'adam'?"),
        ({"kind": "adam", "tau": 0}, ("server", "tau"), "must be greater than 0, got 0"),
        ({"kind": "sgd", "beta": 1}, ("server", "beta"), "unknown option 'beta'"),
        ({"step_size": 1}, ("server",), "must name a server update, known are adagrad, adam, momentum, sgd, yogi, got"),
        (3, ("server",), "must name a server update, known are adagrad, adam, momentum, sgd, yogi, got 3"),
    ],
)
def test_mistakes_in_the_choice_of_a_server_update(server: object, path: tuple[str, ...], message: str) -> None:
    """Each has its place below the optimizer."""
    [(where, what)] = check_optimizer("fedavg", {"server": server})
    assert where == path
    assert message in what
    with pytest.raises(LearningError):
        build_optimizer("fedavg", {"server": server})
