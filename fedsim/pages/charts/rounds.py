"""How long rounds took; of a buffered server, how stale its reports were."""

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from fedsim.common.arrays import Floats
from fedsim.common.formatting import count, number, percent
from fedsim.common.instants import time_unit
from fedsim.pages.charts import Chart, marks, plot
from fedsim.run.run import Run

_SAME = 1e-9  # durations that differ by no more than this part of them are the same


def duration_chart(run: Run) -> Chart | None:
    """Draw how long rounds took, and how much of that was waiting for clients; None where all took equally long."""
    noun = run.noun
    closed = run.rounds.filter(pl.col("closed_s").is_finite()).with_columns(pl.col("selected_s").fill_nan(None))
    if closed.is_empty():
        return None
    chosen = closed.drop_nulls("selected_s")
    if "staleness" in run.series:
        # A version begins when the one before ends, and waits for no client in particular.
        closed = chosen = closed.with_columns(selected_s=pl.col("opened_s"))
    running = (chosen["closed_s"] - chosen["selected_s"]).to_numpy()
    waiting = (closed["selected_s"].fill_null(closed["closed_s"]) - closed["opened_s"]).to_numpy()
    whole = (closed["closed_s"] - closed["opened_s"]).to_numpy()
    longest = float(whole.max())
    if len(whole) > 1 and not waiting.any() and longest - float(whole.min()) <= _SAME * longest:
        return None
    typical = float(np.median(running)) if len(running) else longest
    # Waits that dwarf the running time would press it to the ground on a linear axis.
    far = len(running) > 0 and longest > 30 * typical > 0
    size, unit = time_unit(typical if len(running) and not far else longest)
    log = far or marks.spans_decades(running, ratio=30)

    def binned(rounds: pl.Series, times: Floats) -> marks.Binned:
        return marks.binned(rounds.to_numpy().astype(np.float64), times / size, marks.edges(len(times)))

    lines = {"running" if noun == "round" else "a version": binned(chosen["round"], running)}
    if waiting.any():
        lines["waiting"] = binned(closed["round"], waiting)
    lines = {name: points for name, points in lines.items() if points.size}
    notes = []
    if (most := max(points.size for points in lines.values())) > 1:
        notes.append(f"Lines are means over up to {count(most, noun)}, bands go from the least to the greatest.")
    if "waiting" in lines:
        notes.append("Waiting: from a round's opening until enough clients were eligible; running: from then on.")
        notes += ["A wait shorter than all running times lies below the axis."] if log else []

    def after(axes: Axes) -> None:
        highest, least = (max(float(each.high.max()) for each in lines.values()), running[running > 0].min(initial=1e9))
        axes.set_ylim(*((least / size / 1.5, highest * 1.5) if log else (0, 1.15 * highest or 1.0)))
        marks.set_scale(axes, "y", log)

    return plot.line_plot(
        "durations",
        f"How long {noun}s took",
        [plot.Series.of(name, each, color) for (name, each), color in zip(lines.items(), marks.SERIES, strict=False)],
        (noun, "whole"),
        (f"duration ({unit})", "log" if log else "linear"),
        notes=notes,
        after=after,
    )


def staleness_chart(run: Run) -> Chart | None:
    """Draw how stale the reports of a buffered server were, group by group; None where none was late."""
    table = run.series.get("staleness")
    if table is None or not (most := int(table["staleness"].to_numpy().max(initial=0))):
        return None
    names = [str(name) for name in run.clients["group"].unique(maintain_order=True)]
    if not 1 < len(names) <= len(marks.SERIES):
        names, table = ["all clients"], table.with_columns(group=pl.lit("all clients"))
    width = -(-(most + 1) // marks.POINTS)
    x = np.arange(0, most + 1, width) + (width - 1) / 2
    series, means = list[plot.Series](), list[str]()
    for name, color in zip(names, marks.SERIES, strict=False):
        own = table.filter(group=name)
        reports, stale = own["len"].to_numpy().astype(np.float64), own["staleness"].to_numpy()
        if reports.sum():
            share = np.bincount(stale // width, reports, minlength=len(x)) / reports.sum()
            series.append(plot.Series(name, x, share, color))
            means.append(f"“{name}” {number(float(stale @ reports / reports.sum()), 3)}")
    notes = [f"Versions by which the server had gone on when a report came; means: {', '.join(means)}."]
    limit, late = run.scenario.server.max_staleness, int(table.filter(outcome="stale")["len"].sum())
    cut = limit is not None and limit <= most
    if cut:
        share = late / int(table["len"].sum())
        notes.append(f"{percent(share)} of the reports came later than the dotted line, and were discarded.")
    return plot.line_plot(
        "staleness",
        "How stale reports were",
        series,
        ("staleness (versions)", "whole"),
        ("share of the reports", "percent"),
        notes=notes,
        rules=[plot.Rule("", limit + 0.5, axis="x")] if cut and limit is not None else [],
        after=lambda axes: axes.set_ylim(bottom=0) and None,
    )
