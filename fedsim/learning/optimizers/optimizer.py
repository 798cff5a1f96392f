"""What a federated optimizer is: a state, a step before the clients train, and a step with their work."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.problems.problem import Gradients

State = TypeVar("State")

LocalRule: TypeAlias = Callable[[Floats, Iterable[Gradients], Floats], Floats]
"""Called with the models from which M clients start, shape (M, d), the gradient function of each of the K local steps,
and the clients' step sizes, shape (M,); returns the models at which they end."""


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
    local_steps
        K.
    step_sizes
        alpha of each client, shape (B,), before any scale. Ones where it is left out.
    downloaded
        The server's model as the clients downloaded it: x_t, shape (d,); of a buffered server x_{t - tau_i}, a row for
        each, shape (B, d). It must not be changed.
    """

    round: int
    clients: Ints
    staleness: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    local_steps: int = 1
    step_sizes: Floats = field(default_factory=lambda: np.empty(0))
    downloaded: Floats = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        if not len(self.staleness):
            object.__setattr__(self, "staleness", np.zeros(len(self.clients), dtype=np.int64))
        if not len(self.step_sizes):
            object.__setattr__(self, "step_sizes", np.ones(len(self.clients)))


@dataclass(frozen=True, slots=True)
class LocalSteps:
    """How the clients of a cohort train, where an optimizer wants more than scales of their steps.

    Client i goes K times::

        x^i_{t,k+1} = x^i_{t,k} - alpha s_i (grad f_i(x^i_{t,k}) + c_i + mu_i (x^i_{t,k} - x_t))

    from its start point, x_t being the model that it downloaded, and reports Delta_i = x^i_{t,K} - x^i_{t,0}.

    Parameters
    ----------
    scales
        s_i, shape (B,); ones where it is None.
    starts
        x^i_{t,0}, shape (B, d); the model downloaded where it is None.
    corrections
        c_i, shape (B, d), or (d,) for everyone the same; none where it is None.
    proximal
        mu_i, at least 0: a number, or shape (B,).
    rule
        What to do instead of K steps of gradient descent; its gradients have c_i and mu_i in them.
    """

    scales: Floats | None = None
    starts: Floats | None = None
    corrections: Floats | None = None
    proximal: float | Floats = 0.0
    rule: LocalRule | None = None


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

    Where that is not enough (start points of their own, corrections, a proximal term, another local rule), `prepare`
    returns `LocalSteps` in place of the scales.

    Over the log of a buffered server, client i starts from the version that it downloaded, x_{t - tau_i}, and both
    methods are called when the buffer is full; the model that `apply` gets is the server's own, x_t.

    An optimizer whose constructor has an argument ``pi`` or ``frequency`` is given it, each of shape (N,) with sum 1:
    ``pi`` is the long-run participation that theory predicts, None where theory does not apply; ``frequency`` is what
    the whole log, its end included, will have shown.
    """

    def init(self, clients: int, dimension: int, /) -> Any:
        """Return the state before the first round, for N clients and models of d parameters."""

    def prepare(self, state: Any, cohort: Cohort, /) -> tuple[Any, Floats | LocalSteps]:
        """Return the state, and the factor s_i on the local step size of each client, shape (B,), or `LocalSteps`."""

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


class Scaling(Optimizer, Protocol):
    """An optimizer that does no more to local work than scale the steps."""

    def prepare(self, state: Any, cohort: Cohort, /) -> tuple[Any, Floats]:
        """Return the state, and s_i of each client, shape (B,)."""


@dataclass(frozen=True)
class LongRun:
    """Where an optimizer comes to rest for small steps: at the x with sum_i w_i Delta_i(x; s_i) = 0.

    Parameters
    ----------
    weights
        w_i, shape (N,).
    scales
        s_i, the factor on client i's local step size, shape (N,).
    local_steps
        K of these Delta_i, where it is not that of the clients; 1 for an optimizer that rests where the weighted
        gradients vanish, however many local steps are taken.
    """

    weights: Floats
    scales: Floats
    local_steps: int | None = None


def even_weights(pi: Floats, local_steps: int | None = None) -> LongRun:
    """Return where everyone who takes part weighs the same: those who never do have no weight."""
    return LongRun((pi > 0) / len(pi), np.ones(len(pi)), local_steps)


class PlainSteps(Generic[State]):
    """What optimizers share that leave the local step as it is."""

    def prepare(self, state: State, cohort: Cohort) -> tuple[State, Floats]:
        """Return ones: every client takes the plain local step."""
        scales = np.empty(len(cohort.clients))
        scales.fill(1.0)  # several times faster than np.ones, and done in every round
        return state, scales


@runtime_checkable
class Foreseeable(Protocol):
    """An optimizer that can say where the participation will lead it; those of users need not."""

    def long_run(self, pi: Floats, /) -> LongRun | None:
        """Return its weights and scales in the long run when client i takes part with frequency pi_i, if it can say."""


@runtime_checkable
class Remembering(Protocol):
    """An optimizer whose state grows with participants x parameters, and that can say how large it will be."""

    def memory(self, participants: int, dimension: int, /) -> int:
        """Return the bytes that the state takes when so many different clients have taken part."""


def inverse_frequency(pi: Floats) -> Floats:
    """Return nu_i = 1 / (N pi_i), and 1 for a client that never takes part: nobody will see its steps."""
    return np.divide(1.0, len(pi) * pi, out=np.ones(len(pi)), where=pi > 0)
