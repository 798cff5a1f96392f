"""What `fedsim decide` found: which setting to choose, what ties with it, at what cost, and what would tell more."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import product

import numpy as np

from fedsim.analysis.metrics import describe
from fedsim.common.arrays import Floats
from fedsim.common.formatting import capitalized, count, duration, equation, listing_of, number, percent
from fedsim.findings.choice import (
    SweepChoice,
    choice_of,
    choice_title,
    largest_part,
    loss_parts,
    next_findings,
    sure_findings,
)
from fedsim.findings.finding import COST, MODEL, NEXT, TRUST, Finding, command_of, with_half
from fedsim.findings.finished_sweep import FinishedSweep, names_of
from fedsim.findings.metric_wording import PACE, difference, wording_of
from fedsim.findings.sweep import choice_bias, losses_of, no_loss
from fedsim.trials.decision import interval

_NAMED = 3  # settings that a sentence names at most
_FIGURES = (
    ("learning.NAME.time_to_target", "To the target"),
    ("sessions.device_hours", "Device-hours"),
    ("fleet.bytes_down", "GB down"),
    ("fleet.bytes_up", "GB up"),
    ("fleet.energy", "Wh"),
    ("fleet.peak_sessions", "Peak sessions"),
    ("fleet.cost", "Cost"),
    ("privacy.epsilon", "Epsilon"),
    ("participation.reported_tv_uniform", "TV from uniform"),
    ("participation.coverage", "Left out"),
)
"""Metrics of the table, by patterns of their names, and their heads; by their own names where there is none."""


def decided_of(sweep: FinishedSweep) -> SweepChoice:
    """Compute the choice from the sweep that decides."""
    seeds = planned_seeds(sweep)
    return choice_of(sweep, seeds < seeds.max(initial=0))


def planned_seeds(sweep: FinishedSweep) -> Floats:
    """Return how many seeds each setting was given, (settings,): those that were dropped have fewer."""
    planned = dict(sweep.runs.group_by("point").len().iter_rows())
    return np.array([planned.get(point, 0) for point in sweep.points["point"]], dtype=np.float64)


def decided_title(found: SweepChoice) -> str:
    """Say which setting to choose, by what, and what ties with it."""
    best = found.ranking.best
    if best is None:
        return choice_title(found)
    names, half = found.names, float(interval(found.values)[1][best])
    margin = f" ± {found.wording.apart(half)}" if np.isfinite(half) and half else ""
    way = "highest" if found.maximize else "lowest"
    what = f"it has the {way} {found.wording.words.removeprefix('the ')} ({found.at(best)}{margin})"
    if tied := found.tied:
        others = listing_of([names[row] for row in tied], _NAMED, "more setting")
        verb = "ties" if len(tied) == 1 else "tie"
        return f"Choose {names[best]}: {what}; {others} {verb} with it"
    return f"Choose {names[best]}: {what}" + (", and every other is told to be worse" if len(names) > 1 else "")


def decided_findings(found: SweepChoice) -> Iterator[Finding]:
    """Say how biased the choice is, what it does to the model, at what cost, how sure that is, and what to do next."""
    best = found.ranking.best
    if best is not None:
        yield from choice_bias(found.sweep, found)
        yield from _model(found, best)
    yield from _costs(found)
    if (privacy := found.sweep.scenario.privacy) is not None and privacy.stands_for is not None:
        times = number(privacy.stands_for)
        text = f"At full size ({times} times this) participation noise is smaller: compare the other parts."
        yield Finding(text, TRUST, warns=True)
    yield from sure_findings(found)
    if best is not None and found.dropped is not None and (rows := np.flatnonzero(found.dropped).tolist()):
        apart, half = interval(found.values - found.values[best])
        known = [row for row in rows if np.isfinite(apart[row])]
        ways = [f"{found.names[row]} ({difference(found.wording, apart[row], half[row])})" for row in known]
        names = listing_of(ways or [found.names[row] for row in rows], _NAMED, "more setting")
        early = f"{count(len(rows), 'setting')} had no further seeds, worse than the best or missing a condition"
        yield Finding(f"{early}: {names}.", TRUST)
    yield from _ends(found)
    yield from next_findings(found)
    if best is not None:
        yield from next_steps(found.sweep, best)


def _model(choice: SweepChoice, best: int) -> Iterator[Finding]:
    """Say where the model ends with the choice, by the loss of each optimizer, and the largest part of that."""
    sweep, name = choice.sweep, choice.names[best]
    parts = {each.name: largest_part(each, best) for each in loss_parts(sweep)}
    losses = losses_of(sweep, "above_optimum", "excess_loss", "loss")
    for metric in losses:
        wording, (means, halves) = wording_of(metric), interval(sweep.samples(metric))
        mean, half, largest = float(means[best]), float(halves[best]), parts.get(metric.split(".")[1])
        if np.isfinite(mean):
            of = f", largest part {largest}" if largest and metric.endswith(".above_optimum") else ""
            text = f"{capitalized(wording.words)} is {wording.write(mean)} at {name}{of}."
            brief = f"{capitalized(wording.brief)}: {wording.write(mean)}{of}."
            yield with_half(half, Finding(text, MODEL, False, "choice.model", metric, name, mean, brief=brief))
    if not losses:
        yield no_loss(sweep)


def next_steps(sweep: FinishedSweep, best: int) -> Iterator[Finding]:
    """Propose to look beyond a value at the end of those that could be chosen, and to run the choice."""
    known = {path: sweep.numbers(path) for path in sweep.parameters}
    grids = {path: np.unique(each) for path, each in known.items() if each is not None}
    grid = {path: [f"{each:g}" for each in values] for path, values in grids.items()}
    for path, values in grids.items():
        if len(grids) == len(known) and len(values) > 1 and sweep.points[path][best] == values[-1]:
            longer = grid | {path: [*grid[path], f"{2 * values[-1] - values[-2]:g}"]}
            choose = ", ".join(f"{key}: [{', '.join(each)}]" for key, each in longer.items())
            most = equation(names_of(sweep.parameters)[path], f"{values[-1]:g}")
            text = f"{most} is the largest that was tried: try larger ones too"
            yield Finding(f"{text}.", NEXT, command=command_of(sweep.meta, "decide", f"choose={{{choose}}}"))
    settings = [f"{path}={sweep.points[path][best]}" for path in (*sweep.parameters, *sweep.tuned)]
    text = "Run the choice, to see who takes part in it and when."
    yield Finding(text, NEXT, command=command_of(sweep.meta, "run", *settings))


def _ends(found: SweepChoice) -> Iterator[Finding]:
    """Warn of values of the best setting that are the least or the most of those that were tried in tuning it."""
    sweep, best, decide = found.sweep, found.ranking.best, found.sweep.scenario.decide
    if best is None or decide is None:
        return
    for (key, tried), path in product((decide.tune or {}).items(), sweep.tuned):
        values = sweep.numbers(path) if path.endswith(f".{key}") and len(tried) > 1 else None
        if values is not None and values[best] in {min(tried), max(tried)}:
            which = "least" if values[best] == min(tried) else "most"
            text = f"{key} of {found.names[best]} is {number(float(values[best]))}, the {which} that was tried"
            yield Finding(f"{text}: `decide.tune` can have others.", TRUST, warns=True)


def _costs(found: SweepChoice) -> Iterator[Finding]:
    """Say what the best setting spends, at which pace, and which of those that tie with it is the cheapest."""
    best, names = found.ranking.best, found.names
    hours = interval(found.sweep.samples("sessions.device_hours"))[0]
    if best is None or not np.isfinite(hours[best]):
        return
    tied = [best, *np.flatnonzero(found.ranking.tied).tolist()]
    cheapest = tied[int(np.nanargmin(hours[tied]))]
    text = f"{names[best]} spends {number(float(hours[best]), 3)} device-hours{_pace(found, best)}"
    if cheapest != best and hours[cheapest] < 0.99 * hours[best]:
        less = percent(1 - float(hours[cheapest] / hours[best]))
        text += f"; of those that tie with it {names[cheapest]} spends the fewest, {less} less"
    yield Finding(f"{text}.", COST)


def _pace(found: SweepChoice, row: int) -> str:
    """Say the pace of a setting, and that of the fastest; empty where it has none."""
    own, fastest = float(found.paces[row]), float(np.nanmax(found.paces, initial=0.0))
    if not np.isfinite(own):
        return ""
    beside = f" (fastest: {number(fastest, 3)})" if found.paces_differ and own < fastest else ""
    return f", at {wording_of(PACE).write(own)}{beside}"


def figures_of(found: SweepChoice) -> Iterator[tuple[str, str]]:
    """Yield the metrics that the table shows beside the one to choose by, and their heads; those that have a value."""
    metric = found.wording.metric
    shown, owner = {metric}, metric.split(".")[1] if metric.startswith("learning.") else "*"
    patterns = [*((each.metric, "") for each in found.conditions), *_FIGURES]
    for pattern, head in patterns:
        for name in found.sweep.metrics:
            if name not in shown and fnmatchcase(name, pattern.replace("NAME", owner)):
                shown.add(name)
                yield name, head or name


def figure_text(metric: str, mean: float, half: float) -> str:
    """Write a mean of a metric with half of its interval; coverage as the share that it leaves out, bytes in GB."""
    if not np.isfinite(mean):
        return "none"
    known, scale = describe(metric), 1e-9 if metric.startswith("fleet.bytes_") else 1.0
    unit = "" if known is None else known.unit

    def write(value: float) -> str:
        return duration(value) if unit == "s" else percent(value) if unit == "share" else number(value, 3)

    text = write(1 - mean if metric == "participation.coverage" else scale * mean)
    return text + (f" ± {write(scale * half)}" if np.isfinite(half) and half > 1e-3 * abs(mean) else "")
