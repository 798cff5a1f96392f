"""What a sweep shows: the way of each figure along it, what was simulated, how sure it is; the answer of its page."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from fedsim.analysis.noise import by_chance
from fedsim.common.arrays import Floats, Ints
from fedsim.common.formatting import (
    capitalized,
    count,
    count_range,
    cut,
    duration,
    listing,
    listing_of,
    with_separation,
)
from fedsim.findings.bias import FEW
from fedsim.findings.choice import (
    SETTINGS_TEST,
    SweepChoice,
    common_seeds,
    cost_findings,
    loss_parts,
    next_findings,
    over_common,
    parts_findings,
    sure_findings,
)
from fedsim.findings.finding import BIAS, COST, MODEL, NEXT, TRUST, WHAT, Certainty, Finding, Tile, with_half
from fedsim.findings.finished_sweep import COMPLETE, Axis, FinishedSweep, names_of
from fedsim.findings.jobs import OF_EACH_JOB
from fedsim.findings.methods import optimizer_of, without_loss
from fedsim.findings.metric_wording import L1, PACE, PACE_UNIT, PULL, MetricWording, difference, tv, wording_of
from fedsim.findings.run_advice import longer_command
from fedsim.findings.tournament import Tournament, tournament_findings, tournament_next, tournament_tiles
from fedsim.scenario.models import Group
from fedsim.scenario.server import SyncServer
from fedsim.trials.decision import holm, interval, p_values, told_apart

LINES = 6  # shown at most
_NAMED = 4  # settings without a result that are named at most
_LOSSES = 3  # optimizers described at most
_SHORT = 20  # characters of the name of a setting in a line of the first screen


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


def line_data(sweep: FinishedSweep, metric: str, theory: str | None = None, scale: float = 1.0) -> Lines | None:
    """Return a metric along the axis of a sweep, times `scale`; None where it has no value, or nothing is swept."""
    along, found = sweep.axis, sweep.estimates(metric)
    known = np.isfinite(found.mean)
    if along is None or not known.any():
        return None
    mean, half = scale * found.mean, scale * found.half
    predicted = None if theory is None else scale * sweep.estimates(theory).mean
    lines = []
    for name, own in sweep.rows_along(along, known):
        theirs = None if predicted is None or not np.isfinite(predicted[own]).all() else predicted[own]
        lines.append(Line(name, own, along.x[own], mean[own], half[own], theirs))
    return Lines(metric, along, tuple(lines[:LINES]), max(0, len(lines) - LINES))


def sweep_answer(sweep: FinishedSweep, found: SweepChoice, methods: Tournament | None = None) -> Iterator[Finding]:
    """Answer each question of a reader; what the choice is, `choice_title` says. Of optimizers, settings are cases."""
    if sweep.results.is_empty():
        yield Finding("No run has a result: there is nothing to compare.", WHAT, warns=True)
        yield from what_was_simulated(sweep)
        return
    if methods is not None:
        said = (*tournament_findings(methods), *_spread(sweep), *trust_findings(sweep))
        yield from sorted(said, key=lambda each: (BIAS, MODEL, COST, TRUST).index(each.about))
        yield from tournament_next(methods, sweep.meta)
        yield from what_was_simulated(sweep)
        return
    courses = courses_of(sweep, [sweep.bias_metric, *losses_of(sweep, "excess_loss", "loss"), PACE])
    model = [*parts_findings(sweep, loss_parts(sweep)), *(each for each in courses if each.about == MODEL)]
    yield from choice_bias(sweep, found, [each for each in courses if each.about == BIAS])
    yield from model or [no_loss(sweep)]
    yield from cost_findings(found)
    yield from (each for each in courses if each.about == COST)
    doubts = [*sure_findings(found), *chance_warning(sweep, found.chosen), *trust_findings(sweep)]
    yield from sorted((each for each in doubts if each.about == TRUST), key=lambda each: not each.warns)
    yield from (each for each in doubts if each.about == NEXT)
    yield from next_findings(found) if len(sweep.points) > 1 else ()
    yield from what_was_simulated(sweep)


def choice_bias(sweep: FinishedSweep, found: SweepChoice, courses: Sequence[Finding] = ()) -> Iterator[Finding]:
    """Say how biased the choice is, by what reached the model; of selections and pulls where these differ."""
    wording, known = wording_of(sweep.bias_metric), sweep.estimates(sweep.bias_metric)
    if not np.isfinite(known.mean).any():
        yield Finding(OF_EACH_JOB if sweep.scenario.jobs else "Bias was not measured.", BIAS)
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
            own_chance, other = (float(each) for each in _even(sweep)[1][[row, worst]])
            if abs(other - own_chance) > 0.1 * own_chance:  # their numbers of reports differ
                text += f". Equal chances alone would give {tv(own_chance)} and {tv(other)}"
        named = ("choice.bias", wording.metric, sweep.names[row], mean)
        brief, fair = f"{own} from uniform at {sweep.names[row]}", float(_even(sweep)[1][row])
        if mean < 2 * fair:
            brief += f" ({'more even than chance' if mean < fair else 'chance alone'}: {tv(fair)})"
        brief += f"; {wording.write(known.mean[worst])} at {sweep.names[worst]}" if worst != row else ""
        yield with_half(half, Finding(f"{text}.", BIAS, False, *named, against="uniform", brief=f"{brief}."))
    yield from courses
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


def losses_of(sweep: FinishedSweep, *kinds: str) -> list[str]:
    """Return the metric of the loss of each optimizer, at most three: the first of these kinds that it has."""
    losses = dict[str, str]()
    for metric in (each for what in kinds for each in sweep.metrics if optimizer_of(each, what)):
        losses.setdefault(metric.rpartition(".")[0], metric)
    return list(losses.values())[:_LOSSES]


def no_loss(sweep: FinishedSweep) -> Finding:
    """Say why the sweep has no loss."""
    if sweep.scenario.jobs:
        return Finding(OF_EACH_JOB, MODEL)
    return without_loss(diverged=any(optimizer_of(each, "diverged_round") for each in sweep.metrics))


def courses_of(sweep: FinishedSweep, metrics: Sequence[str]) -> list[Finding]:
    """Say how metrics go from one end of each of the outer lines to the other, tested together."""
    ways = list[tuple[MetricWording, Line | None, Finding]]()
    for metric in metrics:
        data, wording = line_data(sweep, metric), wording_of(metric)
        if data is None:
            continue
        same = {wording.write(float(mean)) for line in data.lines for mean in line.mean}
        if len(same) == 1 and not data.omitted:
            known = sum(len(line.points) for line in data.lines)
            some = "" if known == len(sweep.points) else " that has it"
            ending = f"{same.pop()} at every setting{some}."
            text, brief = f"{capitalized(wording.words)} is {ending}", f"{capitalized(wording.brief)}: {ending}"
            ways.append((wording, None, Finding(text, wording.about, name="course", quantity=metric, brief=brief)))
            continue
        for line in dict.fromkeys((data.lines[0], data.lines[-1])):
            ways.append((wording, line, _along(sweep, wording, data.along, line)))
    ends = [(wording.metric, line) for wording, line, _ in ways if line is not None]
    apart = [sweep.samples(metric)[line.points[-1]] - sweep.samples(metric)[line.points[0]] for metric, line in ends]
    p = p_values(np.array(apart)) if apart else np.empty(0)
    told, test = iter(zip(holm(p), p, strict=True)), f"{SETTINGS_TEST} over {count(len(p), 'line')}"
    return [each if line is None else _judged(each, *next(told), test) for _, line, each in ways]


def _judged(found: Finding, told: bool, p: float, test: str) -> Finding:
    """Say of a course whether a test tells it from chance."""
    if found.value is None or np.isnan(p):
        return replace(found, certainty=Certainty.UNTESTED)
    if not told and found.value:
        text, brief = (re.sub(r"\)\.$", ", not told from chance).", each) for each in (found.text, found.brief))
        found = replace(found, text=text, brief=brief)
    return replace(found, test=test, certainty=Certainty.TOLD if told else Certainty.NOT_TOLD)


def _along(sweep: FinishedSweep, wording: MetricWording, along: Axis, line: Line) -> Finding:
    """Say how a metric goes from one end of a line to the other; the value of the finding is the difference."""
    first, last = int(line.points[0]), int(line.points[-1])
    where = f" with {line.name}" if line.name else ""
    values = sweep.samples(wording.metric)
    means, both = [float(line.mean[0]), float(line.mean[-1])], common_seeds(values[first], values[last])
    if both is not None:  # numbers of one sentence are of the same seeds
        means = [float(values[row, both].mean()) for row in (first, last)]
    start, end = map(wording.write, means)
    x, y = along.named(float(line.x[0])), along.named(float(line.x[-1]))
    named = (wording.about, False, "course", wording.metric)
    if first == last:
        return Finding(f"{capitalized(wording.words)} is {start} at {x}{where}.", *named)
    mean, half = (float(each[0]) for each in interval(values[[last]] - values[first]))
    change = f" ({difference(wording, mean, half)}{over_common(both)})" if np.isfinite(mean) else ""
    to = y.removeprefix(f"{along.name} = ")
    ends = f"{start} at {x} and {to}" if start == end else f"{start} at {x}, {end} at {to}"
    brief = f"{capitalized(wording.brief)}: {ends}{where and f' with {cut(line.name, _SHORT)}'}{change}."
    if start == end and (mean == 0 or not change):
        return Finding(f"{capitalized(wording.words)} is {start} at {x} and at {y}{where}.", *named, brief=brief)
    text = f"From {x} to {y}{where}, {wording.words} goes from {start} to {end}{change}."
    if start == end:
        text = f"{capitalized(wording.words)} is {start} at {x} and at {y}{where}{change}."
    if not np.isfinite(mean):
        return Finding(text, *named, brief=brief)
    scope = f"{y} less {x}{where}"
    return with_half(half, Finding(text, *named, scope, mean, reference=0.0, against=x, brief=brief))


def trust_findings(sweep: FinishedSweep) -> Iterator[Finding]:
    """Say what is missing of what was planned, and what that does to intervals and differences."""
    runs, without = sweep.runs, sweep.failed
    done = runs.group_by("point").agg(pl.col("seed").filter(pl.col("status") == COMPLETE).sort())["seed"]
    if len(without):
        text = f"{count(len(without))} of {count(len(runs), 'run')} {'has' if len(without) == 1 else 'have'} no result"
        yield Finding(f"{text}: {_missing(sweep, without)}.", TRUST, warns=True, brief=f"{text}.")
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
        every = "Every run completed, with" if without.is_empty() else "Every setting has"
        at = " at every setting" if without.is_empty() else ""
        text = f"{every} the same {count(most, 'seed')}{at}; {test}"
    brief = text.partition("; ")[0].partition(": ")[0]
    yield Finding(f"{text}.", TRUST, warns=most < 2 or unequal, test=SETTINGS_TEST, brief=f"{brief}.")


def chance_warning(sweep: FinishedSweep, chosen: int | None = None) -> Iterator[Finding]:
    """Warn of settings with so few reports that chance alone would give at least half of their distance."""
    devices, bias = sweep.scenario.devices, sweep.estimates(sweep.bias_metric).mean
    reports, fair = _even(sweep)
    few = np.flatnonzero((bias > 0) & (bias < 2 * fair) & (reports > 0) & (reports < FEW * devices)).tolist()
    if few:
        worst = max(few, key=lambda row: (row == chosen, float(fair[row] / bias[row])))
        even, own, where = bias[worst] <= fair[worst], tv(bias[worst]), sweep.names[worst]
        text = f"Equal chances alone would give {tv(fair[worst])} from uniform in so short a run at {where}"
        text += f" (measured: {own}): {'no bias can be seen there' if even else 'a part of it is chance'}."
        brief = f"{own} at {where} is more even than chance alone ({tv(fair[worst])}): no bias to see."
        if not even:
            brief = f"Runs are short: of the {own} at {where}, chance alone would give {tv(fair[worst])}."
        again = longer_command(sweep.meta, "sweep", sweep.scenario.stop, 10)
        yield Finding(text, TRUST, brief=brief)
        if not even:
            yield Finding("Run 10 times as long: chance is a large part of these distances.", NEXT, command=again)


def _even(sweep: FinishedSweep) -> tuple[Floats, Floats]:
    """Return how many reports each setting takes, and their L1 from uniform by equal chances; NaN if devices differ."""
    taken = sweep.samples("sessions.count") * np.nan_to_num(sweep.samples("sessions.reported_share"), nan=1.0)
    reports = np.nan_to_num(taken).mean(axis=1)
    if any("devices" in name or name == "population" for name in sweep.swept):
        return reports, np.full(len(reports), np.nan)
    return reports, np.array([by_chance(round(each), sweep.scenario.devices) for each in reports.tolist()])


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


def sweep_setup(sweep: FinishedSweep, methods: Tournament | None = None) -> str:
    """Say in a few words what was simulated."""
    axes = [axis.name for axis in sweep.axes if axis.size > 1]
    cases = "case" if methods is not None else "setting"
    of = f" of {listing(axes)}" if axes and methods is None else ""
    said = f"{count(len(sweep.points), cases)}{of}, {_seeds(sweep)} each"
    if methods is not None:
        such = f", such as “{methods.cases[0].strip('“”')}”" if len(methods.cases) > 1 else ""
        said = f"{count(len(methods.names))} optimizers on {said}{such}"
    base = re.sub(r" \(.*?\)", "", _base(sweep).removeprefix("Every run simulates ").removesuffix("."))
    said = f"{said}; {base}" if base else said
    return with_separation(said) if methods is None else said


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
    if methods is not None:
        yield from tournament_tiles(methods)
        yield Tile(count(points), "cases" if points != 1 else "case", f"{_seeds(sweep)} each")
    else:
        names = ", ".join(names_of(sweep.parameters).values())
        yield Tile(count(points), "settings" if points != 1 else "setting", f"of {names}" if names else "")
    yield Tile(count(complete), "runs complete", f"of {count(len(sweep.runs))}, {_seeds(sweep)} each")
