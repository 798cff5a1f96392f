"""Two runs, or two sweeps, side by side: what differs in their configuration, and in their figures."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from fedsim.common.arguments import path_of
from fedsim.common.errors import RunError
from fedsim.common.json_files import finite
from fedsim.experiment.cautions import why_nothing
from fedsim.experiment.finished import MANIFEST, Outcome, open_finished
from fedsim.experiment.run_directory import Change, changes
from fedsim.limits.grammar import ConditionError, parse_condition
from fedsim.trials.results import differences, parameters_of, read_results
from fedsim.trials.store import SWEEP_FILE, read_sweep


@dataclass(frozen=True)
class Side:
    """A run or a sweep: its configuration, and its figures in the columns of `read_results`."""

    name: str
    scenario: Mapping[str, Any]
    figures: pl.DataFrame


@dataclass(frozen=True)
class Missed:
    """A limit (`expect`) of a side's scenario that its runs miss."""

    check: str
    severity: str
    runs: int  # how many miss it; a run without a value of the metric does
    of: int  # how many there are
    worst: float | None  # the value farthest beyond the limit; None where no run that misses it has a value


@dataclass(frozen=True)
class Comparison:
    """What differs between A and B."""

    configuration: list[Change]  # wherever the two differ
    # As from `fedsim.trials.results.paired_differences`, A being the baseline; pairs have equal seeds and parameters.
    metrics: pl.DataFrame
    notes: list[str]  # limitations of the comparison
    # By A, and by B, of the limits of its own scenario.
    missed: tuple[tuple[Missed, ...], tuple[Missed, ...]]
    nothing: tuple[str, ...] = ()  # of each run that took no report, how its sessions ended


def compare(a: str | Path | Outcome, b: str | Path | Outcome, *, confidence: float = 0.95) -> Comparison:
    """Compare two runs or two sweeps: results, run directories, sweep directories, or points of sweeps (``DIR@3``).

    A `RunError` says that one of them is neither, or that they have nothing in common that could be compared.
    """
    one, other = _read_side(a), _read_side(b)
    configuration = list(changes(one.scenario, other.scenario))
    shared = parameters_of(one.figures)
    if set(shared) != set(parameters_of(other.figures)):
        raise RunError(
            f"{one.name} sweeps {_listed(shared)}, {other.name} {_listed(parameters_of(other.figures))}: "
            "their points do not correspond; compare two of them, as DIR@POINT"
        )
    ours, theirs = _joinable(one.figures, shared), _joinable(other.figures, shared)
    notes = []
    keys = ["metric", *(f"key:{name}" for name in shared)]
    seeds, other_seeds = set(ours["seed"]), set(theirs["seed"])
    if seeds & other_seeds:
        keys.append("seed")
        if seeds != other_seeds:
            notes.append(f"only the {len(seeds & other_seeds)} seeds that both have are compared")
    elif len(seeds) == len(other_seeds) == 1:
        notes.append("the two have different seeds, so different worlds: their figures are not paired")
    else:
        raise RunError(f"{one.name} and {other.name} have no seed in common, so nothing can be paired")
    reference = ours.select(*keys, pl.col("value").alias("baseline"))
    pairs = theirs.join(reference, on=keys, maintain_order="left", nulls_equal=True)
    if pairs.is_empty():
        raise RunError(f"{one.name} and {other.name} have no figure in common")
    pairs = pairs.select(*other.figures.columns, "baseline")
    notes += [
        f"only the values of {name} that both have are compared"
        for name in shared
        if set(ours[f"key:{name}"]) != set(theirs[f"key:{name}"])
    ]
    known = [(side.name, side.figures.drop_nulls("metric").select("metric", "value")) for side in (one, other)]
    nothing = tuple(f"{name}: {why}" for name, own in known if (why := why_nothing(dict(own.iter_rows()))))
    missed = _missed_by(one), _missed_by(other)
    return Comparison(configuration, differences(pairs, confidence), notes, missed, nothing)


def _missed_by(side: Side) -> tuple[Missed, ...]:
    """Judge the limits of a side's scenario on each of its runs; those over replicates are left out."""
    runs = side.figures.select("point", "seed").unique()
    found = []
    for entry in side.scenario.get("expect") or ():
        if entry.get("over", "every") != "every":
            continue
        try:
            condition = parse_condition(entry["check"])
        except (ConditionError, KeyError, TypeError):
            continue  # edited by hand
        own = side.figures.filter((pl.col("metric") == condition.metric) & pl.col("value").is_not_null())
        beyond = [value for value in own["value"].to_list() if not condition.holds(value)]
        count = len(runs) - len(own) + len(beyond)
        if count:
            worst = min(beyond, key=condition.margin, default=None)
            found.append(Missed(condition.text, entry.get("severity", "error"), count, len(runs), worst))
    return tuple(found)


def _read_side(name: str | Path | Outcome) -> Side:
    """Read a run directory, a sweep directory, or ``DIR@POINT``; or take a result."""
    if isinstance(name, Outcome):
        scenario = name.scenario
        return Side(scenario.name, scenario.model_dump(mode="json"), _figures(scenario.seed, finite(name.metrics)))
    folder = path_of("what is compared", name, "a result, or a run or sweep directory")
    if not folder.exists() and "@" in folder.name:
        stem, _, point = str(name).rpartition("@")
        return _point(Path(stem), point, str(name))
    if (folder / SWEEP_FILE).exists():
        sweep = read_sweep(folder)
        return Side(str(name), sweep["scenario"], read_results(folder))
    if not (folder / MANIFEST).exists():
        raise RunError(f"{folder} is neither a run directory nor a sweep directory: it has no {MANIFEST}")
    run = open_finished(folder)
    return Side(str(name), run.manifest["scenario"], _figures(int(run.manifest["seed"]), finite(run.metrics)))


def _point(folder: Path, text: str, name: str) -> Side:
    sweep, frame = read_sweep(folder), read_results(folder)
    known = [entry["point"] for entry in sweep["points"]]
    if not (text.isdecimal() and len(text) < 10) or int(text) not in known:
        raise RunError(f"{folder} has no point {text!r}; its points are {known[0]} to {known[-1]}")
    values = next(entry["values"] for entry in sweep["points"] if entry["point"] == int(text))
    scenario = {key: value for key, value in sweep["scenario"].items() if key != "sweep"} | values
    return Side(name, scenario, frame.filter(pl.col("point") == int(text)).drop(parameters_of(frame)))


def _figures(seed: int, metrics: Mapping[str, float | None]) -> pl.DataFrame:
    """Return the figures of one run as `read_results` gives them."""
    count = len(metrics)
    columns = {"point": [0] * count, "seed": [seed] * count, "metric": [*metrics], "value": [*metrics.values()]}
    return pl.DataFrame(columns, schema={"point": pl.Int64, "seed": pl.Int64, "metric": pl.String, "value": pl.Float64})


def _joinable(figures: pl.DataFrame, shared: list[str]) -> pl.DataFrame:
    """Add the parameters as JSON: 4 in one sweep may be 4.0 in the other, whose column has other types of values."""
    there = figures.filter(pl.col("value").is_not_null())

    def key(value: Any) -> str:
        return json.dumps(float(value) if isinstance(value, int) and not isinstance(value, bool) else value)

    return there.with_columns(pl.Series(f"key:{name}", [*map(key, there[name])], pl.String) for name in shared)


def _listed(names: list[str]) -> str:
    return " and ".join(names) or "nothing"
