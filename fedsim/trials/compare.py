"""Two runs, or two sweeps, side by side: what differs in their configuration, and in their figures."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fedsim.common.arguments import path_of
from fedsim.common.errors import RunError
from fedsim.common.json_files import finite
from fedsim.measure.grammar import ConditionError, parse_condition
from fedsim.run.cautions import why_nothing
from fedsim.run.files import MANIFEST, Change, changes
from fedsim.run.load import load
from fedsim.run.run import Run
from fedsim.trials.contrasts import differences
from fedsim.trials.store import SWEEP_FILE, read_sweep
from fedsim.trials.trials import NOT_RUN, Trials


@dataclass(frozen=True)
class Missed:
    """A limit (`expect`) of a side's scenario that its runs miss."""

    check: str
    severity: str
    runs: int  # how many miss it; a run without a value of the metric does
    of: int  # how many there are
    worst: float | None  # the value farthest beyond the limit; None where no run that misses it has a value


@dataclass(frozen=True, eq=False)
class Comparison:
    """What differs between A and B."""

    configuration: list[Change]  # wherever the two differ
    trials: Trials  # of both: the settings that both have, of A and of B
    pairs: list[tuple[int, int]]  # their rows: of A, and of B with equal parameters
    metrics: pl.DataFrame  # as from `fedsim.trials.contrasts.differences`, by these pairs
    notes: list[str]  # limitations of the comparison
    # By A, and by B, of the limits of its own scenario.
    missed: tuple[tuple[Missed, ...], tuple[Missed, ...]]
    nothing: tuple[str, ...] = ()  # of each run that took no report, how its sessions ended


def compare(a: str | Path | Run, b: str | Path | Run, *, confidence: float = 0.95) -> Comparison:
    """Compare two runs or two sweeps: results, run directories, sweep directories, or points of sweeps (``DIR@3``).

    A `RunError` says that one of them is neither, or that they have nothing in common that could be compared.
    """
    one, other = _read_side(a), _read_side(b)
    if set(one.swept) != set(other.swept):
        raise RunError(
            f"{one.name} sweeps {_listed(one.swept)}, {other.name} {_listed(other.swept)}: "
            "their points do not correspond; compare two of them, as DIR@POINT"
        )
    notes, both = list[str](), {*one.seeds} & {*other.seeds}
    if both and {*one.seeds} != {*other.seeds}:
        notes.append(f"only the {len(both)} seeds that both have are compared")
    elif not both and len(one.seeds) == len(other.seeds) == 1:
        notes.append("the two have different seeds, so different worlds: their figures are not paired")
        one = replace(one, facts=one.facts.with_columns(seed=pl.lit(other.seeds[0], pl.Int64)))
    elif not both:
        raise RunError(f"{one.name} and {other.name} have no seed in common, so nothing can be paired")
    trials, pairs = _beside(one, other)
    metrics = differences(trials, pairs, confidence=confidence)
    if metrics.is_empty():
        raise RunError(f"{one.name} and {other.name} have no figure in common")
    keys, theirs = ({name: set(_keys(each.settings, [name])) for name in one.swept} for each in (one, other))
    notes += [f"only the values of {name} that both have are compared" for name in keys if keys[name] != theirs[name]]
    known = [(side.name, side.facts.drop_nulls("fact").select("fact", "value")) for side in (one, other)]
    nothing = tuple(f"{name}: {why}" for name, own in known if (why := why_nothing(dict(own.iter_rows()))))
    configuration = list(changes(one.meta["scenario"], other.meta["scenario"]))
    return Comparison(configuration, trials, pairs, metrics, notes, (_missed_by(one), _missed_by(other)), nothing)


def _beside(one: Trials, other: Trials) -> tuple[Trials, list[tuple[int, int]]]:
    """Return the settings that two trials share, those of the first and then of the second, and their pairs."""
    ours = {key: row for row, key in enumerate(_keys(one.settings, one.swept))}
    shared = [(ours[key], row) for row, key in enumerate(_keys(other.settings, one.swept)) if key in ours]
    theirs = other.settings[[row for _, row in shared]]
    # Of two settings alike that of the first has a number below 0.
    numbers = {one.settings["setting"][row]: -1 - place for place, (row, _) in enumerate(shared)}
    places = pl.col("setting").replace_strict(numbers, default=None, return_dtype=pl.Int64)
    facts = [other.facts, one.facts.with_columns(setting=places).drop_nulls("setting")]
    first = theirs.with_columns(setting=pl.Series(numbers.values(), dtype=pl.Int64))
    trials = replace(other, settings=pl.concat([first, theirs]), facts=pl.concat(facts))
    return trials, [(place, place + len(shared)) for place in range(len(shared))]


def _keys(settings: pl.DataFrame, parameters: Sequence[str]) -> list[str]:
    """Return the values of each setting as JSON: 4 in one sweep may be 4.0 in the other."""

    def plain(value: Any) -> Any:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    rows = settings.select(sorted(parameters)).iter_rows() if parameters else ((),) * len(settings)
    return [json.dumps([*map(plain, row)]) for row in rows]


def _missed_by(side: Trials) -> tuple[Missed, ...]:
    """Judge the limits of a side's scenario on each of its runs; those over replicates are left out."""
    runs, found = side.runs.filter(pl.col("status") != NOT_RUN), []
    for entry in side.meta["scenario"].get("expect") or ():
        if entry.get("over", "every") != "every":
            continue
        try:
            condition = parse_condition(entry["check"])
        except (ConditionError, KeyError, TypeError):
            continue  # edited by hand
        values = side.as_measured(condition.metric)
        own = values[np.isfinite(values)].tolist()
        beyond = [value for value in own if not condition.holds(value)]
        count = len(runs) - len(own) + len(beyond)
        if count:
            worst = min(beyond, key=condition.margin, default=None)
            found.append(Missed(condition.text, entry.get("severity", "error"), count, len(runs), worst))
    return tuple(found)


def _read_side(name: str | Path | Run) -> Trials:
    """Read a run directory, a sweep directory, or ``DIR@POINT``; or take a result."""
    if isinstance(name, Run):
        scenario = name.scenario
        meta = {"scenario": scenario.model_dump(mode="json")}
        return Trials.in_memory(scenario.name, meta, {(0, scenario.seed): finite(name.metrics)})
    folder = path_of("what is compared", name, "a result, or a run or sweep directory")
    if not folder.exists() and "@" in folder.name:
        stem, _, point = str(name).rpartition("@")
        return _point(Path(stem), point, str(name))
    if (folder / SWEEP_FILE).exists():
        return replace(Trials.read(folder), name=str(name))
    if not (folder / MANIFEST).exists():
        raise RunError(f"{folder} is neither a run directory nor a sweep directory: it has no {MANIFEST}")
    run = load(folder)
    return Trials.in_memory(str(name), run.manifest, {(0, run.scenario.seed): finite(run.metrics)})


def _point(folder: Path, text: str, name: str) -> Trials:
    """Return one setting of a sweep, as the only one of trials whose scenario has its values."""
    sweep, trials = read_sweep(folder), Trials.read(folder)
    known = [entry["point"] for entry in sweep["points"]]
    if not (text.isdecimal() and len(text) < 10) or int(text) not in known:
        raise RunError(f"{folder} has no point {text!r}; its points are {known[0]} to {known[-1]}")
    values = next(entry["values"] for entry in sweep["points"] if entry["point"] == int(text))
    scenario = {key: value for key, value in sweep["scenario"].items() if key != "sweep"} | values
    kept, meta = pl.col("setting") == int(text), {**sweep, "scenario": scenario}
    return Trials(name, meta, (), trials.settings.filter(kept).select("setting"), trials.facts.filter(kept))


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names) or "nothing"
