"""Independent references: brute force over windows, and rational arithmetic."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Window = tuple[frozenset[int], ...]


def midzuno_windows(weights: NDArray[np.float64], cohort: int, separation: int) -> NDArray[np.float64]:
    """Stationary participation by power iteration over every window of `separation` disjoint cohorts."""
    clients = range(weights.size)
    windows: list[Window] = [()]
    for _ in range(separation):
        windows = [
            (*window, frozenset(chosen))
            for window in windows
            for chosen in combinations([i for i in clients if all(i not in s for s in window)], cohort)
        ]
    number = {window: k for k, window in enumerate(windows)}
    rows, columns, chances, members = [], [], [], []
    for window, k in number.items():
        free = [i for i in clients if all(i not in s for s in window)]
        mass = comb(len(free) - 1, cohort - 1) * sum(weights[i] for i in free)
        for chosen in combinations(free, cohort):
            rows.append(k)
            columns.append(number[(*window[1:], frozenset(chosen))] if separation else 0)
            chances.append(sum(weights[i] for i in chosen) / mass)
            members.append(chosen)
    law = np.full(len(windows), 1.0 / len(windows))
    backward = sparse.csr_array((chances, (columns, rows)), shape=(len(windows), len(windows)))
    for _ in range(100_000):
        after = backward @ law
        if np.abs(after - law).sum() < 1e-15:  # what rounding leaves is less
            break
        law = after
    pi = np.zeros(weights.size)
    flow = law[rows] * np.asarray(chances)
    for place in range(cohort):
        np.add.at(pi, [chosen[place] for chosen in members], flow)
    return np.asarray(pi / pi.sum())


def conditional_poisson(weights: Sequence[float], size: int) -> list[Fraction]:
    """Inclusion probabilities in rational arithmetic: p_i e_{n-1}(without i) / e_n."""
    exact = [Fraction(w) for w in weights]

    def symmetric(values: list[Fraction], degree: int) -> Fraction:
        e = [Fraction(1)] + [Fraction(0)] * degree
        for value in values:
            for k in range(degree, 0, -1):
                e[k] += value * e[k - 1]
        return e[degree]

    total = symmetric(exact, size)
    return [p * symmetric(exact[:i] + exact[i + 1 :], size - 1) / total for i, p in enumerate(exact)]


def participation(c: Sequence[Fraction], clients: int, cohort: int, size: int) -> list[Fraction]:
    """Midzuno participation shares from the inclusion probabilities of the leaders."""
    if size == clients:
        return [Fraction(1, clients)] * clients
    fill = Fraction(cohort - 1, clients - size)
    return [(x / size + (1 - x) * fill) / cohort for x in c]


def largest_relative_error(found: NDArray[np.float64], reference: Sequence[Fraction]) -> float:
    """Largest abs(found / reference - 1), computed in rational arithmetic."""
    return max(float(abs(Fraction(float(a)) / b - 1)) for a, b in zip(found, reference, strict=True))
