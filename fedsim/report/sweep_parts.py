"""What the loss above the optimum is made of along a sweep: bias, participation noise and privacy noise."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.report.answer import MODEL, Sentence
from fedsim.report.finished_sweep import FinishedSweep
from fedsim.report.formatting import listing, listing_of, number, percent
from fedsim.sweeps.decision import Ranking, interval, rank

_TOTAL = "above_optimum"
_PARTS = ("bias", "participation noise", "privacy noise")  # what they are called, as are their metrics
_OPTIMIZERS = 4  # optimizers described at most
_NAMED = 3  # settings that a sentence names at most


@dataclass(frozen=True, eq=False)
class LossParts:
    """The loss of one optimizer above the optimum, and its parts."""

    name: str  # of the optimizer
    # (settings, seeds), NaN where there is no value; parts by what they are called
    total: Floats
    parts: dict[str, Floats]
    # Simulated time to the target, s; without a value where it was not reached, None where there was no target
    time: Floats | None
    ranking: Ranking  # of the settings by the total


def loss_parts(sweep: FinishedSweep) -> tuple[LossParts, ...]:
    """Return the parts of every optimizer that has them."""
    known, found = sweep.metrics, []
    names = [each[1] for name in known if (each := re.fullmatch(rf"learning\.(.+)\.{_TOTAL}", name))]
    for name in names[:_OPTIMIZERS]:
        prefix = f"learning.{name}."
        total = sweep.samples(prefix + _TOTAL)
        parts = {part: sweep.samples(f"{prefix}{part.replace(' ', '_')}_loss") for part in _PARTS}
        has_target = any(prefix + each in known for each in ("time_to_target", "rounds_to_target"))
        time = sweep.samples(f"{prefix}time_to_target") if has_target else None
        found.append(LossParts(name, total, parts, time, rank(total, np.ones(len(total), dtype=bool))))
    return tuple(found)


def parts_sentences(sweep: FinishedSweep, found: tuple[LossParts, ...]) -> Iterator[Sentence]:
    """Say where each optimizer ends closest to the optimum, how sure that is, and which part is the largest."""
    names, keys = sweep.point_names(), [axis.x for axis in sweep.axes]
    along = np.lexsort(keys[::-1]) if keys else np.arange(len(names))
    for each in found:
        best, means = each.ranking.best, interval(each.total)[0]
        if best is None or len(names) < 2:
            continue
        half = float(interval(each.total)[1][best])
        margin = f" ± {number(half, 2)}" if np.isfinite(half) else ""
        order: list[int] = [row for row in along.tolist() if np.isfinite(means[row])]
        text = f"{each.name} ends closest to the optimum at {names[best]}: its loss is {number(float(means[best]), 3)}"
        yield Sentence(f"{text}{margin} above it; {_how_sure(each.ranking, names, order)}.", MODEL)
        shown = [_largest(each, row, names[row]) for row in dict.fromkeys((order[0], best, order[-1]))]
        if largest := [text for text in shown if text]:
            yield Sentence(f"The largest part of it is {listing(largest)}.", MODEL)


def _how_sure(ranking: Ranking, names: Sequence[str], order: list[int]) -> str:
    """Say which settings may be as good as the best; `order` has those with a value in the order of the axes."""
    others = len(ranking.order) - 1
    if not np.isfinite(ranking.half[ranking.order[1:]]).any():
        return "one seed does not tell whether another is as good"
    tied = np.flatnonzero(ranking.tied).tolist()
    if not tied:
        return f"these seeds tell {'the other' if others == 1 else 'all others'} from it"
    if len(tied) == others:
        return "these seeds tell no other setting from it"
    among = [row for row in order if row in tied or row == ranking.best]
    if len(among) > 2 and order.index(among[-1]) - order.index(among[0]) + 1 == len(among):
        return f"these seeds do not tell apart what lies from {names[among[0]]} to {names[among[-1]]}"
    return f"these seeds do not tell it from {listing_of([names[row] for row in tied], _NAMED, 'more setting')}"


def _largest(each: LossParts, row: int, where: str) -> str:
    """Name the largest part at a setting, and its share of the whole; empty where a part is negative or unknown."""
    means = {words: float(interval(values)[0][row]) for words, values in each.parts.items()}
    total = float(interval(each.total)[0][row])
    if not all(0 <= value <= total for value in means.values()) or total <= 0:
        return ""
    words = max(means, key=means.__getitem__)
    return f"{words} at {where} ({percent(means[words] / total)})"
