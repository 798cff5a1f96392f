"""Who takes part: the participation shares of groups, zones, tenths and clients, beside what equal chances would do."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints
from fedsim.common.formatting import count
from fedsim.pages.bias import Bias
from fedsim.pages.charts import Chart, marks
from fedsim.pages.charts.plot import AxisLook, Rows, Rule, Series, line_plot, row_plot
from fedsim.pages.tables import GROUP_ROWS
from fedsim.run.run import Run

_IN_ORDER = ("group", "zone", "weight", "availability", "speed")  # of the ways to part the clients
_NAMES = {"group": "groups", "zone": "zones", "weight": "weights"}  # of the charts of these kinds, after ``who-``
_SHARE = "participation share (1: equal)"


def who_charts(run: Run, bias: Bias) -> list[Chart | None]:
    """Make the picture of the first screen, ``who``, and the charts of the other ways to part the clients.

    The picture has the way that has a significant part and the widest contrast; else the first way, or the clients.
    """
    if not run.clients["reported"].sum():
        return []
    parted = run.series["shares"].partition_by("kind", as_dict=True, maintain_order=True)
    ways = {kind: parted[(kind,)] for kind in _IN_ORDER if (kind,) in parted}
    told = [kind for kind in ways if any(part.told for part in bias.of(kind))]
    widest = bias.contrast[0].kind if bias.contrast else ""
    first = widest if widest in told else next(iter([*told, *ways]), None)
    alone = clients_chart({"measured": run}, "participation" if first else "who")
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
    tested = not way["low"].null_count()
    what = "participations" if run.all_reported else "reports taken"
    notes = [f"Participation share: the share of the {what} over the share of the clients. 1 is equal shares for all."]
    if not tested:
        notes.append(f"Grey: where independent draws with equal chances would put every {noun}, in 19 of 20 runs.")
    if len(data) < len(way):
        notes.append(f"{count(len(data))} of the {count(len(way), noun)}: those at both ends.")
    value, low, high = (data[each].cast(pl.Float64).to_numpy() for each in ("value", "low", "high"))
    rows = Rows(
        names=data["name"].to_list(),
        value=value,
        margin=np.stack([value - low, high - value]) if tested else None,
        filled=(low > 1) | (high < 1) | (not tested),
        legend=("beyond chance" if tested else "measured", "within chance"),
        unit=_SHARE,
        reference=1.0,
        theory=None if data["theory"].null_count() else data["theory"].to_numpy(),
        chance=None if tested else data["chance"].to_numpy(),
        interval="intervals at the level of the verdict, 95\N{NARROW NO-BREAK SPACE}% for all looks",
    )
    by = {"zone": "time zone", "availability": "available time"}.get(kind, kind)
    return row_plot(rows, name, f"Who takes part, by {by}", notes)


def clients_chart(runs: Mapping[str, Run], name: str) -> Chart | None:
    """Draw the participation share of every client, the most frequent first; of one run also what equal chances do.

    None where nobody took part.
    """
    series, rules, notes = list[Series](), [Rule("equal", 1.0)], ["1: as many as with equal shares for all."]
    for (label, run), color in zip(runs.items(), marks.SERIES, strict=False):
        counts, clients = run.clients["reported"].sort(descending=True).to_numpy(), len(run.clients)
        if taken := int(counts.sum()):
            x, share = np.arange(0.5, clients), counts * (clients / taken)
            series.append(Series.binned(label, np.divide(x, clients, out=x), share, color))
    if not series:
        return None
    if len(runs) == 1:
        # Counts of a fair lottery in order are quantiles of the binomial, but for what rounding adds.
        fair, reached = _fair_counts(taken, clients)
        usual = fair[np.searchsorted(reached, np.clip(1 - series[0].x - 1e-9, 0.0, reached[-1]))]
        series.append(Series("equal chances", series[0].x, usual * clients / taken, marks.MUTED))
        rules = []
    look = AxisLook("clients, most frequent first", "percent"), AxisLook(_SHARE)
    return line_plot(name, "Who takes part, client by client", series, *look, rules, notes)


def _fair_counts(taken: int, clients: int) -> tuple[Ints, Floats]:
    """Return the counts that a client can have in a fair lottery, and the probabilities of no more than each.

    They are the binomial's; scipy, which has them, takes longer to import than a small run.
    """
    share = 1 / clients
    mean = taken * share
    far = 12 * np.sqrt(mean) + 40
    counts = np.arange(max(0, int(mean - far)), min(taken, int(mean + far)) + 1)
    more = np.log((taken - counts[:-1]) / (counts[:-1] + 1) * share / (1 - share)) if clients > 1 else np.zeros(0)
    logarithms = np.concatenate([[0.0], np.cumsum(more)])
    weights = np.exp(logarithms - logarithms.max())
    return counts, np.cumsum(weights) / weights.sum()
