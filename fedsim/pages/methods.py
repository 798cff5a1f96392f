"""What bias does to the model: the loss of each optimizer compared with unbiased training, with intervals.

Both losses are taken in the same rounds over the last halves of both. Their differences are cut into twenty spans in
order; how much the means of the spans differ, and how much neighbours are alike, says how far chance puts the whole
(batch means with an autoregression, Student's t). Where the spans know less than eight independent ones, nothing is
tested: about twenty times as long as differences are alike is needed.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats
from fedsim.measure.verdict import Look, compare_values, independent
from fedsim.run.run import Run

INITIAL_ROUND = -1  # the round under which the learning table keeps the initial model
_SPANS, FEWEST = 20, 8
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
    figures = {name: run.known.get(f"learning.{name}.{figure}") for name in optimizers(run)}
    return {name: value for name, value in figures.items() if value is not None}


def compared_with(run: Run) -> tuple[str, list[str]] | None:
    """Name the optimizer with whose loss others are compared, and these; None where no optimizer of its own has one.

    It is unbiased training, or else the one with the lowest loss.
    """
    losses, twins = optimizer_figures(run, "loss"), references(optimizers(run))
    plain = [name for name in losses if name not in twins]
    if not plain:
        return None
    reference = next((name for name in twins if name in losses and run.scenario.divisor is None), None)
    other = reference or min(plain, key=losses.__getitem__)
    return other, [name for name in plain if name != other]


def converged(run: Run, *names: str) -> bool:
    """Say whether no loss of these optimizers is known not to have converged: only then their ends are compared."""
    return all(run.known.get(f"learning.{name}.converged") != 0 for name in names)


def compare_losses(run: Run, names: Sequence[str], reference: str) -> dict[str, Look | float]:
    """Compare the losses of optimizers with that of another, together; without those of too few evaluations.

    Those whose differences change too slowly to be tested have the number of independent values that they hold.
    """
    assert run.learning is not None
    done = pl.col("round") + 1
    late = run.learning.filter(2 * done > done.max().over("optimizer"), pl.col("loss").is_finite())
    other, spans = late.filter(optimizer=reference).select("round", "loss"), dict[str, Floats]()
    for name in names:
        pairs = late.filter(optimizer=name).join(other, on="round", suffix="_reference").sort("round")
        if len(pairs) >= _SPANS:
            differences = (pairs["loss"] - pairs["loss_reference"]).to_numpy()
            spans[name] = np.array([span.mean() for span in np.array_split(differences, _SPANS)])
    if not spans:
        return {}
    losses, draws = optimizer_figures(run, "loss"), independent(np.stack([*spans.values()]))
    tested = {name: draw for name, draw in zip(spans, draws, strict=True) if draw >= FEWEST}
    values = np.array([losses[name] - losses[reference] for name in tested])
    enough = np.array([*tested.values()])
    errors = np.array([spans[name].std(ddof=1) for name in tested]) / np.sqrt(enough)
    looks = compare_values(values, errors, enough - 1)
    return dict(zip(spans, draws.tolist(), strict=True)) | dict(zip(tested, looks, strict=True))


def made_worse(run: Run, name: str) -> bool:
    """Say whether every finite loss of an optimizer in the last half of its rounds is above that of its first model."""
    assert run.learning is not None
    evaluations = run.learning.filter(pl.col("loss").is_finite(), optimizer=name)
    start, steps = evaluations.filter(round=INITIAL_ROUND)["loss"], evaluations["round"] + 1
    late = evaluations.filter(2 * steps > steps.max())["loss"]
    return bool(len(start) and len(late) and (late > start[0]).all())
