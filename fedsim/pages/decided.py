"""What `fedsim decide` found: which setting to choose, what ties with it, at what cost, and what would tell more."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import product

import numpy as np

from fedsim.common.formatting import count, duration, equation, listing_of, number, percent
from fedsim.measure.metrics import describe
from fedsim.pages.choice import NAMED, choice_title, objective_wording
from fedsim.pages.finding import BIAS, COST, MODEL, NEXT, TRUST, Finding, command_of
from fedsim.pages.metric_wording import difference
from fedsim.pages.sweep import findings_of_settings
from fedsim.trials.contrasts import Standing, paired
from fedsim.trials.decision import aim_of, compared, dropped
from fedsim.trials.trials import Trials, names_of

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


def decided_title(trials: Trials) -> str:
    """Say which setting to choose, by what, and what is not told from it."""
    found, names, wording = compared(trials), trials.names, objective_wording(trials)
    if (best := found.best) is None:
        return choice_title(trials)
    half, value = float(found.margin[best]), wording.write(float(found.mean[best]))
    margin = f" ± {wording.apart(half)}" if np.isfinite(half) and half else ""
    what = f"Choose {names[best]}: it has {wording.extreme(not found.less_is_better)} ({value}{margin})"
    if few := found.rows(Standing.FEW):
        seeds = count(int(found.seeds[few].max()), "seed")
        return f"{what}; {seeds} are too few to tell it from {count(len(few), 'other')}"
    if tied := found.rows(Standing.TIED, Standing.SAME):
        others = listing_of([names[row] for row in tied], NAMED, "more setting")
        return f"{what}; {others} {'ties' if len(tied) == 1 else 'tie'} with it"
    if len(names) == 1 or Standing.UNTESTED in found.states:
        return what
    rest = "no other was left" if len(found.order) == 1 else "every other that was left is told to be worse"
    return f"{what}; {rest}"


def decided_findings(trials: Trials) -> Iterator[Finding]:
    """Answer each question of a reader as of a sweep; and say what was dropped, and what to do next."""
    best, found = compared(trials).best, list(findings_of_settings(trials))
    if (privacy := trials.scenario.privacy) is not None and privacy.stands_for is not None:
        times = number(privacy.stands_for)
        text = f"At full size ({times} times this) participation noise is smaller: compare the other parts."
        found.append(Finding(text, TRUST, warns=True))
    if best is not None and (rows := np.flatnonzero(dropped(trials)).tolist()):
        wording = objective_wording(trials)
        values = trials.samples(wording.metric)
        apart, half, *_ = paired(values, values[best])
        beside = {trials.names[row]: (apart[row], half[row]) for row in rows if np.isfinite(apart[row])}
        ways = [f"{name} ({difference(wording, *by)})" for name, by in beside.items()]
        text = f"{count(len(rows), 'setting')} had no further seeds, worse or missing a condition"
        found.append(Finding(f"{text}{': ' * bool(ways)}{listing_of(ways, NAMED, 'more setting')}.", TRUST))
    found += [*_ends(trials), *(() if best is None else next_steps(trials, best))]
    yield from sorted(found, key=lambda each: (BIAS, MODEL, COST, TRUST, NEXT).index(each.about))


def next_steps(trials: Trials, best: int) -> Iterator[Finding]:
    """Propose to look beyond a value at the end of those that could be chosen, and to run the choice."""
    known = {path: trials.numbers(path) for path in trials.parameters}
    grids = {path: np.unique(each) for path, each in known.items() if each is not None}
    grid = {path: [f"{each:g}" for each in values] for path, values in grids.items()}
    for path, values in grids.items():
        if len(grids) == len(known) and len(values) > 1 and trials.settings[path][best] == values[-1]:
            longer = grid | {path: [*grid[path], f"{2 * values[-1] - values[-2]:g}"]}
            choose = ", ".join(f"{key}: [{', '.join(each)}]" for key, each in longer.items())
            most = equation(names_of(trials.parameters)[path], f"{values[-1]:g}")
            text = f"{most} is the largest that was tried: try larger ones too"
            yield Finding(f"{text}.", NEXT, command=command_of(trials.meta, "decide", f"choose={{{choose}}}"))
    settings = [f"{path}={trials.settings[path][best]}" for path in (*trials.parameters, *trials.tuned)]
    text = "Run the choice, to see who takes part in it and when."
    yield Finding(text, NEXT, command=command_of(trials.meta, "run", *settings))


def _ends(trials: Trials) -> Iterator[Finding]:
    """Warn of values of the best setting that are the least or the most of those that were tried in tuning it."""
    best, decide = compared(trials).best, trials.scenario.decide
    if best is None or decide is None:
        return
    for (key, tried), path in product((decide.tune or {}).items(), trials.tuned):
        values = trials.numbers(path) if path.endswith(f".{key}") and len(tried) > 1 else None
        if values is not None and values[best] in {min(tried), max(tried)}:
            which = "least" if values[best] == min(tried) else "most"
            text = f"{key} of {trials.names[best]} is {number(float(values[best]))}, the {which} that was tried"
            yield Finding(f"{text}: `decide.tune` can have others.", TRUST, warns=True)


def figures_of(trials: Trials) -> Iterator[tuple[str, str]]:
    """Yield the metrics that the table shows beside the one to choose by, and their heads; those that have a value."""
    metric, _, conditions = aim_of(trials)
    shown, owner = {metric}, metric.split(".")[1] if metric.startswith("learning.") else "*"
    for pattern, head in [*((each.metric, "") for each in conditions), *_FIGURES]:
        for name in trials.metrics:
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
