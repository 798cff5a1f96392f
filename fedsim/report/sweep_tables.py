"""The tables of a sweep's report, a row for each setting."""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.formatting import NO_VALUE, above_dust, capitalized, count, duration, listing, number
from fedsim.findings.choice import LossParts, SweepChoice
from fedsim.findings.finished_sweep import FinishedSweep, names_of
from fedsim.findings.metric_wording import PACE, difference, tv
from fedsim.findings.sweep import moves
from fedsim.findings.tournament import MEMORY, Tournament, allowed, leaders, ranks, winners
from fedsim.privacy.guarantee import scope_of
from fedsim.report.tables import Table
from fedsim.trials.decision import Interval, interval

SETTINGS = 60  # settings in a table at most
_METRICS = 5  # metrics in a table at most
_SENSE = 1e30  # larger figures are those of training that diverged
_GROUPS = 8  # groups in a table at most

SettingColumn: TypeAlias = tuple[str, Sequence[str]]

_INTERVAL = "mean ± half of the 95 % interval"


def setting_table(
    sweep: FinishedSweep,
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
    values = [sweep.values(name) for name in sweep.parameters]
    rows = tuple(zip(*values, *(cells for _, cells in columns), strict=True))
    rows = rows if order is None else tuple(rows[row] for row in order)
    left = len(rows) - SETTINGS
    more = f"The first {SETTINGS} settings; {count(left)} more are in the results of the sweep." if left > 0 else ""
    header = (*names_of(sweep.parameters).values(), *(head for head, _ in columns))
    return Table(caption, header, rows[:SETTINGS], len(sweep.parameters) + words, " ".join(filter(None, (note, more))))


def _with_halves(found: Interval, digits: int = 4) -> list[str]:
    def write(mean: float, half: float) -> str:
        if abs(mean) > _SENSE:
            return "diverged"
        return number(mean, digits) + (f" ± {number(half, 2)}" if np.isfinite(half) else "")

    return list(map(write, found.mean.tolist(), found.half.tolist()))


def choice_table(sweep: FinishedSweep, found: SweepChoice) -> Table | None:
    """Show the settings from the best to the worst, and how far each is from the best; None where there is no best."""
    ranking, settings, best = found.ranking, range(len(found.names)), found.ranking.best
    if best is None or len(settings) < 2:
        return None
    objective = [found.at(row) if np.isfinite(found.mean[row]) else NO_VALUE for row in settings]
    apart = [
        difference(found.wording, float(mean), float(half)) if row != best and np.isfinite(mean) else NO_VALUE
        for row, (mean, half) in enumerate(zip(ranking.difference, ranking.half, strict=True))
    ]
    bias = interval(found.bias)[0]
    columns = [
        ("Standing", found.standings),
        *([(found.wording.metric, objective)] if found.wording.metric not in {sweep.bias_metric, PACE} else []),
        ("From the most even" if found.open else "From the best", apart),
        ("TV from uniform", [tv(value) if np.isfinite(value) else NO_VALUE for value in bias.tolist()]),
        ("Rounds per day", [number(value) for value in found.paces.tolist()]),
    ]
    return setting_table(sweep, f"Settings by {found.wording.words}", columns, words=1, order=found.order)


def point_table(sweep: FinishedSweep, chosen: Sequence[str]) -> Table:
    """Show the means at every point, and what was tuned for it."""
    names = names_of((*sweep.parameters, *sweep.tuned))
    columns: list[SettingColumn] = [(metric, _with_halves(sweep.estimates(metric))) for metric in chosen[:_METRICS]]
    columns += [(f"{names[name]} (tuned)", sweep.values(name)) for name in sweep.tuned]
    return setting_table(sweep, f"Settings of the sweep: {_INTERVAL}", columns)


def group_ratio_table(sweep: FinishedSweep) -> Table | None:
    """Show the participation shares of groups at every setting; None where there are none, or no setting changes it."""
    ratios = [name for name in sweep.metrics if re.fullmatch(r"group\..+(?<!\.participation)\.ratio", name)]
    if not any(moves(sweep, name) for name in ratios):
        return None
    columns = [
        (name.removeprefix("group.").removesuffix(".ratio"), _with_halves(sweep.estimates(name)))
        for name in ratios[:_GROUPS]
    ]
    note = f"{count(left, 'more group')} in the results." if (left := len(ratios) - len(columns)) > 0 else ""
    caption = f"Participation shares of groups, in multiples of their fair share: {_INTERVAL}"
    return setting_table(sweep, caption, columns, note=note)


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


def privacy_table(sweep: FinishedSweep) -> Table | None:
    """Show n, b and k as promised and as observed, and the noise, at every setting; None without ``privacy``.

    Observed are the most rounds and participations and the least distance of any run of a setting: the values that
    would break the promise first.
    """
    if "privacy.epsilon" not in sweep.metrics:
        return None
    columns: list[SettingColumn] = []
    secret = "privacy.epsilon_if_known" in sweep.metrics
    for head, metric, over, write in _PROMISES + _KNOWN * secret:
        known = [row[np.isfinite(row)] for row in sweep.samples(metric)]
        columns.append((head, [write(over(row)) if len(row) else NO_VALUE for row in known]))
    note = (
        "n rounds, at least b rounds from one participation of a client to its next, at most k of them. Only what is "
        "promised, because the server enforces it, counts for epsilon; what was observed is luck where it is better. "
        f"Epsilon is for {scope_of(secret)}{', this page included' * secret}, at the scenario's delta."
    )
    return setting_table(sweep, "What is promised to privacy, and what the runs had", columns, note=note)


def parts_table(sweep: FinishedSweep, loss: LossParts) -> Table:
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
    return setting_table(sweep, f"Loss of “{loss.name}” above the optimum: {_INTERVAL}", columns)


def tournament_table(found: Tournament) -> Table:
    """Show optimizers by mean rank, and their figure in every case."""
    mean, half = interval(ranks(found.values))
    every, spread = interval(found.finite)
    rows = []
    for row in leaders(found.values)[0]:
        cells = _with_halves(Interval(every[row], spread[row]), 3)
        rows.append((found.names[row], f"{number(mean[row], 3)} ± {number(half[row], 2)}", *cells))
    cases = [case or "Value" for case in found.cases]
    return Table(
        f"Optimizers by mean rank, and {found.words}: {_INTERVAL}", ("Optimizer", "Mean rank", *cases), tuple(rows)
    )


def winners_table(found: Tournament) -> Table | None:
    """Show who is the best in each case within the memory that there is; None where memory makes no difference."""
    within = allowed(found)
    if len(found.cases) < 2 or (within == within[0]).all():
        return None
    rows = tuple(
        (case, *(_won(found, row, best) for best in cells))
        for row, (case, cells) in enumerate(zip(found.cases, winners(found), strict=True))
    )
    or_loss = ", or the loss where no optimum is known" if found.figure == "bias" else ""
    note = (
        "Paired t tests of ratios over the seeds, 5\N{NARROW NO-BREAK SPACE}% with Holm's correction for the whole "
        f"table: what a cell does not name, and its column allows, is worse. By {found.words}{or_loss}; costs are "
        "medians until the target. Memory is what an optimizer tells of itself."
    )
    caption, head = "Which optimizer, by case and by the memory that there is", ("Case", *MEMORY)
    return Table(caption, head, rows, len(head), note)


def _won(found: Tournament, case: int, best: Sequence[int]) -> str:
    """Write a cell of the table of winners: the best with its figure and costs, and who ties."""
    if not best:
        return NO_VALUE
    cost = {name: values[best[0], case] for name, values in found.costs.items()}
    reached = all(np.isfinite(each).all() for each in cost.values())
    rounds, time, sent = (float(np.median(each)) if reached else np.nan for each in cost.values())
    took = f"; {count(rounds)} rounds, {duration(time)}, {number(sent, 2)} MB" if reached else ""
    ties = f"; tied: {listing([found.names[row] for row in best[1:]])}" if len(best) > 1 else ""
    return f"{found.names[best[0]]} {above_dust(float(found.values[best[0], case].mean()), 2)}{took}{ties}"
