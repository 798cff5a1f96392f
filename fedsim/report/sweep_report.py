"""The report of a sweep: what changes along it, by how much, and how sure that is."""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fedsim.analysis.metrics import describe
from fedsim.report.answer import BIAS, COST, TRUST, WHAT, Sentence, Tile
from fedsim.report.charts import trade_off
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.sweep_lines import L1, L1_THEORY, Line, axis_of, line_chart, line_data
from fedsim.report.charts.sweep_maps import map_chart
from fedsim.report.charts.trade_off import PACE
from fedsim.report.document import Document
from fedsim.report.finished_sweep import (
    COMPLETE,
    Estimates,
    FinishedSweep,
    estimates,
    paired,
    point_names,
    short,
    values_of,
)
from fedsim.report.formatting import count, fixed, listing, number, signed
from fedsim.report.measured_points import measured_points
from fedsim.report.provenance import sweep_provenance
from fedsim.report.tables import Table
from fedsim.report.verdict import verdict

HEADLINES = (
    L1,
    PACE,
    "participation.coverage",
    "participation.gini",
    "rounds.shortage_share",
    "rounds.duration.p50",
    "sessions.reported_share",
    "sessions.wasted_share",
)
"""Metrics shown first, those that move along the sweep; the losses of optimizers come after them."""

TRENDS = 10
"""Metrics with charts of their own at most."""

COLUMNS = 5
"""Metrics in the tables of points at most."""

POINTS = 60
"""Points in those tables at most."""

FAILURES = 20
"""Runs without a result named at most."""

_IS = "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"

NAMES = ("distance", trade_off.NAME, "trend-*", "map-*")
"""Every chart that the report of a sweep can have; a star stands for the name of a metric."""


def sweep_document(sweep: FinishedSweep) -> Document:
    """Compute everything that the report of a sweep shows."""
    chosen = headlines(sweep)
    points, origin = point_table(sweep, chosen), sweep_provenance(sweep.meta)
    description, status = sweep.meta.get("description"), sweep.meta.get("status")
    return Document(
        kind="sweep",
        name=sweep.name,
        description=description if isinstance(description, str) else "",
        status=status if isinstance(status, str) else "",
        verdict=verdict(sweep.meta.get("verdict")),
        answer=tuple(sweep_answer(sweep)),
        tiles=tuple(sweep_tiles(sweep)),
        charts=sweep_charts(sweep, chosen),
        names=NAMES,
        context={
            "points": points,
            "differences": difference_table(sweep, chosen),
            "failures": failure_table(sweep),
            "provenance": origin,
            "what_if": measured_points(sweep),
        },
        tables=[points],
        command=origin.command,
    )


def headlines(sweep: FinishedSweep) -> tuple[str, ...]:
    """Choose the metrics to show: those of the scenario's own and of `HEADLINES` that move, then losses."""
    known = sweep.metrics
    losses = [name for name in known if re.fullmatch(r"learning\..+\.(loss|excess_loss)", name)]
    own = [name for name in known if describe(name) is None]
    listed = [*own, *(name for name in HEADLINES if name in known)]
    moving = [name for name in (*listed, *losses) if _moves(sweep, name)]
    return tuple(moving or listed or known)[:TRENDS]


def _moves(sweep: FinishedSweep, metric: str) -> bool:
    mean = estimates(sweep, metric).mean
    mean = mean[np.isfinite(mean)]
    return len(mean) > 1 and bool(np.ptp(mean) > 1e-12 * np.abs(mean).max())


def sweep_charts(sweep: FinishedSweep, chosen: Sequence[str]) -> Mapping[str, tuple[Chart | Absent, ...]]:
    """Compute the data of every chart of a sweep, by the section that shows it."""
    along = axis_of(sweep)
    title = f"Bias along {short(along)}" if along is not None else "Bias"
    others = [metric for metric in chosen if metric != L1]
    maps = [map_chart(sweep, metric, f"map-{_slug(metric)}", _title(metric)) for metric in chosen]
    return {
        "bias": (
            line_chart(sweep, L1, "distance", title, _unit(L1), L1_THEORY),
            trade_off.trade_off_chart(sweep),
        ),
        "trends": tuple(
            line_chart(sweep, metric, f"trend-{_slug(metric)}", _title(metric), _unit(metric)) for metric in others
        ),
        "maps": tuple(chart for chart in maps if chart is not None),
    }


def _slug(metric: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", metric).strip("-")


def _title(metric: str) -> str:
    known = describe(metric)
    if known is None:
        return metric
    meaning = known.meaning.partition(":")[0].partition(";")[0].rstrip(".")
    owner = re.match(r"(?:learning|group)\.(.+)\.[a-z0-9_]+$", metric)
    return f"{meaning}, {owner[1]}" if owner else meaning


def _unit(metric: str) -> str:
    known = describe(metric)
    return "" if known is None else known.unit.replace("1/d", "per day")


def sweep_answer(sweep: FinishedSweep) -> Iterator[Sentence]:
    """Say in words what the sweep found."""
    seeds, runs = sweep.runs["seed"].n_unique(), count(len(sweep.runs), "run")
    yield Sentence(f"{count(len(sweep.points), 'point')} with {count(seeds, 'seed')} each: {runs}.", WHAT)
    if sweep.runs.is_empty() or sweep.results.is_empty():
        yield Sentence("No run has a result: there is nothing to compare.", WHAT, warns=True)
        return
    for metric, words, about in TOLD:
        if (way := _way(sweep, metric, words)) is not None:
            yield Sentence(way, about)
    if missing := len(sweep.runs) - sweep.runs.filter(status=COMPLETE).height:
        what = f"{count(missing)} of {runs} did not complete: their figures are missing below."
        yield Sentence(what, TRUST, warns=True)
    if seeds == 1:
        alone = "With one seed there are no intervals: chance cannot be told from effect."
        yield Sentence(alone, TRUST, warns=True)
    elif not missing:
        text = (
            f"Every run completed. Every point has the same {count(seeds, 'seed')}, so differences are paired by seed"
        )
        yield Sentence(f"{text}; ± is half of a 95\N{NARROW NO-BREAK SPACE}% interval.", TRUST)


TOLD = (
    (L1, "the L1 distance from uniform", BIAS),
    (PACE, "the number of rounds per simulated day", COST),
)
"""The metrics that an answer tells of, in its words, and the question that they belong to."""


def _way(sweep: FinishedSweep, metric: str, words: str) -> str | None:
    """Tell how a metric goes from one end of the sweep to the other, with the paired difference between the two."""
    data = line_data(sweep, metric)
    if data is None:
        return None
    ends = list(dict.fromkeys((data.lines[0], data.lines[-1])))
    x, y = ends[0].x[0], ends[0].x[-1]
    if x == y:
        return f"{words[0].upper()}{words[1:]} is {_figure(float(ends[0].mean[0]))}."
    ways = [f"{_change(sweep, metric, line)}{f' with {line.name}' if line.name else ''}" for line in ends]
    name = short(data.along)
    return f"From {name}{_IS}{data.at(x)} to {name}{_IS}{data.at(y)}, {words} {listing(ways)}."


def _change(sweep: FinishedSweep, metric: str, line: Line) -> str:
    first, last = int(line.points[0]), int(line.points[-1])
    apart = paired(sweep, metric, first)
    change, half = float(apart.mean[last]), float(apart.half[last])
    if change == 0:
        return f"stays at {_figure(float(line.mean[0]))}"
    told = signed(change, _figure) + (f" ± {number(half, 2)}" if np.isfinite(half) else "")
    return f"goes from {_figure(float(line.mean[0]))} to {_figure(float(line.mean[-1]))} ({told})"


def _figure(value: float) -> str:
    return fixed(value) if abs(value) < 10 else number(value)


def sweep_tiles(sweep: FinishedSweep) -> Iterator[Tile]:
    """Pick the key figures of a sweep."""
    points, complete = len(sweep.points), sweep.runs.filter(status=COMPLETE).height
    yield Tile(count(points), "points" if points != 1 else "point", ", ".join(sweep.parameters))
    yield Tile(count(complete), "runs complete", f"of {count(len(sweep.runs))}")
    names = point_names(sweep)
    for metric, words, best in (
        (L1, "least L1 from uniform", np.nanargmin),
        (PACE, "most rounds per day", np.nanargmax),
    ):
        mean = estimates(sweep, metric).mean
        if np.isfinite(mean).any():
            index = int(best(mean))
            yield Tile(_figure(mean[index]), words, f"at {names[index]}" if names[index] else "")


def point_table(sweep: FinishedSweep, chosen: Sequence[str]) -> Table:
    """Show the means at every point."""
    cells = [_with_halves(estimates(sweep, metric)) for metric in chosen[:COLUMNS]]
    return _points(sweep, "Points of the sweep: mean ± half of the 95 % interval", chosen[:COLUMNS], cells)


def difference_table(sweep: FinishedSweep, chosen: Sequence[str]) -> Table | None:
    """Show the paired differences of every point from the first; None where there is but one point."""
    if len(sweep.points) < 2 or not chosen:
        return None
    cells = [["first", *_with_halves(paired(sweep, metric))[1:]] for metric in chosen[:COLUMNS]]
    return _points(sweep, "Differences from the first point, paired by seed", chosen[:COLUMNS], cells)


def _with_halves(found: Estimates) -> list[str]:
    return [
        f"{number(mean)} ± {number(half, 2)}" if np.isfinite([mean, half]).all() else number(mean)
        for mean, half in zip(found.mean, found.half, strict=True)
    ]


def _points(sweep: FinishedSweep, caption: str, metrics: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    values = [values_of(sweep, name) for name in sweep.parameters]
    rows = tuple(zip(*values, *cells, strict=True)) if values or cells else ()
    left = len(rows) - POINTS
    note = f"The first {POINTS} points; {count(left)} more are in the results of the sweep." if left > 0 else ""
    header = (*(short(name) for name in sweep.parameters), *metrics)
    return Table(caption, header, rows[:POINTS], words=len(sweep.parameters), note=note)


def failure_table(sweep: FinishedSweep) -> Table | None:
    """Show the runs without a result; None where there are none."""
    failed = sweep.runs.filter(sweep.runs["status"] != COMPLETE)
    if failed.is_empty():
        return None
    names = dict(zip(sweep.points["point"].to_list(), point_names(sweep), strict=True))
    rows = tuple(
        (str(run), names.get(point, str(point)), str(seed), str(status))
        for run, point, seed, status in failed.head(FAILURES).iter_rows()
    )
    left = len(failed) - len(rows)
    note = f"{count(left, 'more run')} without a result." if left else ""
    return Table("Runs without a result", ("Run", "Point", "Seed", "Status"), rows, words=4, note=note)
