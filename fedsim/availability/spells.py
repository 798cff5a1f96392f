"""Intervals of many devices at once: half-open, in whole milliseconds, in flat arrays."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.instants import each_to_seconds


@dataclass(frozen=True)
class Spells:
    """Intervals [start, end) of devices 0..count-1, whichever these are: arrays (n,).

    `who` is the device of each, `starts` and `ends` are milliseconds. They may come in any order, and overlap; `joined`
    sorts them, and joins those that overlap or touch. All else that returns some leaves those of a device apart where
    they were.
    """

    who: Ints
    starts: Ints
    ends: Ints
    count: int

    @staticmethod
    def together(parts: Iterable["Spells"], count: int) -> "Spells":
        """Return the spells of several parts as one."""
        none = np.zeros(0, dtype=np.int64)
        who, starts, ends = map(np.concatenate, zip((none, none, none), *parts, strict=True))
        return Spells(who, starts, ends, count)

    def __iter__(self) -> Iterator[Ints]:
        """Yield the three columns."""
        return iter((self.who, self.starts, self.ends))

    @cached_property
    def starts_s(self) -> Floats:
        """The starts in seconds."""
        return each_to_seconds(self.starts)

    @cached_property
    def ends_s(self) -> Floats:
        """The ends in seconds."""
        return each_to_seconds(self.ends)

    @property
    def has(self) -> Bools:
        """(count,) whether a device has any."""
        return np.bincount(self.who, minlength=self.count) > 0

    def where(self, keep: Bools | NDArray[np.intp]) -> "Spells":
        """Return those (n,) that are to be kept, of the same devices."""
        return Spells(self.who[keep], self.starts[keep], self.ends[keep], self.count)

    def select(self, keep: Bools) -> "Spells":
        """Return those of some devices (count,) alone, renumbered in their order."""
        kept = keep[self.who]
        return Spells((np.cumsum(keep) - 1)[self.who[kept]], self.starts[kept], self.ends[kept], int(keep.sum()))

    def clip(self, since: int | Ints, until: int | Ints) -> "Spells":
        """Return what lies in [since, until), numbers or (n,)."""
        starts, ends = np.maximum(self.starts, since), np.minimum(self.ends, until)
        return Spells(self.who, starts, ends, self.count).where(starts < ends)

    def joined(self, gap: int = 1) -> "Spells":
        """Return them by device and start, those as one that overlap or are apart by less than a gap; of 0, overlap."""
        order = np.lexsort((self.starts, self.who))
        who, starts, ends = self.who[order], self.starts[order], self.ends[order]
        same = who[1:] == who[:-1]
        if (same & (starts[1:] < ends[:-1])).any():
            # The latest end so far of each device: a running maximum of ranks, which are shifted by the device.
            by_end = np.sort(ends)
            shift = who * np.int64(len(ends) + 1)
            ends = by_end[np.maximum.accumulate(shift + by_end.searchsorted(ends)) - shift]
        apart = ~same | (starts[1:] - ends[:-1] >= gap)
        opens, closes = (np.concatenate(each)[: len(who)] for each in (([True], apart), (apart, [True])))
        return Spells(who[opens], starts[opens], ends[closes], self.count)

    def less(self, other: "Spells") -> "Spells":
        """Return the instants of these, disjoint for each device, that lie in none of the others, which may overlap."""
        touched = other.has[self.who]
        # Each of the others takes away 2, so that nothing else comes to 1.
        left = _at_level([(self.where(touched), 1), (other, -2)], 1)
        return Spells.together([self.where(~touched), left.joined()], self.count)

    def complement(self, since: int, until: int) -> "Spells":
        """Return the instants of [since, until) that lie in none of them, by device and start."""
        every = np.arange(self.count if since < until else 0)
        return Spells(every, np.full_like(every, since), np.full_like(every, until), self.count).less(self).joined()

    def of(self, device: int) -> tuple[Ints, Ints]:
        """Return the starts and the ends of one device. These must be `joined`."""
        rows = slice(*self.who.searchsorted([device, device + 1]).tolist())
        return self.starts[rows], self.ends[rows]

    def near(self, who: Ints, first: int | Ints, last: int | Ints) -> tuple[NDArray[np.intp], Ints]:
        """Return the position in `who` and the row of every spell of some devices that touches [first, last].

        `who` (m,); `first` and `last` are numbers, or of shape (m,). These must be `joined`.
        """
        begin = self._rows(self._ranked_ends, who, first, "left")
        count = np.maximum(self._rows(self._ranked_starts, who, last, "right") - begin, 0)
        asked = np.repeat(np.arange(len(who)), count)
        return asked, np.arange(len(asked)) - np.repeat(np.cumsum(count) - count - begin, count)

    def at(self, who: Ints, instants: int | Ints) -> Bools:
        """Return whether each of some devices (m,) has a spell at an instant, a number or (m,); as `near`."""
        begun, over = (
            self._rows(ranked, who, instants, "right") for ranked in (self._ranked_starts, self._ranked_ends)
        )
        return begun > over

    def _rows(
        self, ranked: tuple[Ints, Ints], who: Ints, instants: int | Ints, side: Literal["left", "right"]
    ) -> NDArray[np.intp]:
        by_time, ranks = ranked
        place = np.asarray(by_time.searchsorted(instants, side=side))
        return ranks.searchsorted(who * np.int64(len(ranks) + 1) + place)

    @cached_property
    def _ranked_starts(self) -> tuple[Ints, Ints]:
        return self._ranked(self.starts)

    @cached_property
    def _ranked_ends(self) -> tuple[Ints, Ints]:
        return self._ranked(self.ends)

    def _ranked(self, times: Ints) -> tuple[Ints, Ints]:
        """Return the times sorted, and the rank of each, shifted by the device as in `joined`."""
        by_time = np.sort(times)
        return by_time, self.who * np.int64(len(times) + 1) + by_time.searchsorted(times)


def intersection(sets: Sequence[Spells]) -> Spells:
    """Return the instants that lie in every one of some sets, disjoint, over the same devices; by device and start."""
    return sets[0] if len(sets) == 1 else _at_level([(each, 1) for each in sets], len(sets))


def levels(owner: Ints, instants: Ints, steps: Ints) -> tuple[Ints, Ints, Ints]:
    """Return, by owner, the instants at which steps are taken, and the sum of the owner's steps up to and with it."""
    order = np.lexsort((instants, owner))
    owner, instants, level = owner[order], instants[order], np.cumsum(steps[order])
    last = np.ones(len(owner), dtype=np.bool_)  # of its instant: all that happens there has happened
    last[:-1] = (owner[1:] != owner[:-1]) | (instants[1:] > instants[:-1])
    return owner[last], instants[last], level[last]


def _at_level(parts: Sequence[tuple[Spells, int]], level: int) -> Spells:
    """Return the instants at which the steps of the spells that hold then sum up to a level."""
    spells = [each for each, _ in parts]
    who = np.concatenate([each.who for each in spells] * 2)
    instants = np.concatenate([each.starts for each in spells] + [each.ends for each in spells])
    steps = np.repeat([step for _, step in parts], [len(each.who) for each in spells])
    who, instants, sums = levels(who, instants, np.concatenate([steps, -steps]))
    opens = np.flatnonzero(sums == level)
    return Spells(who[opens], instants[opens], instants[opens + 1], spells[0].count)
