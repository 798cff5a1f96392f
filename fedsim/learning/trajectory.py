"""One optimizer on its way through a log, and where it got to."""

from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Floats
from fedsim.learning.failures import LearningError, blame, blamed, shaped
from fedsim.learning.local_training import Altered
from fedsim.learning.optimizers.optimizer import Cohort, LocalSteps, Optimizer
from fedsim.learning.problems.problem import Problem


@dataclass(frozen=True)
class End:
    """The models that a run leaves behind; NaN where it diverged before they were there.

    Attributes
    ----------
    last
        After the last round, shape (d,).
    average
        Mean over the server steps of the last half of the run, which takes out most of the noise.
    drawn
        After a round that was drawn uniformly from the run: the output rule of Sun et al., arXiv:2410.01209.
    drawn_round
        That round, the same for every optimizer of the log.
    """

    last: Floats
    average: Floats
    drawn: Floats
    drawn_round: int


@dataclass
class Trajectory:
    """One optimizer: its state, its model, what is kept of its way, and whether it has diverged."""

    name: str
    optimizer: Optimizer
    state: Any
    model: Floats
    diverged: bool = False
    past: dict[int, Floats] = field(default_factory=dict)
    cohort: Cohort = field(init=False)
    starts: Floats = field(init=False)
    step_sizes: Floats = field(init=False)
    altered: Altered | None = field(init=False)
    drawn: Floats = field(init=False)
    _total: Floats = field(init=False)
    _summed: int = 0

    def __post_init__(self) -> None:
        self.drawn = np.full_like(self.model, np.nan)
        self._total = np.zeros_like(self.model)

    @classmethod
    def start(cls, name: str, optimizer: Optimizer, problem: Problem) -> Self:
        """Return a run before its first round."""
        with blame("problem, initial model"):
            model = shaped("the model", problem.initial(), (problem.dimension,)).copy()
        with blame(f"optimizer {name!r}, init"):
            return cls(name, optimizer, optimizer.init(problem.clients, problem.dimension), model)

    def downloaded(self, row: int, begun: NDArray[np.intp] | None) -> Floats:
        """Return what clients downloaded whose work is taken in a row of the log, shape (d,) or (B, d).

        That is the model of the rows in which they began, shape (B,), or of the row itself where it is None.
        """
        if begun is None:
            return self.model
        return np.stack([self.model if version == row else self.past[version] for version in begun.tolist()])

    def prepare(self, cohort: Cohort) -> None:
        """Announce a cohort, and ask how its clients train."""
        self.cohort = cohort
        try:
            self.state, local = _pair(self.optimizer.prepare(self.state, self.cohort), "(state, scales or LocalSteps)")
            if isinstance(local, LocalSteps):
                self._follow(local)
            else:
                scales = shaped("the array of scales", local, cohort.clients.shape)
                self.starts, self.step_sizes, self.altered = cohort.downloaded, cohort.step_sizes * scales, None
        except Exception as error:
            raise blamed(f"optimizer {self.name!r}, prepare, round {cohort.round}", error) from error

    def _follow(self, local: LocalSteps) -> None:
        """Take note of how the cohort's clients train, every array being of its shape."""
        clients, shape = self.cohort.clients.shape, (len(self.cohort.clients), len(self.model))
        scales = 1.0 if local.scales is None else shaped("the array of scales", local.scales, clients)
        self.step_sizes = self.cohort.step_sizes * scales
        self.starts, self.altered = self.cohort.downloaded, None
        if local.starts is not None:
            self.starts = shaped("the array of start points", local.starts, shape)
        corrections = local.corrections
        if corrections is not None:
            everyones = np.ndim(corrections) == 1
            corrections = shaped("the array of corrections", corrections, shape[1:] if everyones else shape)
        proximal = np.broadcast_to(
            shaped("proximal", local.proximal, clients if np.ndim(local.proximal) else ()), clients
        )
        if not (proximal >= 0.0).all():
            raise LearningError(f"proximal must be at least 0, got {proximal.min()}")
        pulled = bool(proximal.any())
        if corrections is not None or pulled or local.rule is not None:
            column, anchors = (proximal[:, None], self.cohort.downloaded) if pulled else (None, None)
            self.altered = Altered(corrections, column, anchors, local.rule)

    def apply(self, deltas: Floats) -> None:
        """Hand over the clients' work. A model whose length overflows has diverged, as one with NaN has."""
        try:
            self.state, model = _pair(
                self.optimizer.apply(self.state, self.model, self.cohort, deltas), "(state, model)"
            )
            self.model = shaped("the model", model, self.model.shape)
        except Exception as error:
            raise blamed(f"optimizer {self.name!r}, apply, round {self.cohort.round}", error) from error
        self.diverged = not isfinite(self.model.dot(self.model))
        if self.diverged:
            self.past.clear()

    def remember(self, *, late: bool, drawn: bool) -> None:
        """Keep of the model after a round what `End` wants."""
        if late:
            self._total += self.model
            self._summed += 1
        if drawn:
            self.drawn = self.model

    def end(self, drawn_round: int) -> End:
        """Return what is left at the end."""
        lost = self.diverged or not self._summed
        average = np.full_like(self.model, np.nan) if lost else self._total / self._summed
        return End(self.model, average, self.drawn, drawn_round)


def _pair(returned: Any, what: str) -> tuple[Any, Any]:
    """Refuse what is no pair, which would be told as an error of unpacking."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise LearningError(f"must return {what}, and returned {type(returned).__name__}")
    return returned
