"""How each optimizer learned: its loss over the rounds, and where the optimum is known its distance from that."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from fedsim.common.formatting import count, listing, number
from fedsim.pages.charts import Chart, marks
from fedsim.pages.charts.plot import AxisLook, Rows, Rule, Series, line_plot, row_plot
from fedsim.pages.methods import INITIAL_ROUND, compared_with, late_losses, optimizer_figures, optimizers, references
from fedsim.run.run import Run

FURTHER = 1e4  # values so many times above the first ones are not drawn
_NEAR = 0.03  # of the range of losses, below which their ends are not distinguished in a chart
_MOST = 6  # optimizers of each run drawn at most where there are two runs


def curves(run: Run, column: str = "loss") -> Iterator[Series]:
    """Yield a column of the learning table over the number of rounds done, 0 being the initial model, by optimizer.

    A model that was trained under uniform participation is grey, and dashed.
    """
    if run.learning is None:
        return
    names = optimizers(run)
    pairs = references(names)
    plain = [name for name in names if name not in pairs]
    for name in names:
        frame = run.learning.filter(pl.col("optimizer") == name).sort("round")
        x = (frame["round"] - INITIAL_ROUND).cast(pl.Float64).to_numpy()
        value = frame[column].cast(pl.Float64).fill_null(np.nan).to_numpy()
        most = FURTHER * max(abs(value[0]), 1e-6) if np.isfinite(value[0]) else 1e100
        kept = np.isfinite(value) & (np.abs(value) <= most)
        if kept.any():
            color, look = (marks.MUTED, "dashed") if name in pairs else (marks.series_color(plain.index(name)), "line")
            yield Series.binned(name, x[kept], value[kept], color, look=look)


def _chart(
    name: str,
    shown: Sequence[Series],
    y: str,
    notes: Sequence[str],
    rules: Sequence[Rule] = (),
    finding: str = "",
    noun: str = "round",
) -> Chart:
    look = AxisLook(f"{noun}s done", "whole"), AxisLook(y, "auto")
    return line_plot(name, y.capitalize(), shown, *look, rules, notes, finding)


def training_chart(run: Run, column: str = "loss") -> Chart | None:
    """Draw the loss of each optimizer, or its distance from the optimum and what was predicted, where that is known."""
    if run.learning is None or column not in run.learning.columns:
        return None
    shown = [*curves(run, column)]
    if all(len(each.x) < 2 for each in shown):  # of training that diverged at once
        return None
    notes = ["Dashed: trained under uniform participation."] if any(each.look == "dashed" for each in shown) else []
    if column == "loss":
        cut = any(key.endswith(".diverged_round") for key in run.known)
        until = f"Lines end before they reach {count(round(FURTHER))} times their first value." if cut else ""
        return _chart("loss", shown, "loss", notes, finding=until, noun=run.noun)
    ends = [(each, end) for each in shown if np.isfinite(end := run.known.get(f"learning.{each.name}.bias", np.nan))]
    rules = [Rule("mean model" if not at else "", end, color=of.color) for at, (of, end) in enumerate(ends)]
    finding = "Lines: the model of each round. Dotted: the mean model over the last half, without the noise of rounds."
    if ends:
        ways = listing([f"{number(end, 3)} for “{each.name}”" for each, end in ends])
        notes = [f"Distance of the mean model from the optimum: {ways}.", *notes]
    return _chart("optimum", shown, "distance from the optimum", notes, rules, finding * bool(ends), run.noun)


def loss_charts(run: Run) -> list[Chart | None]:
    """Draw losses; and where these lie on each other at the end, first by how much they are above unbiased training."""
    whole, pair = training_chart(run), compared_with(run)
    if whole is None or pair is None or pair[0] not in references(optimizers(run)):
        return [whole]
    (other, names), lines = pair, {each.name: each.y for each in curves(run)}
    beside, excess = late_losses(run, other)[0], list[Series]()
    for name in names:
        late = late_losses(run, name)[0].join(beside, on="round", suffix="_of_other").sort("round")
        rounds, apart = (late["round"] - INITIAL_ROUND).cast(pl.Float64), late["loss"] - late["loss_of_other"]
        color = marks.series_color([each for each in optimizers(run) if each != other].index(name))
        excess.append(Series.binned(name, rounds.to_numpy(), apart.to_numpy(), color))
    values = np.concatenate([np.zeros(0), *lines.values()])
    widest = max((float(np.abs(each.y).max(initial=0.0)) for each in excess), default=0.0)
    if not 0 < widest <= _NEAR * float(np.ptp(values)):
        return [whole]
    look = AxisLook("rounds done", "whole"), AxisLook("loss above unbiased training")
    finding = "Over the last half of the run, where the losses themselves cannot be distinguished."
    shown = line_plot("loss", "Loss above unbiased training", excess, *look, [Rule("unbiased", 0.0)], (), finding)
    return [shown, replace(whole, name="loss-whole", aside=True)]


def noise_chart(run: Run) -> Chart | None:
    """Draw the losses above the optimum with and without the noise of privacy; None where that is not known."""
    above, noise = (optimizer_figures(run, figure) for figure in ("above_optimum", "privacy_noise_loss"))
    if not (names := [name for name in noise if name in above]):
        return None
    value, without = np.array([(above[name], above[name] - noise[name]) for name in names]).T
    legend, every = ("with the noise of privacy", ""), np.ones(len(names), dtype=bool)
    unit = "loss above the optimum"
    rows = Rows(names, value, None, every, legend, unit, theory=without, tick="without it", scale="linear")
    notes = ["The noise is the difference of two trainings over the same log."]
    return row_plot(rows, "loss-noise", "Loss with and without the noise of privacy", notes)


def loss_chart(runs: Mapping[str, Run]) -> Chart | None:
    """Draw the losses of two runs by their letters, the second dashed; None where no model was trained."""
    by_run = {letter: [each for each in curves(run) if each.look == "line"] for letter, run in runs.items()}
    shown = [
        replace(each, name=f"{letter}: {each.name}", look="dashed" if letter == "B" else "line")
        for letter, lines in by_run.items()
        for each in lines[:_MOST]
    ]
    left = sum(max(0, len(lines) - _MOST) for lines in by_run.values())
    notes = [f"{count(left, 'more curve')} in the reports of the runs."] if left else []
    return _chart("losses", shown, "loss", notes) if shown else None
