"""What sessions cost, and how long rounds took; of a buffered server, how stale its reports were."""

from dataclasses import replace

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats
from fedsim.common.formatting import duration, listing, number, percent
from fedsim.common.instants import time_unit
from fedsim.pages.charts import Chart, marks
from fedsim.pages.charts.plot import AxisLook, Rows, Rule, Series, line_plot, row_plot
from fedsim.pages.tables import cost_parts
from fedsim.run.run import Run

_BINS, _TIMES = 30, 1.5  # bars of a histogram, up to so many times the 95th percentile
WAITING = 0.1  # of the time that rounds wait for clients, from which on it is of interest to all
_ALONE = 0.9  # of the rounds in one bar: nothing more is to be seen
_SAME = 1e-9  # durations that differ by no more than this part of them are the same


def cost_chart(run: Run) -> Chart | None:
    """Draw what of the cost is for what; None without prices."""
    if not (parts := cost_parts(run)):
        return None
    names, value = [part.words for part in parts.values()], np.array([part.cost for part in parts.values()])
    every, unit = np.ones(len(value), dtype=bool), "cost, in the scenario's currency"
    rows = Rows(names, value, None, every, ("cost", ""), unit, scale="linear")
    ways = listing([f"{number(part.cost, 4)} for {part.words} at {part.price}" for part in parts.values()])
    return replace(row_plot(rows, "cost", "What the cost is for"), finding=f"{ways}.")


def duration_chart(run: Run) -> Chart | None:
    """Draw how long rounds took, and how long those waited for clients that did; None if all took equally long."""
    noun, buffered = run.noun, "staleness" in run.series
    closed = run.rounds.filter(pl.col("closed_s").is_finite())
    if closed.is_empty():
        return None
    # A version begins when the one before ends, and waits for no client in particular.
    selected = closed["opened_s" if buffered else "selected_s"].fill_nan(None).fill_null(closed["closed_s"])
    whole, waiting = ((end - closed["opened_s"]).to_numpy() for end in (closed["closed_s"], selected))
    longest = float(whole.max())
    if len(whole) < 2 or (not waiting.any() and longest - float(whole.min()) <= _SAME * longest):
        return None
    middle, top = np.quantile(whole, [0.5, 0.95], method="inverted_cdf").tolist()
    size, unit = time_unit(top)
    kinds = {f"{noun}s": whole} | ({"waits for clients": waiting[waiting > 0]} if (waiting > 0).any() else {})
    least = min(float(values.min()) for values in kinds.values())
    edges = np.linspace(least if least > middle / 2 else 0.0, min(longest, _TIMES * top), _BINS + 1)
    series = [
        Series(name, (edges[:-1] + edges[1:]) / 2 / size, _shares(values, edges, len(whole)), color, "bars")
        for (name, values), color in zip(kinds.items(), marks.SERIES, strict=False)
    ]
    notes = ["Waits for clients: from a round's opening until enough were eligible, where that took time."]
    notes, more = notes[: len(series) - 1], "; the last bar: longer" if edges[-1] < longest else ""
    finding = f"Half took at most {duration(middle)}, and 95\N{NARROW NO-BREAK SPACE}% at most {duration(top)}"
    if share := run.known.get("rounds.waiting_share"):
        finding += f"; {percent(share)} of the time, a round waits for clients"
    look = AxisLook(f"duration ({unit}{more})"), AxisLook(f"share of the {noun}s", "percent")
    if series[0].y.max() > _ALONE or duration(middle) == duration(top):  # nearly all in one bar, or as long
        return None
    chart = line_plot("durations", f"How long {noun}s took", series, *look, notes=notes, finding=f"{finding}.")
    return replace(chart, aside=(share or 0.0) < WAITING)


def _shares(values: Floats, edges: Floats, total: int) -> Floats:
    """Return which share of `total` lies between each two edges, the last bin having what is greater."""
    return np.histogram(np.minimum(values, edges[-1]), edges)[0] / total


def staleness_chart(run: Run) -> Chart | None:
    """Draw how stale the reports of a buffered server were, group by group; None where none was late."""
    table = run.series.get("staleness")
    if table is None or not (most := int(table["staleness"].to_numpy().max(initial=0))):
        return None
    names = [str(name) for name in run.clients["group"].unique(maintain_order=True)]
    if not 1 < len(names) <= len(marks.SERIES):
        names, table = ["all clients"], table.with_columns(group=pl.lit("all clients"))
    series, means = list[Series](), list[str]()
    for name, color in zip(names, marks.SERIES, strict=False):
        rows = table.filter(group=name)
        reports, stale = rows["len"].to_numpy().astype(np.float64), rows["staleness"].to_numpy()
        if reports.sum():
            share = np.bincount(stale, reports, minlength=most + 1) / reports.sum()
            series.append(Series(name, np.arange(most + 1.0), share, color))
            means.append(f"“{name}” {number(float(stale @ reports / reports.sum()), 3)}")
    notes, rules = [f"Versions by which the server had gone on when a report came; means: {', '.join(means)}."], []
    limit, late = run.scenario.server.max_staleness, int(table.filter(outcome="stale")["len"].sum())
    if limit is not None and limit <= most:
        share = percent(late / int(table["len"].sum()))
        rules = [Rule("", limit + 0.5, axis="x")]
        notes.append(f"{share} of the reports came later than the dotted line, and were discarded.")
    look = AxisLook("staleness (versions)", "whole"), AxisLook("share of the reports", "percent")
    return line_plot("staleness", "How stale reports were", series, *look, rules, notes)
