"""Who takes part: the participation shares of groups, zones, tenths and clients, beside what equal chances would do."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints
from fedsim.common.formatting import count, duration, listing, number, percent
from fedsim.common.instants import time_unit
from fedsim.measure.frequencies import fair_counts, gini
from fedsim.pages.bias import Bias, Seen, bias_of, group_spans, moved_groups, of_a_month, pace_of, steps_by_group
from fedsim.pages.charts import Chart, marks
from fedsim.pages.charts.plot import POINTS, AxisLook, Rows, Rule, Series, line_plot, row_plot
from fedsim.pages.tables import GROUP_ROWS
from fedsim.run.run import Run

_IN_ORDER = ("group", "zone", "weight", "availability", "speed", "client")  # of the ways to part the clients
_NAMES = {"group": "groups", "zone": "zones", "weight": "weights"}  # of the charts of these kinds, after ``who-``
_SHARE = "participation share (1: equal)"
_ALIKE = 0.02  # of all reports: curves that are nowhere further apart look like one
_GROUPS = 8  # groups that are shown at most where none differs significantly


def who_charts(run: Run, bias: Bias) -> list[Chart | None]:
    """Make the picture of the first screen, ``who``, and the charts of the other ways to part the clients.

    The picture has the way that has a significant part and the widest contrast; else the first way, or the clients.
    """
    if not run.clients["reported"].sum():
        return []
    parted = run.series["shares"].partition_by("kind", as_dict=True, maintain_order=True)
    ways = {kind: parted[(kind,)] for kind in _IN_ORDER if (kind,) in parted}
    if {"group", "weight"} <= {*ways} and ways["group"]["value"].sort().equals(ways["weight"]["value"].sort()):
        del ways["weight"]  # each group has a weight of its own
    significant = [kind for kind in ways if kind == bias.trend or any(part.significant for part in bias.of(kind))]
    asked = next((part.kind for part in bias.parts if part.key and part.key == run.scenario.headline), "")
    widest = bias.trend or (bias.contrasts[0][0].kind if bias.contrasts else "")
    first = widest if widest in significant else next(iter([*significant, *ways]), None)
    first = asked if asked in ways else first
    few = 1 < len(ways.get("group", ())) <= _GROUPS and not moved_groups(run)  # else groups are drawn over time
    shown = [*significant, *["group"] * few]
    alone = lorenz_chart({"measured": run}, "lorenz" if first else "who")
    if first is None:
        return [alone]
    kinds = [kind for kind in dict.fromkeys(shown) if kind != first]
    others = [_row_chart(run, ways[kind], f"who-{_NAMES.get(kind, kind)}") for kind in kinds]
    alone = alone and replace(alone, aside=bias.seen is not Seen.UNMEASURED and not bias.whole)
    even = bias.seen in {Seen.EVEN, Seen.NONE} and run.scenario.learning is not None  # and the page is of that
    return [
        replace(_row_chart(run, ways[first], "who"), aside=even),
        *others,
        *([alone] if ways[first]["noun"][0] != "client" else []),
    ]


def _row_chart(run: Run, way: pl.DataFrame, name: str) -> Chart:
    kind, noun = way.select("kind", "noun").row(0)
    data = way
    if len(way) > GROUP_ROWS:  # those at both ends
        order = way.sort("value", descending=True, maintain_order=True) if kind in {"group", "zone"} else way
        data = pl.concat([order.head(GROUP_ROWS // 2), order.tail(GROUP_ROWS // 2)])
    tested = not way["low"].null_count()
    what = "participations" if run.all_reported else "reports taken"
    notes = [f"Participation share: the share of the {what} over the share of the clients. 1 is equal shares for all."]
    if not tested:
        notes.append(f"Grey: where independent draws with equal chances would put every {noun}, in 19 of 20 runs.")
    half, finding, scale, unit = count(GROUP_ROWS // 2), "", 1.0, _SHARE
    if kind == "client" and len(way) == len(run.clients):  # of a few clients, how often each reports
        scale, unit = float(run.clients["reported"].mean()), "reports"  # type: ignore[arg-type]
        if of_a_month(run):
            scale, unit = scale * 30 * pace_of(run)[1], "reports in 30 days, if it goes on so"
        notes = notes[1:]
    if len(data) < len(way):
        finding = f"Of {count(len(way), noun)}, the {half} at either end; the others lie between."
    value, low, high = (scale * data[each].cast(pl.Float64).to_numpy() for each in ("value", "low", "high"))
    theory = None if data["theory"].null_count() else scale * data["theory"].to_numpy()
    rows = Rows(
        names=data["name"].to_list(),
        value=value,
        margin=np.stack([value - low, high - value]) if tested else None,
        filled=(low > scale) | (high < scale) | (not tested),
        legend=("beyond chance" if tested else "measured", "within chance"),
        unit=unit,
        reference=scale,
        theory=theory,
        chance=None if tested else scale * data["chance"].to_numpy(),
        interval="intervals at the level of the verdict, 95\N{NARROW NO-BREAK SPACE}% for all looks",
    )
    by = {"zone": "time zone", "availability": "available time"}.get(kind, kind)
    return replace(row_plot(rows, name, f"Who takes part, by {by}", notes), finding=finding)


def steps_chart(run: Run) -> Chart | None:
    """Draw how many local steps the reports of each group hold; None unless groups differ in that by a tenth."""
    if not 1 < len(means := steps_by_group(run)) <= _GROUPS:
        return None
    values, full = np.array([*means.values()]), np.full(len(means), True)
    rows = Rows([*means], values, None, full, ("measured", ""), "local steps of a report, on average", scale="from 0")
    return row_plot(rows, "steps", "Local steps, by group")


def lorenz_chart(runs: Mapping[str, Run], name: str) -> Chart | None:
    """Draw which share of the reports is that of the clients that reported least; of one run also by equal chances.

    Those are as far from uniform as the verdict has them. None where nobody took part, or there is one client.
    Curves of runs that look like one are folded away.
    """
    series, texts = list[Series](), list[str]()
    for (label, run), color in zip(runs.items(), marks.SERIES, strict=False):
        counts, clients = run.clients["reported"].to_numpy(), len(run.clients)
        if clients > 1 and (taken := int(counts.sum())):
            often = np.bincount(counts)
            series.append(_lorenz(label, np.arange(len(often)), often, color))
            half = percent(float(_of_least(np.arange(len(often)), often, clients // 2)) / taken)
            of = f"In {label} the" if len(runs) > 1 else "The"
            texts.append(f"{of} half that reported least gave {half} of the reports (Gini {number(gini(counts), 2)}).")
    if not series:
        return None
    wanted, logged = bias_of(run).fair, run.scenario.log is not None  # of a log without all clients, as drawn
    if len(runs) == 1 and (wanted is not None or logged):
        # Counts of a fair lottery in order are quantiles of the binomial, but for what rounding adds.
        counts, reached = fair_counts(taken, clients)
        upto = np.append(np.floor(reached[:-1] * clients + 0.5), clients)
        often, away = np.diff(upto, prepend=0.0), counts - taken / clients
        wider = 1.0 if wanted is None else 2 * wanted * taken / max(float(np.abs(away) @ often), 1e-9)
        fair = np.maximum(taken / clients + wider * away, 0.0)  # less or more apart
        series.append(_lorenz("equal chances", fair, often, marks.MUTED))
    ends, places = np.array([0.0, 1.0]), np.linspace(0, 1, POINTS)
    shares = [np.interp(places, each.x, each.y) for each in series if len(runs) == len(series) > 1]
    series.append(Series("all equal", ends, ends, marks.INK, "dotted"))
    look = AxisLook("clients, fewest reports first", "percent"), AxisLook("share of the reports", "percent")
    chart = line_plot(name, "Who gave the reports", series, *look, finding=" ".join(texts))
    return replace(chart, aside=bool(shares and np.ptp(shares, axis=0).max() < _ALIKE))


def _lorenz(name: str, counts: Ints | Floats, often: Ints | Floats, color: str) -> Series:
    """Make the Lorenz curve of counts in ascending order, of which each is there so `often`."""
    clients = int(often.sum())
    at = np.unique(np.linspace(0, clients, min(clients, POINTS) + 1).astype(np.int64))
    sums = _of_least(counts, often, at)
    return Series(name, at / clients, sums / sums[-1], color)


def _of_least(counts: Ints | Floats, often: Ints | Floats, at: Ints | int) -> Floats:
    """Return the sum of so many of the least counts; sorted one by one they would take much memory."""
    return np.asarray(np.interp(at, np.append(0, np.cumsum(often)), np.append(0, np.cumsum(counts * often))))


def over_time_chart(run: Run, bias: Bias) -> Chart | None:
    """Draw the participation share of every group by spans of the run; None without spans.

    It is folded away where no group's share is significant, and none changes from half to half of the run by more than
    four standard errors of independent reports.
    """
    reports, sizes = group_spans(run), dict(run.clients.group_by("group", maintain_order=True).len().iter_rows())
    if reports is None or not 1 < len(sizes) <= len(marks.SERIES):
        return None
    fair, moved = len(run.clients) / np.array([*sizes.values()]), moved_groups(run)
    at, times = (np.arange(len(reports)) + 0.5) / len(reports), reports / reports.sum(axis=1, keepdims=True) * fair
    colors = zip(sizes, times.T, marks.SERIES, strict=False)
    series = [Series(name, at, shares, color) for name, shares, color in colors]
    look = AxisLook("time of the run", "percent"), AxisLook(_SHARE)
    far = [f"“{name}” from {number(first, 2)} to {number(last, 2)}" for name, (first, last) in moved.items()]
    finding = f"From the first half of the run to the last: {listing(far)} times the fair share." if far else ""
    if not far and any(part.tested for part in bias.of("group")) and not any(p.significant for p in bias.of("group")):
        finding = "Over all of it, no group's difference from 1 is significant; single spans are not tested."
    name, title = "who-over-time", "Who takes part, over time"
    chart = line_plot(name, title, series, *look, [Rule("equal", 1.0)], finding=finding)
    return replace(chart, aside=not far and not any(part.significant for part in bias.of("group")))


def reached_chart(run: Run) -> Chart | None:
    """Draw how many clients have taken part, over time; None of one client, of no reports, or without a count."""
    table = run.series.get("reached")
    unknown = run.scenario.log is not None and "clients" in run.scenario.log.unknown
    if table is None or table.is_empty() or unknown or len(run.clients) < 2 or not run.clients["reported"].sum():
        return None
    size, unit = time_unit(run.simulated_s)
    share = table["len"].to_numpy() / len(run.clients)
    at = np.concatenate([[0.0], table["time_s"].to_numpy(), [run.simulated_s]]) / size
    series = [Series("taken part", at, np.concatenate([[0.0], share, share[-1:]]))]
    finding = f"{percent(float(share[-1]))} took part at least once"
    if half := run.known.get("participation.coverage.t50"):
        finding += f", half of all clients within {duration(half)}"
    look = AxisLook(f"simulated time ({unit})"), AxisLook("clients that have taken part", "percent")
    chart = line_plot("reached", "How many clients were reached", series, *look, finding=f"{finding}.")
    return replace(chart, aside=run.scenario.learning is not None or float(share[-1]) == 1)
