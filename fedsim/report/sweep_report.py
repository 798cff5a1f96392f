"""The report of a sweep: what changes along it, by how much, and how sure that is."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from fedsim.analysis import describe
from fedsim.report.answer import BIAS, COST, TRUST, WHAT, Sentence, Tile
from fedsim.report.charts import trade_off
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.sweep_lines import L1, L1_THEORY, Line, axis_of, line_chart, line_data
from fedsim.report.charts.sweep_maps import map_chart
from fedsim.report.charts.trade_off import PACE
from fedsim.report.document import Document
from fedsim.report.finished_sweep import COMPLETE, FinishedSweep, estimates, paired, point_names, short, values_of
from fedsim.report.formatting import NOTHING, count, fixed, listing, minus, number
from fedsim.report.markdown import plain_table, summary
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
    judged, said, key = verdict(sweep.meta.get("verdict")), sweep_answer(sweep), sweep_tiles(sweep)
    points, differences = point_table(sweep, chosen), difference_table(sweep, chosen)
    description = sweep.meta.get("description")
    status = sweep.meta.get("status")
    origin = sweep_provenance(sweep.meta)
    return Document(
        name=sweep.name,
        template="sweep.html.jinja",
        context={
            "description": description if isinstance(description, str) else "",
            "status": status if isinstance(status, str) else "",
            "verdict": judged,
            "answer": said,
            "tiles": key,
            "points": points,
            "differences": differences,
            "failures": failure_table(sweep),
            "provenance": origin,
        },
        charts=sweep_charts(sweep, chosen),
        names=NAMES,
        summary=summary("sweep", sweep.name, judged, said, key, [plain_table(points)], origin.command),
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
    maps = [map_chart(sweep, metric, f"map-{_slug(metric)}", _title(metric), _unit(metric)) for metric in chosen]
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


def sweep_answer(sweep: FinishedSweep) -> tuple[Sentence, ...]:
    """Say in words what the sweep found."""
    seeds = sweep.runs["seed"].n_unique()
    extent = Sentence(
        f"{count(len(sweep.points), 'point')} with {count(seeds, 'seed')} each: {count(len(sweep.runs), 'run')}.", WHAT
    )
    if sweep.runs.is_empty() or sweep.results.is_empty():
        return (extent, Sentence("No run has a result: there is nothing to compare.", WHAT, warns=True))
    found = [_way(sweep, metric, words, about) for metric, words, about in _TOLD]
    return (extent, *(sentence for sentence in found if sentence is not None), *_trust(sweep, seeds))


_TOLD = (
    (L1, "the L1 distance from uniform", BIAS),
    (PACE, "the number of rounds per simulated day", COST),
)


def _trust(sweep: FinishedSweep, seeds: int) -> tuple[Sentence, ...]:
    sentences = []
    missing = len(sweep.runs) - sweep.runs.filter(status=COMPLETE).height
    if missing:
        what = f"{count(missing)} of {count(len(sweep.runs), 'run')} did not complete: their figures are missing below."
        sentences.append(Sentence(what, TRUST, warns=True))
    if seeds == 1:
        alone = "With one seed there are no intervals: chance cannot be told from effect."
        sentences.append(Sentence(alone, TRUST, warns=True))
    elif not missing:
        text = (
            f"Every run completed. Every point has the same {count(seeds, 'seed')}, so differences are paired by seed"
        )
        sentences.append(Sentence(f"{text}; ± is half of a 95\N{NARROW NO-BREAK SPACE}% interval.", TRUST))
    return tuple(sentences)


def _way(sweep: FinishedSweep, metric: str, words: str, about: str) -> Sentence | None:
    """Tell how a metric goes from one end of the sweep to the other, with the paired difference between the two."""
    data = line_data(sweep, metric)
    if data is None:
        return None
    ends = list(dict.fromkeys((data.lines[0], data.lines[-1])))
    x, y = ends[0].x[0], ends[0].x[-1]
    if x == y:
        return Sentence(f"{words[0].upper()}{words[1:]} is {_figure(float(ends[0].mean[0]))}.", about)
    ways = [f"{_change(sweep, metric, line)}{f' with {line.name}' if line.name else ''}" for line in ends]
    name = short(data.along)
    text = f"From {name}{_IS}{data.at(x)} to {name}{_IS}{data.at(y)}, {words} {listing(ways)}."
    return Sentence(text, about)


def _change(sweep: FinishedSweep, metric: str, line: Line) -> str:
    first, last = int(line.points[0]), int(line.points[-1])
    apart = paired(sweep, metric, first)
    change, half = float(apart.mean[last]), float(apart.half[last])
    if change == 0:
        return f"stays at {_figure(float(line.mean[0]))}"
    told = f"{_signed(change)} ± {number(half, 2)}" if np.isfinite(half) else _signed(change)
    return f"goes from {_figure(float(line.mean[0]))} to {_figure(float(line.mean[-1]))} ({told})"


def _figure(value: float) -> str:
    return fixed(value) if abs(value) < 10 else number(value)


def _signed(value: float) -> str:
    return f"+{_figure(value)}" if value > 0 else minus(_figure(value))


def sweep_tiles(sweep: FinishedSweep) -> tuple[Tile, ...]:
    """Pick the key figures of a sweep."""
    complete = sweep.runs.filter(status=COMPLETE).height
    found = [
        Tile(count(len(sweep.points)), "points" if len(sweep.points) != 1 else "point", ", ".join(sweep.parameters)),
        Tile(count(complete), "runs complete", f"of {count(len(sweep.runs))}"),
    ]
    names = point_names(sweep)
    for metric, words, best in ((L1, "least L1 from uniform", "low"), (PACE, "most rounds per day", "high")):
        mean = estimates(sweep, metric).mean
        if np.isfinite(mean).any():
            index = int(np.nanargmin(mean) if best == "low" else np.nanargmax(mean))
            found.append(Tile(_figure(mean[index]), words, f"at {names[index]}" if names[index] else ""))
    return tuple(found)


def point_table(sweep: FinishedSweep, chosen: Sequence[str]) -> Table:
    """Show the means at every point."""
    columns = [estimates(sweep, metric) for metric in chosen[:COLUMNS]]
    cells = [[_with_half(mean, half) for mean, half in zip(own.mean, own.half, strict=True)] for own in columns]
    return _points(sweep, "Points of the sweep: mean ± half of the 95 % interval", chosen[:COLUMNS], cells)


def difference_table(sweep: FinishedSweep, chosen: Sequence[str]) -> Table | None:
    """Show the paired differences of every point from the first; None where there is but one point."""
    if len(sweep.points) < 2 or not chosen:
        return None
    columns = [paired(sweep, metric) for metric in chosen[:COLUMNS]]
    cells = [
        ["first" if index == 0 else _with_half(mean, half) for index, (mean, half) in enumerate(zip(*own, strict=True))]
        for own in ((each.mean.tolist(), each.half.tolist()) for each in columns)
    ]
    return _points(sweep, "Differences from the first point, paired by seed", chosen[:COLUMNS], cells)


def _with_half(mean: float, half: float) -> str:
    if not np.isfinite(mean):
        return NOTHING
    return f"{number(mean)} ± {number(half, 2)}" if np.isfinite(half) else number(mean)


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
