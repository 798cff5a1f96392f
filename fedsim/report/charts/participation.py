"""Who took part: the measured frequency of every client, with the theory, uniform, and what chance alone would do."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.analysis.noise import by_chance
from fedsim.common.arrays import Floats, Ints
from fedsim.findings.bias import bias_of, chance_words, fair_counts
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.formatting import count, count_range, fixed
from fedsim.findings.gathered import POINTS
from fedsim.report.charts import marks
from fedsim.report.tables import Table, thinned

_SINGLE = 400  # the most clients that have a dot each
_ORDERS = {
    "weight": ("weight", "client, by weight (heaviest first)", "heaviest", "lightest"),
    "theory": ("pi", "client, by theory (most frequent first)", "favoured", "least favoured"),
    "frequency": ("frequency", "client, by frequency (most frequent first)", "busiest", "idlest"),
}
"""What clients can be ordered by: its column, the title of the axis, the names of the first and of the last clients."""
_BEYOND = 1.5  # chance explains a distance from uniform up to so many times what is to be expected by chance alone
_HEAVY_HEAD = 0.1
"""Ranks go on a logarithmic axis where the heaviest hundredth of many clients holds more of the weight."""
_BEYOND_ENDS = (1 - 0.95) / 2  # share of the cases beyond either end of an interval of chance
_Z = 1.959963984540054


@dataclass(frozen=True)
class ClientFrequencies:
    """Frequencies in multiples of uniform (1/N) by rank of weight, in bins of neighbours where N is large."""

    clients: int
    measured: marks.Binned
    theory: marks.Binned | None  # in the same bins; None where the theory gives no value
    method: str  # how the theory was computed
    separations: tuple[object, object]  # least and greatest R
    logarithmic: bool  # whether ranks go on a logarithmic axis
    order: str  # ``weight``; where all clients weigh the same, ``theory`` or else ``frequency``
    chance: tuple[Floats, Floats] | None  # ends of the interval in which chance alone would put the frequency of a bin
    tenths: tuple[float, float]  # means of the first tenth of the clients in that order, and of the last
    measured_l1: float  # L1 distance from uniform
    chance_l1: float  # that to be expected by chance alone
    compared: str  # what the two come to, in words; empty where that is not known


def around_uniform(taken: int, clients: int, sizes: Ints) -> tuple[Floats, Floats]:
    """Return between what 95 % of the means of so many clients each lie in a fair lottery, in multiples of uniform.

    A client's count is binomial. The mean of several counts is taken to be normal; a single count has the binomial's
    quantiles.
    """
    counts, reached = fair_counts(taken, clients)
    mean = taken / clients
    single = counts[np.searchsorted(reached, [_BEYOND_ENDS, 1 - _BEYOND_ENDS])] / mean
    half = _Z * np.sqrt((1 - 1 / clients) / (mean * np.maximum(sizes, 1)))
    low = np.where(sizes == 1, single[0], np.maximum(1 - half, 0.0))
    return low, np.where(sizes == 1, single[1], 1 + half)


def in_order(taken: int, clients: int, ranks: Floats) -> tuple[Floats, Floats]:
    """Return between what the frequency of each rank (1 for the most frequent) lies in 95 % of the fair lotteries.

    The counts of a lottery in descending order are the binomial's quantiles at the order statistics of uniform draws,
    whose intervals are taken to be those of Wilson (Journal of the American Statistical Association 22, 1927).
    """
    counts, reached = fair_counts(taken, clients)
    p = 1 - (ranks - 0.5) / clients
    part = _Z**2 / clients
    middle = (p + part / 2) / (1 + part)
    half = _Z * np.sqrt(p * (1 - p) / clients + part / (4 * clients)) / (1 + part)
    low, high = (np.searchsorted(reached, np.clip(each, 0.0, reached[-1])) for each in (middle - half, middle + half))
    return counts[low] * clients / taken, counts[high] * clients / taken


class ParticipationChart:
    """The measured frequency of every client, with the theory and uniform."""

    title, section = "Who took part", "bias"

    def prepare(self, run: FinishedRun) -> ClientFrequencies | str:
        table, clients = run.clients, len(run.clients)
        taken, tenth = int(table["participations"].sum()), -(-clients // 10)
        if clients == 0 or not taken:
            return "Nobody took part in this run, so there is no frequency to show."
        if not table["client"].is_sorted():
            table = table.sort("client")
        order, pi = "weight", table["pi"]
        if clients > 1 and table["weight"].max() == table["weight"].min():
            # Weights that are all the same would leave clients in disorder.
            order = "theory" if not pi.null_count() and pi.max() != pi.min() else "frequency"
        # Stable: by number where the column is the same.
        ranked = np.argsort(-table[_ORDERS[order][0]].to_numpy(), kind="stable")
        weight = table["weight"].to_numpy()[ranked]
        head = weight[: max(1, clients // 100)].sum() / weight.sum()
        steep = clients > _SINGLE and bool(head > _HEAVY_HEAD)
        cuts = marks.edges(clients, clients if clients <= _SINGLE else POINTS, geometric=steep)
        rank = np.arange(1, clients + 1, dtype=np.float64)
        frequency = table["frequency"].to_numpy()[ranked] * clients
        measured = marks.binned(rank, frequency, cuts)
        chance = None
        if clients > 1:
            by_rank = order == "frequency"
            chance = in_order(taken, clients, measured.x) if by_rank else around_uniform(taken, clients, np.diff(cuts))
        return ClientFrequencies(
            clients=clients,
            measured=measured,
            theory=None if pi.null_count() else marks.binned(rank, pi.to_numpy()[ranked] * clients, cuts),
            method=", ".join(map(str, table["pi_method"].drop_nulls().unique().sort())),
            separations=(table["separation"].min(), table["separation"].max()),
            logarithmic=steep,
            order=order,
            chance=chance,
            tenths=(float(frequency[:tenth].mean()), float(frequency[-tenth:].mean())),
            measured_l1=float(np.abs(frequency - 1).mean()),
            chance_l1=by_chance(taken, clients),
            compared=chance_words(bias_of(run)),
        )

    def description(self, data: ClientFrequencies) -> str:
        first, last = data.measured.mean[0], data.measured.mean[-1]
        words = f"Frequency of {count(data.clients, 'client')} in multiples of uniform, from {fixed(first, 2)} "
        words += f"where the {data.order} is greatest to {fixed(last, 2)} where it is least"
        if data.theory is not None:
            words += f"; theory goes from {fixed(data.theory.mean[0], 2)} to {fixed(data.theory.mean[-1], 2)}"
        return words + "."

    def finding(self, data: ClientFrequencies) -> str:
        first, last = data.tenths
        _, _, many, few = _ORDERS[data.order]
        if data.clients < 10:
            return f"Clients took part up to {fixed(float(data.measured.high.max()), 2)} times as often as on average"
        if not last:
            return f"The {many} tenth took part {fixed(first, 2)} times as often as on average, the {few} never"
        words = f"The {many} tenth took part {fixed(first / last, 2)} times as often as the {few}"
        return words if data.measured_l1 > _BEYOND * data.chance_l1 else f"{words}: chance explains it"

    def notes(self, data: ClientFrequencies) -> Iterator[str]:
        yield "1 is uniform: every client taking part equally often."
        if data.chance is not None:
            place = "the frequency of each rank" if data.order == "frequency" else "each point"
            yield (
                f"Grey: where chance alone would put {place} in 19 of 20 cases, in a lottery of as many participations "
                f"that draws everyone alike. Such a lottery lies {fixed(data.chance_l1)} from uniform (L1), this run "
                f"{fixed(data.measured_l1)}."
            )
        if data.order == "frequency":
            yield f"All clients weigh the same, so they are in the order of their frequency. {data.compared}".strip()
        elif data.order == "theory":
            yield "All clients weigh the same, so they are in the order of what theory predicts."
        if data.measured.size > 1:
            growing = "growing bins of at most" if data.logarithmic else "bins of"
            gathered = f"{growing} {count(data.measured.size, 'neighbour')} by {data.order}: lines are means"
            least, greatest = fixed(data.measured.low.min(), 1), fixed(data.measured.high.max(), 1)
            if _banded(data):
                band = "the band goes from the least to the greatest frequency of a client in the bin"
                yield f"Clients are gathered in {gathered}, {band}."
                if data.measured.high.max() > _top(data):
                    yield f"The band goes on beyond the top of the chart, up to {greatest}."
            else:
                yield f"Clients are gathered in {gathered}."
                yield f"Single clients took part so seldom that they lie anywhere from {least} to {greatest}: no band."
        if (hidden := int((data.measured.mean == 0).sum())) and _log_scale(data):
            points = f"{count(hidden, 'point')} {'is' if hidden == 1 else 'are'}"
            yield f"{points} zero, which a logarithmic axis cannot show: nobody there took part."
        if data.theory is None:
            yield "Theory gives no value for these frequencies."
        elif data.method:
            yield f"Theory by method: {data.method}."

    def table(self, data: ClientFrequencies) -> Table:
        measured = data.measured
        columns = {"Measured": measured.mean}
        if measured.size > 1:
            columns |= {"Least": measured.low, "Greatest": measured.high}
        if data.theory is not None:
            columns["Theory"] = data.theory.mean
        ranks = map(count_range, measured.first, measured.last)
        rows = list(zip(ranks, *(map(fixed, values) for values in columns.values()), strict=True))
        return thinned(f"Frequency by rank of {data.order}, in multiples of uniform", ("Rank", *columns), rows)

    def draw(self, data: ClientFrequencies, axes: Axes) -> None:
        """Draw frequencies over ranks: single clients as dots, bins as a line with a band, theory as a line."""
        x, last = data.measured.x, list[tuple[Artist, str]]()
        if data.chance is not None:
            band = axes.fill_between(x, *data.chance, step="mid", color=marks.MUTED, alpha=0.4, linewidth=0)
            last = [(band, "chance alone")]
        if data.measured.size > 1:
            shown = data.measured if _banded(data) else replace(data.measured, size=1)
            measured = marks.line(axes, shown, marks.SERIES[0])
        else:
            measured = marks.dots(axes, x, data.measured.mean, marks.SERIES[0], 4.5 if data.clients < 60 else 3)
        entries = [(measured, "measured")]
        if data.theory is not None:
            style: dict[str, Any] = {"linewidth": 1.1, "drawstyle": "steps-mid", "zorder": 3}
            (theory,) = axes.plot(x, data.theory.mean, color=marks.SERIES[1], **style)
            entries.append((theory, f"theory (R = {' to '.join(map(str, dict.fromkeys(data.separations)))})"))
        entries += [(marks.rule(axes, y=1), "uniform"), *last]
        far = _log_scale(data)
        axes.set_ylim(np.append(_positive(data), 1.0).min() / 1.6 if far else 0, _top(data))
        marks.set_scale(axes, "y", far)
        margin = max(0.5, 0.02 * data.clients)
        axes.set_xlim(*((0.9, data.clients * 1.1) if data.logarithmic else (1 - margin, data.clients + margin)))
        if data.logarithmic:
            marks.logarithmic(axes, "x")
        else:
            marks.linear(axes, "x", whole=True)
        marks.finish(axes, _ORDERS[data.order][1], "frequency, in multiples of uniform", entries)


def _log_scale(data: ClientFrequencies) -> bool:
    # In the order of frequency, those that never took part belong to the curve: a zero must be seen.
    return data.order != "frequency" and marks.spans_decades(_positive(data), ratio=8)


def _positive(data: ClientFrequencies) -> Floats:
    values = np.concatenate([line.mean for line in (data.measured, data.theory) if line is not None])
    return values[values > 0]


def _top(data: ClientFrequencies) -> float:
    """Where the axis ends: by the lines; single clients of a large bin may lie far beyond."""
    return float(1.6 * max(_positive(data).max(), 1.0))


def _banded(data: ClientFrequencies) -> bool:
    """Tell whether the band shows something: where clients took part a few times at most, it would fill the chart."""
    return bool(np.median(data.measured.high) <= _top(data))
