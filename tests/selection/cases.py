"""Candidates and requests for a law that is asked by itself."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsim.common.keyed import Purpose, stream
from fedsim.population import Population
from fedsim.scenario.component import Component
from fedsim.selection import Candidates, Law, Request, selection_law


class Among:
    """Who is eligible, by a fixed mask; counts how often it is asked about all."""

    def __init__(self, mask: NDArray[np.bool_]) -> None:
        self.mask, self.asked_all = mask, 0

    def eligible(self, clients: NDArray[np.int64]) -> NDArray[np.bool_]:
        return self.mask[clients]

    def all_eligible(self) -> NDArray[np.bool_]:
        self.asked_all += 1
        return self.mask.copy()

    def possible(self) -> NDArray[np.uint64] | None:
        return None


def shown(mask: ArrayLike, last: ArrayLike | None = None) -> Candidates:
    """Return candidates of weight 1 / N with a fixed mask, selected last in the rounds `last`."""
    eligible = np.asarray(mask, dtype=np.bool_)
    n = len(eligible)
    rounds = np.full(n, -1) if last is None else np.asarray(last)
    zeros = np.zeros(n, dtype=np.int64)
    population = Population(
        group=zeros,
        group_names=("all",),
        weight=np.full(n, 1 / n),
        separation=zeros,
        cooldown_s=np.zeros(n),
        speed=np.ones(n),
        zone=zeros.astype(np.int16),
        zone_names=("UTC",),
    )
    return Candidates(Among(eligible), population, lambda clients: rounds[clients])


def request(number: int, count: int, after: int = -1, everyone: NDArray[np.int64] | None = None) -> Request:
    """Return a request in a synchronous round."""
    return Request(number, count, number, stream(0, 0, Purpose.OWN_SELECTION), after, everyone)


def law_of(kind: str, weights: NDArray[np.float64], cohort: int, seed: int, **options: Any) -> Law:
    """Return a law by name, with options where it is not built in."""
    return selection_law(Component(kind=kind, **options), weights, cohort, seed, 0)
