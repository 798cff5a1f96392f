"""Two runs, or two sweeps, side by side: trials of which a parameter, `SIDE`, is A or B."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from fedsim.common.arguments import path_of
from fedsim.common.errors import RunError, ScenarioError
from fedsim.measure.grammar import parse_condition
from fedsim.run.cautions import why_nothing
from fedsim.run.files import MANIFEST, Change, changes
from fedsim.run.load import load
from fedsim.run.run import Run
from fedsim.trials.contrasts import differences
from fedsim.trials.decision import misses
from fedsim.trials.optimizers import twins
from fedsim.trials.store import SWEEP_FILE
from fedsim.trials.trials import SIDE, Trials


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
    trials: Trials  # of the settings that both have, those of A and then those of B
    sides: tuple[Trials, Trials]  # the same of A, and of B, each with its own scenario
    metrics: pl.DataFrame  # as from `fedsim.trials.contrasts.differences`, of A and B with equal parameters
    notes: list[str]  # limitations of the comparison
    nothing: tuple[str, ...] = ()  # of each side that took no report, how its sessions ended

    @property
    def missed(self) -> tuple[tuple[Missed, ...], tuple[Missed, ...]]:
        """By A, and by B, of the limits of its own scenario; those over replicates are left out."""
        one, other = map(_missed_by, self.sides)
        return one, other


def compare(a: str | Path | Run, b: str | Path | Run, *, confidence: float = 0.95) -> Comparison:
    """Return what differs between two runs or two sweeps.

    Parameters
    ----------
    a, b
        Results, run directories, sweep directories, or points of sweeps (``DIR@3``).
    confidence
        Of the intervals of differences.

    Raises
    ------
    RunError
        If one of them is neither run nor sweep, or they have nothing in common that could be compared.

    >>> near = Scenario.load("paper/synthetic", ["stop.rounds=50"])
    >>> compare(simulate(near), simulate(near.with_values({"population.*.separation": 12}))).configuration
    [('population[0].separation.value', 4, 12)]
    """
    one, other = _read_side(a), _read_side(b)
    if set(one.swept) != set(other.swept):
        raise RunError(
            f"{one.name} sweeps {_listed(one)}, {other.name} {_listed(other)}: "
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
    for name in one.swept:
        if {*_keys(one, [name])} != {*_keys(other, [name])}:
            notes.append(f"only the values of {name} that both have are compared")
    configuration = list(changes(one.meta["scenario"], other.meta["scenario"]))
    if any(each.meta["scenario"].get("log") for each in (one, other)):  # which tells of the server, and of little else
        configuration = [change for change in configuration if change[0].partition("[")[0] in _OF_A_LOG]
        notes.append("one is the log of a production: nothing pairs it with another run")
    trials, sides = _beside(one, other, configuration)
    count = len(sides[0].settings)
    metrics = differences(trials, [(row, row + count) for row in range(count)], confidence=confidence)
    if metrics.is_empty():
        raise RunError(f"{one.name} and {other.name} have no figure in common")
    figures = [(side.name, side.facts.drop_nulls("fact").select("fact", "value")) for side in (one, other)]
    nothing = tuple(f"{name}: {why}" for name, facts in figures if (why := why_nothing(dict(facts.iter_rows()))))
    metrics = metrics.drop([name for name in trials.swept if name not in one.swept])
    return Comparison(configuration, trials, sides, metrics, notes, nothing)


_OF_A_LOG = {"name", "log.file", *(f"server.{key}" for key in ("mode", "cohort", "over_select", "deadline", "pause"))}


def _beside(one: Trials, other: Trials, apart: Sequence[Change]) -> tuple[Trials, tuple[Trials, Trials]]:
    """Return the trials of the settings that two share, and the parts that are of each: `SIDE` names these.

    Settings of the first have numbers below 0. What is `apart` in the scenarios is swept, but names no setting.
    """
    ours = dict(zip(_keys(one, one.swept), one.settings["setting"], strict=True))
    numbers = pl.Series([ours.get(key) for key in _keys(other, one.swept)], dtype=pl.Int64)
    both = other.settings.with_columns(ours=numbers).drop_nulls("ours")
    halves = both.with_columns(setting=-1 - pl.col("ours")), both
    sides = list[Trials]()
    for place, side in enumerate((one, other)):
        changed = {path: pl.lit(json.dumps(pair[place])) for path, *pair in apart if path not in other.swept}
        settings = halves[place].select("setting", pl.lit("AB"[place]).alias(SIDE), *other.swept, **changed)
        facts = side.facts if place else side.facts.with_columns(setting=-1 - pl.col("setting"))
        facts = facts.join(settings.select("setting"), on="setting", how="semi", maintain_order="left")
        sides.append(replace(side, parameters=(SIDE, *other.parameters), settings=settings, facts=facts))
    first, second = sides
    # The limits of each side are those of its own scenario.
    meta = {"scenario": {**second.meta["scenario"], "expect": []}, "twins": [*twins(one), *twins(other)]}
    meta["sides"] = [{"command": side.meta.get("command")} for side in (one, other)]
    settings, facts = (pl.concat([getattr(first, name), getattr(second, name)]) for name in ("settings", "facts"))
    return replace(second, meta=meta, settings=settings, facts=facts), (first, second)


def _keys(trials: Trials, parameters: Sequence[str]) -> list[str]:
    """Return the values of each setting as JSON: 4 in one sweep may be 4.0 in the other."""

    def plain(value: Any) -> Any:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    rows = trials.settings.select(sorted(parameters)).iter_rows() if parameters else ((),) * len(trials.settings)
    return [json.dumps([*map(plain, row)]) for row in rows]


def _missed_by(side: Trials) -> tuple[Missed, ...]:
    limits = list[Missed]()
    for limit in side.scenario.expect:
        condition = parse_condition(limit.check)
        outcomes = misses(side, condition) if limit.over == "every" else []
        if missed := sum(each.missed for each in outcomes):
            worst = min((each.worst for each in outcomes if each.worst is not None), key=condition.margin, default=None)
            runs = sum(each.runs for each in outcomes)
            limits.append(Missed(limit.check, limit.severity, missed, runs, worst))
    return tuple(limits)


def _read_side(name: str | Path | Run) -> Trials:
    """Read a run directory, a sweep directory, or ``DIR@POINT``; or take a result."""
    if isinstance(name, Run):
        return Trials.of_run(name)
    folder = path_of("what is compared", name, "a result, or a run or sweep directory")
    if not folder.exists() and "@" in folder.name:
        stem, _, point = str(name).rpartition("@")
        return _point(Trials.read(Path(stem)), stem, point)
    if (folder / SWEEP_FILE).exists():
        return replace(Trials.read(folder), name=str(name))
    if not (folder / MANIFEST).exists():
        raise RunError(f"{folder} is neither a run directory nor a sweep directory: it has no {MANIFEST}")
    return replace(Trials.of_run(load(folder)), name=str(name))


def _point(trials: Trials, folder: str, text: str) -> Trials:
    """Return one setting of a sweep, as the only one of trials whose scenario has its values."""
    points = {entry["point"]: entry["values"] for entry in trials.meta["points"]}
    if not (text.isdecimal() and len(text) < 10) or int(text) not in points:
        raise RunError(f"{folder} has no point {text!r}; its points are {min(points)} to {max(points)}")
    try:
        scenario = trials.scenario.with_values({"sweep": None, **points[int(text)]}).model_dump(mode="json")
    except ScenarioError as error:
        raise RunError(f"{folder}: its point {text} cannot be read: {error.mistakes[0]}") from None
    kept, meta = pl.col("setting") == int(text), {**trials.meta, "scenario": scenario}
    settings, facts = trials.settings.filter(kept).select("setting"), trials.facts.filter(kept)
    return Trials(f"{folder}@{text}", meta, (), settings, facts)


def _listed(side: Trials) -> str:
    return " and ".join(side.swept) or "nothing"
