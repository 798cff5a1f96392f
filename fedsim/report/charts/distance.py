"""How far from uniform the theory lies for every common separation R, and where this run lies."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import ChainError
from fedsim.report.charts.marks import SERIES, finish, linear, rule
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, fixed
from fedsim.report.tables import Table, thinned
from fedsim.theory import distances

POINTS = 60
"""Values of R at most, for large populations."""

ALL_UP_TO = 1_000
"""With so few clients every R is evaluated."""

FLAT = 1e-9
"""Distances below are 0 but for rounding."""

_EVEN = "All clients weigh the same"

CLIENTS = 100_000
"""Beyond so many clients, the curve would take longer than the rest of the report."""


@dataclass(frozen=True)
class Distances:
    """L1 distance from uniform by R.

    Parameters
    ----------
    separations, l1
        The theory's curve.
    feasible
        How many R there are, from 0 on.
    separation
        The run's R.
    measured
        The run's measured distance; None where it has none.
    error
        Standard error of the measured distance; None where it is not known.
    always
        Whether theory covers the run itself, which is so where devices are always available.
    """

    separations: Ints
    l1: Floats
    feasible: int
    separation: int
    measured: float | None
    error: float | None
    always: bool = True


def choose_separations(feasible: int, separation: int, points: int = POINTS) -> Ints:
    """Choose the R to evaluate out of ``0..feasible - 1``: all, or evenly spaced ones and the run's own."""
    if feasible <= points:
        return np.arange(feasible, dtype=np.int64)
    spaced = np.rint(np.linspace(0, feasible - 1, points - 1)).astype(np.int64)
    return np.unique([*spaced, *([separation] if separation < feasible else [])])


def distance_data(run: FinishedRun) -> Distances | str:
    """Compute the chart's data, or say why there is none."""
    clients, wanted = len(run.clients), run.wanted
    if clients > CLIENTS:
        return f"Left out beyond {count(CLIENTS)} clients: the closed form would be computed once for each R."
    table = run.clients.sort("client")
    if table["separation"].n_unique() > 1:
        return "Clients have different separations: the closed form is for one common R."
    if wanted is None:
        return "The manifest does not say how clients are selected."
    if not 1 <= wanted <= clients:
        return "A round wants more clients than there are: no R is feasible."
    separation, feasible = int(table["separation"][0]), clients // wanted
    separations = choose_separations(feasible, separation, feasible if clients <= ALL_UP_TO else POINTS)
    try:
        l1 = distances(table["weight"].to_numpy(), separations.tolist(), wanted, run.scenario.server.selection.kind)
    except ChainError as error:
        return f"The theory has no answer here: {error}."
    if float(l1.max()) < FLAT:
        return f"{_EVEN}: the closed form, which takes them to be always available, is 0 at every R."
    return Distances(
        always=not table["pi"].null_count(),
        separations=separations,
        l1=l1,
        feasible=feasible,
        separation=separation,
        measured=run.metrics.get("participation.l1_uniform"),
        error=run.metrics.get("participation.l1_uniform_se"),
    )


class DistanceChart:
    """How far from uniform theory lies for every R, and where the run lies."""

    title, section = "Bias against separation", "bias"
    prepare = staticmethod(distance_data)

    def finding(self, data: Distances) -> str:
        at = f"R = {data.separation}"
        where = np.flatnonzero(data.separations == data.separation)
        told = "" if data.measured is None else f"; measured {fixed(data.measured)}"
        if not len(where):
            return f"The theory takes the bias from {fixed(data.l1[0])} to {fixed(data.l1[-1])}{told} at {at}"
        here = fixed(data.l1[where[0]])
        if data.separation == 0:
            return f"At {at} the theory's bias is {here} (L1){told}"
        return f"In theory {at} takes the bias (L1) from {fixed(data.l1[0])} to {here}{told}"

    def description(self, data: Distances) -> str:
        words = (
            f"L1 distance of the theory from uniform by separation R: from {fixed(data.l1[0])} at R = 0 "
            f"to {fixed(data.l1[-1])} at R = {data.separations[-1]}"
        )
        if data.measured is not None:
            words += f"; this run measured {fixed(data.measured)} at R = {data.separation}"
        return words + "."

    def notes(self, data: Distances) -> tuple[str, ...]:
        notes = ["0 is no bias, 2 the most there could be. The curve takes every client to be always available."]
        if len(data.separations) < data.feasible:
            notes.append(f"Evaluated at {len(data.separations)} of the {count(data.feasible)} values that R can take.")
        if data.measured is not None and data.error is not None:
            notes.append("The bar on the measured point spans two standard errors on either side.")
        return tuple(notes)

    def table(self, data: Distances) -> Table:
        rows = [
            (count(separation), fixed(l1, 6), fixed(data.measured, 6) if separation == data.separation else "")
            for separation, l1 in zip(data.separations.tolist(), data.l1.tolist(), strict=True)
        ]
        return thinned("L1 distance from uniform by separation", ("R", "Theory", "Measured"), rows)

    def draw(self, data: Distances, axes: Axes) -> None:
        """Draw the curve over R, and the run's point on it."""
        marker = "o" if len(data.separations) <= 30 else ""
        (curve,) = axes.plot(data.separations, data.l1, color=SERIES[1], marker=marker, markersize=2.8)
        entries = [(curve, "theory" if data.always else "theory, if always available")]
        top = float(data.l1.max())
        if data.measured is not None:
            bar = None if data.error is None else 2 * data.error
            point = axes.errorbar(
                data.separation,
                data.measured,
                yerr=bar,
                color=SERIES[0],
                marker="D",
                markersize=6,
                capsize=3,
                zorder=4,
            )
            entries.append((point.lines[0], "this run"))
            top = max(top, data.measured + (bar or 0.0))
        rule(axes, y=0)
        top = top or 1.0
        axes.set_ylim(-0.03 * top, 1.1 * top)
        span = max(float(data.separations[-1]), 1.0)
        axes.set_xlim(-0.04 * span, 1.04 * span)
        linear(axes, "x", whole=True)
        linear(axes, "y")
        finish(axes, "separation R (rounds)", "L1 distance from uniform", entries)
