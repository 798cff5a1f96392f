"""How far from uniform the theory lies for every common separation R, and where this run lies."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import ChainError
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.formatting import count, fixed, number
from fedsim.report.charts.marks import DOTTED, INK, SERIES, finish, linear, logarithmic, rule, series_color
from fedsim.report.tables import Table, thinned
from fedsim.theory import distances

_POINTS = 60  # values of R at most, for large populations
_ALL_UP_TO = 1_000  # with so few clients every R is evaluated
_FLAT = 1e-9  # distances below are 0 but for rounding
LARGEST_CURVE = 100_000
"""Most clients for which theory is computed at many R: more would take longer than the rest of the report."""


@dataclass(frozen=True)
class Distances:
    """L1 distance from uniform by R."""

    separations: Ints
    l1: Floats
    feasible: int  # how many R there are, from 0 on
    separation: int  # the run's R
    measured: float | None  # the run's measured distance; None where it has none
    error: float | None  # standard error of the measured distance; None where it is not known
    of: str = ""  # what theory is of, where the run's reports are not its selections
    always: bool = True  # whether theory covers the run itself, which is so where devices are always available


def choose_separations(feasible: int, separation: int, points: int = _POINTS) -> Ints:
    """Choose the R to evaluate out of ``0..feasible - 1``: all, or evenly spaced ones and the run's own."""
    if feasible <= points:
        return np.arange(feasible, dtype=np.int64)
    spaced = np.rint(np.linspace(0, feasible - 1, points - 1)).astype(np.int64)
    return np.unique([*spaced, *([separation] if separation < feasible else [])])


class DistanceChart:
    """How far from uniform theory lies for every R, and where the run lies."""

    title, section = "Bias against separation", "bias"

    def prepare(self, run: FinishedRun) -> Distances | str:
        clients, wanted = len(run.clients), run.wanted
        if clients > LARGEST_CURVE:
            return f"Left out beyond {count(LARGEST_CURVE)} clients: the closed form would be computed once for each R."
        table = run.clients.sort("client")
        if table["separation"].n_unique() > 1:
            return "Clients have different separations: the closed form is for one common R."
        if wanted is None:
            return "The manifest does not say how clients are selected."
        if not 1 <= wanted <= clients:
            return "A round wants more clients than there are: no R is feasible."
        separation, feasible = int(table["separation"][0]), clients // wanted
        separations = choose_separations(feasible, separation, feasible if clients <= _ALL_UP_TO else _POINTS)
        try:
            l1 = distances(table["weight"].to_numpy(), separations.tolist(), wanted, run.scenario.server.selection.kind)
        except ChainError as error:
            return f"The theory has no answer here: {error}."
        if float(l1.max()) < _FLAT:
            always = "the closed form, which takes them to be always available"
            return f"All clients weigh the same: {always}, is 0 at every R."
        return Distances(
            always=not table["pi"].null_count() or "participation.l1_uniform_theory" in (run.selected or {}),
            of="" if run.selected is None else " of selections",
            separations=separations,
            l1=l1,
            feasible=feasible,
            separation=separation,
            measured=run.metrics.get("participation.l1_uniform"),
            error=run.metrics.get("participation.l1_uniform_se"),
        )

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
        ends = f"from {fixed(data.l1[0])} at R = 0 to {fixed(data.l1[-1])} at R = {data.separations[-1]}"
        measured = data.measured
        own = "" if measured is None else f"; this run measured {fixed(measured)} at R = {data.separation}"
        return f"L1 distance of the theory from uniform by separation R: {ends}{own}."

    def notes(self, data: Distances) -> Iterator[str]:
        yield "0 is no bias, 2 the most there could be. The curve takes every client to be always available."
        if len(data.separations) < data.feasible:
            yield f"Evaluated at {len(data.separations)} of the {count(data.feasible)} values that R can take."
        if data.measured is not None and data.error is not None:
            yield "The bar on the measured point spans two standard errors on either side."

    def table(self, data: Distances) -> Table:
        rows = [
            (count(separation), fixed(l1, 6), fixed(data.measured, 6) if separation == data.separation else "")
            for separation, l1 in zip(data.separations.tolist(), data.l1.tolist(), strict=True)
        ]
        return thinned("L1 distance from uniform by separation", ("R", "Theory", "Measured"), rows)

    def draw(self, data: Distances, axes: Axes) -> None:
        marker = "o" if len(data.separations) <= 30 else ""
        (curve,) = axes.plot(data.separations, data.l1, color=SERIES[1], marker=marker, markersize=2.8)
        entries = [(curve, f"theory{data.of}" if data.always else "theory, if always available")]
        top = float(data.l1.max())
        if data.measured is not None:
            bar = None if data.error is None else 2 * data.error
            style: dict[str, Any] = {"color": SERIES[0], "marker": "D", "markersize": 6, "capsize": 3, "zorder": 4}
            point = axes.errorbar(data.separation, data.measured, yerr=bar, **style)
            entries.append((point.lines[0], "this run"))
            top = max(top, data.measured + (bar or 0.0))
        rule(axes, y=0)
        axes.set_ylim(-0.03 * (top or 1.0), 1.1 * (top or 1.0))
        span = max(float(data.separations[-1]), 1.0)
        axes.set_xlim(-0.04 * span, 1.04 * span)
        linear(axes, "x", whole=True)
        linear(axes, "y")
        finish(axes, "separation R (rounds)", "L1 distance from uniform", entries)


LEAST = 1e-4  # smaller distances are drawn at this one: they cannot be measured, and would press the others together

_NEAR = 0.01  # the start is forgotten from where on the distance is no longer than this


class ConvergenceChart:
    """How fast the law of the participants approaches its limit, for several separations."""

    title, section = "Forgetting the start", "bias"

    def prepare(self, run: FinishedRun) -> dict[str, pl.DataFrame] | None:
        """Part the table of a convergence study by separation, in its order: ``R = ...`` -> its rows, by round."""
        if run.convergence is None:
            return None
        parts = run.convergence.partition_by("separation", as_dict=True, maintain_order=True)
        return {f"R = {separation}": part.sort("round") for (separation,), part in parts.items()}

    def finding(self, data: dict[str, pl.DataFrame]) -> str:
        words = []
        for name, each in data.items():
            far = np.flatnonzero(each["tv"].to_numpy() > _NEAR)
            settled = int(far[-1]) + 1 if len(far) else 0
            words.append(f"{name}: {count(each['round'][settled]) if settled < len(each) else 'not yet'}")
        return f"Rounds until the start is forgotten (TV below 0.01). {', '.join(words[:4])}"

    def notes(self, data: dict[str, pl.DataFrame]) -> Iterator[str]:
        yield (
            "TV distance between the law of who takes part in a round, all clients being ready at round 0, and the law "
            "in the long run. It is the law of one round's participant, not of the chain's state: it can fall faster "
            "than the chain mixes, and it can swing. Distances below 0.0001 are drawn at 0.0001."
        )
        if any(not each["noise_floor"].null_count() for each in data.values()):
            yield "Dotted: what sampling noise alone would give where the law was estimated by simulated replicas."

    def description(self, data: dict[str, pl.DataFrame]) -> str:
        parts = [f"{name} from {number(each['tv'][0])} to {number(each['tv'][-1])}" for name, each in data.items()]
        rounds = len(next(iter(data.values())))
        return f"TV distance from the long-run law over {count(rounds, 'round')}: at {'; at '.join(parts)}."

    def table(self, data: dict[str, pl.DataFrame]) -> Table:
        columns = [list(map(number, each["tv"])) for each in data.values()]
        rows = list(zip(map(count, next(iter(data.values()))["round"]), *columns, strict=True))
        return thinned("TV distance from the long-run law", ("Round", *data), rows)

    def draw(self, data: dict[str, pl.DataFrame], axes: Axes) -> None:
        """Draw one curve for each separation, with its noise floor dotted."""
        entries: list[tuple[Line2D, str]] = []
        for index, (name, each) in enumerate(data.items()):
            color = series_color(index)
            (curve,) = axes.plot(each["round"], np.maximum(each["tv"].to_numpy(), LEAST), color=color)
            entries.append((curve, name))
            if not each["noise_floor"].null_count():
                noise = each["noise_floor"].to_numpy()
                floor = np.where(noise < LEAST, np.nan, noise)
                axes.plot(each["round"], floor, color=color, linestyle=DOTTED, linewidth=1)
        if any((each["tv"] > LEAST).any() for each in data.values()):
            logarithmic(axes, "y")
        else:
            axes.axhline(0, color=INK, linewidth=1)
        linear(axes, "x", whole=True)
        finish(axes, "round", "TV distance from the long-run law", entries)
