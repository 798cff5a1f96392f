"""The local steps of clients: all of them, for all optimizers and logs, in one array expression a step."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Self, TypeAlias

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Stream
from fedsim.learning.failures import LearningError, shaped
from fedsim.learning.optimizers.optimizer import LocalRule
from fedsim.learning.problems.problem import Descending, Gradients, Problem, Sampled

Schedule: TypeAlias = Callable[[int], float]
"""The local step size alpha_t of round t = 0, 1, ..., counted in rounds of the log."""


@dataclass(frozen=True)
class Altered:
    """What M clients do other than K plain steps from where they start.

    Attributes
    ----------
    corrections
        c_i, shape (M, d); none where it is None.
    proximal, anchors
        mu_i, shape (M, 1), and x_t, shape (M, d), of mu_i (x - x_t); none where they are None.
    rule
        Instead of gradient descent; None for that.
    """

    corrections: Floats | None
    proximal: Floats | None
    anchors: Floats | None
    rule: LocalRule | None

    def gradients(self, plain: Gradients) -> Gradients:
        """Return the gradients with what is added to them."""

        def altered(models: Floats) -> Floats:
            slopes = shaped("the array of gradients", plain(models), models.shape)
            if self.corrections is not None:
                slopes = slopes + self.corrections
            if self.proximal is not None and self.anchors is not None:
                slopes = slopes + self.proximal * (models - self.anchors)
            return slopes

        return altered


def merged(parts: Sequence[tuple[Altered, int]], dimension: int) -> Altered:
    """Return what the clients of several cohorts, with the numbers of their clients, do as one; they share a rule."""
    rows = sum(size for _, size in parts)
    corrections = np.zeros((rows, dimension)) if any(part.corrections is not None for part, _ in parts) else None
    pulled = any(part.proximal is not None for part, _ in parts)
    proximal, anchors = (np.zeros((rows, 1)), np.zeros((rows, dimension))) if pulled else (None, None)
    first = 0
    for part, size in parts:
        own = slice(first, first := first + size)
        if corrections is not None and part.corrections is not None:
            corrections[own] = part.corrections
        if proximal is not None and anchors is not None and part.proximal is not None:
            proximal[own], anchors[own] = part.proximal, part.anchors
    return Altered(corrections, proximal, anchors, parts[0][0].rule)


@dataclass(frozen=True)
class LocalWork:
    """What a client does in a round; `checked` makes one.

    Parameters
    ----------
    problem
        Whose gradients are taken.
    steps
        K >= 1.
    step_size
        alpha_t by round.
    batch_size
        Samples of each step, drawn with replacement; the full local gradient where it is None.
    sampled, descending
        The problem again, where it has samples, and where it takes local steps itself.
    """

    problem: Problem
    steps: int
    step_size: Schedule
    batch_size: int | None
    sampled: Sampled | None
    descending: Descending | None

    @classmethod
    def checked(
        cls, problem: Problem, local_steps: int, step_size: float | Schedule, batch_size: int | None = None
    ) -> Self:
        """Return the work, after a look at each number.

        Raises
        ------
        LearningError
            When a number is out of its range, or the problem has no samples to draw from.
        """
        require("local_steps", local_steps, local_steps >= 1, "at least 1")
        if not callable(step_size):
            require("step_size", step_size, 0 < step_size < np.inf, "positive and finite")
            step_size = partial(_always, step_size)
        sampled = problem if isinstance(problem, Sampled) else None
        if batch_size is not None:
            require("batch_size", batch_size, batch_size >= 1, "at least 1")
            if sampled is None:
                raise LearningError(
                    f"batch_size: {type(problem).__name__} has no samples to draw minibatches from; "
                    "leave batch_size out for full local gradients"
                )
        # Here and not in every round: looking at a protocol takes longer than many a step.
        return cls(problem, local_steps, step_size, batch_size, sampled, _descending(problem))

    def minibatches(self, draws: Stream, number: int | Ints, clients: Ints) -> Ints | None:
        """Return the samples of a cohort's steps in a round, shape (K, B, batch size); None for full gradients.

        A draw is a function of (client, round, step, place in the batch): optimizers that see the same log also see
        the same samples. The round may be one for each client, as in a buffered server's log.
        """
        if self.batch_size is None or self.sampled is None:
            return None
        each = np.arange(self.steps * self.batch_size).reshape(self.steps, 1, self.batch_size)
        number = number[:, None] if isinstance(number, np.ndarray) else int(number)
        bits = draws.bits(clients[:, None], number * each.size + each)
        bits %= np.uint64(self.sampled.samples)
        return bits.view(np.int64)

    def updates(
        self,
        clients: Ints,
        models: Floats,
        step_sizes: Floats,
        minibatches: Ints | None = None,
        altered: Altered | None = None,
    ) -> Floats:
        """Return what each client adds to the server's model in its local steps of gradient descent.

        Parameters
        ----------
        clients
            Who trains, shape (M,): a client stands there once for each optimizer that it trains for.
        models
            The model from which each of them starts, shape (M, d).
        step_sizes
            alpha s_i, shape (M,).
        minibatches
            The samples of each step, shape (K, M, batch size); full local gradients where it is None.
        altered
            What is added to the gradients, and the rule that is followed; plain gradient descent where it is None.

        Returns
        -------
        Delta_i = x^i_K - x with x^i_0 = x and x^i_{k+1} = x^i_k - alpha s_i g_i(x^i_k), shape (M, d): equation (9)
        of Sun et al., arXiv:2410.01209, with s_i = nu_i. g_i is the gradient of f_i, or of its mean over a minibatch.

        Raises
        ------
        LearningError
            When the problem returns gradients of another shape than (M, d), or a rule fails or returns such models.
        """
        if altered is None and self.descending is not None:
            changes = self.descending.descend(clients, models, step_sizes, self.steps, minibatches)
            return shaped("the array of changes", changes, models.shape)
        objectives = self._objectives(clients, minibatches)
        if altered is not None:
            objectives = map(altered.gradients, objectives)
            if altered.rule is not None:
                return (
                    shaped("the local rule", altered.rule(models.copy(), objectives, step_sizes), models.shape) - models
                )
        local, steps = models.copy(), step_sizes[:, None]
        for gradients in objectives:
            local -= steps * shaped("the array of gradients", gradients(local), local.shape)
        return local - models

    def _objectives(self, clients: Ints, minibatches: Ints | None) -> Iterable[Gradients]:
        if self.sampled is None:
            return repeat(partial(self.problem.gradients, clients), self.steps)
        if minibatches is None:
            return repeat(self.sampled.select(clients), self.steps)
        return (self.sampled.select(clients, samples) for samples in minibatches)


def require(name: str, value: object, holds: bool, what: str) -> None:
    """Refuse a number that is not what it must be.

    Raises
    ------
    LearningError
        With the number that was given.
    """
    if not holds:
        raise LearningError(f"{name} must be {what}, got {value!r}")


def _descending(problem: Problem) -> Descending | None:
    """Return the problem, where it has `descend`; a class that inherits it and has gradients of its own wants those."""
    if not isinstance(problem, Descending):
        return None
    for kind in type(problem).__mro__:
        if "descend" in vars(kind):
            break
        if "gradients" in vars(kind) or "select" in vars(kind):
            return None
    return problem


def _always(step_size: float, _t: int) -> float:
    return step_size
