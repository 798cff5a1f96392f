"""The tables of a sweep's report, a row for each setting."""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.formatting import NO_VALUE, above_dust, capitalized, count, duration, listing, number
from fedsim.pages.choice import LossParts, means, objective_wording, order_of, standings
from fedsim.pages.metric_wording import difference, tv
from fedsim.pages.sweep import FIGURE_WORDS, moves
from fedsim.pages.tables import Table
from fedsim.scenario.privacy import scope_of
from fedsim.trials.contrasts import Interval, interval
from fedsim.trials.decision import PACE, bias_metric, compared, is_open
from fedsim.trials.optimizers import COSTS, MEMORY, allowed, in_case, ranked, winners
from fedsim.trials.trials import Trials, names_of

SETTINGS = 60  # settings in a table at most
_METRICS = 5  # metrics in a table at most
_SENSE = 1e30  # larger figures are those of training that diverged
_GROUPS = 8  # groups in a table at most

SettingColumn: TypeAlias = tuple[str, Sequence[str]]

_INTERVAL = "mean ± half of the 95 % interval"


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


def _with_halves(found: Interval, digits: int = 4) -> list[str]:
    def write(mean: float, half: float) -> str:
        if abs(mean) > _SENSE:
            return "diverged"
        return number(mean, digits) + (f" ± {number(half, 2)}" if np.isfinite(half) else "")

    return list(map(write, found.mean.tolist(), found.half.tolist()))


def choice_table(trials: Trials) -> Table | None:
    """Show the settings from the best to the worst, and how far each is from the best; None where there is no best."""
    found, wording = compared(trials), objective_wording(trials)
    settings, even = range(len(trials.settings)), bias_metric(trials)
    if found.best is None or len(settings) < 2:
        return None
    objective = [wording.write(float(each)) if np.isfinite(each) else NO_VALUE for each in found.mean]
    apart = [
        difference(wording, float(mean), float(half)) if row != found.best and np.isfinite(mean) else NO_VALUE
        for row, (mean, half) in enumerate(zip(found.difference, found.half, strict=True))
    ]
    columns = [
        ("Standing", standings(trials)),
        *([(wording.metric, objective)] if wording.metric not in {even, PACE} else []),
        ("From the most even" if is_open(trials) else "From the best", apart),
        ("TV from uniform", [tv(value) if np.isfinite(value) else NO_VALUE for value in means(trials, even).tolist()]),
        ("Rounds per day", [number(value) for value in means(trials, PACE).tolist()]),
    ]
    return setting_table(trials, f"Settings by {wording.words}", columns, words=1, order=order_of(trials))


def point_table(trials: Trials, chosen: Sequence[str]) -> Table:
    """Show the means at every point, and what was tuned for it."""
    names = names_of((*trials.parameters, *trials.tuned))
    columns: list[SettingColumn] = [
        (metric, _with_halves(interval(trials.samples(metric)))) for metric in chosen[:_METRICS]
    ]
    columns += [(f"{names[name]} (tuned)", trials.texts(name)) for name in trials.tuned]
    return setting_table(trials, f"Settings of the sweep: {_INTERVAL}", columns)


def group_ratio_table(trials: Trials) -> Table | None:
    """Show the participation shares of groups at every setting; None where there are none, or no setting changes it."""
    ratios = [name for name in trials.metrics if re.fullmatch(r"group\..+(?<!\.participation)\.ratio", name)]
    if not any(moves(trials, name) for name in ratios):
        return None
    columns = [
        (name.removeprefix("group.").removesuffix(".ratio"), _with_halves(interval(trials.samples(name))))
        for name in ratios[:_GROUPS]
    ]
    note = f"{count(left, 'more group')} in the results." if (left := len(ratios) - len(columns)) > 0 else ""
    caption = f"Participation shares of groups, in multiples of their fair share: {_INTERVAL}"
    return setting_table(trials, caption, columns, note=note)


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
)
_KNOWN = (("Epsilon if the schedule is known", "privacy.epsilon_if_known", np.max, number),)


def privacy_table(trials: Trials) -> Table | None:
    """Show n, b and k as promised and as observed, and the noise, at every setting; None without ``privacy``.

    Observed are the most rounds and participations and the least distance of any run of a setting: the values that
    would break the promise first.
    """
    if "privacy.epsilon" not in trials.metrics:
        return None
    columns: list[SettingColumn] = []
    secret = "privacy.epsilon_if_known" in trials.metrics
    for head, metric, over, write in _PROMISES + _KNOWN * secret:
        known = [row[np.isfinite(row)] for row in trials.samples(metric)]
        columns.append((head, [write(over(row)) if len(row) else NO_VALUE for row in known]))
    note = (
        "n rounds, at least b rounds from one participation of a client to its next, at most k of them. Only what is "
        "promised, because the server enforces it, counts for epsilon; what was observed is luck where it is better. "
        f"Epsilon is for {scope_of(secret)}{', this page included' * secret}, at the scenario's delta."
    )
    return setting_table(trials, "What is promised to privacy, and what the runs had", columns, note=note)


def parts_table(trials: Trials, loss: LossParts) -> Table:
    """Show the parts of the loss of one optimizer at every setting."""
    every = loss.parts | {"whole loss": loss.total}
    columns = [(capitalized(words), _with_halves(interval(values), 3)) for words, values in every.items()]
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
    cells = [_with_halves(interval(optimizers.samples(in_case(figure, case))), 3) for case in cases]
    ranks = _with_halves(Interval(found.mean, found.margin), 3)
    names = optimizers.settings["optimizer"]
    rows = tuple((names[row], ranks[row], *(each[row] for each in cells)) for row in found.order.tolist())
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
        f"its column allows, is worse. By {FIGURE_WORDS[optimizers.meta['figure']]}{or_loss}; costs are medians until "
        "the target. Memory is what an optimizer tells of itself."
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
