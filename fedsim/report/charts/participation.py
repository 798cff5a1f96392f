"""Who took part: the measured frequency of every client, with the theory, uniform, and what chance alone would do."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.analysis.participation import by_chance
from fedsim.common.arrays import Floats, Ints
from fedsim.report.bias import bias_of, chance_words
from fedsim.report.binning import POINTS, Binned, binned, edges
from fedsim.report.charts import marks
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, count_range, fixed
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
_WITHIN = 0.95  # share of the cases between the ends of an interval of chance
_Z = 1.959963984540054


@dataclass(frozen=True)
class ClientFrequencies:
    """Frequencies in multiples of uniform (1/N) by rank of weight, in bins of neighbours where N is large."""

    clients: int
    measured: Binned
    theory: Binned | None  # in the same bins; None where the theory gives no value
    method: str  # how the theory was computed
    separations: tuple[int, int]  # least and greatest R
    logarithmic: bool  # whether ranks go on a logarithmic axis
    order: str  # ``weight``; where all clients weigh the same, ``theory`` or else ``frequency``
    chance: tuple[Floats, Floats] | None  # ends of the interval in which chance alone would put the frequency of a bin
    tenths: tuple[float, float]  # means of the first tenth of the clients in that order, and of the last
    measured_l1: float  # L1 distance from uniform
    chance_l1: float  # that to be expected by chance alone
    compared: str  # what the two come to, in words; empty where that is not known


def _order(run: FinishedRun) -> str:
    """Choose what to order clients by: weights that are all the same would leave them in disorder."""
    weight, pi = run.clients["weight"], run.clients["pi"]
    if len(weight) < 2 or weight.max() != weight.min():
        return "weight"
    return "theory" if not pi.null_count() and pi.max() != pi.min() else "frequency"


def around_uniform(taken: int, clients: int, sizes: Ints) -> tuple[Floats, Floats]:
    """Return between what 95 % of the means of so many clients each lie in a fair lottery, in multiples of uniform.

    A client's count is binomial. The mean of several counts is taken to be normal; a single count has the binomial's
    quantiles.
    """
    counts, reached = _binomial(taken, clients)
    mean = taken / clients
    beyond = (1 - _WITHIN) / 2
    single = counts[np.searchsorted(reached, [beyond, 1 - beyond])] / mean
    half = _Z * np.sqrt((1 - 1 / clients) / (mean * np.maximum(sizes, 1)))
    low = np.where(sizes == 1, single[0], np.maximum(1 - half, 0.0))
    return low, np.where(sizes == 1, single[1], 1 + half)


def in_order(taken: int, clients: int, ranks: Floats) -> tuple[Floats, Floats]:
    """Return between what the frequency of each rank (1 for the most frequent) lies in 95 % of the fair lotteries.

    The counts of a lottery in descending order are the binomial's quantiles at the order statistics of uniform draws,
    whose intervals are taken to be those of Wilson (Journal of the American Statistical Association 22, 1927).
    """
    counts, reached = _binomial(taken, clients)
    p = 1 - (ranks - 0.5) / clients
    part = _Z**2 / clients
    middle = (p + part / 2) / (1 + part)
    half = _Z * np.sqrt(p * (1 - p) / clients + part / (4 * clients)) / (1 + part)
    low, high = (np.searchsorted(reached, np.clip(each, 0.0, reached[-1])) for each in (middle - half, middle + half))
    return counts[low] * clients / taken, counts[high] * clients / taken


def _binomial(taken: int, clients: int) -> tuple[Ints, Floats]:
    """Return the counts that a client can have in a fair lottery, and the probabilities of no more than each."""
    share = 1 / clients
    mean = taken * share
    far = 12 * np.sqrt(mean) + 40
    low, high = max(0, int(mean - far)), min(taken, int(mean + far))
    counts = np.arange(low, high + 1)
    more = np.log((taken - counts[:-1]) / (counts[:-1] + 1) * share / (1 - share)) if clients > 1 else np.zeros(0)
    logarithms = np.concatenate([[0.0], np.cumsum(more)])
    weights = np.exp(logarithms - logarithms.max())
    return counts, np.cumsum(weights) / weights.sum()


class ParticipationChart:
    """The measured frequency of every client, with the theory and uniform."""

    title, section = "Who took part", "bias"

    def prepare(self, run: FinishedRun) -> ClientFrequencies | str:
        order = _order(run)
        table, clients = run.clients, len(run.clients)
        taken, tenth = int(table["participations"].sum()), -(-clients // 10)
        if clients == 0 or not taken:
            return "Nobody took part in this run, so there is no frequency to show."
        if not table["client"].is_sorted():
            table = table.sort("client")
        # Stable: by number where the column is the same.
        ranked = np.argsort(-table[_ORDERS[order][0]].to_numpy(), kind="stable")
        weight = table["weight"].to_numpy()[ranked]
        head = weight[: max(1, clients // 100)].sum() / weight.sum()
        steep = clients > _SINGLE and bool(head > _HEAVY_HEAD)
        cuts = edges(clients, clients if clients <= _SINGLE else POINTS, geometric=steep)
        rank = np.arange(1, clients + 1, dtype=np.float64)
        predicted = None if table["pi"].null_count() else table["pi"].to_numpy()[ranked] * clients
        waits = table["separation"].to_numpy()
        frequency = table["frequency"].to_numpy()[ranked] * clients
        measured = binned(rank, frequency, cuts)
        chance = None
        if clients > 1:
            by_rank = order == "frequency"
            chance = in_order(taken, clients, measured.x) if by_rank else around_uniform(taken, clients, np.diff(cuts))
        return ClientFrequencies(
            clients=clients,
            measured=measured,
            theory=None if predicted is None else binned(rank, predicted, cuts),
            method=", ".join(map(str, table["pi_method"].drop_nulls().unique().sort())),
            separations=(int(waits.min()), int(waits.max())),
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
            ordered = "All clients weigh the same, so they are in the order of their frequency."
            yield f"{ordered} {data.compared}".strip()
        elif data.order == "theory":
            yield "All clients weigh the same, so they are in the order of what theory predicts."
        if data.measured.size > 1:
            yield from _notes_on_bins(data)
        if (hidden := int((data.measured.mean == 0).sum())) and _log_scale(data):
            points = f"{count(hidden, 'point')} {'is' if hidden == 1 else 'are'}"
            yield f"{points} zero, which a logarithmic axis cannot show: nobody there took part."
        if data.theory is None:
            yield "The theory gives no value for this run."
        elif data.method:
            yield f"Theory by method: {data.method}."

    def table(self, data: ClientFrequencies) -> Table:
        measured = data.measured
        columns = [measured.mean, measured.low, measured.high] if measured.size > 1 else [measured.mean]
        header = ["Rank", "Measured", "Least", "Greatest"] if measured.size > 1 else ["Rank", "Measured"]
        if data.theory is not None:
            columns.append(data.theory.mean)
            header.append("Theory")
        rows = [
            (count_range(first, last), *(fixed(value) for value in values))
            for first, last, *values in zip(measured.first, measured.last, *columns, strict=True)
        ]
        return thinned(f"Frequency by rank of {data.order}, in multiples of uniform", tuple(header), rows)

    def draw(self, data: ClientFrequencies, axes: Axes) -> None:
        """Draw frequencies over ranks: single clients as dots, bins as a line with a band, theory as a line."""
        entries: list[tuple[Artist, str]] = []
        last: list[tuple[Artist, str]] = []
        x = data.measured.x
        if data.chance is not None:
            band = axes.fill_between(x, *data.chance, step="mid", color=marks.MUTED, alpha=0.4, linewidth=0)
            last = [(band, "chance alone")]
        if data.measured.size > 1:
            shown = data.measured if _banded(data) else replace(data.measured, size=1)
            entries.append((marks.line(axes, shown, marks.SERIES[0]), "measured"))
        else:
            size = 4.5 if data.clients < 60 else 3
            entries.append((marks.dots(axes, x, data.measured.mean, marks.SERIES[0], size), "measured"))
        if data.theory is not None:
            (theory,) = axes.plot(
                x, data.theory.mean, color=marks.SERIES[1], linewidth=1.1, drawstyle="steps-mid", zorder=3
            )
            entries.append((theory, f"theory (R = {' to '.join(map(str, dict.fromkeys(data.separations)))})"))
        entries += [(marks.rule(axes, y=1), "uniform"), *last]
        _set_scales(data, axes)
        marks.finish(axes, _ORDERS[data.order][1], "frequency, in multiples of uniform", entries)


def _notes_on_bins(data: ClientFrequencies) -> Iterator[str]:
    growing = "growing bins of at most" if data.logarithmic else "bins of"
    bins = f"{growing} {count(data.measured.size, 'neighbour')} by {data.order}"
    gathered = f"Clients are gathered in {bins}: lines are means"
    least, greatest = fixed(data.measured.low.min(), 1), fixed(data.measured.high.max(), 1)
    if not _banded(data):
        yield f"{gathered}."
        yield f"Single clients took part so seldom that they lie anywhere from {least} to {greatest}: no band."
        return
    yield f"{gathered}, the band goes from the least to the greatest frequency of a client in the bin."
    if data.measured.high.max() > _top(data):
        yield f"The band goes on beyond the top of the chart, up to {greatest}."


def _log_scale(data: ClientFrequencies) -> bool:
    # In the order of frequency, those that never took part belong to the curve: a zero must be seen.
    return data.order != "frequency" and marks.spans_decades(_positive(data), ratio=8)


def _positive(data: ClientFrequencies) -> Floats:
    lines = [data.measured.mean] if data.theory is None else [data.measured.mean, data.theory.mean]
    values = np.concatenate(lines)
    return values[values > 0]


def _top(data: ClientFrequencies) -> float:
    """Where the axis ends: by the lines; single clients of a large bin may lie far beyond."""
    return float(1.6 * max(_positive(data).max(), 1.0))


def _banded(data: ClientFrequencies) -> bool:
    """Tell whether the band shows something: where clients took part a few times at most, it would fill the chart."""
    return bool(np.median(data.measured.high) <= _top(data))


def _set_scales(data: ClientFrequencies, axes: Axes) -> None:
    far = _log_scale(data)
    axes.set_ylim(np.append(_positive(data), 1.0).min() / 1.6 if far else 0, _top(data))
    marks.set_scale(axes, "y", far)
    if data.logarithmic:
        axes.set_xlim(0.9, data.clients * 1.1)
        marks.logarithmic(axes, "x")
    else:
        margin = max(0.5, 0.02 * data.clients)
        axes.set_xlim(1 - margin, data.clients + margin)
        marks.linear(axes, "x", whole=True)
