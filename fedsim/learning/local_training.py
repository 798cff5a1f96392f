"""The local steps of clients: for all clients, optimizers and logs in one array expression a step."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Self, TypeAlias

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Stream
from fedsim.learning.cohorts import Reports
from fedsim.learning.failures import LearningError, as_floats_of_shape
from fedsim.learning.optimizers.optimizer import LocalRule
from fedsim.learning.problems.problem import Descending, Gradients, Problem, Sampled

StepSchedule: TypeAlias = Callable[[int], float]
"""The local step size alpha_t of round t = 0, 1, ..., counted in rounds of the log."""


@dataclass(frozen=True)
class Altered:
    """How M clients deviate from K plain steps."""

    corrections: Floats | None  # c_i, shape (M, d), or None
    # proximal, anchors: mu_i, shape (M, 1), and x_t, shape (M, d), of mu_i (x - x_t); or None
    proximal: Floats | None
    anchors: Floats | None
    rule: LocalRule | None  # instead of gradient descent, or None

    def gradients(self, plain: Gradients) -> Gradients:
        """Return the gradients with the corrections and the proximal term."""

        def altered(models: Floats) -> Floats:
            slopes = as_floats_of_shape("the array of gradients", plain(models), models.shape)
            if self.corrections is not None:
                slopes = slopes + self.corrections
            if self.proximal is not None and self.anchors is not None:
                slopes = slopes + self.proximal * (models - self.anchors)
            return slopes

        return altered

    def of(self, rows: Ints) -> "Altered":
        """Return the deviations of some of the clients, by their rows."""
        corrections, proximal, anchors = (
            None if each is None else each[rows] for each in (self.corrections, self.proximal, self.anchors)
        )
        return Altered(corrections, proximal, anchors, self.rule)


def merge_altered(parts: Sequence[tuple[Altered, int]]) -> Altered:
    """Return the deviations of several cohorts with the same rule, each with its number of clients, as one."""
    each, sizes = zip(*parts, strict=True)
    corrections, proximal, anchors = (
        _stacked([getattr(one, name) for one in each], sizes) for name in ("corrections", "proximal", "anchors")
    )
    return Altered(corrections, proximal, anchors, each[0].rule)


def _stacked(arrays: Sequence[Floats | None], sizes: Sequence[int]) -> Floats | None:
    """Return arrays one after the other, a row for each client, zeros for those that are None; None if all are."""
    widths = [array.shape[-1] for array in arrays if array is not None]
    if not widths:
        return None
    pairs = zip(arrays, sizes, strict=True)
    rows = [np.broadcast_to(0.0 if array is None else array, (size, widths[0])) for array, size in pairs]
    return np.concatenate(rows)


@dataclass(frozen=True)
class OfSteps:
    """The gradient function of each local step, made when it is asked for."""

    count: int
    of_step: Callable[[int], Gradients]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, step: int) -> Gradients:
        return self.of_step(range(self.count)[step])

    def __iter__(self) -> Iterator[Gradients]:
        return map(self.of_step, range(self.count))


@dataclass(frozen=True)
class LocalWork:
    """What a client does in a round; `checked` makes one."""

    problem: Problem
    # steps, step_size: K, or the largest K_i; and alpha_t by round
    steps: int
    step_size: StepSchedule
    batch_size: int | None  # samples of each step, drawn with replacement; None for the full local gradient
    own_steps: Ints | None = None  # K_i, (N,); None where all take K

    @classmethod
    def checked(
        cls, problem: Problem, local_steps: int | Ints, step_size: float | StepSchedule, batch_size: int | None = None
    ) -> Self:
        """Return the work; a `LearningError` if a number is out of its range or there are no samples to draw from.

        `local_steps` is K, or K_i of each client, (N,).
        """
        own_steps = local_steps if isinstance(local_steps, np.ndarray) else None
        if own_steps is not None:
            require("local_steps", own_steps.shape, own_steps.shape == (problem.clients,), "one for each client")
            require("local_steps", int(own_steps.min()), bool((own_steps >= 1).all()), "at least 1")
            local_steps = int(own_steps.max())
        else:
            require("local_steps", local_steps, bool(local_steps >= 1), "at least 1")
        if not callable(step_size):
            require("step_size", step_size, 0 < step_size < np.inf, "positive and finite")
            step_size = partial(_always, step_size)
        work = cls(problem, int(local_steps), step_size, batch_size, own_steps)
        if batch_size is not None:
            require("batch_size", batch_size, batch_size >= 1, "at least 1")
            if work.sampled is None:
                raise LearningError(
                    f"batch_size: {type(problem).__name__} has no samples to draw minibatches from; "
                    "leave batch_size out for full local gradients"
                )
        return work

    def steps_of(self, clients: Ints) -> Ints:
        """Return K_i of these clients, (M,)."""
        return np.full(len(clients), self.steps) if self.own_steps is None else self.own_steps[clients]

    @property
    def each_takes(self) -> int | Ints:
        """K, or K_i of each client, (N,)."""
        return self.steps if self.own_steps is None else self.own_steps

    # Cached: checking for a protocol takes longer than many a step.
    @cached_property
    def sampled(self) -> Sampled | None:
        """The problem, if it has samples."""
        return self.problem if isinstance(self.problem, Sampled) else None

    @cached_property
    def descending(self) -> Descending | None:
        """The problem, if its `descend` applies: not if a subclass overrides the gradients but not `descend`."""
        if isinstance(self.problem, Descending):
            for kind in type(getattr(self.problem, "whole", self.problem)).__mro__:
                if "descend" in vars(kind):
                    return self.problem
                if "gradients" in vars(kind) or "select" in vars(kind):
                    return None
        return None

    def minibatches(self, draws: Stream, number: int | Ints, clients: Ints) -> Ints | None:
        """Return the samples of a cohort's steps in a round, shape (K, B, batch size); None for full gradients.

        A draw is a function of (client, round, step, place in the batch), so all optimizers of a log see the same
        samples. `number`, the round, may be one for each client, as in a buffered server's log.
        """
        if self.batch_size is None or self.sampled is None:
            return None
        each = np.arange(self.steps * self.batch_size).reshape(self.steps, 1, self.batch_size)
        number = number[:, None] if isinstance(number, np.ndarray) else int(number)
        bits = draws.bits(clients[:, None], number * each.size + each)
        numbers = getattr(self.problem, "counts", None)
        if numbers is None:
            bits %= np.uint64(self.sampled.samples)
        else:
            bits %= numbers[clients % self.problem.clients, None].astype(np.uint64)
        return bits.view(np.int64)

    def updates(
        self,
        clients: Ints,
        models: Floats,
        step_sizes: Floats,
        minibatches: Ints | None = None,
        altered: Altered | None = None,
        counts: Ints | None = None,
    ) -> Floats:
        """Return what each client adds to the server's model in its local steps, shape (M, d).

        Delta_i = x^i_{K_i} - x with x^i_0 = x and x^i_{k+1} = x^i_k - alpha s_i g_i(x^i_k): equation (9) of Sun et al.,
        arXiv:2410.01209, with s_i = nu_i. g_i is the gradient of f_i, or of its mean over a minibatch. `clients`, (M,),
        has a client once for each optimizer that it trains for; `models`, (M, d), are x, and `step_sizes`, (M,),
        alpha s_i; `minibatches` has shape (K, M, batch size), None for full local gradients; `counts`, (M,), are other
        numbers of steps than K_i. Raises a `LearningError` if the problem, or a rule, returns an array of another shape
        than (M, d).
        """
        if counts is None and self.own_steps is not None:
            counts = self.own_steps[clients]
        if counts is None:
            return self._taken(self.steps, clients, models, step_sizes, minibatches, altered)
        if altered is not None and altered.rule is not None:
            raise LearningError("its rule for local steps, which all clients share, needs as many steps of each")
        # All take the fewest steps together, then the others go on: as many calls as the largest K_i.
        ends, done = models.copy(), 0
        for steps in np.unique(counts).tolist():
            rows = np.flatnonzero(counts >= steps)
            drawn = None if minibatches is None else minibatches[done:steps, rows]
            deviating = None if altered is None else altered.of(rows)
            ends[rows] += self._taken(steps - done, clients[rows], ends[rows], step_sizes[rows], drawn, deviating)
            done = steps
        return ends - models

    def _taken(
        self,
        count: int,
        clients: Ints,
        models: Floats,
        step_sizes: Floats,
        minibatches: Ints | None,
        altered: Altered | None,
    ) -> Floats:
        """Return what so many steps add to the models, (M, d)."""
        if altered is None and self.descending is not None:
            changes = self.descending.descend(clients, models, step_sizes, count, minibatches)
            return as_floats_of_shape("the array of changes", changes, models.shape)
        objectives = self._objectives(count, clients, minibatches)
        if altered is not None:
            plain, deviating = objectives, altered.gradients
            objectives = OfSteps(count, lambda step: deviating(plain[step]))
            if altered.rule is not None:
                ends = altered.rule(models.copy(), objectives, step_sizes)
                return as_floats_of_shape("the local rule", ends, models.shape) - models
        local, steps = models.copy(), step_sizes[:, None]
        for gradients in objectives:
            local -= steps * as_floats_of_shape("the array of gradients", gradients(local), local.shape)
        return local - models

    def _objectives(self, count: int, clients: Ints, minibatches: Ints | None) -> OfSteps:
        if (sampled := self.sampled) is not None and minibatches is not None:
            return OfSteps(count, lambda step: sampled.select(clients, minibatches[step]))
        plain = partial(self.problem.gradients, clients) if sampled is None else sampled.select(clients)
        return OfSteps(count, lambda _: plain)


def require(name: str, value: object, holds: bool, what: str) -> None:
    """Raise a `LearningError` that names the value unless it `holds`."""
    if not holds:
        raise LearningError(f"{name} must be {what}, got {value!r}")


def _always(step_size: float, _t: int) -> float:
    return step_size


def with_minibatches(
    turns: Iterable[Reports], rounds: Ints, work: LocalWork, draws: Stream
) -> Iterator[tuple[Reports, Ints | None]]:
    """Yield the reports of each row of a log, in order, with the minibatches of their clients' steps.

    These are as `LocalWork.minibatches` draws them. `rounds`, (T,), are the numbers of the log's rounds or versions.
    """
    for row, each in enumerate(turns):
        # A client's second session from the same version draws as a client past the last, so with other samples.
        clients = each.clients if each.repeats is None else each.clients + work.problem.clients * each.repeats
        yield each, work.minibatches(draws, rounds[row if each.begun is None else each.begun], clients)
