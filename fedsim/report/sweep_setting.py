"""What was simulated in a sweep: the scenario that its settings have in common, and what they differ in."""

import math
from collections.abc import Iterator, Mapping

from fedsim.report.answer import BIAS, WHAT, Sentence
from fedsim.report.finished_run import Json
from fedsim.report.finished_sweep import FinishedSweep
from fedsim.report.formatting import between, count, listing
from fedsim.report.sweep_axes import Axis, axes_of, every_value

GROUPS = 3
"""Groups of devices told one by one at most."""

_MEANINGS = {
    "separation": "rounds that a device sits out after a turn",
    "cooldown": "time that a device rests after a turn",
    "cohort": "devices that a round waits for",
    "devices": "how many devices there are",
    "deadline": "time after which a round ends without those that are late",
    "pause": "time between two rounds",
    "over_select": "how many more devices are asked than are needed",
}


def what_was_simulated(sweep: FinishedSweep) -> Iterator[Sentence]:
    """Say which devices, rounds and weights every run has, and how the settings differ."""
    if text := _base(sweep):
        yield Sentence(text, WHAT)
    axes = [axis for axis in axes_of(sweep) if axis.size > 1]
    seeds = sweep.runs.group_by("point").len()["len"].to_list()
    each = f"{between(min(seeds), max(seeds))} seed{'' if max(seeds) == 1 else 's'}" if seeds else "no seed"
    settings = count(len(sweep.points), "setting")
    total = f"{settings} with {each} each: {count(len(sweep.runs), 'run')}"
    if axes:
        ways = [f"{axis.name} ({every_value(axis)})" for axis in axes]
        every = math.prod(axis.size for axis in axes)
        left = f" of {count(every)} combinations" if len(sweep.points) < every else ""
        told = total.replace(settings, settings + left, 1)
        yield Sentence(f"A setting is a choice of {listing(ways)}. {told}.", WHAT)
    else:
        yield Sentence(f"{total}.", WHAT)
    meanings = [text for axis in axes for text in _meanings(axis)]
    if meanings:
        yield Sentence(f"{'; '.join(meanings)}.", WHAT)


def misplaced_means() -> Sentence:
    """Explain the unit of bias."""
    return Sentence(
        "Misplaced are the turns that would have to go to other devices for all devices to have equally many.", BIAS
    )


def _meanings(axis: Axis) -> Iterator[str]:
    for parameter in axis.parameters:
        last = parameter.rpartition(".")[2]
        name = next(
            (name for name in axis.varying if name in {last, parameter, "R" if last == "separation" else last}), None
        )
        if name is not None and last in _MEANINGS:
            yield f"{name}: {_MEANINGS[last]}"


def _base(sweep: FinishedSweep) -> str:
    """Tell of what is not swept; empty where the scenario does not say."""
    scenario = sweep.meta.get("scenario")
    if not isinstance(scenario, Mapping):
        return ""
    swept = {part for name in sweep.parameters for part in name.replace("[", ".").replace("]", "").split(".")}
    whole = {name for name in sweep.parameters if "." not in name}
    population, stop, server = scenario.get("population"), scenario.get("stop"), scenario.get("server")
    parts = ["a federation"]
    if isinstance(population, list) and population and "population" not in whole:
        parts = [_devices([group for group in population if isinstance(group, Mapping)], swept) or parts[0]]
    if isinstance(stop, Mapping) and "stop" not in swept:
        parts.append(_length(stop))
    if isinstance(server, Mapping) and not {"cohort", "server"} & (swept if "cohort" in swept else whole):
        parts.append(f"in cohorts of {count(cohort)}" if isinstance(cohort := server.get("cohort"), int) else "")
    told = [part for part in parts if part]
    return f"Every run simulates {' '.join(told)}." if told != ["a federation"] else ""


def devices_of(sweep: FinishedSweep) -> int | None:
    """Return how many devices every run has; None where settings differ in it, or the scenario does not say."""
    scenario = sweep.meta.get("scenario")
    population = scenario.get("population") if isinstance(scenario, Mapping) else None
    if not isinstance(population, list) or any("devices" in name or name == "population" for name in sweep.parameters):
        return None
    sizes = [group.get("devices") if isinstance(group, Mapping) else None for group in population]
    return (
        sum(size for size in sizes if isinstance(size, int)) if all(isinstance(size, int) for size in sizes) else None
    )


def _devices(groups: list[Mapping[str, Json]], swept: set[str]) -> str:
    sizes = [group.get("devices") for group in groups]
    if "devices" in swept or not all(isinstance(size, int) for size in sizes):
        return ""
    total = sum(size for size in sizes if isinstance(size, int))
    text = count(total, "device")
    if 1 < len(groups) <= GROUPS:
        each = [
            f"{count(size)} {group.get('name')}"
            for group, size in zip(groups, sizes, strict=True)
            if isinstance(size, int)
        ]
        text += f" ({listing(each)})"
    elif len(groups) > GROUPS:
        text += f" in {len(groups)} groups"
    weights = list(dict.fromkeys(_weight(group.get("weight")) for group in groups))
    if "weight" in swept or not all(weights):
        return text
    return f"{text} with {weights[0]} weights" if len(weights) == 1 else f"{text} with weights that differ by group"


def _weight(source: Json) -> str:
    """Name a source of weights: ``lognormal (sigma 1)``, ``equal``; empty where it cannot be told in short."""
    if isinstance(source, int | float):
        return "equal"
    if isinstance(source, list):
        return "listed"
    if not isinstance(source, Mapping) or not isinstance(kind := source.get("kind"), str):
        return ""
    if kind == "constant":
        return "equal"
    shown = {
        key: value
        for key, value in source.items()
        if isinstance(value, int | float) and key not in {"median", "per_rank"}
    }
    inner = ", ".join(f"{key} {value:g}" for key, value in shown.items())
    return f"{kind} ({inner})" if inner else kind


def _length(stop: Mapping[str, Json]) -> str:
    rounds, lasting = stop.get("rounds"), stop.get("duration")
    ways = [count(rounds, "round")] if isinstance(rounds, int) else []
    if isinstance(lasting, str):
        ways.append(lasting if not ways else f"at most {lasting}")
    return f"over {', '.join(ways)}" if ways else ""
