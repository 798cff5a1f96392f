"""What the loss above the optimum is made of along a sweep: bias, participation noise and privacy noise."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.report.answer import MODEL, Sentence
from fedsim.report.finished_sweep import FinishedSweep, names_of, point_names, values_of
from fedsim.report.formatting import capitalized, count, duration, listing, number, percent
from fedsim.report.sweep_axes import axes_of
from fedsim.report.tables import Table
from fedsim.sweeps.decision import Ranking, interval, rank, samples

TOTAL = "above_optimum"
PARTS = {
    "bias_loss": "bias",
    "participation_noise_loss": "participation noise",
    "privacy_noise_loss": "privacy noise",
}
"""Metrics of the parts, by what they are called."""

OPTIMIZERS = 4
"""Optimizers told of at most."""

NAMED = 3
"""Settings that a sentence names at most."""


@dataclass(frozen=True, eq=False)
class LossParts:
    """The loss of one optimizer above the optimum, and its parts.

    Parameters
    ----------
    name
        Of the optimizer.
    total, parts
        (settings, seeds), NaN where there is no value; parts by metric, in the order of `PARTS`.
    time
        Simulated time to the target, s; without a value where it was not reached, None where there was no target.
    ranking
        Of the settings by the total.
    """

    name: str
    total: Floats
    parts: dict[str, Floats]
    time: Floats | None
    ranking: Ranking


def loss_parts(sweep: FinishedSweep) -> tuple[LossParts, ...]:
    """Return the parts of every optimizer that has them."""
    points, seeds = sweep.points["point"].to_list(), sorted(set(sweep.runs["seed"].to_list()))
    known, found = sweep.metrics, []
    names = [each[1] for name in known if (each := re.fullmatch(rf"learning\.(.+)\.{TOTAL}", name))]

    def of(name: str, figure: str) -> Floats:
        return samples(sweep.results, f"learning.{name}.{figure}", points, seeds)

    for name in names[:OPTIMIZERS]:
        total = of(name, TOTAL)
        asked = any(f"learning.{name}.{each}" in known for each in ("time_to_target", "rounds_to_target"))
        found.append(
            LossParts(
                name,
                total,
                {part: of(name, part) for part in PARTS},
                of(name, "time_to_target") if asked else None,
                rank(total, np.ones(len(points), dtype=bool)),
            )
        )
    return tuple(found)


def parts_sentences(sweep: FinishedSweep, found: tuple[LossParts, ...]) -> Iterator[Sentence]:
    """Say where each optimizer ends closest to the optimum, how sure that is, and which part is the largest."""
    names = point_names(sweep)
    if len(names) < 2:
        return
    for each in found:
        best = each.ranking.best
        if best is None:
            continue
        mean, half = (float(values[best]) for values in interval(each.total))
        margin = f" ± {number(half, 2)}" if np.isfinite(half) else ""
        text = (
            f"{each.name} ends closest to the optimum at {names[best]}: its loss is {number(mean, 3)}{margin} above it"
        )
        yield Sentence(f"{text}; {_how_sure(sweep, each)}.", MODEL)
        order = _along(sweep, each)
        shown = [_largest(each, row, names[row]) for row in dict.fromkeys((order[0], best, order[-1]))]
        if told := [text for text in shown if text]:
            yield Sentence(f"The largest part of it is {listing(told)}.", MODEL)


def _how_sure(sweep: FinishedSweep, each: LossParts) -> str:
    ranking, names = each.ranking, point_names(sweep)
    others = len(ranking.order) - 1
    if not np.isfinite(ranking.half[ranking.order[1:]]).any():
        return "one seed does not tell whether another is as good"
    tied = np.flatnonzero(ranking.tied).tolist()
    if not tied:
        return f"these seeds tell {'the other' if others == 1 else 'all others'} from it"
    if len(tied) == others:
        return "these seeds tell no other setting from it"
    order = _along(sweep, each)
    among = [row for row in order if row in tied or row == ranking.best]
    first, last = order.index(among[0]), order.index(among[-1])
    if len(among) > 2 and last - first + 1 == len(among):
        return f"these seeds do not tell apart what lies from {names[among[0]]} to {names[among[-1]]}"
    more = [count(len(tied) - NAMED, "more setting")] if len(tied) > NAMED else []
    return f"these seeds do not tell it from {listing([*(names[row] for row in tied[:NAMED]), *more])}"


def _along(sweep: FinishedSweep, each: LossParts) -> list[int]:
    """Return the settings that have a value, in the order of the sweep's axes."""
    keys = [axis.x for axis in axes_of(sweep)]
    order = np.lexsort(keys[::-1]) if keys else np.arange(len(each.total))
    known = np.isfinite(interval(each.total)[0])
    return [int(row) for row in order if known[row]]


def _largest(each: LossParts, row: int, where: str) -> str:
    """Name the largest part at a setting, and its share of the whole; empty where a part is negative or unknown."""
    means = {words: float(interval(each.parts[part])[0][row]) for part, words in PARTS.items()}
    total = float(interval(each.total)[0][row])
    if not all(0 <= value <= total for value in means.values()) or total <= 0:
        return ""
    words = max(means, key=means.__getitem__)
    return f"{words} at {where} ({percent(means[words] / total)})"


def parts_tables(sweep: FinishedSweep, found: tuple[LossParts, ...], most: int) -> tuple[Table, ...]:
    """Show the parts of each optimizer at every setting, at `most` of them."""
    return tuple(_table(sweep, each, most) for each in found)


def _table(sweep: FinishedSweep, each: LossParts, most: int) -> Table:
    columns = [*map(_estimates, each.parts.values()), _estimates(each.total)]
    header = [*map(capitalized, PARTS.values()), "Together"]
    if each.time is not None:
        columns.append(_times(each.time))
        header.append("Time to target")
    values = [values_of(sweep, name) for name in sweep.parameters]
    rows = tuple(zip(*values, *columns, strict=True))
    left = len(rows) - most
    note = f"The first {most} settings; {count(left)} more are in the results of the sweep." if left > 0 else ""
    caption = f"Loss of {each.name} above the optimum: mean ± half of the 95 % interval"
    return Table(
        caption, (*names_of(sweep.parameters).values(), *header), rows[:most], len(sweep.parameters), note=note
    )


def _estimates(values: Floats) -> list[str]:
    return [
        f"{number(mean, 3)} ± {number(half, 2)}" if np.isfinite([mean, half]).all() else number(mean, 3)
        for mean, half in zip(*(found.tolist() for found in interval(values)), strict=True)
    ]


def _times(values: Floats) -> list[str]:
    """Write the mean time of the seeds that reached the target, and how many did where not all."""
    reached, seeds = np.isfinite(values).sum(axis=1).tolist(), values.shape[1]
    means = interval(values)[0].tolist()
    return [
        "not reached" if not n else duration(mean) + ("" if n == seeds else f" ({n} of {seeds} seeds)")
        for mean, n in zip(means, reached, strict=True)
    ]
