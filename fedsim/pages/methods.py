"""What bias does to the model: the loss of each optimizer compared with unbiased training, with intervals.

Both losses are taken in the same rounds over the last halves of both. Their differences are cut into twenty spans in
order; how much the means of the spans differ, and how much neighbours are alike, says how far chance puts the whole
(batch means with an autoregression, Student's t). Where the spans know less than eight independent ones, nothing is
tested: about twenty times as long as differences are alike is needed. Where availability follows the clock, halves are
of whole days, and what differences repeat every day is no chance.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from fedsim.common.instants import DAY_S, HOUR_S
from fedsim.common.intervals import independent, spans_of
from fedsim.learning import last_half
from fedsim.measure.series import by_day
from fedsim.measure.verdict import Look, compare_values
from fedsim.run.run import Run

INITIAL_ROUND = -1  # the round under which the learning table keeps the initial model
FEWEST = 8  # independent values that a test takes
JUMPS = 0.1  # of what training gained, from which on the spread of a loss shows that steps are too large
_FEWEST_DAYS, _EXPLAINED = 3, 0.7  # whole days of a daily swing, and what the hour explains of how a loss varies
LARGE_STEPS = "steps are too large"  # why a loss is not tested
_REFERENCE = "_uniform"  # ends the name of an optimizer that was trained under uniform participation


def optimizers(run: Run) -> tuple[str, ...]:
    """Name the optimizers in the order of the learning table."""
    if run.learning is None:
        return ()
    return tuple(str(name) for name in run.learning["optimizer"].unique(maintain_order=True))


def references(names: Sequence[str]) -> Mapping[str, str]:
    """Tell which of the optimizers is there to compare with: one trained under uniform participation -> its own."""
    return {name + _REFERENCE: name for name in names if name + _REFERENCE in names}


def renamed(run: Run) -> Mapping[str, str]:
    """Say of each optimizer with a name of its own what it is: ``debiased_fedavg with forgetting = 0.01``."""
    learning = run.scenario.learning
    choices = () if learning is None else learning.optimizers
    return {each.label: each.in_words for each in choices if each.label != each.kind}


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
    """Say whether no loss of these optimizers is known not to have converged, or jumps: only then ends are compared."""
    return all(run.known.get(f"learning.{name}.converged") != 0 and jumps(run, name) <= 2 * JUMPS for name in names)


def jumps(run: Run, name: str) -> float:
    """Return how far the loss of an optimizer varies over its last half, of what training gained; 0 if not by steps."""
    late, loss = late_losses(run, name)[0]["loss"].to_numpy(), run.known.get(f"learning.{name}.loss", math.nan)
    gained = initial_loss(run, name) - loss
    return float(late.std()) / gained if gained > 0 and len(late) > 1 and daily_swing(run, name) is None else 0.0


@lru_cache(maxsize=16)  # every sentence, check and table on losses asks for those of each method
def late_losses(run: Run, name: str) -> tuple[pl.DataFrame, int]:
    """Return ``round``, ``closed_s`` and ``loss`` of an optimizer over its last half, and how many whole days that is.

    The days are 0 where availability does not follow the clock, or the run is too short.
    """
    assert run.learning is not None
    rows = run.learning.filter(pl.col("loss").is_finite(), optimizer=name).sort("round")
    steps, closed_s = rows["round"].to_numpy() + 1, rows["closed_s"].to_numpy()
    half, days = last_half(steps, closed_s, DAY_S if by_day(run.scenario) else None)
    return rows.filter(half).select("round", "closed_s", "loss"), days


def compare_losses(run: Run, names: Sequence[str], reference: str) -> dict[str, Look | float]:
    """Compare the losses of optimizers with that of another, together; without those of too few evaluations.

    Those whose differences change too slowly to be tested have the number of independent values that they hold.
    """
    (other, days), draws, errors = late_losses(run, reference), dict[str, float](), dict[str, float]()
    for name in names:
        pairs = late_losses(run, name)[0].join(other, on="round", suffix="_reference").sort("round")
        closed_s = pairs["closed_s"].to_numpy()
        at = 1 - (closed_s.max(initial=0.0) - closed_s) / (max(days, 1) * DAY_S)
        spans = spans_of((pairs["loss"] - pairs["loss_reference"]).to_numpy(), np.clip(at, 0, 1 - 1e-9), days)
        if spans is not None:
            draws[name] = float(independent(spans[None])[0])
            errors[name] = float(spans.std(ddof=1)) / np.sqrt(draws[name])
    losses, degrees = optimizer_figures(run, "loss"), {name: each - 1 for name, each in draws.items()}
    tested = [name for name in draws if draws[name] >= FEWEST]
    if not tested:
        return dict(draws)
    values = np.array([losses[name] - losses[reference] for name in tested])
    looks = compare_values(values, *(np.array([each[name] for name in tested]) for each in (errors, degrees)))
    return draws | dict(zip(tested, looks, strict=True))


@dataclass(frozen=True)
class Ending:
    """Where the loss of an optimizer ended, beside that of the one with which it is compared: one judgement for all."""

    name: str
    loss: float
    apart: float  # the loss less that of the other
    look: Look | None  # the test; None where there is none
    why: str = ""  # why there is none

    @property
    def significant(self) -> bool:
        """Whether the test says that it is another."""
        return self.look is not None and self.look.significant


def endings(run: Run) -> tuple[str, list[Ending]] | None:
    """Return with which optimizer others are compared, and where each of these ended, the highest loss first."""
    if (pair := compared_with(run)) is None:
        return None
    (other, names), ends, some = pair, optimizer_figures(run, "loss"), list[Ending]()
    looks = compare_losses(run, names, other)
    for name in names:
        look, why = looks.get(name), ""
        if not converged(run, name, other):
            large = max(jumps(run, name), jumps(run, other)) > 2 * JUMPS
            look, why = None, LARGE_STEPS if large else "a loss has not converged"
        elif look is None or isinstance(look, float):
            look, why = None, "there are too few evaluations" if look is None else "the difference changes too slowly"
        some.append(Ending(name, ends[name], ends[name] - ends[other], look, why))
    return other, sorted(some, key=lambda each: -each.loss)


def same_training(run: Run) -> bool:
    """Say whether all optimizers have the same losses in all rounds."""
    return run.learning is not None and run.learning.group_by("round").agg(pl.col("loss").n_unique())["loss"].max() == 1


def daily_swing(run: Run, name: str) -> tuple[tuple[float, int], tuple[float, int]] | None:
    """Return the lowest and highest mean loss of an optimizer by hour of the day (UTC), and these hours.

    None unless the hour explains most of how its loss varies over several whole days.
    """
    rows, days = late_losses(run, name)
    if days < _FEWEST_DAYS:
        return None
    start_s = run.scenario.start.timestamp()
    hourly = rows.with_columns(hour=((pl.col("closed_s") + start_s) % DAY_S // HOUR_S).cast(pl.Int64))
    means = hourly.group_by("hour").agg(pl.col("loss").mean(), pl.len()).sort("hour").filter(pl.col("len") >= days)
    explained = hourly.join(means, on="hour", suffix="_of_hour")["loss_of_hour"].var() or 0.0
    if len(means) < 2 or explained < _EXPLAINED * (rows["loss"].var() or 0.0):  # type: ignore[operator]
        return None
    ends = means.sort("loss")
    return ((ends["loss"][0], ends["hour"][0]), (ends["loss"][-1], ends["hour"][-1]))


def initial_loss(run: Run, name: str) -> float:
    """Return the loss of the first model of an optimizer; NaN where the table has none."""
    assert run.learning is not None
    start = run.learning.filter(round=INITIAL_ROUND, optimizer=name)["loss"]
    return float(start[0]) if len(start) else float("nan")


def never_below_start(losses: pl.DataFrame) -> dict[str, float]:
    """Return, by optimizer, its mean loss over the last half of its rounds, of the loss of its initial model.

    Of several runs (`run_id`) it is that of the one with the least; at 1 and above, no training lowered the loss.
    """
    runs = ["run_id", "optimizer"] if "run_id" in losses.columns else ["optimizer"]
    late, steps = pl.col("loss").filter(2 * (pl.col("round") + 1) > pl.col("round").max() + 1), pl.col("round")
    start = pl.col("loss").filter(steps == INITIAL_ROUND).first()
    finite = losses.filter(pl.col("loss").is_finite())
    ratios = finite.group_by(runs).agg(ratio=late.mean() / start).filter(pl.col("ratio").is_finite())
    return dict(ratios.group_by("optimizer").agg(pl.col("ratio").min()).iter_rows())


def made_worse(run: Run, name: str) -> bool:
    """Say whether an optimizer's mean loss over the last half of its rounds is not below that of its first model."""
    assert run.learning is not None
    return never_below_start(run.learning.filter(optimizer=name)).get(name, 0.0) >= 1
