"""What trials show: the way of each figure along them, what was simulated, how sure it is; the answer of their page."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints
from fedsim.common.formatting import (
    capitalized,
    count,
    count_range,
    duration,
    listing,
    listing_of,
    number,
    with_separation,
)
from fedsim.measure.noise import by_chance
from fedsim.pages.bias import FEW
from fedsim.pages.choice import (
    CERTAINTY,
    NAMED,
    choice_title,
    common_seeds,
    cost_findings,
    means,
    next_findings,
    over_common,
    paces_differ,
    parts_findings,
    several_seeds,
    sure_findings,
)
from fedsim.pages.finding import BIAS, COST, MODEL, NEXT, TRUST, WHAT, Certainty, Finding, Tile, with_half, with_seeds
from fedsim.pages.jobs import OF_EACH_JOB
from fedsim.pages.methods import optimizer_of, without_loss
from fedsim.pages.metric_wording import PACE_UNIT, MetricWording, difference, tv, wording_of
from fedsim.pages.run_advice import longer_command
from fedsim.scenario.models import Group
from fedsim.scenario.server import SyncServer
from fedsim.trials.contrasts import (
    Contrasts,
    Standing,
    contrasts,
    contrasts_of,
    interval,
    seeds_needed,
    tested_together,
)
from fedsim.trials.decision import L1, PACE, PULL, UNDECIDED, bias_metric, chosen
from fedsim.trials.optimizers import by_optimizer, footprint, in_case, ranked
from fedsim.trials.trials import COMPLETE, Axis, Trials, names_of

LINES = 6  # shown at most
_NAMED = 4  # settings without a result that are named at most
_LOSSES = 3  # optimizers described at most
SETTINGS_TEST = "paired tests over seeds, 5\N{NARROW NO-BREAK SPACE}% for all settings together"
"""How settings are judged, where the test of one figure is not named."""
FIGURE_WORDS = {
    "bias": "the distance of the mean model from the optimum",
    "excess_loss": "the loss above the one under uniform participation",
    "loss": "the loss",
}
"""What optimizers are compared by."""


def moves(trials: Trials, metric: str) -> bool:
    """Tell whether a metric differs between settings beyond chance, as far as the seeds tell."""
    found = contrasts(trials, metric, less_is_better=True)
    mean = found.mean[np.isfinite(found.mean)]
    if len(mean) < 2 or not np.ptp(mean) > 1e-12 * np.abs(mean).max():
        return False
    # Without a test, what the means say is all there is.
    return bool(found.differs.any()) or not found.rows(*UNDECIDED)


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


def line_data(trials: Trials, metric: str, theory: str | None = None, scale: float = 1.0) -> Lines | None:
    """Return a metric along the axis of a sweep, times `scale`; None where it has no value, or nothing is swept."""
    along, found = trials.axis, interval(trials.samples(metric))
    known = np.isfinite(found.mean)
    if along is None or not known.any():
        return None
    mean, half = scale * found.mean, scale * found.half
    predicted = None if theory is None else scale * means(trials, theory)
    lines = []
    for name, own in trials.rows_along(along, known):
        theirs = None if predicted is None or not np.isfinite(predicted[own]).all() else predicted[own]
        lines.append(Line(name, own, along.x[own], mean[own], half[own], theirs))
    return Lines(metric, along, tuple(lines[:LINES]), max(0, len(lines) - LINES))


def sweep_answer(trials: Trials) -> Iterator[Finding]:
    """Answer each question of a reader; what the choice is, `sweep_title` says. Of optimizers, settings are cases."""
    if not trials.metrics:
        yield Finding("No run has a result: there is nothing to compare.", WHAT, warns=True)
    elif (optimizers := by_optimizer(trials)) is not None:
        yield from _spread(trials, BIAS, bias_metric(trials))
        yield from _optimizer_findings(optimizers)
        yield from _spread(trials, COST, PACE)
        yield from trust_findings(trials)
        yield from _next_optimizers(optimizers)
    else:
        yield from findings_of_settings(trials)
    yield from what_was_simulated(trials)


def findings_of_settings(trials: Trials) -> Iterator[Finding]:
    """Say of settings how biased, which model, at what cost, how sure that is, and what to do next."""
    pace = [PACE] if paces_differ(trials) else []
    courses = courses_of(trials, [bias_metric(trials), *_losses_of(trials, "excess_loss", "loss"), *pace])
    model = [*parts_findings(trials), *(each for each in courses if each.about == MODEL)]
    yield from _bias(trials)
    yield from (each for each in courses if each.about == BIAS)
    yield from model or [_no_loss(trials)]
    yield from cost_findings(trials)
    yield from (each for each in courses if each.about == COST)
    doubts = [*sure_findings(trials), *chance_warning(trials), *trust_findings(trials)]
    yield from sorted((each for each in doubts if each.about == TRUST), key=lambda each: not each.warns)
    yield from (each for each in doubts if each.about == NEXT)
    yield from next_findings(trials) if len(trials.settings) > 1 else ()


def _bias(trials: Trials) -> Iterator[Finding]:
    """Say how biased the choice is, by what reached the model; of selections and pulls where these differ."""
    metric, names = bias_metric(trials), trials.names
    wording, known = wording_of(metric), interval(trials.samples(metric))
    if not np.isfinite(known.mean).any():
        yield Finding(OF_EACH_JOB if trials.scenario.jobs else "Bias was not measured.", BIAS)
        return
    row, worst = chosen(trials), int(np.nanargmax(known.mean))
    if row is not None and np.isfinite(known.mean[row]):
        mean, half = float(known.mean[row]), float(known.half[row])
        own = wording.write(mean) + (f" ± {wording.apart(half)}" if np.isfinite(half) else "")
        fair = _even(trials)[1]
        named = ("choice.bias", metric, names[row], mean)
        text = f"At {names[row]} it is {own} from uniform (TV)"
        if mean < 2 * fair[row]:
            text += f"; equal chances alone would give {tv(float(fair[row]))}"
        yield with_half(half, Finding(f"{text}.", BIAS, False, *named, against="uniform"))
        if worst != row and known.mean[worst] > mean:
            text = f"The least even is {names[worst]}, with {wording.write(float(known.mean[worst]))}"
            if abs(fair[worst] - fair[row]) > 0.1 * fair[row]:  # their numbers of reports differ
                text += f". Equal chances alone would give {tv(float(fair[row]))} and {tv(float(fair[worst]))}"
            yield Finding(f"{text}.", BIAS)
    others = {"selections": L1, "the pull on the model (clients of smaller rounds count more)": PULL}
    for words, other in others.items():
        theirs = means(trials, other)
        apart = np.nan_to_num(np.abs(theirs - known.mean)) > 0.01 * np.nan_to_num(known.mean)
        if other != metric and apart.any():
            low, high = tv(float(np.nanmin(theirs))), tv(float(np.nanmax(theirs)))
            ends = f"{low} to {high}" if low != high else low
            yield Finding(f"Of {words}, the distance from uniform is {ends}.", BIAS, quantity=other)


def _spread(trials: Trials, about: str, metric: str) -> Iterator[Finding]:
    """Say between which cases a figure lies, where settings are no choice."""
    wording, mean = wording_of(metric), means(trials, metric)
    if np.isfinite(mean).any():
        low, high = (wording.write(float(end)) for end in (np.nanmin(mean), np.nanmax(mean)))
        ends = f"{low} to {high}" if low != high else low
        yield Finding(f"Over the cases, {wording.words} is {ends}.", about, quantity=metric)


def sweep_title(trials: Trials) -> str:
    """Say which optimizers lead, where optimizers are compared; else what to choose."""
    if (optimizers := by_optimizer(trials)) is None:
        return capitalized(choice_title(trials))
    found, names, cases = ranked(optimizers), _names(optimizers), optimizers.meta["cases"]
    of = f"by mean rank over {count(len(cases), 'case')}" if len(cases) > 1 else f"of {count(len(names))}"
    first = [found.best or 0, *found.rows(*UNDECIDED)]
    if Standing.UNTESTED in found.states:
        return f"{names[first[0]]} is first, {of} (one seed, not tested)"
    if len(first) == 1:
        return f"{names[first[0]]} leads, {of}"
    if len(first) > NAMED:
        return f"No optimizer leads: {names[first[0]]} and {count(len(first) - 1)} others are not told apart, {of}"
    return f"{listing([names[row] for row in first])} lead, {of}, and are not told apart"


def _names(optimizers: Trials) -> list[str]:
    return [f"“{name}”" for name in optimizers.settings["optimizer"]]


def typical(optimizers: Trials) -> Floats:
    """Return the figure of each optimizer: the median over the cases of the means over the seeds."""
    own = np.stack([means(optimizers, in_case(optimizers.meta["figure"], case)) for case in optimizers.meta["cases"]])
    return np.array([np.median(row[np.isfinite(row)]) if np.isfinite(row).any() else np.nan for row in own.T])


def _optimizer_findings(optimizers: Trials) -> Iterator[Finding]:
    """Say who leads, how sure that is, who is worst, and what the first keeps."""
    found, names, own = ranked(optimizers), _names(optimizers), typical(optimizers)
    order, figure = found.order.tolist(), optimizers.meta["figure"]
    best, last = order[0], order[-1]
    where = "In the median case, " if len(optimizers.meta["cases"]) > 1 else ""
    ways = [f"{names[row]} {number(own[row], 2)}" for row in dict.fromkeys((best, *_usual(optimizers), last))]
    yield Finding(f"{capitalized(where + FIGURE_WORDS[figure])}: {listing(ways)}.", MODEL, name="optimizers.effect")
    value = float(found.mean[best])
    first = [best, *found.rows(*UNDECIDED)]
    ranks = listing_of([f"{names[row]} {found.mean[row]:.1f}" for row in first], NAMED, "more optimizer")
    told = Certainty.TOLD if len(first) == 1 else Certainty.NOT_TOLD
    if Standing.UNTESTED in found.states:
        told = Certainty.UNTESTED
    text = f"The least mean rank of {count(len(names), 'optimizer')}: {ranks}; the last, {names[last]}, has "
    text += f"{found.mean[last]:.1f}."
    named = ("optimizers.rank", f"learning.*.{figure}", optimizers.settings["optimizer"][best], value)
    yield with_half(float(found.margin[best]), Finding(text, MODEL, False, *named, test=found.test, certainty=told))
    if lost := optimizers.meta["lost"]:
        yield Finding(f"Without a value in some runs, and last there: {listing_of(lost, NAMED)}.", MODEL, warns=True)
    for row in dict.fromkeys((best, *_usual(optimizers))):
        if (needs := footprint(optimizers.settings["kind"][row])) is not None:
            kept = f"{names[row]} sends {count(needs.sent, 'model')} a report"
            yield Finding(f"{kept}, and keeps {needs.per_participant + needs.client} per client.", COST)


def _usual(optimizers: Trials) -> list[int]:
    """Return FedAvg, if it is there."""
    return [row for row, name in enumerate(optimizers.settings["optimizer"]) if name == "fedavg"]


def _next_optimizers(optimizers: Trials) -> Iterator[Finding]:
    """Say how many seeds would tell the leaders apart."""
    found, names = ranked(optimizers), _names(optimizers)
    if Standing.UNTESTED in found.states:
        yield several_seeds(optimizers)
    elif first := found.rows(*UNDECIDED):
        row, apart = first[0], float(found.difference[first[0]])
        half, seeds = float(found.half[row]), int(found.seeds[row])
        needed = seeds_needed(apart, half, seeds, max(1, found.tests)) if apart else None
        many = f"{count(needed)} seeds" if needed else "not even 1,000 seeds"
        text = f"Take {names[found.best or 0]} or {names[row]}: {many} would tell them apart."
        yield Finding(text, NEXT, command=with_seeds(optimizers.meta, needed) if needed else "")


def _losses_of(trials: Trials, *kinds: str) -> list[str]:
    """Return the metric of the loss of each optimizer, at most three: the first of these kinds that it has."""
    losses = dict[str, str]()
    for metric in (each for what in kinds for each in trials.metrics if optimizer_of(each, what)):
        losses.setdefault(metric.rpartition(".")[0], metric)
    return list(losses.values())[:_LOSSES]


def _no_loss(trials: Trials) -> Finding:
    """Say why there is no loss."""
    if trials.scenario.jobs:
        return Finding(OF_EACH_JOB, MODEL)
    return without_loss(diverged=any(optimizer_of(each, "diverged_round") for each in trials.metrics))


def courses_of(trials: Trials, metrics: Sequence[str]) -> list[Finding]:
    """Say how metrics go from one end of each of the outer lines to the other, tested together."""
    found, ways = list[Finding](), list[tuple[int, MetricWording, Axis, Line]]()
    for metric in metrics:
        data, wording = line_data(trials, metric), wording_of(metric)
        if data is None:
            continue
        same = {wording.write(float(mean)) for line in data.lines for mean in line.mean}
        if len(same) == 1 and not data.omitted:
            known = sum(len(line.points) for line in data.lines)
            some = "" if known == len(trials.settings) else " that has it"
            text = f"{capitalized(wording.words)} is {same.pop()} at every setting{some}."
            found.append(Finding(text, wording.about, name="course", quantity=metric))
            continue
        for line in dict.fromkeys((data.lines[0], data.lines[-1])):
            ways.append((len(found), wording, data.along, line))
            found.append(Finding(""))
    ends = [trials.samples(wording.metric)[line.points[[0, -1]]] for _, wording, _, line in ways]
    judged = tested_together([contrasts_of(each, reference=0) for each in ends])
    for (place, wording, along, line), values, each in zip(ways, ends, judged, strict=True):
        found[place] = _along(wording, along, line, values, each)
    return found


def _along(wording: MetricWording, along: Axis, line: Line, values: Floats, found: Contrasts) -> Finding:
    """Say how a metric goes from one end of a line to the other; the value of the finding is the difference."""
    where = f" with {line.name}" if line.name else ""
    both = common_seeds(*values)
    # Numbers of one sentence are of the same seeds.
    start, end = map(wording.write, interval(values if both is None else values[:, both]).mean.tolist())
    x, y = along.named(float(line.x[0])), along.named(float(line.x[-1]))
    named = (wording.about, False, "course", wording.metric)
    apart, half, state = float(found.difference[1]), float(found.half[1]), found.states[1]
    if len(line.points) < 2:
        return Finding(f"{capitalized(wording.words)} is {start} at {x}{where}.", *named)
    if start == end and (apart == 0 or not np.isfinite(apart)):
        return Finding(f"{capitalized(wording.words)} is {start} at {x} and at {y}{where}.", *named)
    chance = {Standing.TIED: ", not told from chance", Standing.FEW: ", too few seeds to tell"}.get(state, "")
    change = f" ({difference(wording, apart, half)}{over_common(*values)}{chance})" if np.isfinite(apart) else ""
    text = f"From {x} to {y}{where}, {wording.words} goes from {start} to {end}{change}."
    if start == end:
        text = f"{capitalized(wording.words)} is {start} at {x} and at {y}{where}{change}."
    if not np.isfinite(apart):
        return Finding(text, *named)
    certainty = CERTAINTY[state]
    told = Finding(text, *named, f"{y} less {x}{where}", apart, reference=0.0, against=x, test=found.test)
    return with_half(half, replace(told, certainty=certainty))


def trust_findings(trials: Trials) -> Iterator[Finding]:
    """Say what is missing of what was planned, and what that does to intervals and differences."""
    runs, without = trials.runs, trials.failed
    done = runs.group_by("setting").agg(pl.col("seed").filter(pl.col("status") == COMPLETE).sort())["seed"]
    if len(without):
        text = f"{count(len(without))} of {count(len(runs), 'run')} {'has' if len(without) == 1 else 'have'} no result"
        yield Finding(f"{text}.", TRUST, warns=True)
        yield Finding(f"Without a result: {_missing(trials, without)}.", TRUST)
    numbers, unequal = done.list.len().to_list(), done.n_unique() > 1
    least, most = min(numbers, default=0), max(numbers, default=0)
    if most < 2:
        yield Finding(
            "One seed at a setting: there are no intervals, and nothing is told from chance.", TRUST, warns=True
        )
        return
    if unequal:
        have = f"{count(least)} to {count(most, 'seed')}" if least < most else f"{count(least, 'seed')}, not the same"
        yield Finding(f"Settings have {have}.", TRUST, warns=True)
        yield Finding("Means are over the seeds that each has, differences over those that both have.", TRUST)
    else:
        every = "Every run completed, with" if without.is_empty() else "Every setting has"
        yield Finding(f"{every} the same {count(most, 'seed')} at every setting.", TRUST)
    half = f"± is half of a 95\N{NARROW NO-BREAK SPACE}% interval; settings are compared by {SETTINGS_TEST}"
    yield Finding(f"{half}.", TRUST, test=SETTINGS_TEST)


def chance_warning(trials: Trials) -> Iterator[Finding]:
    """Warn of settings with so few reports that chance alone would give at least half of their distance."""
    devices, bias, row = trials.scenario.devices, means(trials, bias_metric(trials)), chosen(trials)
    reports, fair = _even(trials)
    few = np.flatnonzero((bias > 0) & (bias < 2 * fair) & (reports > 0) & (reports < FEW * devices)).tolist()
    if not few:
        return
    worst = max(few, key=lambda each: (each == row, float(fair[each] / bias[each])))
    own, even, where = tv(float(bias[worst])), tv(float(fair[worst])), trials.names[worst]
    if bias[worst] <= fair[worst]:
        yield Finding(f"{own} at {where} is more even than chance alone ({even}): no bias to see.", TRUST)
        return
    yield Finding(f"Runs are short: of the {own} at {where}, chance alone would give {even}.", TRUST)
    again = longer_command(trials.meta, "sweep", trials.scenario.stop, 10)
    yield Finding("Run 10 times as long: chance is a large part of these distances.", NEXT, command=again)


def _even(trials: Trials) -> tuple[Floats, Floats]:
    """Return how many reports each setting takes, and their L1 from uniform by equal chances; NaN if devices differ."""
    taken = trials.samples("sessions.count") * np.nan_to_num(trials.samples("sessions.reported_share"), nan=1.0)
    reports = np.nan_to_num(taken).mean(axis=1)
    if any("devices" in name or name == "population" for name in trials.swept):
        return reports, np.full(len(reports), np.nan)
    return reports, np.array([by_chance(round(each), trials.scenario.devices) for each in reports.tolist()])


def _missing(trials: Trials, without: pl.DataFrame) -> str:
    names = dict(zip(trials.settings["setting"].to_list(), trials.setting_names(), strict=True))
    groups = without.group_by("setting", "status", maintain_order=True).agg("seed")
    settings = []
    for setting, status, seeds in groups.head(_NAMED).iter_rows():
        which = f"seed{'' if len(seeds) == 1 else 's'} {listing_of(list(map(str, seeds)), _NAMED)}"
        settings.append(f"{names[setting] + ', ' if names[setting] else ''}{which} ({status})")
    left = len(groups) - len(settings)
    return "; ".join(settings) + (f"; {count(left, 'more setting')}" if left else "")


_GROUPS = 3  # groups of devices named one by one at most


def what_was_simulated(trials: Trials) -> Iterator[Finding]:
    """Say how the settings differ, and which devices, rounds and weights every run has."""
    axes = [axis for axis in trials.axes if axis.size > 1]
    choice = f": {listing([f'{axis.name} ({axis.every_value()})' for axis in axes])}" if axes else ""
    every, settings = math.prod(axis.size for axis in axes), count(len(trials.settings), "setting")
    settings += f" of {count(every)} combinations" if axes and len(trials.settings) < every else ""
    yield Finding(f"{settings} with {_seeds(trials)} each, {count(len(trials.runs), 'run')}{choice}.", WHAT)
    if base := _base(trials):
        yield Finding(f"Every run simulates {base}.", WHAT)


def sweep_setup(trials: Trials) -> str:
    """Say in a few words what was simulated."""
    axes, optimizers = [axis.name for axis in trials.axes if axis.size > 1], by_optimizer(trials)
    cases, seeds = len(trials.settings), _seeds(trials)
    said = f"{count(cases, 'setting')}{f' of {listing(axes)}' if axes else ''}, {seeds} each"
    if optimizers is not None:
        said = f"{count(len(optimizers.settings))} optimizers on {count(cases, 'case')}, {seeds} each"
    base = _base(trials, groups=False)
    said = f"{said}; {base}" if base else said
    return with_separation(said) if optimizers is None else said


def _seeds(trials: Trials) -> str:
    seeds = trials.runs.group_by("setting").len()["len"].to_list() or [0]
    return f"{count_range(min(seeds), max(seeds))} seed{'' if max(seeds) == 1 else 's'}"


def _base(trials: Trials, *, groups: bool = True) -> str:
    """Describe what is not swept, the groups too where they are asked for; empty where all of it is."""
    scenario, server, stop = trials.scenario, trials.scenario.server, trials.scenario.stop
    swept = {part for name in trials.swept for part in re.split(r"[.\[\]]", name)}
    whole = {name for name in trials.swept if "." not in name}
    parts = [] if "population" in whole or "devices" in swept else [_devices(scenario.population, named=groups)]
    if "stop" not in swept:
        ways = [count(stop.rounds, "round")] if stop.rounds is not None else []
        ways += [duration(stop.duration)] if stop.duration is not None else []
        parts.append(f"over {' or '.join(ways)}" if ways else "")
    if isinstance(server, SyncServer) and "cohort" not in swept and "server" not in whole:
        parts.append(f"in cohorts of {count(server.cohort)}")
    return " ".join(filter(None, parts)) if "population" not in whole and "devices" not in swept else ""


def _devices(groups: Sequence[Group], *, named: bool) -> str:
    text = count(sum(group.devices for group in groups), "device")
    if named and 1 < len(groups) <= _GROUPS:
        text += f" ({listing([f'{count(group.devices)} “{group.name}”' for group in groups])})"
    return text + (f" in {len(groups)} groups" if len(groups) > _GROUPS else "")


def sweep_tiles(trials: Trials) -> Iterator[Tile]:
    """Pick the key figures of trials: bias and pace of the choice, or optimizers; and what was compared."""
    optimizers, row, settings = by_optimizer(trials), chosen(trials), len(trials.settings)
    for metric, words in ((bias_metric(trials), "from uniform (TV)"), (PACE, PACE_UNIT.strip())):
        wording, mean = wording_of(metric), means(trials, metric)
        if optimizers is not None or row is None or not np.isfinite(mean[row]):
            continue
        low, high = (wording.bare(float(end)) for end in (np.nanmin(mean), np.nanmax(mean)))
        spread = (
            f"at {trials.names[row]}; of all settings {low} to {high}" if low != high else "the same at every setting"
        )
        yield Tile(wording.bare(float(mean[row])), words, spread if settings > 1 else "")
    if optimizers is not None:
        found, own = ranked(optimizers), typical(optimizers)
        for row in dict.fromkeys((int(found.order[0]), *_usual(optimizers), int(found.order[-1]))):
            place = f"{_names(optimizers)[row]}, rank {found.order.tolist().index(row) + 1} of {len(found.order)}"
            yield Tile(number(own[row], 2), FIGURE_WORDS[optimizers.meta["figure"]].removeprefix("the "), place)
        yield Tile(count(settings), "cases" if settings != 1 else "case", f"{_seeds(trials)} each")
    else:
        names = ", ".join(names_of(trials.parameters).values())
        yield Tile(count(settings), "settings" if settings != 1 else "setting", f"of {names}" if names else "")
    complete = trials.runs.filter(status=COMPLETE).height
    yield Tile(count(complete), "runs complete", f"of {count(len(trials.runs))}, {_seeds(trials)} each")
