"""The tables of trials, a row for each setting or optimizer, and how each setting stands."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.formatting import NO_VALUE, above_dust, capitalized, count, duration, listing, number
from fedsim.measure.metrics import describe, split
from fedsim.pages.answer import BIAS, COST, MODEL
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.tables import Table
from fedsim.scenario.privacy import scope_of
from fedsim.trials.contrasts import Interval, Standing, contrasts, interval
from fedsim.trials.decision import (
    L1,
    REPORTED,
    UNDECIDED,
    UPDATES,
    aim_of,
    bias_metric,
    compared,
    dropped,
    is_open,
    keeping,
    pace_metric,
    planned_seeds,
    trade_off,
)
from fedsim.trials.optimizers import COSTS, MEMORY, allowed, in_case, ranked, winners
from fedsim.trials.trials import Trials, names_of

SETTINGS = 60  # settings in a table at most
_METRICS = 9  # metrics in a table at most
_SENSE = 1e30  # larger figures are those of training that diverged
_GROUPS = 3  # groups in a table at most
_OPTIMIZERS = 4  # optimizers whose losses are taken apart at most
_INTERVAL = "mean ± half of the 95 % interval"
HEADLINES = (
    *("participation.reported_l1_uniform", L1, UPDATES, "participation.coverage"),
    *("participation.gini", "rounds.shortage_share", "rounds.duration.p50", "sessions.reported_share"),
    "sessions.wasted_share",
)
"""Metrics shown first, those that differ between settings; the losses of optimizers come after them."""
_COSTS = (
    *("learning.*.time_to_target", "sessions.device_hours", "fleet.bytes_down", "fleet.bytes_up", "fleet.energy"),
    *("fleet.peak_sessions", "fleet.cost", "privacy.epsilon", "participation.coverage"),
)
"""Metrics of which a decision shows columns, after that which it chooses by."""
_WORDS = {
    Standing.REFERENCE: "best",
    Standing.TIED: "tied",
    Standing.FEW: "too few seeds",
    Standing.SAME: "the same",
    Standing.UNTESTED: "not tested",
    Standing.DIFFERS: "worse",
}
FIGURE_WORDS = {
    "bias": "distance of the mean model from the optimum",
    "excess_loss": "loss above the one under uniform participation",
    "loss": "loss",
}
"""What optimizers are compared by."""

_ABOUT = {"participation": BIAS, "group": BIAS, "learning": MODEL}
"""To which question of a reader metrics belong, by the first word of their names; all others are costs."""

SettingColumn: TypeAlias = tuple[str, Sequence[str]]


def about_of(metric: str) -> str:
    """Return the question of a reader to which a metric belongs."""
    known, parts = split(metric)
    first = metric if known is None else known.name
    return BIAS if "group" in parts else _ABOUT.get(first.partition(".")[0], COST)


def means(trials: Trials, metric: str) -> Floats:
    """Return a metric at every setting, the mean over its seeds."""
    return interval(trials.samples(metric)).mean


def order_of(trials: Trials) -> list[int]:
    """Return the settings from the best to the worst: those that are compared, then the others by their means."""
    found = compared(trials)
    ranked_rows, sign = found.order.tolist(), 1 if found.less_is_better else -1
    others = np.argsort(sign * found.mean, kind="stable").tolist()
    return [*ranked_rows, *(row for row in others if row not in {*ranked_rows})]


def standings(trials: Trials) -> tuple[str, ...]:
    """Say how each setting stands, in a word or with the condition that it misses."""
    found, ends = compared(trials), trade_off(trials) if is_open(trials) else None
    conditions = [(each, means(trials, each.metric)) for each in aim_of(trials).conditions]

    def standing(row: int) -> str:
        if not np.isfinite(found.mean[row]):
            return "no result"
        if not keeping(trials).kept[row]:
            missed, own = next((each, own) for each, own in conditions if not each.holds(float(own[row])))
            value = wording_of(missed.metric).write(float(own[row])) if np.isfinite(own[row]) else "no value"
            return f"misses {' '.join(missed.text.split())} ({value})"
        if ends is None:
            return "dropped" if dropped(trials)[row] else _WORDS.get(found.states[row], "")
        if row in ends.rows:
            return {ends.rows[-1]: "most even", ends.rows[0]: "fastest"}.get(row, "in between")
        return "beaten" if ends.dominated[row] else "not significantly beaten"

    return tuple(map(standing, range(len(trials.settings))))


def moves(trials: Trials, metric: str) -> bool:
    """Tell whether settings differ significantly in a metric, or differ at all where nothing is tested."""
    found = contrasts(trials, metric, less_is_better=True)
    mean = found.mean[np.isfinite(found.mean)]
    if len(mean) < 2 or not np.ptp(mean) > 1e-12 * np.abs(mean).max():
        return False
    return bool(found.differs.any()) or not found.rows(*UNDECIDED)


def headlines(trials: Trials) -> tuple[str, ...]:
    """Choose the metrics to show: those of the scenario's own and of `HEADLINES` that move, then groups and losses."""
    known, other = trials.metrics, {L1, REPORTED} - {bias_metric(trials)}
    ends = [*_group_ratios(known)[:_GROUPS], *(name for name in known if _is_of_optimizer(name, "loss", "excess_loss"))]
    listed = [*(name for name in known if describe(name) is None), *(name for name in HEADLINES if name in known)]
    listed = [name for name in listed if name not in other]
    moving = [name for name in (*listed, *ends) if moves(trials, name)]
    return tuple(moving or listed or known)[: _METRICS - 1]


def _group_ratios(metrics: Sequence[str]) -> list[str]:
    """Keep the participation shares of groups, in multiples of their fair share."""
    known = [(name, *split(name)) for name in metrics]
    return [
        name
        for name, metric, parts in known
        if metric is not None and metric.name == "group.GROUP.ratio" and "." not in parts["group"]
    ]


def _is_of_optimizer(metric: str, *figures: str) -> bool:
    known = split(metric)[0]
    return known is not None and known.name in {f"learning.OPTIMIZER.{figure}" for figure in figures}


def shown_metrics(trials: Trials) -> tuple[str, ...]:
    """Choose the metrics of the table of settings: what is chosen by, and what was asked, costs, or differs."""
    metric, _, conditions = aim_of(trials)
    asked = [metric, *(each.metric for each in conditions), trials.scenario.headline or metric]
    costs = [name for each in _COSTS for name in trials.metrics if fnmatchcase(name, each)]
    always = [*asked, bias_metric(trials), pace_metric(trials), *(costs if trials.scenario.decide is not None else [])]
    every = dict.fromkeys((*always, *headlines(trials)))
    return tuple(name for name in every if name in trials.metrics)[:_METRICS]


def settings_table(trials: Trials) -> Table:
    """Show each setting, the best first: how it stands, how far from the best, and its figures with intervals."""
    found, columns = compared(trials), list[SettingColumn]()
    wording, names = wording_of(aim_of(trials).metric), names_of((*trials.parameters, *trials.tuned))
    several = found.best is not None and len(trials.settings) > 1
    if several:
        apart = [
            wording.difference(mean, half) if row != found.best and np.isfinite(mean) else NO_VALUE
            for row, (mean, half) in enumerate(zip(found.difference.tolist(), found.half.tolist(), strict=True))
        ]
        columns = [("Standing", standings(trials)), ("From the best", apart)]
    for metric in shown_metrics(trials):
        words = wording_of(metric).words
        head = words if words == metric else capitalized(words)
        columns.append((head, cells(interval(trials.samples(metric)), metric)))
    columns += [(f"{names[path]} (tuned)", trials.texts(path)) for path in trials.tuned]
    seeds = planned_seeds(trials)
    if len(np.unique(seeds)) > 1:
        columns.append(("Seeds", [number(each) for each in seeds.tolist()]))
    note = "Dropped settings had no further seeds." if dropped(trials).any() else ""
    first = ", the best first" if several else ""
    caption, order = f"Settings{first}: {_INTERVAL}", order_of(trials) if several else None
    return setting_table(trials, caption, columns, words=int(several), note=note, order=order)


def cells(found: Interval, metric: str = "", digits: int = 4) -> list[str]:
    """Write means with their intervals, in the unit of a metric where that has one; bytes in GB."""
    wording, known = wording_of(metric), split(metric)[0]
    unit = "" if known is None else known.unit

    def write(mean: float, half: float) -> str:
        if abs(mean) > _SENSE:
            return "diverged"
        if unit == "B":
            return f"{number(1e-9 * mean)} GB"
        if wording.unit or unit == "s":
            return wording.mean(mean, half) if np.isfinite(mean) else NO_VALUE
        return number(mean, digits) + (f" ± {number(half, 2)}" if np.isfinite(half) else "")

    return list(map(write, found.mean.tolist(), found.half.tolist()))


def setting_table(
    trials: Trials,
    caption: str,
    columns: Sequence[SettingColumn],
    *,
    words: int = 0,
    note: str = "",
    order: Sequence[int] | None = None,
) -> Table:
    """Make a table of columns (head, cells), after those with the values that name each setting.

    The first `words` of the columns hold words. `order` is that of the settings, by default that of the sweep.
    """
    values = [trials.texts(name) for name in trials.parameters]
    rows = tuple(zip(*values, *(cells for _, cells in columns), strict=True))
    rows = rows if order is None else tuple(rows[row] for row in order)
    left = len(rows) - SETTINGS
    more = f"The first {SETTINGS} settings; {count(left)} more are in the results of the sweep." if left > 0 else ""
    header = (*names_of(trials.parameters).values(), *(head for head, _ in columns))
    return Table(caption, header, rows[:SETTINGS], len(trials.parameters) + words, " ".join(filter(None, (note, more))))


_PROMISES: tuple[tuple[str, str, Callable[[Floats], float], Callable[[float], str]], ...] = (
    ("n promised", "privacy.rounds", np.max, count),
    ("n observed", "rounds.count", np.max, count),
    ("b promised", "privacy.separation", np.min, count),
    ("b observed", "participation.separation.least", np.min, count),
    ("k promised", "privacy.most", np.max, count),
    ("k observed", "participation.most", np.max, count),
    ("Sensitivity", "privacy.sensitivity", np.max, number),
    ("Noise multiplier", "privacy.noise_multiplier", np.min, number),
    ("Epsilon", "privacy.epsilon", np.max, number),
    ("Epsilon if the schedule is known", "privacy.epsilon_if_known", np.max, number),
)


def privacy_table(trials: Trials) -> Table | None:
    """Show n, b and k as promised and as observed, and the noise, at every setting; None without ``privacy``.

    Observed are the most rounds and participations and the least distance of any run of a setting: the values that
    would break the promise first.
    """
    if "privacy.epsilon" not in trials.metrics:
        return None
    columns, secret = list[SettingColumn](), "privacy.epsilon_if_known" in trials.metrics
    for head, metric, over, write in _PROMISES[: None if secret else -1]:
        known = [row[np.isfinite(row)] for row in trials.samples(metric)]
        columns.append((head, [write(over(row)) if len(row) else NO_VALUE for row in known]))
    note = (
        "n rounds, at least b rounds from one participation of a client to its next, at most k of them. Only what is "
        "promised, because the server enforces it, counts for epsilon; what was observed is luck where it is better. "
        f"Epsilon is for {scope_of(secret)}{', this page included' * secret}, at the scenario's delta."
    )
    return setting_table(trials, "What is promised to privacy, and what the runs had", columns, note=note)


TOTAL = "above_optimum"
_PARTS = ("bias", "participation noise", "privacy noise")  # what they are called, as are their metrics


@dataclass(frozen=True, eq=False)
class LossParts:
    """The loss of one optimizer above the optimum, and its parts: (settings, seeds), NaN where there is no value."""

    name: str  # of the optimizer
    total: Floats
    parts: dict[str, Floats]  # by what they are called
    # Simulated time to the target, s; without a value where it was not reached, None where there was no target
    time: Floats | None


def loss_parts(trials: Trials) -> Iterator[LossParts]:
    """Yield the parts of the loss of every optimizer that has them."""
    known = trials.metrics
    names = [split(name)[1]["optimizer"] for name in known if _is_of_optimizer(name, TOTAL)]
    for name in names[:_OPTIMIZERS]:
        prefix = f"learning.{name}."
        parts = {part: trials.samples(f"{prefix}{'_'.join(part.split())}_loss") for part in _PARTS}
        has_target = any(prefix + each in known for each in ("time_to_target", "rounds_to_target"))
        time = trials.samples(f"{prefix}time_to_target") if has_target else None
        yield LossParts(name, trials.samples(prefix + TOTAL), parts, time)


def parts_table(trials: Trials, loss: LossParts) -> Table:
    """Show the parts of the loss of one optimizer at every setting."""
    every = loss.parts | {"whole loss": loss.total}
    columns = [(capitalized(words), cells(interval(values), digits=3)) for words, values in every.items()]
    if loss.time is not None:
        # The mean of the seeds that reached the target, and how many did where not all
        reached, seeds = np.isfinite(loss.time).sum(axis=1).tolist(), loss.time.shape[1]
        times = [
            "not reached" if not n else duration(mean) + ("" if n == seeds else f" ({n} of {seeds} seeds)")
            for mean, n in zip(interval(loss.time)[0].tolist(), reached, strict=True)
        ]
        columns.append(("Time to target", times))
    return setting_table(trials, f"Loss of “{loss.name}” above the optimum: {_INTERVAL}", columns)


def optimizer_table(optimizers: Trials) -> Table:
    """Show optimizers by mean rank, and their figure in every case."""
    found, figure, cases = ranked(optimizers), optimizers.meta["figure"], optimizers.meta["cases"]
    values = [cells(interval(optimizers.samples(in_case(figure, case))), digits=3) for case in cases]
    ranks = cells(Interval(found.mean, found.margin), digits=3)
    names = optimizers.settings["optimizer"]
    rows = tuple((names[row], ranks[row], *(each[row] for each in values)) for row in found.order.tolist())
    header = ("Optimizer", "Mean rank", *(case or "Value" for case in cases))
    return Table(f"Optimizers by mean rank, and {FIGURE_WORDS[figure]}: {_INTERVAL}", header, rows)


def winners_table(optimizers: Trials) -> Table | None:
    """Show who is the best in each case within the memory that there is; None where memory makes no difference."""
    within, cases = allowed(optimizers), optimizers.meta["cases"]
    if len(cases) < 2 or (within == within[0]).all():
        return None
    won = zip(cases, winners(optimizers), strict=True)
    rows = tuple((case, *(_won(optimizers, case, best) for best in cells)) for case, cells in won)
    or_loss = ", or the loss where no optimum is known" if optimizers.meta["figure"] == "bias" else ""
    note = (
        "Paired tests over the seeds, 5\N{NARROW NO-BREAK SPACE}% for the whole table: what a cell does not name, and "
        f"its column allows, is worse. By the {FIGURE_WORDS[optimizers.meta['figure']]}{or_loss}; costs are medians "
        "until the target. Memory is what an optimizer says of itself."
    )
    caption, head = "Which optimizer, by case and by the memory that there is", ("Case", *MEMORY)
    return Table(caption, head, rows, len(head), note)


def _won(optimizers: Trials, case: str, best: Sequence[int]) -> str:
    """Write a cell of the table of winners: the best with its figure and costs, and who ties."""
    if not best:
        return NO_VALUE
    row, names = best[0], optimizers.settings["optimizer"]
    cost = [optimizers.samples(in_case(what, case))[row] for what in COSTS]
    took = ""
    if all(np.isfinite(each).all() for each in cost):
        rounds, time, sent = (float(np.median(each)) for each in cost)
        took = f"; {count(rounds)} rounds, {duration(time)}, {number(sent, 2)} MB"
    ties = f"; tied: {listing([names[each] for each in best[1:]])}" if len(best) > 1 else ""
    value = float(optimizers.samples(in_case(optimizers.meta["figure"], case))[row].mean())
    return f"{names[row]} {above_dust(value, 2)}{took}{ties}"
