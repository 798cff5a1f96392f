"""What a server update is: how the server follows the direction that an optimizer gives."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from fedsim.common.arrays import Floats
from fedsim.learning.optimizers.optimizer import Cohort, Foreseeable, LocalSteps, LongRun, Optimizer, SizedState


class ServerUpdate(Protocol):
    """A rule x_{t+1} = x_t + u(v_0, ..., v_t), v_t being the change of the model that an optimizer asks for.

    Reddi et al., *Adaptive Federated Optimization*, ICLR 2021, arXiv:2003.00295, call -v_t the pseudo-gradient. A
    server update keeps what it remembers in its state, and goes with every optimizer.
    """

    linear: ClassVar[bool]
    """Whether u is linear in the v, so that it changes how fast a model comes to rest but not where."""

    def init(self, dimension: int, /) -> Any:
        """Return the state before the first round."""

    def step(self, state: Any, direction: Floats, /) -> tuple[Any, Floats]:
        """Return the state, and the change of the model, shape (d,)."""


@dataclass(frozen=True)
class Composed:
    """An optimizer whose direction v_t = (its next model) - x_t goes through a server update."""

    optimizer: Optimizer
    server: ServerUpdate

    def init(self, clients: int, dimension: int) -> tuple[Any, Any]:
        return self.optimizer.init(clients, dimension), self.server.init(dimension)

    def prepare(self, state: tuple[Any, Any], cohort: Cohort) -> tuple[tuple[Any, Any], Floats | LocalSteps]:
        own, local = self.optimizer.prepare(state[0], cohort)
        return (own, state[1]), local

    def apply(
        self, state: tuple[Any, Any], model: Floats, cohort: Cohort, deltas: Floats
    ) -> tuple[tuple[Any, Any], Floats]:
        own, wanted = self.optimizer.apply(state[0], model, cohort, deltas)
        of_server, change = self.server.step(state[1], wanted - model)
        return (own, of_server), model + change

    def memory(self, participants: int, dimension: int) -> int:
        return self.optimizer.memory(participants, dimension) if isinstance(self.optimizer, SizedState) else 0

    def long_run(self, pi: Floats) -> LongRun | None:
        if not getattr(self.server, "linear", False) or not isinstance(self.optimizer, Foreseeable):
            return None
        return self.optimizer.long_run(pi)
