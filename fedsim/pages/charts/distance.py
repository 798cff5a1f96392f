"""How far from uniform the theory lies for every common separation R, and how fast the start is forgotten."""

import numpy as np

from fedsim.common.errors import ChainError
from fedsim.common.formatting import percent
from fedsim.pages.bias import FORGOTTEN
from fedsim.pages.charts import Chart, marks
from fedsim.pages.charts.plot import AxisLook, Rule, Series, line_plot
from fedsim.run.run import Run
from fedsim.theory import distances

_POINTS = 60  # values of R at most
_FLAT = 1e-9  # distances below are 0 but for rounding
LARGEST_CURVE = 100_000
"""Most clients for which theory is computed at many R: more would take longer than the rest of the report."""
LEAST = 1e-4  # smaller distances are drawn at this one: they cannot be measured, and would press the others together


def distance_chart(run: Run) -> Chart | None:
    """Draw the total variation distance of the theory by R, and this run's; None where theory has no common R."""
    table, clients, wanted = run.clients, len(run.clients), run.wanted
    if wanted is None or not 1 <= wanted <= clients <= LARGEST_CURVE or table["separation"].n_unique() > 1:
        return None
    if table["pi"].null_count():  # no theory covers this run
        return None
    feasible = clients // wanted
    r = np.linspace(0, feasible - 1, min(feasible, _POINTS)).astype(np.int64)
    try:
        l1 = distances(table["weight"].to_numpy(), r.tolist(), wanted, run.scenario.server.selection.kind)
    except ChainError:
        return None
    if float(l1.max()) < _FLAT:
        return None
    series = [Series("theory", r.astype(np.float64), l1 / 2, marks.SERIES[1])]
    notes = ["0 is uniform, 100\N{NARROW NO-BREAK SPACE}% is the most there could be."]
    if not run.all_reported:
        notes.append("The theory is of selections, the dot of the reports that were taken.")
    raw, error, clean = (run.of_reports(f"l1_uniform{which}") for which in ("", "_se", "_corrected"))
    measured = raw if clean is None else clean
    if measured is not None:
        at, far, half = np.array([[float(table["separation"][0])], [measured / 2], [error or np.nan]])
        margin = {"margin": half, "interval": "two standard errors"} if error else {}
        name = "this run" if clean is None else "this run, noise removed"
        series.append(Series(name, at, far, look="dots", **margin))
    x, y = AxisLook("separation R (rounds)", "whole"), AxisLook("total variation distance from uniform", "percent")
    return line_plot("distance", "Distance from uniform, by separation", series, x, y, notes=notes)


def convergence_chart(run: Run) -> Chart | None:
    """Draw how fast the shares of participants approach their limit, for each separation of a convergence study."""
    if run.convergence is None:
        return None
    series, floors = list[Series](), list[Series]()
    for index, ((r,), part) in enumerate(run.convergence.group_by("separation", maintain_order=True)):
        rows, color = part.sort("round"), marks.series_color(index)
        x = rows["round"].to_numpy().astype(np.float64)
        series.append(Series(f"R = {r}", x, 100 * np.maximum(rows["tv"].to_numpy(), LEAST), color))
        if not rows["noise_floor"].null_count():
            noise = rows["noise_floor"].to_numpy()
            floors.append(Series("", x, 100 * np.where(noise < LEAST, np.nan, noise), color, "dotted"))
    notes = [
        "The law of who takes part in a round, all clients being ready at round 0, against that of the long run. It is "
        "the law of one round's participant, not of the chain's state: it can fall faster than the chain mixes, and it "
        f"can swing. Distances below {percent(LEAST)} are drawn there."
    ]
    finding = "Dotted: what sampling noise alone gives, which hides smaller distances." if floors else ""
    look = AxisLook("round", "whole"), AxisLook("distance from the long-run shares (TV, %)", "auto")
    limit, title = [Rule(percent(FORGOTTEN), 100 * FORGOTTEN)], "How the start is forgotten"
    return line_plot("convergence", title, [*floors, *series], *look, limit, notes, finding)
