"""Who takes part by what nobody chose: tenths of the devices by available time and by speed, and time zones."""

from dataclasses import dataclass

import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.report.charts.groups import GroupChart, frequencies
from fedsim.report.charts.marks import SERIES, finish, linear, rule
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import fixed, listing, percent
from fedsim.report.tables import Table

_WORDS = {"availability": "available time", "speed": "speed"}
_NUMBERS = range(1, 11)


@dataclass(frozen=True)
class ByTenth:
    """Participations per device of each tenth, over the average of all.

    Attributes
    ----------
    frequency
        By ``availability`` and ``speed``, as far as devices differ in them: ten values, the least available or slowest
        tenth first.
    available
        Share of the run for which a device of each tenth was available; empty where that is not known.
    """

    frequency: dict[str, tuple[float, ...]]
    available: tuple[float, ...]


def tenths_data(run: FinishedRun) -> ByTenth | None:
    """Compute the chart's data from the run's metrics; None where devices do not differ."""

    def ten(name: str) -> tuple[float, ...]:
        found = [run.metrics.get(f"participation.{name}.{number}") for number in _NUMBERS]
        return tuple(each for each in found if each is not None)

    frequency = {key: values for key in _WORDS if len(values := ten(f"by_{key}")) == len(_NUMBERS)}
    return ByTenth(frequency, ten("availability")) if frequency else None


class TenthsChart:
    """How often each tenth of the devices takes part, by available time and by speed."""

    title, section = "Which tenths of the devices took part", "bias"
    prepare = staticmethod(tenths_data)

    def finding(self, data: ByTenth) -> str:
        key, values = next(iter(data.frequency.items()))
        low, high = fixed(values[0], 2), fixed(values[-1], 2)
        tenth = {"availability": ("most available", "least available"), "speed": ("fastest", "slowest")}[key]
        if low == high:
            return f"The {tenth[0]} and the {tenth[1]} tenth take part {low} times as often as the average"
        return f"The {tenth[0]} tenth takes part {high} times as often as the average, the {tenth[1]} {low}"

    def description(self, data: ByTenth) -> str:
        told = [f"by {_WORDS[key]} {listing([fixed(x, 2) for x in x10])}" for key, x10 in data.frequency.items()]
        return f"Frequency of each tenth of the devices, in multiples of the average: {'; '.join(told)}."

    def notes(self, data: ByTenth) -> list[str]:
        notes = ["Each tenth holds as many devices; 1 is the average. Devices that are alike share their tenths."]
        if data.available:
            least, most = percent(data.available[0]), percent(data.available[-1])
            notes.append(f"The least available tenth was available {least} of the run, the most available {most}.")
        return notes

    def table(self, data: ByTenth) -> Table:
        columns = {f"By {_WORDS[key]}": [fixed(each, 2) for each in x10] for key, x10 in data.frequency.items()}
        if data.available:
            columns["Available"] = [percent(each) for each in data.available]
        rows = tuple(zip(map(str, _NUMBERS), *columns.values(), strict=True))
        return Table("Frequency by tenth, in multiples of the average", ("Tenth", *columns), rows)

    def draw(self, data: ByTenth, axes: Axes) -> None:
        """Draw a line of dots for each quantity, from the least to the most, and a rule at the average."""
        entries: list[tuple[Artist, str]] = []
        for color, (key, values) in zip(SERIES, data.frequency.items(), strict=False):
            (dots,) = axes.plot(list(_NUMBERS), values, marker="o", markersize=5, color=color, zorder=3)
            entries.append((dots, f"by {_WORDS[key]}"))
        entries.append((rule(axes, y=1), "average"))
        axes.set_ylim(0, 1.1 * max(1.0, *(max(values) for values in data.frequency.values())))
        axes.set_xticks(list(_NUMBERS))
        linear(axes, "y")
        finish(axes, "tenth of the devices, from the least to the most", "frequency over average", entries)


def zone_data(run: FinishedRun) -> pl.DataFrame | None:
    """Return the shares of the time zones; None where there is one, or each is a group, or nobody took part."""
    names, zones = run.groups, run.clients["time_zone"].n_unique()
    if zones < 2 or not run.clients["participations"].sum():
        return None
    if run.clients.select("group", "time_zone").n_unique() == names == zones:
        return None
    return frequencies(run, "time_zone").sort("frequency", "group", descending=[True, False])


class ZoneChart(GroupChart):
    """How often each time zone took part: measured, beside the theory and beside uniform."""

    title, noun = "Which time zones took part", "time zone"
    prepare = staticmethod(zone_data)
