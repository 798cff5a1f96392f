"""What bias does to the model: the loss of each optimizer compared with unbiased training, with intervals.

Both losses are taken in the same rounds over the last half of the run. Their differences are cut into ten spans in
order; how much the means of the spans differ tells how far chance puts the whole (batch means, Student's t).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats
from fedsim.common.formatting import give_or_take
from fedsim.measure.verdict import Look, compare_values
from fedsim.run.run import Run

INITIAL_ROUND = -1  # the round under which the learning table keeps the initial model
_SPANS = 10
_ROUNDING = 1e-8  # losses that differ by no more of them are the same
_REFERENCE = "_uniform"  # ends the name of an optimizer that was trained under uniform participation


def optimizers(run: Run) -> tuple[str, ...]:
    """Name the optimizers in the order of the learning table."""
    if run.learning is None:
        return ()
    return tuple(str(name) for name in run.learning["optimizer"].unique(maintain_order=True))


def references(names: Sequence[str]) -> Mapping[str, str]:
    """Tell which of the optimizers is there to compare with: one trained under uniform participation -> its own."""
    return {name + _REFERENCE: name for name in names if name + _REFERENCE in names}


def optimizer_figures(run: Run, figure: str) -> dict[str, float]:
    """Return a figure of each optimizer that has it: ``loss``, the mean over the last half of the run, and others.

    `fedsim.learning.summarise` defines them.
    """
    found = {name: run.known.get(f"learning.{name}.{figure}") for name in optimizers(run)}
    return {name: value for name, value in found.items() if value is not None}


def slow_descents(run: Run) -> Mapping[str, float]:
    """Return which share of the descent fell in the last quarter of the run, where it is too large to be settled."""
    if not (late := optimizer_figures(run, "late_descent")):
        return {}
    from fedsim.learning.summary import CONVERGED_DESCENT

    return {name: share for name, share in late.items() if share > CONVERGED_DESCENT}


def stopped_after(run: Run) -> int | None:
    """Return after how many rounds training stopped at its target; None where it went on for as long as the run."""
    learning = run.scenario.learning
    if learning is None or not learning.stop_at_target:
        return None
    needed = [run.known.get(f"learning.{each.label}.rounds_to_target", math.nan) for each in learning.optimizers]
    last = max(needed) if np.isfinite(needed).all() else math.inf
    return int(last) if last <= run.rounds["round"].to_numpy().max(initial=0) else None


@dataclass(frozen=True)
class Method:
    """An optimizer, and by how much its loss lies above that of another."""

    name: str  # the optimizer
    excess: float  # the difference of their mean losses over the last half of the run
    look: Look | None  # that as it was judged; None with too few evaluations
    same: bool  # whether the losses are the same but for rounding

    @property
    def apart(self) -> bool:
        """Whether the losses differ by more than chance; what has no interval is not known to."""
        return self.look is not None and self.look.told

    @property
    def margin(self) -> float | None:
        """Half of the interval of the difference; None where there is none."""
        return None if self.look is None else self.look.value - self.look.low

    @property
    def difference(self) -> str:
        """By how much its loss lies above, with its interval."""
        return "no difference" if self.same else give_or_take(self.excess, self.margin, sign=True)


def compare_losses(run: Run, names: Sequence[str], reference: str) -> list[Method]:
    """Return by how much the losses of optimizers lie above that of another, judged together."""
    assert run.learning is not None
    known = optimizer_figures(run, "loss")
    rows = run.learning.filter(pl.col("loss").is_finite(), pl.col("round") > INITIAL_ROUND)
    total = 1 + int(run.learning["round"].to_numpy().max(initial=INITIAL_ROUND))
    late = rows.filter(2 * (pl.col("round") + 1) > total)
    other, means = late.filter(optimizer=reference).select("round", "loss"), dict[str, Floats]()
    for name in names:
        pairs = late.filter(optimizer=name).join(other, on="round", suffix="_reference").sort("round")
        if len(pairs) >= 2 * _SPANS:
            differences = (pairs["loss"] - pairs["loss_reference"]).to_numpy()
            means[name] = np.array([span.mean() for span in np.array_split(differences, _SPANS)])
    excess = {name: known[name] - known[reference] for name in names}
    judged = dict[str, Look]()
    if means:
        errors = np.array([each.std(ddof=1) for each in means.values()]) / math.sqrt(_SPANS)
        values = np.array([excess[name] for name in means])
        judged = dict(zip(means, compare_values(values, errors, _SPANS - 1), strict=True))
    same = {name: abs(each) <= _ROUNDING * abs(known[reference]) for name, each in excess.items()}
    return [Method(name, excess[name], judged.get(name), same[name]) for name in names]


def initial_loss(run: Run, name: str) -> float | None:
    """Return the loss of an optimizer's first model; None where it was not evaluated."""
    assert run.learning is not None
    found = run.learning.filter(pl.col("loss").is_finite(), optimizer=name, round=INITIAL_ROUND)["loss"]
    return float(found[0]) if len(found) else None
