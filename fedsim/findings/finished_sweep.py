"""A sweep directory, read: its points and axes, and each metric's mean and interval at every point."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.formatting import MOST, equation, number
from fedsim.findings.finished_run import Json, read_scenario
from fedsim.findings.metric_wording import L1, REPORTED
from fedsim.scenario import Scenario
from fedsim.scenario.units import parse_duration
from fedsim.trials import results, store
from fedsim.trials.decision import Interval, interval

COMPLETE, CRASHED = "complete", "crashed"
_NOT_RUN = "not run"


def value_text(value: object) -> str:
    """Write a parameter's value."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return number(value) if isinstance(value, int | float) else str(value)


def short_name(parameter: str) -> str:
    """Name a parameter where there is little room: by the last part of its path; a separation as R."""
    return "R" if is_separation(parameter) else parameter.rpartition(".")[2]


def names_of(parameters: Sequence[str]) -> dict[str, str]:
    """Name parameters in short; those that would have the same name by their paths."""
    times = Counter(map(short_name, parameters))
    return {name: short_name(name) if times[short_name(name)] == 1 else name for name in parameters}


def is_separation(parameter: str) -> bool:
    """Tell whether a parameter is the separation R of some clients."""
    return parameter.rpartition(".")[2] == "separation"


@dataclass(frozen=True, eq=False)
class Axis:
    """One way in which the settings of a sweep differ."""

    parameters: tuple[str, ...]  # the swept keys: one, or several that are zipped together
    varying: tuple[str, ...]  # those of them that vary, by their short names; the first, where none does
    label: str  # their name where there is room
    x: Floats  # where each setting lies: the value of a number, else the place of its value in the order of all
    ticks: tuple[str, ...]  # the values in that order, where they are no numbers; empty for numbers
    marks: tuple[str, ...] = ()  # the same without names, as they stand under a chart

    @property
    def name(self) -> str:
        """The short name of what varies."""
        return " and ".join(self.varying)

    @property
    def size(self) -> int:
        """How many values it has."""
        return len(np.unique(self.x))

    def at(self, x: float) -> str:
        """Write the value at a place."""
        return self.ticks[int(x)] if self.ticks else number(x)

    def named(self, x: float) -> str:
        """Name the value at a place, as in ``R = 4``; the values of several parameters name them themselves."""
        text = self.at(x)
        return text if len(self.varying) > 1 else equation(self.name, text)

    def every_value(self) -> str:
        """Write all values of an axis; of more than six, the ends and how many there are."""
        places = np.unique(self.x).tolist()
        if len(places) > 6:
            return f"{len(places)} values from {self.at(places[0])} to {self.at(places[-1])}"
        texts = [self.at(x) for x in places]
        comma = "; " if len(self.varying) > 1 else ", "
        return " or ".join(filter(None, (comma.join(texts[:-1]), texts[-1])))


@dataclass(frozen=True)
class FinishedSweep:
    """What a sweep left behind."""

    name: str  # as a person wrote it: text, never markup
    meta: Mapping[str, Json]  # the whole of `sweep.json`
    scenario: Scenario  # what was swept
    parameters: tuple[str, ...]  # the swept keys that name a setting, in the order of the columns
    points: pl.DataFrame  # one row for each planned point, in order: `point` and a column for each swept key
    results: pl.DataFrame  # `run_id`, `point`, `seed`, `status`, `metric`, `value`: finite values of complete runs
    # One row for each planned run: `run_id`, `point`, `seed`, `status` (`not run` without a result or a crash)
    runs: pl.DataFrame
    tuned: tuple[str, ...] = ()  # the swept keys that were tuned for the others, and name no setting

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that have a value somewhere, by name."""
        return tuple(sorted(self._cells))

    @property
    def swept(self) -> tuple[str, ...]:
        """All swept keys: those that name a setting, and those that go with them."""
        found = self.meta["parameters"]
        return tuple(map(str, found)) if isinstance(found, list) else ()

    @property
    def failed(self) -> pl.DataFrame:
        """The runs without a result."""
        return self.runs.filter(pl.col("status") != COMPLETE)

    @cached_property
    def bias_metric(self) -> str:
        """The L1 distance of reports from uniform, which reached the model; of selections, where all reported."""
        reported, selected = self.samples(REPORTED), self.samples(L1)
        known = np.isfinite(reported)
        both = known & np.isfinite(selected)
        return REPORTED if known.any() and (np.abs(reported - selected)[both] > 1e-9).any() else L1

    @cached_property
    def _cells(self) -> dict[str, Floats]:
        points, seeds = self.points["point"].to_list(), sorted(set(self.runs["seed"].to_list()))
        places = [{value: index for index, value in enumerate(values)} for values in (points, seeds)]
        row, seed = (
            pl.col(name).replace_strict(known, default=None, return_dtype=pl.Int64)
            for name, known in zip(("point", "seed"), places, strict=True)
        )
        found = {}
        table = self.results.select("metric", "value", row=row, seed=seed).drop_nulls()
        for (metric,), own in table.partition_by("metric", as_dict=True).items():
            found[str(metric)] = np.full((len(points), len(seeds)), np.nan)
            values = own["value"].to_numpy()
            if str(metric).startswith("learning."):  # a model that diverged has no value
                values = np.where(np.abs(values) < MOST, values, np.nan)
            found[str(metric)][own["row"].to_numpy(), own["seed"].to_numpy()] = values
        return found

    def samples(self, metric: str) -> Floats:
        """Return a metric as (settings, seeds), NaN where there is no value."""
        nothing = np.full((len(self.points), self.runs["seed"].n_unique()), np.nan)
        return self._cells.get(metric, nothing)

    def estimates(self, metric: str) -> Interval:
        """Return the mean of a metric over the seeds at every point, and its interval."""
        return interval(self.samples(metric))

    @cached_property
    def _texts(self) -> dict[str, tuple[str, ...]]:
        found = {}
        for name in (*self.parameters, *self.tuned):
            values = [value_text(value) for value in self.points[name].to_list()]
            # Whole blocks of a scenario are numbered: written out they would name nothing.
            blocks = list(dict.fromkeys(value for value in values if value[:1] in {"[", "{"}))
            found[name] = tuple(f"no. {blocks.index(value) + 1}" if value in blocks else value for value in values)
        return found

    def values(self, parameter: str) -> tuple[str, ...]:
        """Write the value that a parameter has at every point."""
        return self._texts[parameter]

    def numbers(self, parameter: str) -> Floats | None:
        """Return the value of a parameter at every point as numbers; None where some are not."""
        column = self.points[parameter]
        found: Floats = column.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
        return found if column.dtype != pl.Boolean and np.isfinite(found).all() else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every point by the values of all parameters; a sweep of nothing has one setting."""
        return tuple(name or "the one setting" for name in self.point_names())

    def point_names(self, parameters: Sequence[str] | None = None) -> tuple[str, ...]:
        """Name every point by the values of these parameters; of all, if none are given."""
        chosen = self.parameters if parameters is None else tuple(parameters)
        names = names_of(self.parameters)
        columns = [
            [f"“{value}”" if name == "name" else equation(names[name], value) for value in self.values(name)]
            for name in chosen
        ]
        return tuple(map(", ".join, zip(*columns, strict=True))) if columns else ("",) * len(self.points)

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The ways in which settings differ, in the order of the file; zipped parameters are one."""
        key = self.scenario.sweep
        zipped = [] if key is None else [name for name in key.zip if name in self.parameters]
        groups = [(name,) for name in self.parameters if name not in zipped]
        return tuple(self._axis_of(group) for group in (*groups, *([tuple(zipped)] if zipped else [])))

    @cached_property
    def axis(self) -> Axis | None:
        """What goes along the axis: a separation that varies; else what has the most values that have an order."""

        def rank(axis: Axis) -> tuple[bool, bool, int]:
            separated = any(map(is_separation, self._varying(axis.parameters)))
            ordered = any(self._lengths(name) is not None for name in axis.parameters)
            return not (axis.size > 1 and separated), not (axis.size > 1 and ordered), -axis.size

        return min(self.axes, key=rank, default=None)

    def _varying(self, parameters: Iterable[str]) -> list[str]:
        return [name for name in parameters if len(set(self.values(name))) > 1]

    def _lengths(self, parameter: str) -> Floats | None:
        """Return the values of a parameter as numbers, durations in seconds; None if some are neither."""
        if (found := self.numbers(parameter)) is not None:
            return found
        try:
            return np.array([parse_duration(str(value)) for value in self.points[parameter]], dtype=np.float64)
        except ValueError:
            return None

    def _axis_of(self, parameters: tuple[str, ...]) -> Axis:
        varying = self._varying(parameters) or list(parameters[:1])
        short = names_of(self.parameters)
        names = tuple(short[name] for name in varying)
        written = varying[0] if len(varying) == 1 else ", ".join(names)
        if len(varying) == 1 and is_separation(written):
            written = "separation R (rounds)"
        if len(varying) == 1 and (x := self.numbers(varying[0])) is not None:
            return Axis(parameters, names, written, x, ())
        values = self.point_names(varying) if len(varying) > 1 else self.values(varying[0])
        ticks = self._in_order(varying, values)
        x = np.array([ticks.index(value) for value in values], dtype=np.float64)
        bare = [", ".join(row) for row in zip(*(self.values(name) for name in varying), strict=True)]
        marks = tuple(bare[values.index(tick)] for tick in ticks)
        return Axis(parameters, names, written, x, ticks, marks)

    def _in_order(self, varying: Sequence[str], values: Sequence[str]) -> tuple[str, ...]:
        """Sort values by the numbers and durations in them, that with the most values first; else as they come."""
        known = [(len(np.unique(found)), found) for name in varying if (found := self._lengths(name)) is not None]
        keys = [found for _, found in sorted(known, key=lambda pair: -pair[0])]
        order = np.lexsort(keys[::-1]).tolist() if keys else range(len(values))
        return tuple(dict.fromkeys(values[index] for index in order))

    def rows_along(self, along: Axis, known: Bools) -> Iterator[tuple[str, Ints]]:
        """Yield the rows of the settings that differ only along one axis, in its order, and the values that they share.

        Settings that are not `known` are left out. Values are text, of those parameters that vary.
        """
        others = [name for name in self.parameters if name not in along.parameters]
        varying = self._varying(others)
        names, every = self.point_names(varying), dict[str, list[int]]()
        for row, name in enumerate(self.point_names(others)):
            every.setdefault(name, []).append(row)
        for rows in every.values():
            own = np.array(rows, dtype=np.int64)[known[rows]]
            if len(own):
                yield names[int(own[0])] if varying else "", own[np.argsort(along.x[own], kind="stable")]


def read_finished_sweep(directory: Path) -> FinishedSweep:
    """Read a sweep directory.

    Raises
    ------
    RunError
        The directory or a file is missing, unreadable, or not what a sweep writes; the message names it.
    """
    table, meta = results.read_results(directory), store.read_sweep(directory)
    plan, swept = results.planned_runs(meta), tuple(meta["parameters"])
    scenario = read_scenario(directory / store.SWEEP_FILE, meta)
    tuned = [] if scenario.sweep is None else [*scenario.sweep.tuned]
    # Settings that have names of their own need no other values to name them.
    named = [*scenario.sweep.zip] if scenario.sweep is not None and "name" in scenario.sweep.zip else []
    finite = (pl.col("status") == COMPLETE) & pl.col("metric").is_not_null() & pl.col("value").is_finite()
    known = table.select("run_id", "status").unique("run_id", keep="first", maintain_order=True)
    return FinishedSweep(
        name=meta["name"] if isinstance(meta["name"], str) else directory.name,
        meta=meta,
        scenario=scenario,
        parameters=tuple(name for name in swept if name not in tuned and (name not in named or name == "name")),
        points=plan.select("point", *swept).unique("point", keep="first", maintain_order=True).sort("point"),
        results=table.filter(finite).select("run_id", "point", "seed", "status", "metric", "value"),
        runs=plan.join(known, on="run_id", how="left", maintain_order="left")
        .select("run_id", "point", "seed", pl.col("status").fill_null(_NOT_RUN))
        .unique(["run_id", "point"], keep="first", maintain_order=True)
        .sort("point", "seed", "run_id"),
        tuned=tuple(name for name in swept if name in tuned),
    )
