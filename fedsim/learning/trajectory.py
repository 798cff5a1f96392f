"""One optimizer on its way through a log, and where it got to."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Floats
from fedsim.learning.failures import blame, shaped
from fedsim.learning.optimizers.optimizer import Cohort, Optimizer
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

    def starts(self, row: int, begun: NDArray[np.intp] | None) -> Floats:
        """Return the models from which the work of a row began, shape (B, d), given the rows of their versions.

        Where all began with the model as it is (`begun` is None), that model alone, shape (d,).
        """
        if begun is None:
            return self.model
        return np.stack([self.model if version == row else self.past[version] for version in begun.tolist()])

    def prepare(self, cohort: Cohort) -> Floats:
        """Announce the cohort; return the scales of its clients."""
        with blame(f"optimizer {self.name!r}, prepare, round {cohort.round}"):
            self.state, scales = self.optimizer.prepare(self.state, cohort)
            return shaped("the array of scales", scales, cohort.clients.shape)

    def apply(self, cohort: Cohort, deltas: Floats) -> None:
        """Hand over the clients' work. A model whose length overflows has diverged, as one with NaN has."""
        with blame(f"optimizer {self.name!r}, apply, round {cohort.round}"):
            self.state, model = self.optimizer.apply(self.state, self.model, cohort, deltas)
            self.model = shaped("the model", model, self.model.shape)
        self.diverged = not np.isfinite(self.model @ self.model)
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
