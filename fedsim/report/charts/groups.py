"""How often each group, time zone and tenth of the devices took part, in multiples of uniform."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.formatting import count, fixed, listing, percent
from fedsim.report.charts.marks import SERIES, dots, finish, linear, named_rows, rule, shortened
from fedsim.report.tables import GROUP_ROWS, Table, group_shares

_LABEL = 22  # characters of a group's name that fit to the left of the chart
_WORDS = {"availability": "available time", "speed": "speed"}
_EXTREMES = {"availability": ("most available", "least available"), "speed": ("fastest", "slowest")}
_NUMBERS = range(1, 11)


def _frequencies(run: FinishedRun, column: str) -> pl.DataFrame:
    """Return the `group_shares` of what a column names, and ``frequency`` and ``predicted`` in multiples of uniform."""
    groups = group_shares(run, column)
    theory = pl.lit(None) if groups["theory"].null_count() else pl.col("theory")
    return groups.with_columns(frequency=pl.col("measured") / pl.col("uniform"), predicted=theory / pl.col("uniform"))


class GroupChart:
    """How often each group took part."""

    title, section, noun = "Which groups took part", "bias", "group"

    def prepare(self, run: FinishedRun) -> pl.DataFrame | str | None:
        if run.groups < 2 or not run.clients["participations"].sum():
            return "There is one group only, or nobody took part."
        return _frequencies(run, "group")

    def finding(self, groups: pl.DataFrame) -> str:
        ranked = groups.sort("frequency", descending=True, maintain_order=True)
        (most, high), (least, low) = (ranked.select("group", "frequency").row(place) for place in (0, -1))
        if fixed(high, 2) == fixed(low, 2):
            return f"Every {self.noun} takes part {fixed(high, 2)} times as often as its size says"
        names = [shortened(str(name), _LABEL) for name in (most, least)]
        return f"{names[0]} takes part {fixed(high, 2)} times as often as its size says, {names[1]} {fixed(low, 2)}"

    def description(self, groups: pl.DataFrame) -> str:
        shown = groups.head(GROUP_ROWS).select("group", "frequency")
        ways = [f"{name} {fixed(value, 2)}" for name, value in shown.iter_rows()]
        return f"Frequency by {self.noun}, in multiples of uniform: {listing(ways)}."

    def notes(self, groups: pl.DataFrame) -> Iterator[str]:
        yield f"1 is uniform: a {self.noun} that takes part as much as its share of the clients."
        if (omitted := len(groups) - GROUP_ROWS) > 0:
            yield f"The first {GROUP_ROWS} {self.noun}s; {count(omitted)} more are in clients.parquet."

    def height(self, groups: pl.DataFrame) -> float:
        return float(np.clip(0.42 + 0.085 * min(len(groups), GROUP_ROWS), 0.62, 1.9))

    def table(self, groups: pl.DataFrame) -> Table:
        shown = groups.head(GROUP_ROWS).select("group", "clients", "measured", "frequency", "predicted")
        rows = tuple(
            (str(name), count(clients), percent(share), fixed(frequency), fixed(predicted))
            for name, clients, share, frequency, predicted in shown.iter_rows()
        )
        header = (self.noun.capitalize(), "Clients", "Share", "Measured", "Theory")
        return Table(f"Frequency by {self.noun}, in multiples of uniform", header, rows)

    def draw(self, groups: pl.DataFrame, axes: Axes) -> None:
        """Draw a row for each group: a dot where it lies, a stem to uniform, a tick where theory puts it."""
        shown = groups.head(GROUP_ROWS)
        measured, theory = shown["frequency"].to_numpy(), shown["predicted"].drop_nulls().to_numpy()
        rows = named_rows(axes, [shortened(str(name), _LABEL) for name in shown["group"]])
        axes.hlines(rows, 1, measured, color=SERIES[0], linewidth=2, alpha=0.35)
        uniform = rule(axes, x=1)
        entries: list[tuple[Artist, str]] = [(dots(axes, measured, rows, SERIES[0], 6, zorder=3), "measured")]
        if len(theory):
            ticks = dots(axes, theory, rows, SERIES[1], 11, marker="|", markeredgewidth=2, zorder=4)
            entries.append((ticks, "theory"))
        axes.set_xlim(0, 1.1 * max(float(measured.max()), 1.0, float(theory.max(initial=0.0))))
        linear(axes, "x")
        finish(axes, "frequency, in multiples of uniform", "", [*entries, (uniform, "uniform")])


class ZoneChart(GroupChart):
    """How often each time zone took part."""

    title, noun = "Which time zones took part", "time zone"

    def prepare(self, run: FinishedRun) -> pl.DataFrame | None:
        names, zones = run.groups, run.clients["time_zone"].n_unique()
        if zones < 2 or not run.clients["participations"].sum():
            return None
        if run.clients.select("group", "time_zone").n_unique() == names == zones:
            return None
        return _frequencies(run, "time_zone").sort("frequency", "group", descending=[True, False])


@dataclass(frozen=True)
class ByTenth:
    """Participations per device of each tenth, over the average of all; the least available or slowest tenth first."""

    frequency: dict[str, tuple[float, ...]]  # by ``availability`` and ``speed``, as far as devices differ in them
    available: tuple[float, ...]  # share of the run for which a device was available; empty where that is not known


class TenthsChart:
    """How often each tenth of the devices takes part, by available time and by speed."""

    title, section = "Which tenths of the devices took part", "bias"

    def prepare(self, run: FinishedRun) -> ByTenth | None:

        def ten(name: str) -> tuple[float, ...]:
            found = [run.metrics.get(f"participation.{name}.{number}") for number in _NUMBERS]
            return tuple(each for each in found if each is not None)

        frequency = {key: values for key in _WORDS if len(values := ten(f"by_{key}")) == len(_NUMBERS)}
        return ByTenth(frequency, ten("availability")) if frequency else None

    def finding(self, data: ByTenth) -> str:
        key, values = next(iter(data.frequency.items()))
        low, high = fixed(values[0], 2), fixed(values[-1], 2)
        last, first = _EXTREMES[key]
        if low == high:
            return f"The {last} and the {first} tenth take part {low} times as often as the average"
        return f"The {last} tenth takes part {high} times as often as the average, the {first} {low}"

    def description(self, data: ByTenth) -> str:
        ways = [f"by {_WORDS[key]} {listing([fixed(x, 2) for x in x10])}" for key, x10 in data.frequency.items()]
        return f"Frequency of each tenth of the devices, in multiples of the average: {'; '.join(ways)}."

    def notes(self, data: ByTenth) -> Iterator[str]:
        yield "Each tenth holds as many devices; 1 is the average. Devices that are alike share their tenths."
        if data.available:
            least, most = percent(data.available[0]), percent(data.available[-1])
            yield f"The least available tenth was available {least} of the run, the most available {most}."

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
            (line,) = axes.plot(list(_NUMBERS), values, marker="o", markersize=5, color=color, zorder=3)
            entries.append((line, f"by {_WORDS[key]}"))
        entries.append((rule(axes, y=1), "average"))
        axes.set_ylim(0, 1.1 * max(1.0, *(max(values) for values in data.frequency.values())))
        axes.set_xticks(list(_NUMBERS))
        linear(axes, "y")
        finish(axes, "tenth of the devices, from the least to the most", "frequency over average", entries)
