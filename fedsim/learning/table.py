"""The rows of the learning table, as columns that grow."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from fedsim.learning.failures import LearningError, blame
from fedsim.learning.problems.problem import Problem
from fedsim.learning.trajectory import Trajectory


class LearningTable:
    """Evaluates models and keeps the figures."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._keys: list[tuple[int, float, str]] = []
        self._values: dict[str, list[float]] = {"loss": [], "grad_norm": []}

    def add(self, number: int, closed_s: float, run: Trajectory) -> None:
        """Evaluate a run's model and add the row; a model that is not finite is not shown to the problem."""
        values: Mapping[str, float] = {}
        if not run.diverged:
            with blame(f"problem, evaluation of optimizer {run.name!r}, round {number}"):
                values = {name: float(value) for name, value in self._problem.evaluate(run.model).items()}
                if not self._keys:
                    self._values |= {name: [] for name in values}
                if values.keys() != self._values.keys():
                    wanted, found = ", ".join(sorted(self._values)), ", ".join(sorted(values))
                    raise LearningError(f"the evaluation has the entries {found}; expected {wanted}")
            run.diverged = not np.isfinite(values["loss"])
        self._keys.append((number, closed_s, run.name))
        for name, column in self._values.items():
            column.append(np.nan if run.diverged else values[name])

    def frame(self) -> pl.DataFrame:
        """Return the table."""
        numbers, closed_s, names = zip(*self._keys, strict=True) if self._keys else ((), (), ())
        schema = {"round": pl.Int64, "closed_s": pl.Float64, "optimizer": pl.String}
        keys = pl.DataFrame({"round": numbers, "closed_s": closed_s, "optimizer": names}, schema=schema)
        return keys.with_columns(pl.Series(name, column, dtype=pl.Float64) for name, column in self._values.items())
