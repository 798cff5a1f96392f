"""What a run shows of bias: the one verdict on groups, time zones, tenths of the clients, and the run as a whole."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.formatting import cut, number, percent
from fedsim.common.instants import DAY_S
from fedsim.measure.series import by_day, by_span
from fedsim.measure.shares import ORDERED, WAYS
from fedsim.measure.verdict import LEVEL
from fedsim.run.run import Run

FORGOTTEN = 0.01  # distance from the long run at which the start counts as forgotten
FEW = 30  # no ratio is said of fewer counts on either side
FEW_CLIENTS = 20  # so many are said one by one, or from least to most
_UNLIKE = 0.1  # of the fewest local steps, by which those of groups differ at least to be shown
_LONGEST = 40  # characters of a name that are shown


class Seen(Enum):
    """What there is to be seen of a bias."""

    NO_ROUNDS = "the run has no rounds"
    NOBODY = "nobody took part"
    ALONE = "there is one client"
    UNMEASURED = "the distance from uniform was not measured"
    EVEN = "the counts of clients differ by at most one"
    ONCE = "nobody took part twice, and some did not at all"
    UNTESTED = "there are too few rounds or days to test"
    NONE = "no bias found"
    BIAS = "it is more than chance"


NOBODY = {Seen.NO_ROUNDS, Seen.NOBODY, Seen.ALONE, Seen.UNMEASURED}
"""Where there is nothing to judge."""


@dataclass(frozen=True)
class ClientShare:
    """Some of the clients, and their participation share over their fair share: 1 is even."""

    kind: str  # ``group``, ``zone``, ``weight``, ``speed`` or ``availability``
    name: str  # as a person gave it, or what the tenth is called
    size: float  # share of the clients
    taken: int  # reports that were taken
    times: float  # the participation share over the fair share
    # The interval of that, at the level of this look, and the least difference that is significant four times in five
    low: float = 0.0
    high: float = math.inf
    visible: float = math.inf
    significant: bool = False  # whether it differs from 1 by more than chance
    level: float = LEVEL  # at which that was judged, with a correction for the other looks
    key: str = ""  # of its fact; empty where it has none

    @property
    def facts(self) -> tuple[str, ...]:
        """The key of its fact, or the series that holds it."""
        return (self.key or "shares",)

    @property
    def tested(self) -> bool:
        """Whether it was compared with chance."""
        return math.isfinite(self.visible)

    @property
    def words(self) -> str:
        """The part, as a sentence names it."""
        quoted = f"“{cut(self.name, _LONGEST)}”"
        return {"group": quoted, "zone": self.name}.get(self.kind, f"the {self.name}")


@dataclass(frozen=True)
class Bias:
    """How far participation is from uniform, as total variation distance (TV), and whether that is more than chance."""

    seen: Seen
    measured: float = 0.0  # TV of this run
    fair: float | None = None  # TV of as many reports with equal chances, and the same separations; None if not known
    corrected: float | None = None  # TV without what noise adds; None where too few rounds or days tell
    low: float = 0.0  # ends of the interval of that; from 0, where the whole is not significant
    high: float = 1.0
    whole: bool = False  # whether the distance is more than chance
    more_even: bool = False  # whether participation is more even than equal chances make it
    visible: float | None = None  # the least TV that is significant four times in five
    parts: tuple[ClientShare, ...] = ()
    why: str = ""  # why nothing is tested, where that is so
    trend: str | None = None  # the way, ``speed`` or ``availability``, over whose tenths there is a significant trend

    @property
    def could_see(self) -> str:
        """What would have been found, where nothing was."""
        if self.seen is not Seen.NONE or self.visible is None:
            return ""
        if self.visible >= 1:
            return ", and the run is too short to find one"
        worst = max((part for part in self.parts if part.tested), key=lambda part: part.visible, default=None)
        if worst is None:
            return f"; a distance of {percent(self.visible)} from uniform beyond chance would show"
        times = f"{number(1 + worst.visible, 2)} times"
        least = times if worst.visible >= 1 else f"{percent(worst.visible)} more or less than"
        one = {"group": "a group", "zone": "a time zone"}.get(worst.kind, worst.words)
        return f"; {one} with {least} its fair share would stand out"

    def of(self, kind: str) -> tuple[ClientShare, ...]:
        """Return the parts of a kind, in their order."""
        return tuple(part for part in self.parts if part.kind == kind)

    @property
    def contrasts(self) -> list[tuple[ClientShare, ClientShare]]:
        """The two significant parts of a kind that differ most, the higher one first; if there is one, twice that.

        The first are of what a person set, and the second of what is found in the run: tenths by speed and by available
        time, unless these have a trend, which says it.
        """
        best = dict[bool, tuple[float, tuple[ClientShare, ClientShare]]]()
        for kind in WAYS:
            parts = sorted((part for part in self.of(kind) if part.significant), key=lambda each: -each.times)
            if parts and kind != self.trend:
                low, high = min(parts[-1].times, 1.0), max(parts[0].times, 1.0)
                candidate = (high / low if low else math.inf, (parts[0], parts[-1]))
                best[kind in ORDERED] = max(best.get(kind in ORDERED, candidate), candidate, key=lambda each: each[0])
        return [best[measured][1] for measured in (False, True) if measured in best]


def one_round(run: Run) -> bool:
    """Say whether there is but one round of several clients, of which nothing can be said."""
    return len(run.rounds) == 1 and len(run.clients) > 1


def of_a_month(run: Run) -> bool:
    """Say whether what a run of a few clients shows of 30 days follows from fewer, which its rounds took."""
    all_done = run.scenario.log is None and len(run.rounds) >= run.scenario.stop.most_rounds
    return all_done and 1 < len(run.clients) < FEW_CLIENTS and DAY_S <= run.simulated_s < 30 * DAY_S


def pace_of(run: Run) -> tuple[float, float]:
    """Return of how many days a run tells how many reports come in a day, and of all its reports the share a day.

    They are its whole days where availability follows the clock: the rest may hold a whole night, or none.
    """
    days, taken = run.simulated_s / DAY_S, run.rounds["reported"]
    if not by_day(run.scenario) or days < 1:
        return days, 1 / days
    early = taken.filter(run.rounds["closed_s"] <= days // 1 * DAY_S)
    return days // 1, int(early.sum()) / max(int(taken.sum()), 1) / (days // 1)


def bias_of(run: Run) -> Bias:
    """Return the verdict on a run and its parts, which stands in its series."""
    (whole,), looks = run.series["bias"].rows(named=True), run.series["shares"].drop_nulls("look").rows(named=True)
    names = {"look": "name", "value": "times"}
    plain = ("kind", "look", "size", "taken", "value")
    judged = (*plain, "low", "high", "visible", "significant", "level")

    def part(row: Mapping[str, Any]) -> ClientShare:
        columns = plain if row["visible"] is None else judged
        return ClientShare(**{names.get(name, name): row[name] for name in columns}, key=row["key"] or "")

    parts = tuple(map(part, looks))
    return Bias(Seen[whole.pop("seen")], parts=parts, **{name: each for name, each in whole.items() if name != "p"})


def group_spans(run: Run) -> Floats | None:
    """Return the reports of every group by spans of the run, (spans, groups); None where they are not known."""
    by, groups = by_span(run.series, "reports"), run.clients["group"].unique(maintain_order=True)
    if by is None or len(by) < 2:
        return None
    of_part = run.series["reports"].filter(span=0)["group"].to_numpy()
    spans = np.stack([by[:, of_part == name].sum(axis=1) for name in groups], axis=1, dtype=np.float64)
    return spans if spans.sum(axis=1).all() else None


def steps_by_group(run: Run) -> dict[str, float]:
    """Return how many local steps the reports of each group hold on average; nothing unless they differ by a tenth."""
    keys = {name: f"group.{name}.sessions.steps_mean" for name in run.clients["group"].unique(maintain_order=True)}
    steps = {name: run.known[key] for name, key in keys.items() if key in run.known}
    return steps if steps and max(steps.values()) > (1 + _UNLIKE) * min(steps.values()) else {}


def moved_groups(run: Run) -> dict[str, tuple[float, float]]:
    """Return the participation shares in both halves of the run (1: fair) of groups whose share changed.

    That is by more than four standard errors of independent reports.
    """
    if (reports := group_spans(run)) is None:
        return {}
    sizes = dict(run.clients.group_by("group", maintain_order=True).len().iter_rows())
    halves = np.stack([half.sum(axis=0) for half in (reports[: len(reports) // 2], reports[-(len(reports) // 2) :])])
    ends, chance = halves / halves.sum(axis=1, keepdims=True), halves.sum(axis=0) / halves.sum()
    error = np.sqrt(chance * (1 - chance) * (1 / halves.sum(axis=1)).sum())
    moved, times = np.abs(ends[1] - ends[0]) > 4 * error, ends * len(run.clients) / np.array([*sizes.values()])
    return {name: (float(a), float(b)) for name, (a, b), far in zip(sizes, times.T, moved, strict=True) if far}
