"""How far from uniform the theory lies for every common separation R, and how fast the start is forgotten."""

import numpy as np
from matplotlib.axes import Axes

from fedsim.common.arrays import Ints
from fedsim.common.errors import ChainError
from fedsim.pages.charts import Chart, marks, plot
from fedsim.run.run import Run
from fedsim.theory import distances

_POINTS = 60  # values of R at most, for large populations
_ALL_UP_TO = 200  # with so few clients every R is evaluated
_FLAT = 1e-9  # distances below are 0 but for rounding
LARGEST_CURVE = 100_000
"""Most clients for which theory is computed at many R: more would take longer than the rest of the report."""
LEAST = 1e-4  # smaller distances are drawn at this one: they cannot be measured, and would press the others together


def choose_separations(feasible: int, separation: int, points: int = _POINTS) -> Ints:
    """Choose the R to evaluate out of ``0..feasible - 1``: all, or evenly spaced ones and the run's own."""
    if feasible <= points:
        return np.arange(feasible, dtype=np.int64)
    spaced = np.rint(np.linspace(0, feasible - 1, points - 1)).astype(np.int64)
    return np.unique([*spaced, *([separation] if separation < feasible else [])])


def distance_chart(run: Run) -> Chart | None:
    """Draw the total variation distance of the theory by R, and this run's; None where theory has no common R."""
    table, clients, wanted = run.clients, len(run.clients), run.wanted
    if wanted is None or not 1 <= wanted <= clients <= LARGEST_CURVE or table["separation"].n_unique() > 1:
        return None
    separation, feasible = int(table["separation"][0]), clients // wanted
    r = choose_separations(feasible, separation, feasible if clients <= _ALL_UP_TO else _POINTS)
    try:
        l1 = distances(table["weight"].to_numpy(), r.tolist(), wanted, run.scenario.server.selection.kind)
    except ChainError:
        return None
    if float(l1.max()) < _FLAT:
        return None
    exact = not table["pi"].null_count()
    series = [plot.Series("theory", r.astype(np.float64), l1 / 2, marks.SERIES[1])]
    notes = ["0 is uniform, 100\N{NARROW NO-BREAK SPACE}% is the most there could be."]
    if not exact:
        notes.append("The theory takes every client to be always available, which these are not.")
    elif not run.all_reported:
        notes.append("The theory is of selections, the diamond of the reports that were taken.")
    measured, error = (run.of_reports(f"l1_uniform{which}") for which in ("", "_se"))
    if measured is not None:
        half, own = error or 0.0, np.array([measured / 2])
        series.append(
            plot.Series("this run", np.array([float(separation)]), own, look="dots", low=own - half, high=own + half)
        )
        notes += ["The bar is two standard errors on either side."] if error else []

    def after(axes: Axes) -> None:
        axes.set_ylim(bottom=0)

    return plot.line_plot(
        "distance",
        "Distance from uniform, by separation",
        series,
        ("separation R (rounds)", "whole"),
        ("total variation distance from uniform", "percent"),
        notes=notes,
        after=after,
    )


def convergence_chart(run: Run) -> Chart | None:
    """Draw how fast the law of the participants approaches its limit, for each separation of a convergence study."""
    if run.convergence is None:
        return None
    series, floors = list[plot.Series](), list[plot.Series]()
    for index, ((r,), part) in enumerate(run.convergence.group_by("separation", maintain_order=True)):
        own, color = part.sort("round"), marks.series_color(index)
        x = own["round"].to_numpy().astype(np.float64)
        series.append(plot.Series(f"R = {r}", x, np.maximum(own["tv"].to_numpy(), LEAST), color))
        if not own["noise_floor"].null_count():
            noise = own["noise_floor"].to_numpy()
            floors.append(plot.Series("", x, np.where(noise < LEAST, np.nan, noise), color))
    notes = [
        "The law of who takes part in a round, all clients being ready at round 0, against that of the long run. It is "
        "the law of one round's participant, not of the chain's state: it can fall faster than the chain mixes, and it "
        f"can swing. Distances below {LEAST:g} are drawn there."
    ]
    if floors:
        notes.append("Dotted: what sampling noise alone would give where the law was estimated by simulated replicas.")

    def before(axes: Axes) -> None:
        for each in floors:
            axes.plot(each.x, each.y, color=each.color, linestyle=marks.DOTTED, linewidth=1)

    far, alone = any((each.y > LEAST).any() for each in series), " (dotted: noise)" if floors else ""
    return plot.line_plot(
        "convergence",
        "How the start is forgotten",
        series,
        ("round", "whole"),
        (f"TV from long-run shares{alone}", "log" if far else "linear"),
        notes=notes,
        before=before,
    )
