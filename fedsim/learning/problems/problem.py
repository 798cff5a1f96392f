"""What a learning problem is: one objective for each client, and their mean."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from fedsim.common.arrays import Floats, Ints

Gradients: TypeAlias = Callable[[Floats], Floats]
"""Gradients, shape (M, d), at models of that shape."""


class Problem(Protocol):
    """Objectives f_1, ..., f_N over models x in R^d; the federation minimises F = (1/N) sum_i f_i.

    Any class with these members is a problem; it need not inherit from this one. A scenario names it as
    ``kind: my_package.my_module:MyProblem``, and its constructor is called with the scenario's options as keyword
    arguments, and with ``clients=`` (N) and ``seed=`` (the scenario's seed). An argument ``folder`` is given the folder
    of the scenario file, to which paths are relative.

    A problem has no state: the same arguments give the same values, in whatever order it is called. A static method
    ``size(clients, options)`` may say how many bytes its data take, and how many parameters there are.
    """

    @property
    def clients(self) -> int:
        """N, the number of clients."""

    @property
    def dimension(self) -> int:
        """d, the number of parameters of a model."""

    def initial(self) -> Floats:
        """Return the model at which every optimizer starts, shape (d,)."""

    def gradients(self, clients: Ints, models: Floats, /) -> Floats:
        """Return the gradient of each client's own objective at that client's own model.

        Row b of the result, shape (B, d), is the gradient of f_i at row b of `models`, (B, d), for i = ``clients[b]``,
        0..N-1. A client may occur several times, each time with another model. `models` must not be changed.
        """

    def evaluate(self, model: Floats, /) -> Mapping[str, float]:
        """Return the value of a model, shape (d,), for the whole federation.

        At least ``loss``, F(model), and ``grad_norm``, the Euclidean norm of its gradient. Every further
        entry becomes a column of the learning table; the entries are the same for every model.
        """


class Telling(Problem, Protocol):
    """A problem whose clients can tell their losses, which some selection laws go by."""

    def losses(self, clients: Ints, models: Floats, /) -> Floats:
        """Return the losses of each client's n samples at its own model, shape (M, n), at least 0.

        Without any regularisation. Rows of `models`, (M, d), belong to `clients`, (M,); n may be 1: f_i itself.
        """


@runtime_checkable
class Sampled(Problem, Protocol):
    """A problem whose f_i are means over samples, as minibatches need it.

    Where clients have different numbers of samples, n is the largest, and an attribute ``counts``, (N,), has these.
    """

    @property
    def samples(self) -> int:
        """n, how many samples a client has."""

    def select(self, clients: Ints, samples: Ints | None = None, /) -> Gradients:
        """Return the gradients of these M clients as a function of their models alone.

        Work that the local steps of a round share is done here once. `samples`, shape (M, batch size), values 0..n-1
        with repetitions, are those of the mean; None for all.
        """


@runtime_checkable
class Descending(Problem, Protocol):
    """A problem that takes a round's local steps itself, which costs less than a call for each gradient."""

    def descend(
        self, clients: Ints, models: Floats, step_sizes: Floats, steps: int, minibatches: Ints | None = None, /
    ) -> Floats:
        """Return what K steps of gradient descent add to the models, shape (M, d).

        `step_sizes` has shape (M,); `minibatches` are samples as in `Sampled.select` for each step, shape
        (K, M, batch size), or None for full gradients.
        """


@runtime_checkable
class ByClient(Problem, Protocol):
    """A problem that can say who pays."""

    def by_client(self, model: Floats, /) -> Mapping[str, Floats]:
        """Return ``loss``, f_i(model) without factors, and perhaps ``accuracy`` on own samples, each of shape (N,)."""


@runtime_checkable
class Affine(Problem, Protocol):
    """A problem whose local work is affine in the model, so all steps of a client can be taken at once."""

    def affine(self, clients: Ints, step_sizes: Floats, steps: int | Ints, /) -> tuple[Floats, Floats]:
        """Return m and c of Delta_i(x) = -m_i (x - c_i), coordinate by coordinate, shape (M, d) each.

        These are of K steps, or K_i of shape (M,), of length alpha s_i, given in `step_sizes`, shape (M,).
        """


@runtime_checkable
class Solvable(Problem, Protocol):
    """A problem whose optimum can be computed, at a cost."""

    def solve(self) -> Floats:
        """Return the minimiser of F, shape (d,)."""


@runtime_checkable
class Solved(Problem, Protocol):
    """A problem whose optimum is known, and where every optimizer comes to rest."""

    @property
    def optimum(self) -> Floats:
        """The minimiser of F, shape (d,)."""

    def rest(self, weights: Floats, scales: Floats, /, *, local_steps: int | Ints, step_size: float) -> Floats:
        """Return the model x with sum_i w_i Delta_i(x; s_i) = 0, shape (d,); the initial one if every x is such.

        For w and s, shape (N,), see `fedsim.learning.optimizers.optimizer.LongRun`; local steps are K, or K_i of shape
        (N,).
        """


def repeated_cohort(clients: Ints, samples: Ints | None = None) -> tuple[Ints, Ints | None, int]:
    """Return a cohort (and its samples) once, and how many times in a row it occurs, once for each optimizer.

    Shapes are (M,), and (M, batch size) or (K, M, batch size) with K steps; `samples` is None for all samples.
    """
    count = int(np.count_nonzero(clients == clients[0])) if len(clients) else 1
    if count == 1 or len(clients) % count:
        return clients, samples, 1
    size = len(clients) // count
    first, batches = clients[:size], None if samples is None else samples[..., :size, :]
    same = clients.tobytes() == first.tobytes() * count
    if same and samples is not None:
        *steps, _, batch_size = samples.shape
        same = bool((samples.reshape(*steps, count, size, batch_size) == samples[..., None, :size, :]).all())
    return (first, batches, count) if same else (clients, samples, 1)


def has_samples(problem: type) -> bool:
    """Say whether the clients of a class of problems have samples to draw minibatches from."""
    return hasattr(problem, "select")


def has_optimum(problem: type) -> bool:
    """Say whether the optimum of a class of problems is known or can be found."""
    return hasattr(problem, "rest") or hasattr(problem, "solve")
