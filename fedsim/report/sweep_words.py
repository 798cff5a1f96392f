"""What a sweep says in words: how a figure goes along it, and what is missing of it."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from fedsim.analysis.noise import by_chance
from fedsim.findings.bias import FEW
from fedsim.findings.finding import TRUST, WHAT, Finding
from fedsim.findings.finished_sweep import COMPLETE, Axis, FinishedSweep, short_name
from fedsim.findings.formatting import capitalized, count, count_range, listing, listing_of
from fedsim.report.charts.sweep_lines import Line, Lines, line_data
from fedsim.report.sweep_figures import L1, MetricWording, difference, misplaced
from fedsim.scenario.models import Group
from fedsim.scenario.server import SyncServer
from fedsim.scenario.stop import Stop
from fedsim.scenario.units import format_duration

_NAMED = 4  # settings without a result that are named at most; the table has more


def course_of(sweep: FinishedSweep, wording: MetricWording) -> Iterator[Finding]:
    """Say how a metric goes from one end of each of the outer lines to the other, where it is known."""
    data = line_data(sweep, wording.metric)
    if data is None:
        return
    lines = list(dict.fromkeys((data.lines[0], data.lines[-1])))
    same = {wording.write(float(mean)) for line in data.lines for mean in line.mean}
    if len(same) == 1 and not data.omitted:
        known = sum(len(line.points) for line in data.lines)
        text = f"{wording.words} is {same.pop()} at every setting{_known(known, sweep)}"
    else:
        text = "; ".join(_along(sweep, wording, data, line) for line in lines)
    yield Finding(f"{capitalized(text)}.", wording.about)


def extremes(sweep: FinishedSweep, wording: MetricWording, name: str) -> str | None:
    """Say where a metric, by its name in words, is least and most; None where nothing is known."""
    mean = sweep.estimates(wording.metric).mean
    known = mean[np.isfinite(mean)]
    if not len(known):
        return None
    ways: dict[str, str] = {}
    for value in (known.min(), known.max()):
        rows = np.flatnonzero(mean == value)
        where = sweep.point_names()[rows[0]] if len(rows) == 1 else count(len(rows), "setting")
        ways[wording.write(float(value))] = where
    if len(ways) == 1:
        return f"{name}: {next(iter(ways))} at every setting{_known(len(known), sweep)}"
    return f"{name}: {', '.join(f'{text} at {where}' for text, where in ways.items())}"


def _known(known: int, sweep: FinishedSweep) -> str:
    return "" if known == len(sweep.points) else " that has it"


def _along(sweep: FinishedSweep, wording: MetricWording, data: Lines, line: Line) -> str:
    first, last = int(line.points[0]), int(line.points[-1])
    where = f" with {line.name}" if line.name else ""
    start, end = wording.write(float(line.mean[0])), wording.write(float(line.mean[-1]))
    x, y = data.along.named(float(line.x[0])), data.along.named(float(line.x[-1]))
    if first == last:
        return f"{wording.words} is {start} at {x}{where}"
    apart = sweep.differences(wording.metric, first)
    mean, half = float(apart.mean[last]), float(apart.half[last])
    change = f" ({difference(wording, mean, half)})" if np.isfinite(mean) else ""
    if start == end and (mean == 0 or not change):
        return f"{wording.words} is {start} at {x} and at {y}{where}"
    return f"from {x} to {y}{where}, {wording.words} goes from {start} to {end}{change}"


def trust_sentences(sweep: FinishedSweep) -> Iterator[Finding]:
    """Say what is missing of what was planned, and what that does to intervals and differences."""
    runs = sweep.runs
    without = sweep.failed
    done = runs.group_by("point").agg(pl.col("seed").filter(pl.col("status") == COMPLETE).sort())["seed"]
    if len(without):
        text = f"{count(len(without))} of {count(len(runs), 'run')} {'has' if len(without) == 1 else 'have'} no result"
        yield Finding(f"{text}: {_missing(sweep, without)}.", TRUST, warns=True)
    numbers, unequal = done.list.len().to_list(), done.n_unique() > 1
    least, most = min(numbers, default=0), max(numbers, default=0)
    half = "± is half of a 95\N{NARROW NO-BREAK SPACE}% interval"
    if most < 2:
        text = "With one seed at a setting there are no intervals: chance cannot be told from effect"
    elif unequal:
        have = f"{count(least)} to {count(most, 'seed')}" if least < most else f"{count(least, 'seed')}, not the same"
        text = f"Settings have {have}: means are over the seeds that each has, differences over those that both have"
        text += f"; {half}"
    else:
        every = "Every run completed. " if without.is_empty() else ""
        text = f"{every}Every setting has the same {count(most, 'seed')}, so differences are paired by seed; {half}"
    yield Finding(f"{text}.", TRUST, warns=most < 2 or unequal)


def chance_warning(sweep: FinishedSweep) -> Iterator[Finding]:
    """Warn of settings with so few turns that chance alone would misplace at least half as many of them."""
    devices = sweep.scenario.devices
    if any("devices" in name or name == "population" for name in sweep.parameters):
        return  # settings differ in it
    turns, bias = sweep.estimates("sessions.count").mean, sweep.estimates(L1).mean
    fair = np.array([by_chance(round(each), devices) if np.isfinite(each) else 0.0 for each in turns.tolist()])
    names, few = sweep.point_names(), np.flatnonzero((bias > 0) & (bias < 2 * fair) & (turns < FEW * devices)).tolist()
    shares = [f"{misplaced(fair[row])} at {names[row] or 'this setting'} ({misplaced(bias[row])} are)" for row in few]
    if shares:
        shown = listing_of(shares, _NAMED, "more setting", "as much at ")
        text = f"Runs are short: of as few turns, a fair lottery would misplace {shown}"
        yield Finding(f"{text}. Part or all of this bias may be chance.", TRUST, warns=True)


def _missing(sweep: FinishedSweep, without: pl.DataFrame) -> str:
    names = sweep.names_by_point
    groups = without.group_by("point", "status", maintain_order=True).agg("seed")
    settings = []
    for point, status, seeds in groups.head(_NAMED).iter_rows():
        which = f"seed{'' if len(seeds) == 1 else 's'} {listing_of(list(map(str, seeds)), _NAMED)}"
        settings.append(f"{names[point] + ', ' if names[point] else ''}{which} ({status})")
    left = len(groups) - len(settings)
    return "; ".join(settings) + (f"; {count(left, 'more setting')} in the table below" if left else "")


_GROUPS = 3  # groups of devices named one by one at most
_MEANINGS = {
    "separation": "rounds that a device sits out after a turn",
    "cooldown": "time that a device rests after a turn",
    "cohort": "devices that a round waits for",
    "devices": "how many devices there are",
    "deadline": "time after which a round ends without those that are late",
    "pause": "time between two rounds",
    "over_select": "how many more devices are asked than are needed",
}


def what_was_simulated(sweep: FinishedSweep) -> Iterator[Finding]:
    """Say which devices, rounds and weights every run has, and how the settings differ."""
    if text := _base(sweep):
        yield Finding(text, WHAT)
    axes = [axis for axis in sweep.axes if axis.size > 1]
    seeds = sweep.runs.group_by("point").len()["len"].to_list()
    each = f"{count_range(min(seeds), max(seeds))} seed{'' if max(seeds) == 1 else 's'}" if seeds else "no seed"
    settings, choice = count(len(sweep.points), "setting"), ""
    if axes:
        choice = f"A setting is a choice of {listing([f'{axis.name} ({axis.every_value()})' for axis in axes])}. "
        every = math.prod(axis.size for axis in axes)
        settings += f" of {count(every)} combinations" if len(sweep.points) < every else ""
    yield Finding(f"{choice}{settings} with {each} each: {count(len(sweep.runs), 'run')}.", WHAT)
    if meanings := [text for axis in axes for text in _meanings(axis)]:
        yield Finding(f"{'; '.join(meanings)}.", WHAT)


def _meanings(axis: Axis) -> Iterator[str]:
    for parameter in axis.parameters:
        last = parameter.rpartition(".")[2]
        name = next((name for name in axis.varying if name in {last, parameter, short_name(parameter)}), None)
        if name is not None and last in _MEANINGS:
            yield f"{name}: {_MEANINGS[last]}"


def _base(sweep: FinishedSweep) -> str:
    """Describe what is not swept; empty where all of it is."""
    scenario = sweep.scenario
    swept = {part for name in sweep.parameters for part in name.replace("[", ".").replace("]", "").split(".")}
    whole = {name for name in sweep.parameters if "." not in name}
    devices = "" if "population" in whole or "devices" in swept else _devices(scenario.population, swept)
    parts = []
    if "stop" not in swept:
        parts.append(_length(scenario.stop))
    if isinstance(scenario.server, SyncServer) and "cohort" not in swept and "server" not in whole:
        parts.append(f"in cohorts of {count(scenario.server.cohort)}")
    return f"Every run simulates {' '.join([devices or 'a federation', *parts])}." if devices or parts else ""


def _devices(groups: Sequence[Group], swept: set[str]) -> str:
    text = count(sum(group.devices for group in groups), "device")
    if 1 < len(groups) <= _GROUPS:
        text += f" ({listing([f'{count(group.devices)} {group.name}' for group in groups])})"
    elif len(groups) > _GROUPS:
        text += f" in {len(groups)} groups"
    if "weight" in swept:
        return text
    weights = {_weight(group) for group in groups}
    return f"{text} with {weights.pop()} weights" if len(weights) == 1 else f"{text} with weights that differ by group"


def _weight(group: Group) -> str:
    """Name a source of weights: ``lognormal (sigma 1)``, ``equal``."""
    source = group.weight.model_dump(exclude={"kind", "median", "per_rank"})
    inner = ", ".join(f"{key} {value:g}" for key, value in source.items() if isinstance(value, int | float))
    kind = group.weight.kind
    return "equal" if kind == "constant" else f"{kind} ({inner})" if inner else kind


def _length(stop: Stop) -> str:
    ways = [] if stop.rounds is None else [count(stop.rounds, "round")]
    if stop.duration is not None:
        ways.append(f"{'at most ' if ways else ''}{format_duration(stop.duration)}")
    return f"over {', '.join(ways)}"
