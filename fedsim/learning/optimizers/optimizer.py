"""What a federated optimizer is: a state, a step before the clients train, and a step with their work."""

from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from fedsim.common.arrays import Floats, Ints

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Cohort:
    """The clients whose work reached the server in one round, or filled its buffer in one version.

    Parameters
    ----------
    round
        Index of the round in the log; of the version, where the server is buffered.
    clients
        Their indices, shape (B,), in the order in which they were selected; of a buffered server, in the order of
        their reports, where one may stand several times. B may differ from round to round.
    staleness
        tau of each report, shape (B,): versions since the client downloaded its model. Zeros where it is left out, as
        in synchronous rounds.
    """

    round: int
    clients: Ints
    staleness: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __post_init__(self) -> None:
        if not len(self.staleness):
            object.__setattr__(self, "staleness", np.zeros(len(self.clients), dtype=np.int64))


class Optimizer(Protocol):
    """A server's rule for turning the work of each cohort into the next model.

    Any class with these methods is an optimizer; it need not inherit from this one. A scenario names it as
    ``kind: my_package.my_module:MyOptimizer``, and it is then called with the scenario's options as keyword
    arguments.

    What an optimizer remembers lives in its state, never in itself: one object may serve several runs. The
    state may be of any type, and may be changed in place. Between `prepare` and `apply`, client i of the
    cohort takes K local steps of gradient descent from the server's model x_t, each of length (step size) x
    (its scale)::

        x^i_{t,0} = x_t
        x^i_{t,k+1} = x^i_{t,k} - alpha s_i grad f_i(x^i_{t,k})
        Delta_i = x^i_{t,K} - x_t

    Over the log of a buffered server, client i starts from the version that it downloaded, x_{t - tau_i}, and both
    methods are called when the buffer is full; the model that `apply` gets is the server's own, x_t.

    An optimizer whose constructor has an argument ``pi`` or ``frequency`` is given it, each of shape (N,) with sum 1:
    ``pi`` is the long-run participation that theory predicts, None where theory does not apply; ``frequency`` is what
    the whole log, its end included, will have shown.
    """

    def init(self, clients: int, dimension: int, /) -> Any:
        """Return the state before the first round, for N clients and models of d parameters."""

    def prepare(self, state: Any, cohort: Cohort, /) -> tuple[Any, Floats]:
        """Return the state, and the factor s_i on the local step size of each client, shape (B,)."""

    def apply(self, state: Any, model: Floats, cohort: Cohort, deltas: Floats, /) -> tuple[Any, Floats]:
        """Return the state, and the server's next model, shape (d,).

        Parameters
        ----------
        state
            What `prepare` returned.
        model
            The server's model x_t, shape (d,).
        cohort
            Who took part.
        deltas
            Their changes to the model, Delta_i, shape (B, d).
        """


@dataclass(frozen=True)
class LongRun:
    """Where an optimizer comes to rest for small steps: at the x with sum_i w_i Delta_i(x; s_i) = 0.

    Parameters
    ----------
    weights
        w_i, shape (N,).
    scales
        s_i, the factor on client i's local step size, shape (N,).
    """

    weights: Floats
    scales: Floats


class PlainSteps(Generic[State]):
    """What optimizers share that leave the local step as it is."""

    def prepare(self, state: State, cohort: Cohort) -> tuple[State, Floats]:
        """Return ones: every client takes the plain local step."""
        return state, np.ones(len(cohort.clients))


@runtime_checkable
class Foreseeable(Protocol):
    """An optimizer that can say where the participation will lead it; those of users need not."""

    def long_run(self, pi: Floats, /) -> LongRun | None:
        """Return its weights and scales in the long run when client i takes part with frequency pi_i, if it can say."""


@runtime_checkable
class Remembering(Protocol):
    """An optimizer whose state grows with clients x parameters, and that can say how large it will be."""

    def memory(self, clients: int, dimension: int, /) -> int:
        """Return the bytes that `init` will allocate."""


def inverse_frequency(pi: Floats) -> Floats:
    """Return nu_i = 1 / (N pi_i), and 1 for a client that never takes part: nobody will see its steps."""
    return np.divide(1.0, len(pi) * pi, out=np.ones(len(pi)), where=pi > 0)
