"""How fast the law of the participants approaches its limit, for several separations."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from fedsim.report.binning import Floats, Ints
from fedsim.report.charts.marks import INK, finish, linear, logarithmic, series_color
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, number
from fedsim.report.tables import Table, thinned

LEAST = 1e-4
"""Smaller distances are drawn at this one: nobody can measure them, and they would press the others together."""


@dataclass(frozen=True)
class Approach:
    """One separation's distance from its limit, round by round.

    Parameters
    ----------
    separation
        R.
    rounds, tv
        TV distance between the law of a participant of each round and the stationary law.
    noise_floor
        What sampling noise alone would give; None where the law was computed exactly.
    """

    separation: int
    rounds: Ints
    tv: Floats
    noise_floor: Floats | None


def convergence_data(table: pl.DataFrame) -> tuple[Approach, ...]:
    """Compute the chart's data, in the order of the table."""
    found = []
    for separation in table["separation"].unique(maintain_order=True).to_list():
        own = table.filter(separation=separation).sort("round")
        floor = own["noise_floor"]
        found.append(
            Approach(
                separation=separation,
                rounds=own["round"].to_numpy(),
                tv=own["tv"].to_numpy(),
                noise_floor=None if floor.null_count() else floor.to_numpy(),
            )
        )
    return tuple(found)


class ConvergenceChart:
    """How fast the law of the participants approaches its limit, for several separations."""

    title, section = "Forgetting the start", "bias"

    def prepare(self, run: FinishedRun) -> tuple[Approach, ...] | None:
        return None if run.convergence is None else convergence_data(run.convergence)

    def notes(self, data: tuple[Approach, ...]) -> list[str]:
        notes = [
            "TV distance between the law of who takes part in a round, all clients being ready at round 0, and the law "
            "in the long run. It is the law of one round's participant, not of the chain's state: it can fall faster "
            "than the chain mixes, and it can swing. Distances below 0.0001 are drawn at 0.0001."
        ]
        if any(approach.noise_floor is not None for approach in data):
            notes.append(
                "Dotted: what sampling noise alone would give where the law was estimated by simulated replicas."
            )
        return notes

    def description(self, data: tuple[Approach, ...]) -> str:
        parts = [f"at R = {each.separation} from {number(each.tv[0])} to {number(each.tv[-1])}" for each in data]
        return f"TV distance from the long-run law over {count(len(data[0].rounds), 'round')}: {'; '.join(parts)}."

    def table(self, data: tuple[Approach, ...]) -> Table:
        rows = [
            (count(round_), *(number(each.tv[index]) for each in data))
            for index, round_ in enumerate(data[0].rounds.tolist())
        ]
        return thinned(
            "TV distance from the long-run law", ("Round", *(f"R = {each.separation}" for each in data)), rows
        )

    def draw(self, data: tuple[Approach, ...], axes: Axes) -> None:
        """Draw one curve for each separation, with its noise floor dotted."""
        entries: list[tuple[Line2D, str]] = []
        for index, each in enumerate(data):
            color = series_color(index)
            (curve,) = axes.plot(each.rounds, np.maximum(each.tv, LEAST), color=color)
            entries.append((curve, f"R = {each.separation}"))
            if each.noise_floor is not None:
                floor = np.where(each.noise_floor < LEAST, np.nan, each.noise_floor)
                axes.plot(each.rounds, floor, color=color, linestyle=(0, (1, 1.6)), linewidth=1)
        highest = max(float(each.tv.max()) for each in data)
        if highest > LEAST:
            logarithmic(axes, "y")
        else:
            axes.axhline(0, color=INK, linewidth=1)
        linear(axes, "x", whole=True)
        finish(axes, "round", "TV distance from the long-run law", entries)
