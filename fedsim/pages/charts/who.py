"""Who takes part: the participation shares of groups, zones, tenths and clients, beside what equal chances would do."""

from functools import partial
from typing import Literal

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.common.arrays import Floats, Ints
from fedsim.common.formatting import count, fixed, listing_of, number, percent
from fedsim.measure.shares import NORMAL
from fedsim.pages.bias import Bias, fair_counts
from fedsim.pages.charts import Chart, marks, plot
from fedsim.pages.tables import GROUP_ROWS, Table
from fedsim.run.run import Run

_LABEL = 18  # characters of a name that fit to the left of the chart
_SINGLE = 400  # the most clients that have a dot each
_IN_ORDER = ("group", "zone", "weight", "availability", "speed")  # of the ways to part the clients
_NAMES = {"group": "groups", "zone": "zones", "weight": "weights"}  # of the charts of these kinds, after ``who-``
_SHARE = "participation share (1: equal)"


def who_charts(run: Run, bias: Bias) -> list[Chart]:
    """Make the picture of the first screen, ``who``, and the charts of the other ways to part the clients.

    The picture has the way that is told from chance and has the widest contrast; else the first way, or the clients.
    """
    if not run.clients["reported"].sum():
        return []
    parted = run.series["shares"].partition_by("kind", as_dict=True, maintain_order=True)
    ways = {kind: parted[(kind,)] for kind in _IN_ORDER if (kind,) in parted}
    told = [kind for kind in ways if any(part.told for part in bias.of(kind))]
    widest = bias.contrast[0].kind if bias.contrast else ""
    first = widest if widest in told else next(iter([*told, *ways]), None)
    alone = _client_chart(run, "participation" if first else "who")
    if first is None:
        return [alone]
    others = [_row_chart(run, ways[kind], f"who-{_NAMES.get(kind, kind)}") for kind in told if kind != first]
    return [_row_chart(run, ways[first], "who"), *others, *([alone] if ways[first]["noun"][0] != "client" else [])]


def _row_chart(run: Run, way: pl.DataFrame, name: str) -> Chart:
    kind, noun = way.select("kind", "noun").row(0)
    data = way
    if len(way) > GROUP_ROWS:  # those at both ends
        order = way.sort("value", descending=True, maintain_order=True) if kind in {"group", "zone"} else way
        data = pl.concat([order.head(GROUP_ROWS // 2), order.tail(GROUP_ROWS // 2)])
    if way["low"].null_count():
        data = data.with_columns(low=None, high=None)
    what = "participations" if run.all_reported else "reports taken"
    notes = [f"Participation share: the share of the {what} over the share of the clients. 1 is equal shares for all."]
    if way["low"].null_count():
        notes.append(f"Grey: where equal chances for everybody would put 19 of 20 {noun}s.")
    else:
        notes.append("Bars: intervals at the level of the verdict, 95\N{NARROW NO-BREAK SPACE}% for all looks.")
    if len(data) < len(way):
        notes.append(f"{count(len(data))} of the {count(len(way), noun)}: those at both ends.")
    by = {"zone": "time zone", "availability": "available time"}.get(kind, kind)
    quoted = "“{}” {}" if noun in {"group", "time zone"} else "{} {}"
    ways = listing_of([quoted.format(own, number(value, 3)) for own, value in data.select("name", "value").rows()], 12)
    return Chart(
        name=name,
        title=f"Who takes part, by {by}",
        description=f"Participation shares by {by}: {ways}; 1 is equal.",
        notes=tuple(notes),
        table=_row_table(data),
        draw=partial(_draw_rows, data),
        height=float(np.clip(0.36 + 0.06 * len(data), 0.58, 1.7)),
    )


def _row_table(data: pl.DataFrame) -> Table:
    columns = {"Share of clients": [*map(percent, data["size"])], "Participation share": [*map(number, data["value"])]}
    if not data["low"].null_count():
        ends = data.select("low", "high").rows()
        columns["Interval"] = [f"{number(low, 3)} to {number(high, 3)}" for low, high in ends]
    if not data["theory"].null_count():
        columns["Theory"] = [*map(number, data["theory"])]
    columns["Equal chances"] = [f"1 ± {number(each, 2)}" for each in data["chance"]]
    cells = zip(data["name"], *columns.values(), strict=True)
    return Table("Participation shares", (data["noun"][0].capitalize(), *columns), tuple(cells))


def _draw_rows(data: pl.DataFrame, axes: Axes) -> None:
    """Draw a row for each part: a dot with its interval, a tick for theory, and the band of equal chances."""
    share, chance, low, high = (data[name].to_numpy() for name in ("value", "chance", "low", "high"))
    theory = None if data["theory"].null_count() else data["theory"].to_numpy()
    ends = not data["low"].null_count()
    at = marks.named_rows(axes, [marks.shortened(name, _LABEL) for name in data["name"]])
    values = np.concatenate([share, np.ones(1), *([] if theory is None else [theory])])
    far = marks.spans_decades(values, ratio=8)
    if ends:
        values = np.concatenate([values, np.maximum(low, share / 2 if far else 0), high])
    least, most = float(values.min()), max(float(values.max()), 1.1)
    axes.set_xlim(*((least / 1.2, most * 1.2) if far else (0.9 * min(least, 0.9) if least > 0.6 else 0, 1.05 * most)))
    marks.rule(axes, x=1)
    entries = list[tuple[Artist, str]]()
    if not ends:
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
    if theory is not None:
        dots = marks.dots(axes, theory, at, marks.SERIES[1], 9, marker="|", markeredgewidth=1.8, zorder=5)
        entries.append((dots, "theory"))
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


def _client_chart(run: Run, name: str) -> Chart:
    """Draw the participation share of every client, in the order of weight, else of theory, else of the shares."""
    table, clients = run.clients, len(run.clients)
    counts, pi = table["reported"].to_numpy(), table["pi"] if run.all_reported else pl.Series([None], dtype=pl.Float64)
    taken = int(counts.sum())
    column, order = "weight", "by weight, heaviest first"
    if table["weight"].n_unique() == 1:
        known = not pi.null_count() and pi.n_unique() > 1
        column, order = ("pi", "by theory, most frequent first") if known else ("reported", "most frequent first")
    ranked = np.argsort(-table[column].to_numpy(), kind="stable")  # by number where the column is the same
    cuts = marks.edges(clients, clients if clients <= _SINGLE else marks.POINTS)
    rank = np.arange(1, clients + 1, dtype=np.float64)
    measured = marks.binned(rank, counts[ranked] / taken * clients, cuts)
    single, x = measured.size == 1, measured.x
    series = [plot.Series("measured", x, measured.mean, look="dots" if single else "line")]
    if not pi.null_count():
        theory = marks.binned(rank, pi.to_numpy()[ranked] * clients, cuts).mean
        series.append(plot.Series("theory", x, theory, marks.SERIES[1], "steps"))
    notes = ["1: as many as with equal shares for all."]
    band = None
    if clients > 1:
        band = in_order(taken, clients, x) if column == "reported" else around_uniform(taken, clients, np.diff(cuts))
        notes.append("Grey: where equal chances for everybody would put 19 of 20 points.")
    if not single:
        notes.append(f"Lines are means over bins of up to {count(measured.size, 'client')} next to each other.")
    values = np.concatenate([each.y for each in series])
    far = column != "reported" and marks.spans_decades(values, ratio=8)
    top = float(1.6 if far else 1.15) * max(values.max(), 1.0)

    def before(axes: Axes) -> None:
        if band is not None:
            step: Literal["mid"] | None = None if column == "reported" and not single else "mid"
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
