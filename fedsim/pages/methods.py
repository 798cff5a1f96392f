"""What bias does to the model: the loss of each optimizer compared with unbiased training, with intervals.

Both losses are taken in the same rounds over the last half of the run. Their differences are cut into ten spans in
order; how much the means of the spans differ tells how far chance puts the whole (batch means, Student's t).
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats
from fedsim.common.formatting import count, cut, give_or_take, listing, number, percent
from fedsim.measure.verdict import Look, compare_values
from fedsim.pages.finding import LONGEST, MODEL, Certainty, Finding
from fedsim.run.run import Run

INITIAL_ROUND = -1  # the round under which the learning table keeps the initial model
_SPANS = 10
_SHORT = 24  # characters of a name in a line
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


def optimizer_of(metric: str, figure: str) -> str | None:
    """Return the optimizer of a metric ``learning.NAME.FIGURE``; None of others, and under uniform participation."""
    found = re.fullmatch(rf"learning\.(.+(?<!{_REFERENCE}))\.{figure}", metric)
    return found and found[1]


def without_loss(*, diverged: bool) -> Finding:
    """Say why no loss is compared."""
    if diverged:
        words = "Training diverged, so no loss can be compared: try a smaller step (learning.step_size)."
        return Finding(words, MODEL, quantity="learning.diverged")
    return Finding("No model was trained.", MODEL)


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
    def distance(self) -> str:
        """How far its loss ends above or below, in words."""
        return f"{give_or_take(abs(self.excess), self.margin)} {'above' if self.excess > 0 else 'below'}"

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


def model_findings(run: Run) -> Iterator[Finding]:
    """Say what participation does to the model: each loss beside that of unbiased training, and how sure that is."""
    known, names = optimizer_figures(run, "loss"), optimizers(run)
    paired = {name: own for name, own in references(names).items() if name in known}
    own = [name for name in known if name not in references(names)]
    if not own:
        if run.scenario.learning is None:
            yield Finding("No model was trained.", MODEL)
        else:
            yield Finding("No optimizer has a finite loss over the last half of the run.", MODEL, warns=True)
        return
    privacy, private = run.scenario.privacy, run.scenario.divisor is not None
    how = "clipping and noise" if privacy is not None and privacy.training == "noise" else "clipping"
    if paired and not private:
        reference = next(iter(paired))
        methods, start = compare_losses(run, own, reference), initial_loss(run, reference)
        gained = 0.0 if start is None else start - known[reference]
        unbiased = f"unbiased training ({paired[reference]} under uniform participation)"
        text = " ".join(_beside_unbiased(methods, f"{unbiased}, whose loss is {number(known[reference])}"))
        yield _first(text, methods, unbiased, gained)
        worst = max(methods, key=lambda each: each.excess)
        if worst.apart and worst.excess > 0 and gained > 0:
            missed = percent(worst.excess / gained) if worst.excess < gained else "more than all"
            yield Finding(f"What “{worst.name}” misses is {missed} of what unbiased training gained.", MODEL)
    elif len(own) > 1:
        best = min(own, key=lambda name: known[name])
        others = compare_losses(run, [name for name in own if name != best], best)
        text = " ".join(_beside_best(others, best, known[best]))
        start, near = initial_loss(run, best), min(others, key=lambda each: each.excess)
        untrained = "" if start is None else f" ({number(start, 3)} untrained)"
        brief = _lowest(best, known[best], near, others, untrained)
        text += "" if start is None else f" Untrained it is {number(start, 3)}."
        text += f" Training has the {how} of privacy." if private else ""
        yield Finding(text, MODEL, name=f"loss.{best}", quantity="loss", scope=best, value=known[best], brief=brief)
    else:
        start = initial_loss(run, own[0])
        fell = f", from {number(start, 3)} before training" if start is not None else ""
        text = f"The loss of {own[0]} ends at {number(known[own[0]], 3)}{fell}."
        yield Finding(text, MODEL, False, f"loss.{own[0]}", "loss", own[0], known[own[0]], reference=start)
    if paired and private:
        text = f"Training has the {how} of privacy and {listing(list(paired))} has not: the difference of their losses "
        yield Finding(f"{text}is no measure of what participation does.", MODEL, warns=True)
    elif privacy is not None and not private:
        yield Finding("Training has none of the noise of privacy (`privacy.training`).", MODEL)
    distances = {name: distance for name, distance in optimizer_figures(run, "bias").items() if name in own}
    if distances:
        shown = [f"{name} {number(distances[name], 2)}" for name in sorted(distances, key=distances.__getitem__)]
        text = f"Distance from the optimum, of the mean model over the last half of the run: {listing(shown)}"
        yield Finding(f"{text} (losses are of the models as the server had them).", MODEL)


def _lowest(best: str, loss: float, near: Method, others: Sequence[Method], untrained: str) -> str:
    """Say which loss is the lowest, how far above it the nearest is, and the farthest too if a line has room."""
    apart, far = "" if near.apart or near.same else ", not told", max(others, key=lambda each: each.excess)
    begin = f"Lowest loss: “{cut(best, _SHORT)}”, {number(loss, 3)}"
    beside = f"; “{cut(near.name, _SHORT)}” {number(near.excess, 2)} above{apart}"
    beside += f", “{cut(far.name, _SHORT)}” {number(far.excess, 2)}{'' if far.apart else ', not told'}."
    ways = [] if far is near or near.same else [f"{begin}{untrained}{beside}", f"{begin}{beside}"]
    alone = f"{begin}{untrained}; “{cut(near.name, _SHORT)}” {near.difference}{apart}."
    return next((each for each in ways if len(each) <= LONGEST), alone)


def _first(text: str, methods: Sequence[Method], against: str, gained: float) -> Finding:
    """Return the finding on the method that lies farthest off, of those that do by more than chance."""
    worst = max(methods, key=lambda each: each.excess)
    far = max((each for each in methods if each.apart), key=lambda each: abs(each.excess), default=worst)
    brief = f"Loss of “{cut(far.name, _SHORT)}”: {far.distance} unbiased training"
    if far.look is None:
        brief += " (too few evaluations to test)."
    elif not far.apart:
        brief = f"No loss differs from unbiased training by more than chance (“{cut(far.name, _SHORT)}” "
        brief += f"{far.difference})."
    else:
        share = abs(far.excess) / gained if gained > 0 else math.inf
        brief += f" ({percent(share)} of its gain)." if share < 1 else ", more than chance."
    named = (f"loss.{far.name}", "excess_loss", far.name, far.excess)
    found = Finding(text, MODEL, False, *named, reference=0.0, against=against, brief=brief)
    if far.look is None:
        return replace(found, certainty=Certainty.UNTESTED)
    low, high, visible = far.look.low, far.look.high, far.look.visible
    certainty = Certainty.TOLD if far.apart else Certainty.NOT_TOLD
    test = f"Student's t of {_SPANS} spans of the last half, Holm over {count(len(methods), 'method')}"
    return replace(found, low=low, high=high, visible=visible, test=test, certainty=certainty)


def _words(methods: Sequence[Method]) -> str:
    return listing([f"{each.name} {each.difference}" for each in methods])


def _beside_unbiased(methods: Sequence[Method], unbiased: str) -> Iterator[str]:
    if any(each.look is None for each in methods):
        few = "There are too few evaluations to say how sure that is."
        yield f"Loss above that of {unbiased}: {_words(methods)}. {few}"
        return
    # What chance may have set apart, and what differs by more
    near, far = ([each for each in methods if each.apart == apart] for apart in (False, True))
    if far:
        ends = [f"{each.distance} with “{each.name}”" for each in sorted(far, key=lambda each: -abs(each.excess))]
        yield f"Beside {unbiased}, the loss ends {listing(ends)}: more than chance."
    if near:
        begin = "Beside it" if far else f"Beside {unbiased}"
        those = listing([f"“{each.name}” ({each.difference})" for each in near])
        yield f"{begin}, the loss of {those} does not differ by more than chance."


def initial_loss(run: Run, name: str) -> float | None:
    """Return the loss of an optimizer's first model; None where it was not evaluated."""
    assert run.learning is not None
    found = run.learning.filter(pl.col("loss").is_finite(), optimizer=name, round=INITIAL_ROUND)["loss"]
    return float(found[0]) if len(found) else None


def _beside_best(others: Sequence[Method], best: str, loss: float) -> Iterator[str]:
    same = [each.name for each in others if each.same]
    near = [each for each in others if not each.apart and not each.same]
    far = sorted((each for each in others if each.apart), key=lambda each: each.excess)
    yield f"The lowest loss is that of {listing([best, *same])}, {number(loss, 3)}."
    if far:
        yield f"Above it by more than chance: {_words(far)}."
    if near:
        yield f"Not above it by more than chance: {_words(near)}."


def paying_findings(run: Run) -> Iterator[Finding]:
    """Say of the first optimizer whose losses its mean model leaves: of rare and frequent clients, and of the worst."""
    name = next(iter(optimizer_figures(run, "loss_of_worst_tenth")), "")
    rare, frequent, worst = (
        run.known.get(f"learning.{name}.loss_of_{which}") for which in ("tenth_1", "tenth_10", "worst_tenth")
    )
    if worst is None:
        return
    text = f"Who pays, with “{name}” (losses of its mean model): "
    if rare is not None and frequent is not None:
        text += f"{number(rare, 3)} for the tenth of the clients that reported least often, {number(frequent, 3)} for "
        text += "the tenth that did most often, "
    yield Finding(f"{text}{number(worst, 3)} for the tenth with the highest losses.", MODEL)
