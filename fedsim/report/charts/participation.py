"""Who took part: the measured frequency of every client, beside the theory and beside uniform."""

from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes

from fedsim.analysis.participation import by_chance
from fedsim.common.arrays import Floats
from fedsim.report.bias import bias_of, chance_words
from fedsim.report.binning import POINTS, Binned, binned, edges
from fedsim.report.charts.chance import Envelope, around_uniform, in_order
from fedsim.report.charts.marks import MUTED, SERIES, finish, line, linear, logarithmic, rule, scaled, spans_decades
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import between, count, fixed
from fedsim.report.tables import Table, thinned

SINGLE = 400
"""Up to so many clients, each has a dot of its own."""

_LABELS = {
    "weight": "client, by weight (heaviest first)",
    "theory": "client, by theory (most frequent first)",
    "frequency": "client, by frequency (most frequent first)",
}

_WHO = {
    "weight": ("heaviest", "lightest"),
    "theory": ("favoured", "least favoured"),
    "frequency": ("busiest", "idlest"),
}

BEYOND = 1.5
"""Chance explains a distance from uniform up to so many times what is to be expected by chance alone."""

HEAVY_HEAD = 0.1
"""Ranks go on a logarithmic axis where the heaviest hundredth of many clients holds more of the weight."""


@dataclass(frozen=True)
class Participation:
    """Frequencies in multiples of uniform (1/N) by rank of weight, neighbours gathered where N is large.

    Parameters
    ----------
    clients
        N.
    measured
        Frequency times N.
    theory
        pi times N, in the same bins; None where the theory gives no value.
    method
        How the theory was computed.
    separations
        Least and greatest separation R.
    logarithmic
        Whether ranks go on a logarithmic axis.
    order
        What clients are ordered by: ``weight``; where all weigh the same, ``theory`` or else ``frequency``.
    chance
        Where the frequencies would lie by chance alone, in the same bins.
    tenths
        Mean frequency times N of the first tenth of the clients in that order, and of the last.
    measured_l1, chance_l1
        L1 distance of the frequencies from uniform, and the one to be expected by chance alone.
    compared
        What the two come to, in words; empty where that is not known.
    """

    clients: int
    measured: Binned
    theory: Binned | None
    method: str
    separations: tuple[int, int]
    logarithmic: bool
    order: str = "weight"
    chance: Envelope | None = None
    tenths: tuple[float, float] = (1.0, 1.0)
    measured_l1: float = 0.0
    chance_l1: float = 0.0
    compared: str = ""


def participation_data(run: FinishedRun) -> Participation | str:
    """Compute the chart's data, or say why there is none."""
    order, column = _order(run)
    table, clients = run.clients, len(run.clients)
    taken, tenth = int(table["participations"].sum()), -(-clients // 10)
    if clients == 0 or not taken:
        return "Nobody took part in this run, so there is no frequency to show."
    if not table["client"].is_sorted():
        table = table.sort("client")
    ranked = np.argsort(-table[column].to_numpy(), kind="stable")  # by number where the column is the same
    weight = table["weight"].to_numpy()[ranked]
    head = weight[: max(1, clients // 100)].sum() / weight.sum()
    steep = clients > SINGLE and bool(head > HEAVY_HEAD)
    cuts = edges(clients, clients if clients <= SINGLE else POINTS, geometric=steep)
    rank = np.arange(1, clients + 1, dtype=np.float64)
    theory = None
    if not table["pi"].null_count():
        theory = binned(rank, table["pi"].to_numpy()[ranked] * clients, cuts)
    methods = table["pi_method"].drop_nulls().unique().sort()
    waits = table["separation"].to_numpy()
    frequency = table["frequency"].to_numpy()[ranked] * clients
    places = binned(rank, frequency, cuts).x
    in_lottery = (
        in_order(taken, clients, places) if order == "frequency" else around_uniform(taken, clients, np.diff(cuts))
    )
    return Participation(
        clients=clients,
        measured=binned(rank, frequency, cuts),
        theory=theory,
        method=", ".join(str(method) for method in methods),
        separations=(int(waits.min()), int(waits.max())),
        logarithmic=steep,
        order=order,
        chance=in_lottery if clients > 1 else None,
        tenths=(float(frequency[:tenth].mean()), float(frequency[-tenth:].mean())),
        measured_l1=float(np.abs(frequency - 1).mean()),
        chance_l1=by_chance(taken, clients),
        compared=chance_words(bias_of(run)),
    )


def _order(run: FinishedRun) -> tuple[str, str]:
    """Choose what to sort clients by, and its column: weights that are all the same would leave them in disorder."""
    weight, pi = run.clients["weight"], run.clients["pi"]
    if len(weight) < 2 or weight.max() != weight.min():
        return "weight", "weight"
    if not pi.null_count() and pi.max() != pi.min():
        return "theory", "pi"
    return "frequency", "frequency"


class ParticipationChart:
    """The measured frequency of every client, beside the theory and beside uniform."""

    title, section = "Who took part", "bias"
    prepare = staticmethod(participation_data)

    def description(self, data: Participation) -> str:
        first, last = data.measured.mean[0], data.measured.mean[-1]
        words = f"Frequency of {count(data.clients, 'client')} in multiples of uniform, from {fixed(first, 2)} "
        words += f"where the {data.order} is greatest to {fixed(last, 2)} where it is least"
        if data.theory is not None:
            words += f"; theory goes from {fixed(data.theory.mean[0], 2)} to {fixed(data.theory.mean[-1], 2)}"
        return words + "."

    def finding(self, data: Participation) -> str:
        first, last = data.tenths
        many, few = _WHO[data.order]
        if data.clients < 10:
            return f"Clients took part up to {fixed(float(data.measured.high.max()), 2)} times as often as on average"
        if not last:
            return f"The {many} tenth took part {fixed(first, 2)} times as often as on average, the {few} never"
        words = f"The {many} tenth took part {fixed(first / last, 2)} times as often as the {few}"
        return words if data.measured_l1 > BEYOND * data.chance_l1 else f"{words}: chance explains it"

    def notes(self, data: Participation) -> tuple[str, ...]:
        notes = ["1 is uniform: every client taking part equally often."]
        if data.chance is not None:
            place = "the frequency of each rank" if data.order == "frequency" else "each point"
            notes.append(
                f"Grey: where chance alone would put {place} in 19 of 20 cases, in a lottery of as many participations "
                f"that draws everyone alike. Such a lottery lies {fixed(data.chance_l1)} from uniform (L1), this run "
                f"{fixed(data.measured_l1)}."
            )
        if data.order == "frequency":
            ordered = "All clients weigh the same, so they are in the order of their frequency."
            notes.append(f"{ordered} {data.compared}".strip())
        elif data.order == "theory":
            notes.append("All clients weigh the same, so they are in the order of what theory predicts.")
        if data.measured.size > 1:
            growing = "growing bins of at most" if data.logarithmic else "bins of"
            neighbours = f"{growing} {count(data.measured.size, 'neighbour')} by {data.order}"
            gathered = f"Clients are gathered in {neighbours}: lines are means"
            least, greatest = fixed(data.measured.low.min(), 1), fixed(data.measured.high.max(), 1)
            if not _banded(data):
                seldom = f"Single clients took part so seldom that they lie anywhere from {least} to {greatest}"
                notes += [f"{gathered}.", f"{seldom}: no band."]
            else:
                notes.append(
                    f"{gathered}, the band goes from the least to the greatest frequency of a client in the bin."
                )
                if data.measured.high.max() > _top(data):
                    notes.append(f"The band goes on beyond the top of the chart, up to {greatest}.")
        if (hidden := int((data.measured.mean == 0).sum())) and _log_scale(data):
            points = f"{count(hidden, 'point')} {'is' if hidden == 1 else 'are'}"
            notes.append(f"{points} zero, which a logarithmic axis cannot show: nobody there took part.")
        if data.theory is None:
            notes.append("The theory gives no value for this run.")
        elif data.method:
            notes.append(f"Theory by method: {data.method}.")
        return tuple(notes)

    def table(self, data: Participation) -> Table:
        measured = data.measured
        columns = [measured.mean, measured.low, measured.high] if measured.size > 1 else [measured.mean]
        header = ["Rank", "Measured", "Least", "Greatest"] if measured.size > 1 else ["Rank", "Measured"]
        if data.theory is not None:
            columns.append(data.theory.mean)
            header.append("Theory")
        rows = [
            (between(first, last), *(fixed(value) for value in values))
            for first, last, *values in zip(measured.first, measured.last, *columns, strict=True)
        ]
        return thinned(f"Frequency by rank of {data.order}, in multiples of uniform", tuple(header), rows)

    def draw(self, data: Participation, axes: Axes) -> None:
        """Draw frequencies over ranks: single clients as dots, bins as a line with a band, theory as a line."""
        entries = []
        band = None
        if data.chance is not None:
            low, high = data.chance.low, data.chance.high
            band = axes.fill_between(data.measured.x, low, high, step="mid", color=MUTED, alpha=0.4, linewidth=0)
        if data.measured.size > 1:
            shown = data.measured if _banded(data) else replace(data.measured, size=1)
            entries.append((line(axes, shown, SERIES[0]), "measured"))
        else:
            (dots,) = axes.plot(
                data.measured.x,
                data.measured.mean,
                linestyle="",
                marker="o",
                color=SERIES[0],
                markersize=4.5 if data.clients < 60 else 3,
            )
            entries.append((dots, "measured"))
        if data.theory is not None:
            (theory,) = axes.plot(
                data.theory.x, data.theory.mean, color=SERIES[1], linewidth=1.1, drawstyle="steps-mid", zorder=3
            )
            entries.append((theory, f"theory (R = {' to '.join(map(str, dict.fromkeys(data.separations)))})"))
        uniform = rule(axes, y=1)
        entries.append((uniform, "uniform"))
        if band is not None:
            entries.append((band, "chance alone"))
        _scale(data, axes)
        finish(axes, _LABELS[data.order], "frequency, in multiples of uniform", entries)


def _log_scale(data: Participation) -> bool:
    # In the order of frequency, those that never took part belong to the curve: a zero must be seen.
    return data.order != "frequency" and spans_decades(_positive(data), ratio=8)


def _positive(data: Participation) -> Floats:
    lines = [data.measured.mean] if data.theory is None else [data.measured.mean, data.theory.mean]
    values = np.concatenate(lines)
    return values[values > 0]


def _top(data: Participation) -> float:
    """Where the axis ends: by the lines; single clients of a large bin may lie far beyond."""
    return float(1.6 * max(_positive(data).max(), 1.0))


def _banded(data: Participation) -> bool:
    """Tell whether the band shows something: where clients took part a few times at most, it would fill the chart."""
    return bool(np.median(data.measured.high) <= _top(data))


def _scale(data: Participation, axes: Axes) -> None:
    far = _log_scale(data)
    axes.set_ylim(np.append(_positive(data), 1.0).min() / 1.6 if far else 0, _top(data))
    scaled(axes, "y", far)
    if data.logarithmic:
        axes.set_xlim(0.9, data.clients * 1.1)
        logarithmic(axes, "x")
    else:
        margin = max(0.5, 0.02 * data.clients)
        axes.set_xlim(1 - margin, data.clients + margin)
        linear(axes, "x", whole=True)
