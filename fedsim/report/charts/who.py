"""Who takes part: the participation shares of groups, zones, tenths and clients, beside what equal chances would do."""

from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.common.arrays import Floats, Ints
from fedsim.common.formatting import count, fixed, listing_of, number, percent
from fedsim.common.intervals import student_quantile
from fedsim.findings.bias import NORMAL, Bias, ClientParts, fair_counts, parts_of
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.gathered import share_margins
from fedsim.report.charts import Chart, marks, plot
from fedsim.report.tables import GROUP_ROWS, Table

_LABEL = 18  # characters of a name that fit to the left of the chart
_SINGLE = 400  # the most clients that have a dot each
_NAMES = {"group": "groups", "zone": "zones", "weight": "weights"}  # of the charts of these kinds, after ``who-``
_SHARE = "participation share (1: equal)"


def judged_rows(rows: ClientParts, bias: Bias) -> ClientParts:
    """Give rows the intervals by which they were judged, which exclude 1 where they are told; others the same level."""
    own = {part.name: part for part in bias.of(rows.kind) if np.isfinite(part.visible)}
    margins, spans = (None, 2) if rows.spans is None else (share_margins(rows.spans), len(rows.spans))
    if not own or (margins is None and not set(rows.names) <= set(own)):
        return rows
    level = min(part.level for part in own.values())
    wider = student_quantile(spans, 1 - level) / student_quantile(spans)
    half = 0.0 if margins is None else wider * (margins / rows.sizes)
    ends = np.stack([np.maximum(rows.shares - half, 0.0), rows.shares + half])
    for row, name in enumerate(rows.names):
        if name in own:
            ends[:, row] = own[name].low, own[name].high
    return replace(rows, ends=ends)


def who_charts(run: FinishedRun, bias: Bias) -> list[Chart]:
    """Make the picture of the first screen, ``who``, and the charts of the other ways to part the clients.

    The picture has the way that is told from chance and has the widest contrast; else the first way, or the clients.
    """
    if not run.clients["participations"].sum():
        return []
    ways = [judged_rows(each, bias) for each in parts_of(run)]
    kinds = {part.kind for part in bias.parts if part.told}
    widest = bias.contrast[0].kind if bias.contrast else ""
    told = [each for each in ways if each.kind in kinds]
    first = next((each for each in told if each.kind == widest), next(iter([*told, *ways]), None))
    alone = _client_chart(run, "participation" if first else "who")
    if first is None:
        return [alone]
    others = [_row_chart(run, each, f"who-{_NAMES.get(each.kind, each.kind)}") for each in told if each is not first]
    return [_row_chart(run, first, "who"), *others, *([alone] if first.noun != "client" else [])]


def _row_chart(run: FinishedRun, data: ClientParts, name: str) -> Chart:
    rows = np.arange(len(data.names))
    if len(rows) > GROUP_ROWS:  # those at both ends
        order = np.argsort(-data.shares, kind="stable") if data.kind in {"group", "zone"} else rows
        rows = np.concatenate([order[: GROUP_ROWS // 2], order[-GROUP_ROWS // 2 :]])
    what = "participations" if run.selected is None else "reports taken"
    notes = [f"Participation share: the share of the {what} over the share of the clients. 1 is equal shares for all."]
    if data.ends is None:
        notes.append(f"Grey: where equal chances for everybody would put 19 of 20 {data.noun}s.")
    else:
        notes.append("Bars: intervals at the level of the verdict, 95\N{NARROW NO-BREAK SPACE}% for all looks.")
    if len(rows) < len(data.names):
        notes.append(f"{count(len(rows))} of the {count(len(data.names), data.noun)}: those at both ends.")
    by = {"zone": "time zone", "availability": "available time"}.get(data.kind, data.kind)
    quoted = "“{}” {}" if data.noun in {"group", "time zone"} else "{} {}"
    ways = listing_of([quoted.format(data.names[row], number(data.shares[row], 3)) for row in rows], 12)
    return Chart(
        name=name,
        title=f"Who takes part, by {by}",
        description=f"Participation shares by {by}: {ways}; 1 is equal.",
        notes=tuple(notes),
        table=_row_table(data, rows),
        draw=partial(_draw_rows, data, rows),
        height=float(np.clip(0.36 + 0.06 * len(rows), 0.58, 1.7)),
    )


def _row_table(data: ClientParts, rows: Ints) -> Table:
    columns = {"Share of clients": [percent(each) for each in data.sizes[rows]]}
    columns["Participation share"] = [number(each) for each in data.shares[rows]]
    if data.ends is not None:
        columns["Interval"] = [f"{number(low, 3)} to {number(high, 3)}" for low, high in data.ends[:, rows].T.tolist()]
    if data.theory is not None:
        columns["Theory"] = [number(each) for each in data.theory[rows]]
    columns["Equal chances"] = [f"1 ± {number(each, 2)}" for each in data.chance[rows]]
    cells = zip([data.names[row] for row in rows], *columns.values(), strict=True)
    return Table("Participation shares", (data.noun.capitalize(), *columns), tuple(cells))


def _draw_rows(data: ClientParts, rows: Ints, axes: Axes) -> None:
    """Draw a row for each part: a dot with its interval, a tick for theory, and the band of equal chances."""
    share, chance = data.shares[rows], data.chance[rows]
    at = marks.named_rows(axes, [marks.shortened(data.names[row], _LABEL) for row in rows])
    values = np.concatenate([share, np.ones(1), *([] if data.theory is None else [data.theory[rows]])])
    far = marks.spans_decades(values, ratio=8)
    if data.ends is not None:
        low, high = data.ends[:, rows]
        values = np.concatenate([values, np.maximum(low, share / 2 if far else 0), high])
    least, most = float(values.min()), max(float(values.max()), 1.1)
    axes.set_xlim(*((least / 1.2, most * 1.2) if far else (0.9 * min(least, 0.9) if least > 0.6 else 0, 1.05 * most)))
    marks.rule(axes, x=1)
    entries = list[tuple[Artist, str]]()
    if data.ends is None:
        left = np.maximum(1 - chance, axes.get_xlim()[0])
        band = axes.barh(at, 1 + chance - left, 1.0, left=left, color=marks.MUTED, alpha=0.28, linewidth=0)
        entries = [
            (marks.dots(axes, share, at, marks.SERIES[0], 5.5, zorder=4), "measured"),
            (band[0], "equal chances"),
        ]
    else:  # what is told from chance is what has an interval without 1
        axes.hlines(at, low, high, color=marks.SERIES[0], linewidth=1.4, zorder=3)
        told = (low > 1) | (high < 1)
        for own, face, words in (told, marks.SERIES[0], "beyond chance"), (~told, marks.PAPER, "within chance"):
            dots = marks.dots(axes, share[own], at[own], marks.SERIES[0], 5.5, zorder=4, markerfacecolor=face)
            entries += [(dots, words)] if own.any() else []
    marks.set_scale(axes, "x", far)
    if data.theory is not None:
        theory = marks.dots(axes, data.theory[rows], at, marks.SERIES[1], 9, marker="|", markeredgewidth=1.8, zorder=5)
        entries.append((theory, "theory"))
    for y, value in zip(at, share, strict=True):
        text = fixed(float(value), 2 if value >= 1 else 3)
        axes.text(1.02, y, text, transform=axes.get_yaxis_transform(), va="center")
    marks.finish(axes, _SHARE, "", entries)


def around_uniform(taken: int, clients: int, sizes: Ints) -> tuple[Floats, Floats]:
    """Return between what 95 % of the means of so many clients each lie in a fair lottery, in multiples of uniform.

    A client's count is binomial. The mean of several counts is taken to be normal; a single count has the binomial's
    quantiles.
    """
    counts, reached = fair_counts(taken, clients)
    mean = taken / clients
    single = counts[np.searchsorted(reached, [0.025, 0.975])] / mean
    half = NORMAL * np.sqrt((1 - 1 / clients) / (mean * np.maximum(sizes, 1)))
    low = np.where(sizes == 1, single[0], np.maximum(1 - half, 0.0))
    return low, np.where(sizes == 1, single[1], 1 + half)


def in_order(taken: int, clients: int, ranks: Floats) -> tuple[Floats, Floats]:
    """Return between what the frequency of each rank (1 for the most frequent) lies in 95 % of the fair lotteries.

    The counts of a lottery in descending order are the binomial's quantiles at the order statistics of uniform draws,
    whose intervals are taken to be those of Wilson (Journal of the American Statistical Association 22, 1927).
    """
    counts, reached = fair_counts(taken, clients)
    p = 1 - (ranks - 0.5) / clients
    part = NORMAL**2 / clients
    middle = (p + part / 2) / (1 + part)
    half = NORMAL * np.sqrt(p * (1 - p) / clients + part / (4 * clients)) / (1 + part)
    low, high = (np.searchsorted(reached, np.clip(each, 0.0, reached[-1])) for each in (middle - half, middle + half))
    return counts[low] * clients / taken, counts[high] * clients / taken


def _client_chart(run: FinishedRun, name: str) -> Chart:
    """Draw the participation share of every client, in the order of weight, else of theory, else of the shares."""
    table, clients = run.clients, len(run.clients)
    taken, pi = int(table["participations"].sum()), table["pi"]
    column, order = "weight", "by weight, heaviest first"
    if table["weight"].n_unique() == 1:
        known = not pi.null_count() and pi.n_unique() > 1
        column, order = ("pi", "by theory, most frequent first") if known else ("frequency", "most frequent first")
    ranked = np.argsort(-table[column].to_numpy(), kind="stable")  # by number where the column is the same
    cuts = marks.edges(clients, clients if clients <= _SINGLE else marks.POINTS)
    rank = np.arange(1, clients + 1, dtype=np.float64)
    measured = marks.binned(rank, table["frequency"].to_numpy()[ranked] * clients, cuts)
    single, x = measured.size == 1, measured.x
    series = [plot.Series("measured", x, measured.mean, look="dots" if single else "line")]
    if not pi.null_count():
        theory = marks.binned(rank, pi.to_numpy()[ranked] * clients, cuts).mean
        series.append(plot.Series("theory", x, theory, marks.SERIES[1], "steps"))
    notes = ["1: as many as with equal shares for all."]
    band = None
    if clients > 1:
        band = in_order(taken, clients, x) if column == "frequency" else around_uniform(taken, clients, np.diff(cuts))
        notes.append("Grey: where equal chances for everybody would put 19 of 20 points.")
    if not single:
        notes.append(f"Lines are means over bins of up to {count(measured.size, 'client')} next to each other.")
    values = np.concatenate([each.y for each in series])
    far = column != "frequency" and marks.spans_decades(values, ratio=8)
    top = float(1.6 if far else 1.15) * max(values.max(), 1.0)

    def before(axes: Axes) -> None:
        if band is not None:
            step: Literal["mid"] | None = None if column == "frequency" and not single else "mid"
            axes.fill_between(x, *band, step=step, color=marks.MUTED, alpha=0.28, linewidth=1.5)

    def after(axes: Axes) -> None:
        axes.set_ylim(min(values.min(), 1.0) / 1.6 if far else 0, top)
        margin = max(0.5, 0.02 * clients)
        axes.set_xlim(1 - margin, clients + margin)
        marks.set_scale(axes, "y", far)

    return plot.line_plot(
        name,
        "Who takes part, client by client",
        series,
        (f"clients, {order}", "whole"),
        (_SHARE, "log" if far else "linear"),
        rules=[plot.Rule("equal", 1.0)],
        notes=notes,
        before=before,
        after=after,
    )
