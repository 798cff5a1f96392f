"""What a sweep shows: the way of each figure along it, what was simulated, how sure it is; the answer of its page."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fedsim.analysis.noise import by_chance
from fedsim.common.arrays import Floats, Ints
from fedsim.findings.bias import FEW
from fedsim.findings.choice import (
    SETTINGS_TEST,
    SweepChoice,
    cost_findings,
    loss_parts,
    next_findings,
    parts_findings,
    sure_findings,
)
from fedsim.findings.finding import BIAS, COST, MODEL, TRUST, WHAT, Finding, Tile, with_half
from fedsim.findings.finished_sweep import COMPLETE, Axis, FinishedSweep, names_of
from fedsim.findings.formatting import capitalized, count, count_range, duration, listing, listing_of
from fedsim.findings.metric_wording import (
    L1,
    PACE,
    PACE_UNIT,
    PULL,
    MetricWording,
    difference,
    tv,
    wording_of,
)
from fedsim.findings.tournament import Tournament, tournament_findings, tournament_next
from fedsim.scenario.models import Group
from fedsim.scenario.server import SyncServer
from fedsim.sweeps.decision import told_apart

LINES = 6  # shown at most
_NAMED = 4  # settings without a result that are named at most
_LOSSES = 3  # optimizers described at most


def moves(sweep: FinishedSweep, metric: str) -> bool:
    """Tell whether a metric differs between settings beyond chance, as far as the seeds tell."""
    mean, values = sweep.estimates(metric).mean, sweep.samples(metric)
    known = np.flatnonzero(np.isfinite(mean))
    if len(known) < 2 or not np.ptp(mean[known]) > 1e-12 * np.abs(mean[known]).max():
        return False
    apart = (values - values[known[np.argmin(mean[known])]])[known]
    # Without a seed in common there is no difference to judge: what the means say is all there is.
    return not np.isfinite(apart).any(axis=1).sum() > 1 or bool(told_apart(apart).any())


@dataclass(frozen=True, eq=False)
class Line:
    """The settings that share the values of all parameters but the one along the axis, and a metric at these."""

    name: str  # those values; empty where there is but one line
    points: Ints  # rows of the points of the sweep, in the order of x
    x: Floats  # where each point lies, in ascending order
    mean: Floats  # of the metric over the seeds
    half: Floats  # of the 95 % confidence interval, NaN where it is not known
    theory: Floats | None = None  # what theory says; None where it was not asked


@dataclass(frozen=True, eq=False)
class Lines:
    """A metric along one axis of a sweep."""

    metric: str  # its name on the axis
    along: Axis
    lines: tuple[Line, ...]
    omitted: int = 0
    most: float | None = None  # the largest possible value, where the least is 0: intervals go no further
    logarithmic: bool = False  # whether values are drawn by their decades
    chosen: int | None = None  # the row of the setting that is marked


def line_data(sweep: FinishedSweep, metric: str, theory: str | None = None) -> Lines | None:
    """Return a metric along the axis of a sweep; None where it has no value, or nothing is swept."""
    along, found = sweep.axis, sweep.estimates(metric)
    known = np.isfinite(found.mean)
    if along is None or not known.any():
        return None
    predicted = None if theory is None else sweep.estimates(theory).mean
    lines = []
    for name, own in sweep.rows_along(along, known):
        theirs = None if predicted is None or not np.isfinite(predicted[own]).all() else predicted[own]
        lines.append(Line(name, own, along.x[own], found.mean[own], found.half[own], theirs))
    return Lines(metric, along, tuple(lines[:LINES]), max(0, len(lines) - LINES))


def sweep_answer(sweep: FinishedSweep, found: SweepChoice, methods: Tournament | None = None) -> Iterator[Finding]:
    """Answer each question of a reader; what the choice is, `choice_title` says. Of optimizers, settings are cases."""
    if sweep.results.is_empty():
        yield Finding("No run has a result: there is nothing to compare.", WHAT, warns=True)
        yield from what_was_simulated(sweep)
        return
    if methods is not None:
        yield from sorted((*_spread(sweep), *tournament_findings(methods)), key=lambda each: each.about == COST)
        yield from trust_findings(sweep)
        yield from tournament_next(methods)
        yield from what_was_simulated(sweep)
        return
    yield from _bias(sweep, found)
    yield from _model(sweep)
    yield from cost_findings(found)
    yield from course_of(sweep, wording_of(PACE))
    doubts = [*trust_findings(sweep), *chance_warning(sweep), *sure_findings(found)]
    yield from sorted(doubts, key=lambda each: not each.warns)
    yield from next_findings(found) if len(sweep.points) > 1 else ()
    yield from what_was_simulated(sweep)


def _bias(sweep: FinishedSweep, found: SweepChoice) -> Iterator[Finding]:
    """Say how biased the choice is, by what reached the model; of selections and pulls where these differ."""
    wording, known = wording_of(sweep.bias_metric), sweep.estimates(sweep.bias_metric)
    if not np.isfinite(known.mean).any():
        yield Finding("Bias was not measured.", BIAS)
        return
    row, worst = found.chosen, int(np.nanargmax(known.mean))
    if row is not None and np.isfinite(known.mean[row]):
        mean, half = float(known.mean[row]), float(known.half[row])
        own = difference(wording, mean, half).lstrip("+") if np.isfinite(half) else wording.write(mean)
        own = own.replace(" points", "\N{NARROW NO-BREAK SPACE}%")
        of = wording.words.removeprefix("the distance of ").removesuffix(" from uniform (TV)")
        text = f"At {sweep.names[row]}, {of} {'are' if of == 'reports' else 'is'} {own} away from uniform (TV)"
        if worst != row and known.mean[worst] > mean:
            text += f"; the least even, {sweep.names[worst]}, {wording.write(float(known.mean[worst]))}"
        named = ("choice.bias", wording.metric, sweep.names[row], mean)
        yield with_half(half, Finding(f"{text}.", BIAS, False, *named, against="uniform"))
    yield from course_of(sweep, wording)
    others = {"selections": L1, "the pull on the model (clients of smaller rounds count more)": PULL}
    for words, metric in others.items():
        theirs = sweep.estimates(metric).mean
        apart = np.nan_to_num(np.abs(theirs - known.mean)) > 0.01 * np.nan_to_num(known.mean)
        if metric != wording.metric and apart.any():
            low, high = tv(float(np.nanmin(theirs))), tv(float(np.nanmax(theirs)))
            ends = f"{low} to {high}" if low != high else low
            yield Finding(f"Of {words}, the distance from uniform is {ends}.", BIAS, quantity=metric)


def _spread(sweep: FinishedSweep) -> Iterator[Finding]:
    """Say between which cases bias lies, where settings are no choice."""
    for metric in (sweep.bias_metric, PACE):
        wording, mean = wording_of(metric), sweep.estimates(metric).mean
        if np.isfinite(mean).any():
            low, high = (wording.write(float(end)) for end in (np.nanmin(mean), np.nanmax(mean)))
            ends = f"{low.removesuffix(PACE_UNIT)} to {high}" if low != high else low
            yield Finding(f"Over the cases, {wording.words} is {ends}.", wording.about, quantity=metric)


def _model(sweep: FinishedSweep) -> Iterator[Finding]:
    """Say what the settings do to the model: the parts of the loss, else how far each optimizer ends from unbiased."""
    found = list(parts_findings(sweep, loss_parts(sweep)))
    losses = dict[str, str]()
    for metric in (each for what in ("excess_loss", "loss") for each in sweep.metrics if _ends(each, what)):
        losses.setdefault(metric.rpartition(".")[0], metric)
    for metric in list(losses.values())[:_LOSSES]:
        found += course_of(sweep, wording_of(metric))
    yield from found or [Finding("No model was trained.", MODEL)]


def _ends(metric: str, what: str) -> bool:
    return re.fullmatch(rf"learning\.(?!.*_uniform\.).+\.{what}", metric) is not None


def course_of(sweep: FinishedSweep, wording: MetricWording) -> Iterator[Finding]:
    """Say how a metric goes from one end of each of the outer lines to the other, where it is known."""
    data = line_data(sweep, wording.metric)
    if data is None:
        return
    same = {wording.write(float(mean)) for line in data.lines for mean in line.mean}
    if len(same) == 1 and not data.omitted:
        known = sum(len(line.points) for line in data.lines)
        some = "" if known == len(sweep.points) else " that has it"
        text = f"{wording.words} is {same.pop()} at every setting{some}"
    else:
        text = "; ".join(_along(sweep, wording, data, line) for line in dict.fromkeys((data.lines[0], data.lines[-1])))
    yield Finding(f"{capitalized(text)}.", wording.about, name="course", quantity=wording.metric)


def _along(sweep: FinishedSweep, wording: MetricWording, data: Lines, line: Line) -> str:
    first, last = int(line.points[0]), int(line.points[-1])
    where = f" with {line.name}" if line.name else ""
    start, end = wording.write(float(line.mean[0])), wording.write(float(line.mean[-1]))
    x, y = data.along.named(float(line.x[0])), data.along.named(float(line.x[-1]))
    if first == last:
        return f"{wording.words} is {start} at {x}{where}"
    apart = sweep.differences(wording.metric, first)
    mean, half = float(apart.mean[last]), float(apart.half[last])
    chance = ", not told from chance" if np.isfinite(half) and abs(mean) <= half else ""
    change = f" ({difference(wording, mean, half)}{chance})" if np.isfinite(mean) else ""
    if start == end and (mean == 0 or not change):
        return f"{wording.words} is {start} at {x} and at {y}{where}"
    return f"from {x} to {y}{where}, {wording.words} goes from {start} to {end}{change}"


def trust_findings(sweep: FinishedSweep) -> Iterator[Finding]:
    """Say what is missing of what was planned, and what that does to intervals and differences."""
    runs, without = sweep.runs, sweep.failed
    done = runs.group_by("point").agg(pl.col("seed").filter(pl.col("status") == COMPLETE).sort())["seed"]
    if len(without):
        text = f"{count(len(without))} of {count(len(runs), 'run')} {'has' if len(without) == 1 else 'have'} no result"
        yield Finding(f"{text}: {_missing(sweep, without)}.", TRUST, warns=True)
    numbers, unequal = done.list.len().to_list(), done.n_unique() > 1
    least, most = min(numbers, default=0), max(numbers, default=0)
    test = f"± is half of a 95\N{NARROW NO-BREAK SPACE}% interval; settings are compared by a {SETTINGS_TEST}"
    if most < 2:
        text = "One seed at a setting: there are no intervals, and nothing is told from chance"
    elif unequal:
        have = f"{count(least)} to {count(most, 'seed')}" if least < most else f"{count(least, 'seed')}, not the same"
        text = f"Settings have {have}: means are over the seeds that each has, differences over those that both have"
        text += f"; {test}"
    else:
        every = "Every run completed. " if without.is_empty() else ""
        text = f"{every}Every setting has the same {count(most, 'seed')}; {test}"
    yield Finding(f"{text}.", TRUST, warns=most < 2 or unequal, test=SETTINGS_TEST)


def chance_warning(sweep: FinishedSweep) -> Iterator[Finding]:
    """Warn of settings with so few reports that chance alone would give at least half of their distance."""
    devices = sweep.scenario.devices
    if any("devices" in name or name == "population" for name in sweep.swept):
        return  # settings differ in it
    taken = sweep.samples("sessions.count") * np.nan_to_num(sweep.samples("sessions.reported_share"), nan=1.0)
    reports, bias = np.nan_to_num(taken).mean(axis=1), sweep.estimates(sweep.bias_metric).mean
    fair = np.array([by_chance(round(each), devices) for each in reports.tolist()])
    few = np.flatnonzero((bias > 0) & (bias < 2 * fair) & (reports > 0) & (reports < FEW * devices)).tolist()
    if few:
        worst = max(few, key=lambda row: float(fair[row] / bias[row]))
        more = f", and half of the distance or more at {count(len(few) - 1, 'other setting')}" if few[1:] else ""
        text = f"Runs are short: equal chances alone would give {tv(fair[worst])} at {sweep.names[worst]}"
        explained = "it" if bias[worst] <= fair[worst] else "a part of it"
        text += f" (measured: {tv(bias[worst])}){more}. Chance explains {explained}."
        yield Finding(text, TRUST, warns=True)


def _missing(sweep: FinishedSweep, without: pl.DataFrame) -> str:
    names = dict(zip(sweep.points["point"].to_list(), sweep.point_names(), strict=True))
    groups = without.group_by("point", "status", maintain_order=True).agg("seed")
    settings = []
    for point, status, seeds in groups.head(_NAMED).iter_rows():
        which = f"seed{'' if len(seeds) == 1 else 's'} {listing_of(list(map(str, seeds)), _NAMED)}"
        settings.append(f"{names[point] + ', ' if names[point] else ''}{which} ({status})")
    left = len(groups) - len(settings)
    return "; ".join(settings) + (f"; {count(left, 'more setting')}" if left else "")


_GROUPS = 3  # groups of devices named one by one at most


def what_was_simulated(sweep: FinishedSweep) -> Iterator[Finding]:
    """Say how the settings differ, and which devices, rounds and weights every run has."""
    axes = [axis for axis in sweep.axes if axis.size > 1]
    choice = f": {listing([f'{axis.name} ({axis.every_value()})' for axis in axes])}" if axes else ""
    every, settings = math.prod(axis.size for axis in axes), count(len(sweep.points), "setting")
    settings += f" of {count(every)} combinations" if axes and len(sweep.points) < every else ""
    yield Finding(f"{settings} with {_seeds(sweep)} each, {count(len(sweep.runs), 'run')}{choice}.", WHAT)
    if text := _base(sweep):
        yield Finding(text, WHAT)


def _seeds(sweep: FinishedSweep) -> str:
    seeds = sweep.runs.group_by("point").len()["len"].to_list() or [0]
    return f"{count_range(min(seeds), max(seeds))} seed{'' if max(seeds) == 1 else 's'}"


def _base(sweep: FinishedSweep) -> str:
    """Describe what is not swept; empty where all of it is."""
    scenario, server, stop = sweep.scenario, sweep.scenario.server, sweep.scenario.stop
    swept = {part for name in sweep.swept for part in re.split(r"[.\[\]]", name)}
    whole = {name for name in sweep.swept if "." not in name}
    parts = [] if "population" in whole or "devices" in swept else [_devices(scenario.population)]
    if "stop" not in swept:
        ways = [count(stop.rounds, "round")] if stop.rounds is not None else []
        ways += [duration(stop.duration)] if stop.duration is not None else []
        parts.append(f"over {' or '.join(ways)}" if ways else "")
    if isinstance(server, SyncServer) and "cohort" not in swept and "server" not in whole:
        parts.append(f"in cohorts of {count(server.cohort)}")
    return f"Every run simulates {' '.join(filter(None, parts))}." if parts and parts[0][:1].isdigit() else ""


def _devices(groups: Sequence[Group]) -> str:
    text = count(sum(group.devices for group in groups), "device")
    if 1 < len(groups) <= _GROUPS:
        text += f" ({listing([f'{count(group.devices)} “{group.name}”' for group in groups])})"
    return text + (f" in {len(groups)} groups" if len(groups) > _GROUPS else "")


def sweep_tiles(sweep: FinishedSweep, found: SweepChoice, methods: Tournament | None = None) -> Iterator[Tile]:
    """Pick the key figures of a sweep: bias and pace of the choice, what was compared."""
    for metric, words in ((sweep.bias_metric, "from uniform (TV)"), (PACE, PACE_UNIT.strip())):
        wording, row = wording_of(metric), found.chosen
        mean = sweep.estimates(metric).mean
        if methods is not None or row is None or not np.isfinite(mean[row]):
            continue
        low, high = wording.write(float(np.nanmin(mean))), wording.write(float(np.nanmax(mean)))
        span = f"of all settings {low.removesuffix(PACE_UNIT)} to {high.removesuffix(PACE_UNIT)}"
        spread = f"at {sweep.names[row]}; {span}" if low != high else "the same at every setting"
        text = wording.write(float(mean[row])).removesuffix(PACE_UNIT)
        yield Tile(text, words, spread if len(sweep.points) > 1 else "")
    points, complete = len(sweep.points), sweep.runs.filter(status=COMPLETE).height
    yield Tile(count(points), "settings" if points != 1 else "setting", ", ".join(names_of(sweep.parameters).values()))
    yield Tile(count(complete), "runs complete", f"of {count(len(sweep.runs))}, {_seeds(sweep)} a setting")
