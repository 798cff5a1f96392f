"""What a federated optimizer is: a state, a step before the clients train, and a step with their work."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.problems.problem import Gradients

State = TypeVar("State")

LocalRule: TypeAlias = Callable[[Floats, Iterable[Gradients], Floats], Floats]
"""Called with the models from which M clients start, shape (M, d), the gradient function of each of the K local steps
(with a length and places), and the clients' step sizes, shape (M,); returns the models at which they end."""


@dataclass(frozen=True, slots=True)
class Cohort:
    """The clients whose work reached the server in one round, or filled its buffer in one version."""

    round: int  # in the log; the version, with a buffered server
    # indices, (B,), in the order of selection; with a buffered server in that of the reports, and a client may occur
    # several times. B may differ from round to round
    clients: Ints
    # tau of each report, (B,): versions since the client downloaded its model; zeros, the default, in rounds
    staleness: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    local_steps: int = 1  # K, or the largest K_i
    step_sizes: Floats = field(
        default_factory=lambda: np.empty(0)
    )  # alpha of each, (B,), before any scale; default: ones
    # the model as the clients downloaded it: x_t, (d,); with a buffered server x_{t - tau_i}, (B, d). Not to be changed
    downloaded: Floats = field(default_factory=lambda: np.empty(0))
    divisor: int | None = None  # by what the server divides the sum of changes; None: by B, as in a mean
    steps: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # K_i of each, (B,); default: K

    def __post_init__(self) -> None:
        if not len(self.staleness):
            object.__setattr__(self, "staleness", np.zeros(len(self.clients), dtype=np.int64))
        if not len(self.step_sizes):
            object.__setattr__(self, "step_sizes", np.ones(len(self.clients)))
        if not len(self.steps):
            object.__setattr__(self, "steps", np.full(len(self.clients), self.local_steps))


@dataclass(frozen=True, slots=True)
class LocalSteps:
    """How the clients of a cohort train, for an optimizer that does more than scale their steps.

    Client i takes K_i steps::

        x^i_{t,k+1} = x^i_{t,k} - alpha s_i (grad f_i(x^i_{t,k}) + c_i + mu_i (x^i_{t,k} - x_t))

    from its start point, x_t being the model that it downloaded, and reports Delta_i = x^i_{t,K_i} - x^i_{t,0}.
    """

    scales: Floats | None = None  # s_i, (B,); None for ones
    starts: Floats | None = None  # x^i_{t,0}, (B, d); None for the downloaded model
    corrections: Floats | None = None  # c_i, (B, d), or (d,) if all are the same; None for none
    proximal: float | Floats = 0.0  # mu_i, at least 0: a number, or (B,)
    rule: LocalRule | None = None  # instead of K steps of gradient descent; its gradients include c_i and mu_i


class Optimizer(Protocol):
    """A server's rule for turning the work of each cohort into the next model.

    Any class with these methods is an optimizer; it need not inherit from this one. A scenario names it as
    ``kind: my_package.my_module:MyOptimizer``, and its constructor is called with the scenario's options as keyword
    arguments.

    An optimizer keeps what it remembers in its state, never in itself: one object may serve several runs. The state
    may be of any type, and may be changed in place. Between `prepare` and `apply`, client i of the cohort takes K local
    steps of gradient descent from the server's model x_t, each of length (step size) x (its scale)::

        x^i_{t,0} = x_t
        x^i_{t,k+1} = x^i_{t,k} - alpha s_i grad f_i(x^i_{t,k})
        Delta_i = x^i_{t,K} - x_t

    For start points of their own, corrections, a proximal term or another local rule, `prepare` returns `LocalSteps`
    instead of the scales.

    Over the log of a buffered server, client i starts from the version that it downloaded, x_{t - tau_i}, and both
    methods are called when the buffer is full; the model that `apply` gets is the server's own, x_t.

    An optimizer whose constructor has an argument ``pi`` or ``frequency`` is given it, each of shape (N,) with sum 1,
    the clients' pulls w_i = E[1{i in S}/|S|], which are their shares of the reports where cohorts have one size or the
    server divides by a fixed number: ``pi`` as theory predicts them, None where it does not; ``frequency`` as the whole
    log, to its end, shows them. ``shares`` are the shares of the reports of the log. An argument ``predicted`` is given
    a function that returns the pulls that a mean field predicts, shape (N,); ``local_steps`` K_i, shape (N,).

    A class may also have `memory` (see `SizedState`), `long_run` (see `Foreseeable`), and attributes ``footprint``, a
    `Footprint`, and ``frequency_option``, a `FrequencyOption`. A built-in one that releases what a client sent again in
    later rounds, which privacy does not cover, has ``reuses_updates = True``; one whose clients must all take as many
    local steps has ``equal_steps = True``. A static method
    ``ignores_schedule(options)`` of the class itself, not of a base, says whether the weight of a client's update is
    the same whoever else takes part, in any round; without it privacy cannot count on amplification by sampling.
    """

    def init(self, clients: int, dimension: int, /) -> Any:
        """Return the state before the first round, for N clients and models of d parameters."""

    def prepare(self, state: Any, cohort: Cohort, /) -> tuple[Any, Floats | LocalSteps]:
        """Return the state, and the factor s_i on the local step size of each client, shape (B,), or `LocalSteps`."""

    def apply(self, state: Any, model: Floats, cohort: Cohort, deltas: Floats, /) -> tuple[Any, Floats]:
        """Return the state, and the server's next model, shape (d,).

        `model` is x_t, shape (d,), and `deltas` the cohort's changes Delta_i, shape (B, d).
        """


@runtime_checkable
class SizedState(Protocol):
    """An optimizer whose state grows with participants x parameters, and that can say how large it will be."""

    def memory(self, participants: int, dimension: int, /) -> int:
        """Return the bytes that the state takes when so many different clients have taken part."""


@dataclass(frozen=True)
class LongRun:
    """Where an optimizer comes to rest for small steps: at the x with sum_i w_i Delta_i(x; s_i) = 0."""

    weights: Floats  # w_i, shape (N,)
    scales: Floats  # s_i, the factor on client i's local step size, shape (N,)
    # K of these Delta_i, if it is not that of the clients; 1 for an optimizer that rests where the weighted gradients
    # vanish, however many local steps are taken
    local_steps: int | None = None

    @classmethod
    def by_frequency(cls, pi: Floats) -> "LongRun":
        """Weight clients by their pull, as FedAvg does: biased towards those who take part often, in small cohorts."""
        return cls(pi, np.ones(len(pi)))

    @classmethod
    def evenly(cls, pi: Floats, local_steps: int | None = None) -> "LongRun":
        """Weight all clients that ever take part alike."""
        return cls((pi > 0) / len(pi), np.ones(len(pi)), local_steps)


@runtime_checkable
class Foreseeable(Protocol):
    """An optimizer that can say where the participation will lead it."""

    def long_run(self, pi: Floats, /) -> LongRun | None:
        """Return its long run when client i has the pull pi_i; None if that is not all it depends on."""


class Footprint(NamedTuple):
    """How many arrays of d numbers a method needs beside the model itself."""

    server: int = 0  # that the server keeps, whoever takes part
    per_participant: int = 0  # that it keeps of each client that has taken part
    client: int = 0  # that each of these keeps on its device until its next participation
    sent: int = 1  # that a report has


class FrequencyOption(NamedTuple):
    """An option that says where the frequencies of an optimizer come from; ``theory`` and ``predicted`` are checked."""

    # name and default of the option
    name: str
    default: str
    instead_of_theory: str  # what the user may write where no theory covers the scenario


class Stateless:
    """An optimizer that remembers nothing."""

    def init(self, _clients: int, _dimension: int) -> None:
        """Return None."""


class PlainSteps(Generic[State]):
    """An optimizer whose clients take the plain local steps."""

    footprint: ClassVar[Footprint] = Footprint()

    def prepare(self, state: State, cohort: Cohort) -> tuple[State, Floats]:
        return state, np.ones(len(cohort.clients))


def inverse_frequency(pi: Floats) -> Floats:
    """Return nu_i = 1 / (N pi_i), and 1 for a client without any pull, whose steps nobody sees."""
    return np.divide(1.0, len(pi) * pi, out=np.ones(len(pi)), where=pi > 0)
