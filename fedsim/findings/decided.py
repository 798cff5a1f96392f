"""What `fedsim decide` found: which setting to choose, what ties with it, at what cost, and what would tell more."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import product

import numpy as np

from fedsim.analysis.metrics import describe
from fedsim.common.arrays import Bools, Floats
from fedsim.findings.choice import SweepChoice, choice_of, largest_part, loss_parts, next_findings, sure_findings
from fedsim.findings.finding import COST, MODEL, NEXT, TRUST, Finding, command_of, with_half
from fedsim.findings.finished_sweep import FinishedSweep, names_of
from fedsim.findings.formatting import capitalized, count, duration, equation, listing_of, number, percent
from fedsim.findings.metric_wording import difference, wording_of
from fedsim.findings.sweep import choice_bias, losses_of, no_loss
from fedsim.sweeps.decide import reached
from fedsim.sweeps.decision import interval, rank

_NAMED = 3  # settings that a sentence names at most
_TIED, _DROPPED = "tied", "dropped"
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


@dataclass(frozen=True, eq=False)
class Decided:
    """The settings, with the choice among those that are still open."""

    choice: SweepChoice
    seeds: Floats  # of each setting
    dropped: Bools  # those that were given no further seeds

    @property
    def best(self) -> int | None:
        """The row of the setting to choose; None where no setting keeps the conditions."""
        return self.choice.ranking.best

    def standing(self, row: int) -> str:
        """Say how a setting stands, in a word."""
        stands = self.choice.standings[row]
        return stands or (_DROPPED if self.dropped[row] else "worse")


def decided_of(sweep: FinishedSweep) -> Decided:
    """Compute the choice from the sweep that decides; a setting that was dropped cannot be the best."""
    found = choice_of(sweep)
    planned = dict(sweep.runs.group_by("point").len().iter_rows())
    seeds = np.array([planned.get(point, 0) for point in sweep.points["point"]], dtype=np.float64)
    dropped = seeds < seeds.max(initial=0)
    kept = found.feasible.kept & ~dropped
    eligible = kept & reached(found.wording.metric, found.values, kept)
    # Those that are open have the same seeds: what one saw before others were dropped is compared with nothing.
    ranking = rank(found.values, eligible, maximize=found.maximize)
    return Decided(replace(found, ranking=ranking), seeds, dropped)


def decided_title(found: Decided) -> str:
    """Say which setting to choose, by what, and what ties with it."""
    choice, best = found.choice, found.best
    if best is None:
        missing = not np.isfinite(choice.mean).any()
        return f"No run has a value of {choice.wording.metric}" if missing else "No setting keeps every condition"
    names, half = choice.names, float(interval(choice.values)[1][best])
    margin = f" ± {choice.wording.apart(half)}" if np.isfinite(half) and half else ""
    way = "highest" if choice.maximize else "lowest"
    what = f"it has the {way} {choice.wording.words.removeprefix('the ')} ({choice.at(best)}{margin})"
    tied = [int(row) for row in choice.ranking.order[1:] if choice.ranking.tied[row]]
    if tied:
        others = listing_of([names[row] for row in tied], _NAMED, "more setting")
        verb = "ties" if len(tied) == 1 else "tie"
        return f"Choose {names[best]}: {what}; {others} {verb} with it"
    return f"Choose {names[best]}: {what}" + (", and every other is told to be worse" if len(names) > 1 else "")


def decided_findings(found: Decided) -> Iterator[Finding]:
    """Say how biased the choice is, what it does to the model, at what cost, how sure that is, and what to do next."""
    choice, best = found.choice, found.best
    if best is not None:
        yield from choice_bias(choice.sweep, choice)
        yield from _model(choice, best)
    yield from _costs(found)
    yield from sure_findings(choice)
    if best is not None and (rows := np.flatnonzero(found.dropped).tolist()):
        apart, half = interval(choice.values - choice.values[best])
        known = [row for row in rows if np.isfinite(apart[row])]
        ways = [f"{choice.names[row]} ({difference(choice.wording, apart[row], half[row])})" for row in known]
        names = listing_of(ways or [choice.names[row] for row in rows], _NAMED, "more setting")
        early = f"{count(len(rows), 'setting')} had no further seeds, worse than the best or missing a condition"
        yield Finding(f"{early}: {names}.", TRUST)
    yield from _ends(found)
    yield from next_findings(choice)
    if best is not None:
        yield from next_steps(choice.sweep, best)


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


def _ends(found: Decided) -> Iterator[Finding]:
    """Warn of values of the best setting that are the least or the most of those that were tried in tuning it."""
    sweep, best, decide = found.choice.sweep, found.best, found.choice.sweep.scenario.decide
    if best is None or decide is None:
        return
    for (key, tried), path in product((decide.tune or {}).items(), sweep.tuned):
        values = sweep.numbers(path) if path.endswith(f".{key}") and len(tried) > 1 else None
        if values is not None and values[best] in {min(tried), max(tried)}:
            which = "least" if values[best] == min(tried) else "most"
            text = f"{key} of {found.choice.names[best]} is {number(float(values[best]))}, the {which} that was tried"
            yield Finding(f"{text}: `decide.tune` can have others.", TRUST, warns=True)


def _costs(found: Decided) -> Iterator[Finding]:
    """Say which of the settings that tie with the best is the cheapest."""
    choice, best = found.choice, found.best
    hours = interval(choice.sweep.samples("sessions.device_hours"))[0]
    if best is None or not np.isfinite(hours[best]):
        return
    names, open_ = choice.names, [best, *np.flatnonzero(choice.ranking.tied).tolist()]
    cheapest = min(open_, key=lambda row: float(np.nan_to_num(hours[row], nan=np.inf)))
    text = f"{names[best]} spends {number(float(hours[best]), 3)} device-hours"
    if cheapest != best and hours[cheapest] < 0.99 * hours[best]:
        less = percent(1 - float(hours[cheapest] / hours[best]))
        text += f"; of those that tie with it {names[cheapest]} spends the fewest, {less} less"
    yield Finding(f"{text}.", COST)


def figures_of(found: Decided) -> Iterator[tuple[str, str]]:
    """Yield the metrics that the table shows beside the one to choose by, and their heads; those that have a value."""
    choice, metric = found.choice, found.choice.wording.metric
    shown, owner = {metric}, metric.split(".")[1] if metric.startswith("learning.") else "*"
    patterns = [*((each.metric, "") for each in choice.conditions), *_FIGURES]
    for pattern, head in patterns:
        for name in choice.sweep.metrics:
            if name not in shown and fnmatchcase(name, pattern.replace("NAME", owner)):
                shown.add(name)
                yield name, head or name


def figure_text(metric: str, mean: float, half: float) -> str:
    """Write a mean of a metric with half of its interval; coverage as the share that it leaves out, bytes in GB."""
    known = describe(metric)
    if metric == "participation.coverage":
        mean = 1 - mean
    if metric.startswith("fleet.bytes_"):
        mean, half = mean / 1e9, half / 1e9
    if not np.isfinite(mean):
        return "none"
    unit = "" if known is None else known.unit

    def write(value: float) -> str:
        return duration(value) if unit == "s" else percent(value) if unit == "share" else number(value, 3)

    return write(mean) + (f" ± {write(half)}" if np.isfinite(half) and half > 1e-3 * abs(mean) else "")
