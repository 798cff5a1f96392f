"""How long sessions are, as a distribution of which expectations can be taken for every client at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from fedsim.common.arrays import Floats, Ints


@dataclass(frozen=True)
class Lengths:
    """Session lengths L_i = Y_g / v_i of clients i in groups g, cut at a limit; each Y_g has equally likely values.

    Attributes
    ----------
    group
        (N,) index of each client's group.
    speed
        (N,) v_i.
    values
        For each group the values of Y_g in ascending order, seconds.
    tails
        For each group the sums of its largest values: of all, of all but the first, ..., of none.
    limit_s
        Sessions end after this time at the latest, without a report.
    """

    group: Ints
    speed: Floats
    values: tuple[Floats, ...]
    tails: tuple[Floats, ...]
    limit_s: float

    @classmethod
    def of(cls, group: Ints, speed: Floats, values: Sequence[Floats], limit_s: float = float("inf")) -> Self:
        """Return the distribution; the values are put in order."""
        ordered = tuple(np.sort(each) for each in values)
        tails = tuple(np.append(np.cumsum(each[::-1])[::-1], 0.0) for each in ordered)
        return cls(group, speed, ordered, tails, limit_s)

    def mean(self) -> Floats:
        """Return E[min(L, limit)], (N,)."""
        return self.beyond(np.zeros(len(self.speed)))

    def within(self) -> Floats:
        """Return P(L <= limit), (N,): the share of sessions that report."""
        return self._share_up_to(np.full(len(self.speed), self.limit_s))

    def share_up_to(self, bound_s: Floats) -> Floats:
        """Return P(min(L, limit) <= bound), (N,)."""
        return np.where(bound_s >= self.limit_s, 1.0, self._share_up_to(bound_s))

    def beyond(self, bound_s: Floats) -> Floats:
        """Return E[max(min(L, limit) - bound, 0)], (N,)."""
        beyond = self._beyond(bound_s)
        if np.isfinite(self.limit_s):
            beyond = np.maximum(beyond - self._beyond(np.maximum(bound_s, self.limit_s)), 0.0)
        return beyond

    def distinct(self) -> int | None:
        """Return how many lengths there are, if each client has one only, else None."""
        if any(each[0] != each[-1] for each in self.values):
            return None
        each = np.array([values[0] for values in self.values])[self.group] / self.speed
        return len(np.unique(np.minimum(each, self.limit_s)))

    def _share_up_to(self, bound_s: Floats) -> Floats:
        bound, shares = bound_s * self.speed, np.empty(len(bound_s))
        for index, values in enumerate(self.values):
            own = self.group == index
            # A bound that is a length but for rounding is reached.
            shares[own] = np.searchsorted(values, bound[own] * (1 + 1e-12), side="right") / len(values)
        return shares

    def _beyond(self, bound_s: Floats) -> Floats:
        bound, beyond = bound_s * self.speed, np.empty(len(bound_s))
        for index, (values, tails) in enumerate(zip(self.values, self.tails, strict=True)):
            own = self.group == index
            first = np.searchsorted(values, bound[own], side="right")
            above = np.where(first < len(values), bound[own], 0.0) * (len(values) - first)
            beyond[own] = (tails[first] - above) / len(values)
        return np.maximum(beyond, 0.0) / self.speed
