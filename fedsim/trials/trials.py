"""The facts of many runs: settings, and what each run of them measured, by seed."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.formatting import MOST, equation, number
from fedsim.common.intervals import NORMAL
from fedsim.common.json_files import finite
from fedsim.measure.metrics import split
from fedsim.run.run import Run
from fedsim.run.scaled import in_whole
from fedsim.scenario import Scenario, read_resolved
from fedsim.scenario.units import parse_duration
from fedsim.trials import results, store

COMPLETE, CRASHED, NOT_RUN = "complete", "crashed", "not run"
COMPARED, FINAL = "compared", "final"
"""The stage of the runs that are compared, others having tuned them; and the folder of that stage of a decision."""
FACTS, COARSE, FULL = "facts", "coarse", "full"
"""The stages of a decision, each of which answers; the first two are folders."""
SIDE = "side"
"""The parameter of a comparison, whose values are A and B."""
_BLOCK = 36  # characters of a block of a scenario that names a setting
_TUNING = r"^learning\.(v\d+)\.([a-z_]+)$"
_NUMBERS, _WORDS = ("setting", "seed"), ("variant", "stage", "status", "fact")
_VALUES = ("value", "half")
FACT_COLUMNS = dict.fromkeys(_NUMBERS, pl.Int64) | dict.fromkeys(_WORDS, pl.String) | dict.fromkeys(_VALUES, pl.Float64)


def value_text(value: object) -> str:
    """Write a parameter's value."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return number(value) if isinstance(value, int | float) else str(value)


def _block_text(value: object) -> str:
    """Write a block of a scenario by its kinds and options: ``fedprox mu 0.1``."""
    if isinstance(value, list):
        return " + ".join(map(_block_text, value))
    if isinstance(value, dict):
        options = [f"{key} {_block_text(each)}" for key, each in value.items() if key != "kind"]
        return " ".join([*([str(value["kind"])] if "kind" in value else []), *options])
    return value_text(value)


def short_name(parameter: str) -> str:
    """Name a parameter where there is little room: by the last part of its path; a separation as R."""
    return "R" if is_separation(parameter) else parameter.rpartition(".")[2]


def names_of(parameters: Sequence[str]) -> dict[str, str]:
    """Name parameters in short; those that would have the same name by their paths."""
    times = Counter(map(short_name, parameters))
    return {name: short_name(name) if times[short_name(name)] == 1 else name for name in parameters}


def plain_names(paths: Iterable[str], scenario: Scenario) -> dict[str, str]:
    """Name parameters for other tools: ``population.separation`` for ``population.*.separation``, without indices.

    Those that would have the same name keep that of their group, or their index.
    """
    parts = {path: [part for part in re.split(r"[.\[\]]+", path) if part not in {"", "*"}] for path in paths}
    short = {path: ".".join(part for part in words if not part.isdecimal()) for path, words in parts.items()}
    times, groups = Counter(short.values()), dict(enumerate(group.name for group in scenario.population))
    for path, words in parts.items():
        if times[short[path]] > 1:
            if words[0] == "population" and words[1].isdecimal():
                words[1] = groups.get(int(words[1]), words[1])
            short[path] = ".".join(words)
    return short


def merge_results(folder: Path) -> Path:
    """Merge the results of a sweep into ``results.parquet``, which other tools read alone.

    Columns: those of a run's file, then `setting`, its name, and one for each parameter by its plain name. Metadata:
    ``fedsim.scenario``, ``.version``, ``.fingerprint`` of all results, and ``.units`` of metrics, as JSON.
    """
    trials = Trials.read(folder)
    plan, names = results.planned_runs(trials.meta), plain_names(trials.swept, trials.scenario)
    settings = pl.DataFrame({"point": trials.settings["setting"], "setting": list(trials.names)})
    beside = plan.join(settings, on="point").unique("run_id")
    units = {
        fact: metric.unit for fact in trials.facts["fact"].drop_nulls().unique().sort() if (metric := split(fact)[0])
    }
    about = {"scenario": trials.name, "version": str(trials.meta["versions"]["fedsim"])}
    about |= {
        "fingerprint": str(trials.meta.get("fingerprint")),
        "units": json.dumps({k: v for k, v in units.items() if v}),
    }
    columns = ["run_id", "setting", *(pl.col(path).alias(name) for path, name in names.items())]
    return store.compact(folder, beside.select(columns), {f"fedsim.{key}": text for key, text in about.items()})


def _named(parameter: str, name: str, value: str) -> str:
    """Name a setting by one value: those that are names themselves stand alone."""
    if parameter in {"name", "optimizer", "learning.optimizers"}:
        return f"“{value}”"
    return value if parameter == SIDE else equation(name, value)


def is_separation(parameter: str) -> bool:
    """Tell whether a parameter is the separation R of some clients."""
    return parameter.rpartition(".")[2] == "separation"


@dataclass(frozen=True, eq=False)
class Axis:
    """One way in which settings differ."""

    parameters: tuple[str, ...]  # the swept keys: one, or several that are zipped together
    varying: tuple[str, ...]  # those of them that vary, by their short names; the first, where none does
    label: str  # their name where there is room
    x: Floats  # where each setting lies: the value of a number, else the place of its value in the order of all
    ticks: tuple[str, ...]  # the values in that order, where they are no numbers; empty for numbers
    marks: tuple[str, ...] = ()  # the same without names, as they stand under a chart
    ordered: bool = True  # whether its values have an order of their own: numbers, durations

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


@dataclass(frozen=True, eq=False)
class Trials:
    """The facts of many runs; `read` takes them from a directory, `in_memory` from figures."""

    name: str  # as a person wrote it: text, never markup
    meta: Mapping[str, Any]  # what `sweep.json` or a manifest says of them: the scenario, the command, the status
    parameters: tuple[str, ...]  # the keys that name a setting, in the order of the columns
    settings: pl.DataFrame  # one row for each, in order: its number, `setting`, and a column for each key
    # A row for each run and fact: `setting`, `variant`, `stage`, `seed`, `status`, `fact`, `value`, which is null where
    # it is not finite, and half of the 95 % interval that the run states, where it does; of a run without a result one
    # row without a fact. Runs of stages other than `COMPARED` tuned the settings, each with its variants, and enter no
    # comparison.
    facts: pl.DataFrame
    tuned: tuple[str, ...] = ()  # the keys that were tuned for the others, and name no setting
    folder: Path | None = None  # the sweep directory; None of trials in memory

    @classmethod
    def read(cls, directory: Path, stage: str = COMPARED) -> Self:
        """Read the directory of a sweep, of a stage of a decision, or of a decision with its stages.

        Raises
        ------
        RunError
            The directory or a file is missing, unreadable, or not what a sweep writes; the message names it.
        """
        if not (directory / store.SWEEP_FILE).exists() and (answering := answering_in(directory)) is not None:
            trials, stages = cls.read(answering), sorted(answering.parent.glob("tuning-*"))
            tuning = [cls.read(each, each.name).facts for each in stages]
            return replace(trials, facts=pl.concat([trials.facts, *tuning]))
        table, meta = results.read_results(directory), store.read_sweep(directory)
        plan, swept = results.planned_runs(meta), tuple(meta["parameters"])
        scenario = read_resolved(directory / store.SWEEP_FILE, meta)
        tuned = [] if scenario.sweep is None else [*scenario.sweep.tuned]
        # Settings that have names of their own need no other values to name them.
        named = [*scenario.sweep.zip] if scenario.sweep is not None and "name" in scenario.sweep.zip else []
        missing = plan.join(table.select("run_id").unique(), on="run_id", how="anti", maintain_order="left")
        shown = ("point", "seed", "status", "metric", "value")
        rows = pl.concat([table.select(shown), missing.select("point", "seed", status=pl.lit(NOT_RUN))], how="diagonal")
        part = meta.get("part", {})
        restored = [
            pl.col(path).replace_strict(*pair, default=pl.col(path), return_dtype=plan.schema[path])
            for path, pair in part.get("sizes", {}).items()
            if path in swept and plan.schema[path].is_integer()
        ]
        return cls(
            name=meta["name"] if isinstance(meta["name"], str) else directory.name,
            meta=meta,
            parameters=tuple(name for name in swept if name not in tuned and (name not in named or name == "name")),
            settings=plan.select(pl.col("point").alias("setting"), *swept)
            .unique("setting", keep="first", maintain_order=True)
            .sort("setting")
            .with_columns(restored),
            facts=_of_the_whole(_facts(rows.rename({"point": "setting", "metric": "fact"}), stage), part),
            tuned=tuple(name for name in swept if name in tuned),
            folder=directory,
        )

    @classmethod
    def in_memory(
        cls, name: str, meta: Mapping[str, Any], figures: Mapping[tuple[int, int], Mapping[str, float | None]]
    ) -> Self:
        """Make trials of settings without names from the figures of each (setting, seed)."""
        rows = [
            (setting, seed, COMPLETE, fact, value)
            for (setting, seed), facts in figures.items()
            for fact, value in facts.items()
        ]
        schema = {name: FACT_COLUMNS[name] for name in ("setting", "seed", "status", "fact", "value")}
        settings = pl.DataFrame({"setting": sorted({setting for setting, _ in figures})}, schema={"setting": pl.Int64})
        return cls(name, meta, (), settings, _facts(pl.DataFrame(rows, schema=schema, orient="row")))

    @classmethod
    def of_run(cls, run: Run) -> Self:
        """Make trials of one setting, without a name, of a run and the longer halves of the intervals of its facts.

        An interval that ends at 0 is short on that side, however little is known.
        """
        meta = run.manifest or {"scenario": run.scenario.model_dump(mode="json")}
        made = cls.in_memory(run.scenario.name, meta, {(0, run.scenario.seed): finite(run.metrics)})
        sides = (pl.col("high") - pl.col("value"), pl.col("value") - pl.col("low"))
        halves = run.facts.select(fact="key", half=pl.max_horizontal(*sides))
        facts = made.facts.drop("half").join(halves, on="fact", how="left", maintain_order="left")
        return replace(made, facts=facts.select(*FACT_COLUMNS))

    @cached_property
    def scenario(self) -> Scenario:
        """What was run, at the setting that the file itself describes."""
        return read_resolved(Path(store.SWEEP_FILE), self.meta)

    @property
    def stage(self) -> str:
        """The stage of a decision that these are; empty of others."""
        return str(self.meta.get("part", {}).get("stage", ""))

    @property
    def scale(self) -> int:
        """By how much devices and cohorts were divided: the facts are those of the whole."""
        return int(self.meta.get("part", {}).get("scale", 1))

    @cached_property
    def _compared(self) -> pl.DataFrame:
        return self.facts.filter(pl.col("stage") == COMPARED, pl.col("variant") == "")

    @cached_property
    def runs(self) -> pl.DataFrame:
        """One row for each run that is compared: `setting`, `seed`, `status`."""
        kept = ("setting", "seed", "status")
        return self._compared.select(kept).unique(kept[:2], keep="first", maintain_order=True).sort(kept[:2])

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the runs that are compared, in order."""
        return tuple(self.runs["seed"].unique().sort())

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that have a value somewhere, by name."""
        return tuple(sorted(self._cells))

    @property
    def in_order(self) -> tuple[str, ...]:
        """The same, in the order in which they were measured."""
        return tuple(self._cells)

    @property
    def swept(self) -> tuple[str, ...]:
        """All keys: those that name a setting, and those that go with them."""
        return tuple(self.settings.columns[1:])

    @property
    def failed(self) -> pl.DataFrame:
        """The runs without a result."""
        return self.runs.filter(pl.col("status") != COMPLETE)

    @cached_property
    def _cells(self) -> dict[str, Floats]:
        return self._by_fact("value")

    @cached_property
    def _halves(self) -> dict[str, Floats]:
        return self._by_fact("half")

    def _by_fact(self, column: str) -> dict[str, Floats]:
        """Return a column of the facts, each as (settings, seeds)."""
        rows, seeds = self.settings["setting"].to_list(), self.seeds
        places = [{value: index for index, value in enumerate(values)} for values in (rows, seeds)]
        row, seed = (
            pl.col(name).replace_strict(numbers, default=None, return_dtype=pl.Int64)
            for name, numbers in zip(("setting", "seed"), places, strict=True)
        )
        cells = {}
        complete = self._compared.filter(pl.col("status") == COMPLETE)
        table = complete.select("fact", row=row, seed=seed, value=column).drop_nulls()
        for (fact,), part in table.partition_by("fact", as_dict=True, maintain_order=True).items():
            cells[str(fact)] = np.full((len(rows), len(seeds)), np.nan)
            cells[str(fact)][part["row"].to_numpy(), part["seed"].to_numpy()] = part["value"].to_numpy()
        return cells

    def samples(self, fact: str) -> Floats:
        """Return a fact as (settings, seeds), NaN where there is no value; a model that diverged has none."""
        values = self.as_measured(fact)
        return np.where(np.abs(values) < MOST, values, np.nan) if fact.startswith("learning.") else values

    def as_measured(self, fact: str) -> Floats:
        """Return a fact as (settings, seeds), those of models that diverged included."""
        nothing = np.full((len(self.settings), len(self.seeds)), np.nan)
        return self._cells.get(fact, nothing)

    def curves(self, row: int) -> pl.DataFrame:
        """Return the loss curves of the runs of a setting: `run_id`, `optimizer`, `round` (-1: initial), `loss`."""
        runs = [] if self.folder is None else self.meta.get("runs", ())  # a comparison of sweeps lists none
        run_ids = [run["run_id"] for run in runs if run["point"] == self.settings["setting"][row]]
        return store.read_curves(self.folder or Path(), run_ids)

    def beside(self, baseline: int | None = None) -> list[tuple[int, int]]:
        """Return the rows of a baseline setting, by default the first, and of each other one.

        A `ValueError` says that there is no such setting.
        """
        settings = self.settings["setting"].to_list()
        if baseline is not None and baseline not in settings:
            raise ValueError(f"there is no point {baseline}; the points are {', '.join(map(str, settings))}")
        first = 0 if baseline is None else settings.index(baseline)
        return [(first, row) for row in range(len(settings)) if row != first]

    def errors(self, fact: str) -> Floats | None:
        """Return the standard error that the one run of each setting states of a fact; None where there is none."""
        if len(self.seeds) != 1:
            return None
        half, stated = self._halves.get(fact), self._cells.get(f"{fact}_se")
        return half[:, 0] / NORMAL if half is not None else None if stated is None else stated[:, 0]

    def scores(self, stage: str, fact: str) -> pl.DataFrame:
        """Return a fact of each variant in a stage of tuning: `setting`, `variant`, `seed`, `value`."""
        rows = self.facts.filter(pl.col("stage") == stage, pl.col("variant") != "", pl.col("fact") == fact)
        return rows.select("setting", "variant", "seed", "value")

    @cached_property
    def _texts(self) -> dict[str, tuple[str, ...]]:
        texts = {}
        for name in (*self.parameters, *self.tuned):
            values = [value_text(value) for value in self.settings[name].to_list()]
            blocks = dict.fromkeys(value for value in values if value[:1] in {"[", "{"})
            with suppress(ValueError):
                blocks |= {value: _block_text(json.loads(value)) for value in blocks}
            # Blocks that are long, or look alike, are numbered: written out they would name nothing.
            if len(set(blocks.values())) < len(blocks) or any(len(text or "") > _BLOCK for text in blocks.values()):
                blocks = {value: f"no. {at}" for at, value in enumerate(blocks, start=1)}
            texts[name] = tuple(blocks.get(value) or value for value in values)
        return texts

    def texts(self, parameter: str) -> tuple[str, ...]:
        """Write the value that a parameter has at every setting."""
        return self._texts[parameter]

    def numbers(self, parameter: str) -> Floats | None:
        """Return the value of a parameter at every setting as numbers; None where some are not."""
        column = self.settings[parameter]
        values: Floats = column.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
        return values if column.dtype != pl.Boolean and np.isfinite(values).all() else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every setting by the values of all parameters; that of a sweep of nothing has none."""
        return tuple(name or "the one setting" for name in self.setting_names())

    def setting_names(self, parameters: Sequence[str] | None = None) -> tuple[str, ...]:
        """Name every setting by the values of these parameters; of all, if none are given."""
        chosen = self.parameters if parameters is None else tuple(parameters)
        names = names_of(self.parameters)
        columns = [[_named(name, names[name], value) for value in self.texts(name)] for name in chosen]
        return tuple(map(", ".join, zip(*columns, strict=True))) if columns else ("",) * len(self.settings)

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The ways in which settings differ, in the order of the file; zipped parameters are one, but for a grid."""
        key = self.scenario.sweep
        zipped = [] if key is None else [name for name in key.zip if name in self.parameters]
        if len(set(self.setting_names(zipped))) > max((len(set(self.texts(name))) for name in zipped), default=0):
            zipped = []  # no value of one goes with one of another alone
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
        return [name for name in parameters if len(set(self.texts(name))) > 1]

    def _lengths(self, parameter: str) -> Floats | None:
        """Return the values of a parameter as numbers, durations in seconds; None if some are neither."""
        if (numbers := self.numbers(parameter)) is not None:
            return numbers
        try:
            return np.array([parse_duration(str(value)) for value in self.settings[parameter]], dtype=np.float64)
        except ValueError:
            return None

    def _axis_of(self, parameters: tuple[str, ...]) -> Axis:
        varying = self._varying(parameters) or list(parameters[:1])
        short = names_of(self.parameters)
        names = tuple(short[name] for name in varying)
        written = ", ".join(names)
        if len(varying) == 1 and is_separation(varying[0]):
            written = "separation R (rounds)"
        if len(varying) == 1 and (x := self.numbers(varying[0])) is not None:
            return Axis(parameters, names, written, x, ())
        values = self.setting_names(varying) if len(varying) > 1 else self.texts(varying[0])
        ticks = self._in_order(varying, values)
        x = np.array([ticks.index(value) for value in values], dtype=np.float64)
        bare = [", ".join(row) for row in zip(*(self.texts(name) for name in varying), strict=True)]
        marks = tuple(bare[values.index(tick)] for tick in ticks)
        ordered = any(self._lengths(name) is not None for name in varying)
        return Axis(parameters, names, written, x, ticks, marks, ordered)

    def _in_order(self, varying: Sequence[str], values: Sequence[str]) -> tuple[str, ...]:
        """Sort values by the numbers and durations in them, that with the most values first; else as they come."""
        sized = [(len(np.unique(lengths)), lengths) for name in varying if (lengths := self._lengths(name)) is not None]
        keys = [lengths for _, lengths in sorted(sized, key=lambda pair: -pair[0])]
        order = np.lexsort(keys[::-1]).tolist() if keys else range(len(values))
        return tuple(dict.fromkeys(values[index] for index in order))

    def rows_along(self, along: Axis, kept: Bools) -> Iterator[tuple[str, Ints]]:
        """Yield the rows of the settings that differ only along one axis, in its order, and the values that they share.

        Settings that are not `kept` are left out. Values are text, of those parameters that vary.
        """
        others = [name for name in self.parameters if name not in along.parameters]
        varying = self._varying(others)
        names, every = self.setting_names(varying), dict[str, list[int]]()
        for row, name in enumerate(self.setting_names(others)):
            every.setdefault(name, []).append(row)
        for rows in every.values():
            line = np.array(rows, dtype=np.int64)[kept[rows]]
            if len(line):
                yield names[int(line[0])] if varying else "", line[np.argsort(along.x[line], kind="stable")]


def _facts(rows: pl.DataFrame, stage: str = COMPARED) -> pl.DataFrame:
    """Return rows of runs as facts; those of a stage of tuning by the variants that each run trained over one log."""
    rows = rows.with_columns(
        pl.when(pl.col("value").is_finite()).then("value"), variant=pl.lit(""), stage=pl.lit(stage)
    )
    if stage != COMPARED:
        parts = pl.col("fact").str.extract_groups(_TUNING)
        rows = rows.with_columns(parts.alias("part")).unnest("part")
        variant, fact = pl.col("1").fill_null(""), pl.coalesce("learning." + pl.col("2"), "fact")
        rows = rows.with_columns(variant=variant, fact=fact)
    return rows.with_columns(half=None).select(pl.col(name).cast(dtype) for name, dtype in FACT_COLUMNS.items())


def answering_in(directory: Path) -> Path | None:
    """Return the folder of the last stage of a decision that is whole; of none, of the last; None without stages."""
    folders = [directory / FINAL, directory / COARSE / FINAL, directory / FACTS]
    there = [each for each in folders if (each / store.SWEEP_FILE).exists()]
    whole = (each for each in there if store.read_sweep(each).get("status") in {"complete", "crashed"})
    return next(whole, next(iter(there), None))


def _of_the_whole(facts: pl.DataFrame, part: Mapping[str, Any]) -> pl.DataFrame:
    """Carry the facts of a part of the devices, and perhaps of the time, on to all of them."""
    if not part:
        return facts
    names = facts["fact"].drop_nulls().unique().to_list()
    divided, growing = ([name for name in names if in_whole(name)[at]] for at in (0, 1))
    value = pl.when(pl.col("fact").is_in(divided)).then(pl.col("value") * part["scale"]).otherwise("value")
    if not (short := part["short"]):
        return facts.with_columns(value=value)
    count, pace = (
        facts.filter(fact=name).select("setting", "seed", pl.col("value").alias(name))
        for name in ("rounds.count", "rounds.per_day")
    )
    ends = [pl.col("rounds.per_day") * short["of_days"]] if "of_days" in short else []
    ends += [pl.lit(float(short["rounds"]))] if "rounds" in short else []
    times = count.join(pace, on=("setting", "seed"))
    times = times.select("setting", "seed", times=pl.min_horizontal(ends) / pl.col("rounds.count"))
    scaled = facts.with_columns(value=value).join(times, on=("setting", "seed"), how="left", maintain_order="left")
    longer = pl.col("fact").is_in([*growing, "rounds.count"])
    value = pl.when(longer).then(pl.col("value") * pl.col("times")).otherwise("value")
    return scaled.with_columns(value=value).drop("times")
