"""What bias does to the model: the loss of each optimizer compared with unbiased training, with intervals.

Both losses are taken in the same rounds over the last half of the run. Their differences are cut into ten spans in
order; how much the means of the spans differ tells how far chance puts the whole (batch means, Student's t).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fedsim.common.intervals import half_width
from fedsim.findings.finished_run import INITIAL_ROUND, FinishedRun
from fedsim.findings.formatting import give_or_take, listing, number, percent

_SPANS = 10
_REFERENCE = "_uniform"  # ends the name of an optimizer that was trained under uniform participation


def optimizers(run: FinishedRun) -> tuple[str, ...]:
    """Name the optimizers in the order of the learning table."""
    if run.learning is None:
        return ()
    return tuple(str(name) for name in run.learning["optimizer"].unique(maintain_order=True))


def references(names: Sequence[str]) -> Mapping[str, str]:
    """Tell which of the optimizers is there to compare with: one trained under uniform participation -> its own."""
    return {name + _REFERENCE: name for name in names if name + _REFERENCE in names}


def optimizer_figures(run: FinishedRun, figure: str) -> dict[str, float]:
    """Return a figure of each optimizer that has it: ``loss``, the mean over the last half of the run, and others.

    `fedsim.learning.summarise` defines them.
    """
    found = {name: run.metrics.get(f"learning.{name}.{figure}") for name in optimizers(run)}
    return {name: value for name, value in found.items() if value is not None}


def slow_descents(run: FinishedRun) -> Mapping[str, float]:
    """Return which share of the descent fell in the last quarter of the run, where it is too large to be settled."""
    if not (late := optimizer_figures(run, "late_descent")):
        return {}
    from fedsim.learning.summary import CONVERGED_DESCENT

    return {name: share for name, share in late.items() if share > CONVERGED_DESCENT}


@dataclass(frozen=True)
class Method:
    """An optimizer, and by how much its loss lies above that of another."""

    name: str  # the optimizer
    excess: float  # the difference of their mean losses over the last half of the run
    margin: float | None  # half of a 95 % interval of that; None with too few evaluations

    @property
    def apart(self) -> bool:
        """Whether the losses differ by more than chance; what has no interval is not known to."""
        return self.margin is not None and abs(self.excess) > self.margin

    @property
    def difference(self) -> str:
        """By how much its loss lies above, with its interval."""
        return give_or_take(self.excess, self.margin, sign=True)


def learning_sentences(run: FinishedRun) -> Iterator[str]:
    """Say which optimizer ends nearest to unbiased training, by how much, and how sure that is."""
    known, names = optimizer_figures(run, "loss"), optimizers(run)
    paired = {name: own for name, own in references(names).items() if name in known}
    own = [name for name in known if name not in references(names)]
    if not own:
        return
    if paired:
        reference = next(iter(paired))
        methods = [compare_losses(run, name, reference) for name in own]
        yield from _beside_unbiased(methods, f"unbiased training ({paired[reference]} under uniform participation)")
        start, worst = _initial(run, reference), max(methods, key=lambda each: each.excess)
        gained = 0.0 if start is None else start - known[reference]
        if worst.apart and worst.excess > 0 and gained > 0:
            yield f"What {worst.name} misses is {percent(worst.excess / gained)} of what unbiased training gained."
    elif len(own) > 1:
        best = min(own, key=lambda name: known[name])
        yield from _beside_best([compare_losses(run, name, best) for name in own if name != best], best, known[best])
    else:
        start = _initial(run, own[0])
        fell = f", from {number(start, 3)} before training" if start is not None else ""
        yield f"The loss of {own[0]} ends at {number(known[own[0]], 3)}{fell}."
    distances = {name: distance for name, distance in optimizer_figures(run, "bias").items() if name in own}
    if distances:
        shown = [f"{name} {number(distances[name], 2)}" for name in sorted(distances, key=distances.__getitem__)]
        yield f"Distance of the model from its optimum, nearest first: {listing(shown)}."


def compare_losses(run: FinishedRun, name: str, reference: str) -> Method:
    """Return by how much the loss of an optimizer lies above that of another."""
    assert run.learning is not None
    known = optimizer_figures(run, "loss")
    rows = run.learning.filter(pl.col("loss").is_finite(), pl.col("round") > INITIAL_ROUND)
    total = 1 + int(run.learning["round"].to_numpy().max(initial=INITIAL_ROUND))
    late = rows.filter(2 * (pl.col("round") + 1) > total)
    one, other = (late.filter(optimizer=each).select("round", "loss") for each in (name, reference))
    pairs = one.join(other, on="round", suffix="_reference").sort("round")
    differences, margin = (pairs["loss"] - pairs["loss_reference"]).to_numpy(), None
    if len(differences) >= 2 * _SPANS:
        means = np.array([span.mean() for span in np.array_split(differences, _SPANS)])
        margin = half_width(means.std(ddof=1), _SPANS) / math.sqrt(_SPANS)
    return Method(name, known[name] - known[reference], margin)


def _words(methods: Sequence[Method]) -> str:
    return listing([f"{each.name} {each.difference}" for each in methods])


def _beside_unbiased(methods: Sequence[Method], unbiased: str) -> Iterator[str]:
    # What chance may have set apart, and what differs by more
    near, far = ([each for each in methods if each.apart == apart] for apart in (False, True))
    if any(each.margin is None for each in methods):
        few = "There are too few evaluations to say how sure that is."
        yield f"Loss above that of {unbiased}: {_words(methods)}. {few}"
        return
    if len(near) == 1:
        yield f"The loss of {near[0].name} cannot be told from that of {unbiased}: {near[0].difference}."
    elif near and far:
        those = listing([each.name for each in near])
        yield f"The losses of {those} cannot be told from that of {unbiased}: {_words(near)}."
    elif near:
        yield f"No method can be told from {unbiased} by its loss: {_words(near)}."
    far = sorted(far, key=lambda each: abs(each.excess))
    sign = " (negative: a lower loss)" if any(each.excess < 0 for each in far) else ""
    if far and near:
        yield f"Apart from it by more than chance: {_words(far)}{sign}."
    elif len(far) > 1:
        nearest = f"Nearest to {unbiased} ends {far[0].name}"
        yield f"{nearest}; all are apart from it by more than chance: {_words(far)}{sign}."
    elif far:
        begin = f"The loss of {far[0].name} is apart from that of {unbiased} by more than chance"
        yield f"{begin}: {far[0].difference}{sign}."


def _initial(run: FinishedRun, name: str) -> float | None:
    assert run.learning is not None
    found = run.learning.filter(pl.col("loss").is_finite(), optimizer=name, round=INITIAL_ROUND)["loss"]
    return float(found[0]) if len(found) else None


def _beside_best(others: Sequence[Method], best: str, loss: float) -> Iterator[str]:
    near, far = ([each for each in others if each.apart == apart] for apart in (False, True))
    yield f"The lowest loss is that of {best}, {number(loss, 3)}."
    if far:
        yield f"Above it by more than chance: {_words(sorted(far, key=lambda each: each.excess))}."
    if near:
        yield f"Not to be told from it: {_words(near)}."
