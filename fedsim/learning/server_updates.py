"""Server updates: how the server follows the direction that an optimizer gives; they go with every optimizer."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Protocol, TypeAlias

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats
from fedsim.common.registry import Registry
from fedsim.learning.failures import LearningError, as_floats_of_shape, reraise_as_learning_error, returned_pair
from fedsim.learning.optimizers.optimizer import (
    Cohort,
    Footprint,
    Foreseeable,
    LocalSteps,
    LongRun,
    Optimizer,
    SizedState,
)

_Both: TypeAlias = tuple[Any, Any]  # the states of an optimizer and of its server update
_Moments: TypeAlias = tuple[Floats, Floats]


class ServerUpdate(Protocol):
    """A rule x_{t+1} = x_t + u(v_0, ..., v_t), v_t being the change of the model that an optimizer asks for.

    Reddi et al., *Adaptive Federated Optimization*, ICLR 2021, arXiv:2003.00295, call -v_t the pseudo-gradient. A
    server update keeps what it remembers in its state, and goes with every optimizer.
    """

    linear: ClassVar[bool]
    """Whether u is linear in the v, so that it changes how fast a model comes to rest but not where."""
    models: ClassVar[int]
    """How many arrays of d numbers its state has."""

    def init(self, dimension: int, /) -> Any:
        """Return the state before the first round."""

    def step(self, state: Any, direction: Floats, /) -> tuple[Any, Floats]:
        """Return the state, and the change of the model, shape (d,)."""


@dataclass(frozen=True)
class Composed:
    """An optimizer whose direction v_t = (its next model) - x_t goes through a server update."""

    optimizer: Optimizer
    server: ServerUpdate

    @property
    def steps_alone(self) -> bool:
        return getattr(self.optimizer, "steps_alone", False)

    @property
    def footprint(self) -> Footprint | None:
        inner, more = getattr(self.optimizer, "footprint", None), getattr(self.server, "models", None)
        return None if inner is None or more is None else inner._replace(server=inner.server + more)

    def init(self, clients: int, dimension: int) -> _Both:
        return self.optimizer.init(clients, dimension), self.server.init(dimension)

    def prepare(self, state: _Both, cohort: Cohort) -> tuple[_Both, Floats | LocalSteps]:
        inner, local = self.optimizer.prepare(state[0], cohort)
        return (inner, state[1]), local

    def apply(self, state: _Both, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[_Both, Floats]:
        inner, wanted = self.optimizer.apply(state[0], model, cohort, deltas)
        with reraise_as_learning_error("server update", self.server.step):
            of_server, change = returned_pair(self.server.step(state[1], wanted - model), "(state, change)")
            change = as_floats_of_shape("the change", change, model.shape)
        return (inner, of_server), model + change

    def memory(self, participants: int, dimension: int) -> int:
        return self.optimizer.memory(participants, dimension) if isinstance(self.optimizer, SizedState) else 0

    def long_run(self, pi: Floats) -> LongRun | None:
        if not getattr(self.server, "linear", False) or not isinstance(self.optimizer, Foreseeable):
            return None
        return self.optimizer.long_run(pi)


@dataclass(frozen=True)
class Sgd:
    """A server step of any length, without a state: x_{t+1} = x_t + eta v_t.

    Source: Reddi et al., *Adaptive Federated Optimization*, ICLR 2021, arXiv:2003.00295, Algorithm 1 with plain SGD at
    the server.
    """

    linear: ClassVar[bool] = True
    models: ClassVar[int] = 0

    step_size: Annotated[float, Field(gt=0)] = 1.0
    """Step size of the server."""

    def init(self, _dimension: int) -> None:
        """Return None: there is no state."""

    def step(self, state: None, direction: Floats) -> tuple[None, Floats]:
        return state, self.step_size * direction


@dataclass(frozen=True)
class Momentum:
    """Heavy-ball momentum: m_t = beta m_{t-1} + v_t,  x_{t+1} = x_t + eta m_t,  m_{-1} = 0. Its state is m, shape (d,).

    A constant direction is followed with eta / (1 - beta) of its length in the long run.

    Source: Hsu, Qi and Brown, *Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification*, 2019, arXiv:1909.06335 (FedAvgM).
    """

    linear: ClassVar[bool] = True
    models: ClassVar[int] = 1

    beta: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Share of the last step that is kept."""
    step_size: Annotated[float, Field(gt=0)] = 1.0
    """Step size of the server."""

    def init(self, dimension: int) -> Floats:
        return np.zeros(dimension)

    def step(self, velocity: Floats, direction: Floats) -> tuple[Floats, Floats]:
        velocity = self.beta * velocity + direction
        return velocity, self.step_size * velocity


@dataclass(frozen=True)
class Adam:
    """Adam at the server (FedAdam), coordinate by coordinate. Its state is (m, w), each of shape (d,).

    ::

        m_t = beta_1 m_{t-1} + (1 - beta_1) v_t                 m_{-1} = 0
        w_t = beta_2 w_{t-1} + (1 - beta_2) v_t^2               w_{-1} = tau^2
        x_{t+1} = x_t + eta m_t / (sqrt(w_t) + tau)

    As in the source there is no correction for the start, for which the initial w makes up. A step is at most about eta
    in each coordinate, however long v_t is, so long changes count for less, and Adam may rest elsewhere than the
    optimizer alone.

    Source: Reddi et al., arXiv:2003.00295, Algorithm 2.
    """

    linear: ClassVar[bool] = False
    models: ClassVar[int] = 2

    step_size: Annotated[float, Field(gt=0)] = 0.01
    """Step size of the server."""
    beta_1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Share of the first moment that is kept."""
    beta_2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """Share of the second moment that is kept."""
    tau: Annotated[float, Field(gt=0)] = 1e-3
    """Added to the root of the second moment: the step stays finite where nothing moves; larger values adapt less."""

    def init(self, dimension: int) -> _Moments:
        return np.zeros(dimension), np.full(dimension, self.tau**2)

    def step(self, state: _Moments, direction: Floats) -> tuple[_Moments, Floats]:
        first = self.beta_1 * state[0] + (1.0 - self.beta_1) * direction
        second = self._second(state[1], direction**2)
        return (first, second), self.step_size * first / (np.sqrt(second) + self.tau)

    def _second(self, second: Floats, squares: Floats) -> Floats:
        return self.beta_2 * second + (1.0 - self.beta_2) * squares


@dataclass(frozen=True)
class Yogi(Adam):
    """Adam whose second moment moves by at most a share of v_t^2 (FedYogi), so that it falls slowly.

    w_t = w_{t-1} - (1 - beta_2) v_t^2 sign(w_{t-1} - v_t^2), the rest as `Adam`. Source: as there.
    """

    def _second(self, second: Floats, squares: Floats) -> Floats:
        return second - (1.0 - self.beta_2) * squares * np.sign(second - squares)


@dataclass(frozen=True)
class Adagrad(Adam):
    """Adam whose second moment is the sum of all v_t^2 (FedAdagrad), so that steps get shorter.

    w_t = w_{t-1} + v_t^2, and beta_1 = 0 by default, the rest as `Adam`; beta_2 has no effect. Source: as there.
    """

    beta_1: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the first moment that is kept."""

    def _second(self, second: Floats, squares: Floats) -> Floats:
        return second + squares


SERVER_UPDATES: Final = Registry[ServerUpdate](
    "a server update",
    ServerUpdate,
    {
        "sgd": "fedsim.learning.server_updates:Sgd",
        "momentum": "fedsim.learning.server_updates:Momentum",
        "adam": "fedsim.learning.server_updates:Adam",
        "yogi": "fedsim.learning.server_updates:Yogi",
        "adagrad": "fedsim.learning.server_updates:Adagrad",
    },
    error=LearningError,
    at="learning.optimizers.0.server",
    chance="draw from np.random.default_rng(0), made in init and kept in the state",
)
