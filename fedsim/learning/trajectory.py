"""One optimizer during its replay of a log, and the models that it leaves behind."""

from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Floats
from fedsim.common.errors import line_of
from fedsim.learning.failures import (
    LearningError,
    as_floats_of_shape,
    learning_error_from,
    reraise_as_learning_error,
    returned_pair,
)
from fedsim.learning.local_training import Altered
from fedsim.learning.optimizers.optimizer import Cohort, LocalSteps, Optimizer
from fedsim.learning.problems.problem import Problem

_CHANGES = ("diverged", "model", "state", "past", "drawn", "_total", "_summed")


@dataclass(frozen=True)
class End:
    """The models that a run leaves behind, shape (d,); NaN if it diverged before."""

    last: Floats  # after the last round
    average: Floats  # mean over the server steps of the last half of the run, which removes most of the noise
    # drawn, drawn_round: after a round drawn uniformly from the run, the output rule of Sun et al., arXiv:2410.01209;
    # and that round, the same for every optimizer of the log
    drawn: Floats
    drawn_round: int


class Trajectory:
    """One optimizer with its state, its model, the older models that it still needs, and whether it has diverged."""

    cohort: Cohort
    starts: Floats
    step_sizes: Floats
    altered: Altered | None

    def __init__(self, name: str, optimizer: Optimizer, problem: Problem, start: Floats | None = None) -> None:
        self.name, self.optimizer, self.diverged = name, optimizer, False
        with reraise_as_learning_error("problem, initial model", problem.initial):
            first = problem.initial() if start is None else start
            self.model = as_floats_of_shape("the model", first, (problem.dimension,)).copy()
        with reraise_as_learning_error(f"optimizer {name!r}, init", optimizer.init):
            self.state = optimizer.init(problem.clients, problem.dimension)
        self.past, self.least = dict[int, Floats](), inf  # the lowest loss that was seen
        self.drawn = np.full_like(self.model, np.nan)
        self._total, self._summed = np.zeros_like(self.model), 0

    @property
    def changed(self) -> dict[str, Any]:
        """What has changed since the beginning, with the lists that optimizers keep of what they did."""
        lists = (
            {key: [*value] for key, value in vars(each).items() if type(value) is list} for each in self._optimizers()
        )
        return {name: getattr(self, name) for name in _CHANGES} | {"lists": tuple(lists)}

    @changed.setter
    def changed(self, changed: dict[str, Any]) -> None:
        for each, lists in zip(self._optimizers(), changed["lists"], strict=True):
            for key, values in lists.items():
                getattr(each, key)[:] = values
        for name in _CHANGES:
            setattr(self, name, changed[name])

    def _optimizers(self) -> list[Any]:
        """Return the optimizer, and those around which it is."""
        nested: list[Any] = [self.optimizer]
        while hasattr(nested[-1], "optimizer"):
            nested.append(nested[-1].optimizer)
        return [each for each in nested if hasattr(each, "__dict__")]

    def downloaded(self, row: int, begun: NDArray[np.intp] | None) -> Floats:
        """Return what the clients of a row downloaded: its own model, (d,), or those of the rows `begun`, (B, d)."""
        if begun is None:
            return self.model
        return np.stack([self.model if version == row else self.past[version] for version in begun.tolist()])

    def prepare(self, cohort: Cohort) -> None:
        """Announce a cohort, and ask how its clients train."""
        self.cohort = cohort
        try:
            self.state, local = returned_pair(
                self.optimizer.prepare(self.state, self.cohort), "(state, scales or LocalSteps)"
            )
            if isinstance(local, LocalSteps):
                self._follow(local)
            else:
                scales = as_floats_of_shape("the array of scales", local, cohort.clients.shape)
                self.starts, self.step_sizes, self.altered = cohort.downloaded, cohort.step_sizes * scales, None
        except BaseException as error:
            where = f"optimizer {self.name!r}, prepare, round {self.cohort.round}"
            raise learning_error_from(where, error, self._users_method("prepare")) from error

    def _follow(self, local: LocalSteps) -> None:
        """Store how the cohort's clients train, after checking the shapes."""
        clients, shape = self.cohort.clients.shape, (len(self.cohort.clients), len(self.model))
        scales = 1.0 if local.scales is None else as_floats_of_shape("the array of scales", local.scales, clients)
        self.step_sizes = self.cohort.step_sizes * scales
        self.starts, self.altered = self.cohort.downloaded, None
        if local.starts is not None:
            self.starts = as_floats_of_shape("the array of start points", local.starts, shape)
        corrections = local.corrections
        if corrections is not None:
            everyones = np.ndim(corrections) == 1
            corrections = as_floats_of_shape("the array of corrections", corrections, shape[1:] if everyones else shape)
        proximal = np.broadcast_to(
            as_floats_of_shape("proximal", local.proximal, clients if np.ndim(local.proximal) else ()), clients
        )
        if not (proximal >= 0.0).all():
            raise LearningError(f"proximal must be at least 0, got {proximal.min()}")
        pulled = bool(proximal.any())
        if corrections is not None or pulled or local.rule is not None:
            column, anchors = (proximal[:, None], self.cohort.downloaded) if pulled else (None, None)
            self.altered = Altered(corrections, column, anchors, local.rule)

    def step_alone(self, cohort: Cohort) -> None:
        """Let an optimizer that steps in every round do so without any report."""
        if getattr(self.optimizer, "steps_alone", False):
            self.cohort = cohort
            self.apply(np.empty((0, len(self.model))))

    def apply(self, deltas: Floats) -> None:
        """Hand over the clients' changes. A model with NaN, or whose length overflows, has diverged."""
        try:
            self.state, model = returned_pair(
                self.optimizer.apply(self.state, self.model, self.cohort, deltas), "(state, model)"
            )
            self.model = as_floats_of_shape("the model", model, self.model.shape)
        except BaseException as error:
            where = f"optimizer {self.name!r}, apply, round {self.cohort.round}"
            raise learning_error_from(where, error, self._users_method("apply")) from error
        self.diverged = not isfinite(self.model.dot(self.model))
        if self.diverged:
            self.past.clear()

    def _users_method(self, name: str) -> object:
        """Return a method of the optimizer, inside what fedsim puts around it."""
        inner: Any = self.optimizer
        while not line_of(getattr(inner, name)) and hasattr(inner, "optimizer"):
            inner = inner.optimizer
        return getattr(inner, name)

    def remember(self, *, late: bool, drawn: bool) -> None:
        """Keep what `End` needs of the model after a round."""
        if late:
            self._total += self.model
            self._summed += 1
        if drawn:
            self.drawn = self.model

    def end(self, drawn_round: int) -> End:
        """Return the models that the run leaves behind."""
        lost = self.diverged or not self._summed
        average = np.full_like(self.model, np.nan) if lost else self._total / self._summed
        return End(self.model, average, self.drawn, drawn_round)
