"""Independent references: brute force over windows, and rational arithmetic."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, permutations, product
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
    distribution = np.full(len(windows), 1.0 / len(windows))
    backward = sparse.csr_array((chances, (columns, rows)), shape=(len(windows), len(windows)))
    for _ in range(100_000):
        after = backward @ distribution
        if np.abs(after - distribution).sum() < 1e-15:  # what rounding leaves is less
            break
        distribution = after
    pi = np.zeros(weights.size)
    flow = distribution[rows] * np.asarray(chances)
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


def largest_relative_error(shares: NDArray[np.float64], reference: Sequence[Fraction]) -> float:
    """Largest abs(found / reference - 1), computed in rational arithmetic."""
    return max(float(abs(Fraction(float(a)) / b - 1)) for a, b in zip(shares, reference, strict=True))


Move = tuple[int, int, float, tuple[int, ...]]  # from a state to another, with a chance, by a cohort


def moves_of(
    weights: NDArray[np.float64], separations: Sequence[int], cohort: int, law: str
) -> tuple[list[Move], NDArray[np.float64], NDArray[np.float64]]:
    """Transitions between the clients' remaining waits, over cohorts written out in full; their matrix; its limit law.

    Law `midzuno` or `successive`.
    """
    start = (0,) * weights.size
    number, queue, moves = {start: 0}, [start], list[Move]()
    for waits in queue:
        free = [i for i, wait in enumerate(waits) if not wait]
        for chosen in combinations(free, cohort):
            if law == "midzuno":
                chance = sum(weights[i] for i in chosen) / comb(len(free) - 1, cohort - 1) / weights[free].sum()
            else:
                chance = 0.0
                for order in permutations(chosen):
                    drawn, left = 1.0, weights[free].sum()
                    for i in order:
                        drawn, left = drawn * weights[i] / left, left - weights[i]
                    chance += drawn
            after = tuple(separations[i] if i in chosen else max(0, wait - 1) for i, wait in enumerate(waits))
            if after not in number:
                number[after] = len(queue)
                queue.append(after)
            moves.append((number[waits], number[after], chance, chosen))
    matrix = np.zeros((len(queue), len(queue)))
    for source, target, chance, _ in moves:
        matrix[source, target] += chance
    return moves, matrix, np.linalg.matrix_power(matrix, 1 << 20)[0]


def summed_covariance(
    weights: NDArray[np.float64], separations: Sequence[int], cohort: int, law: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shares pi, and sum over all k of Cov(X_0, X_k) / B^2: autocovariances, added up by doubling."""
    moves, matrix, law_of = moves_of(weights, separations, cohort, law)
    count = len(matrix)
    taken, leads_to = np.zeros((count, weights.size)), np.zeros((weights.size, count))
    together = np.zeros((weights.size, weights.size))
    for source, target, chance, chosen in moves:
        taken[source, list(chosen)] += chance
        leads_to[list(chosen), target] += law_of[source] * chance
        together[np.ix_(chosen, chosen)] += law_of[source] * chance
    mean = law_of @ taken
    power, summed = matrix - law_of, np.eye(count) - law_of
    while np.abs(power).max() > 1e-17:
        summed, power = summed + power @ summed, power @ power
    follow = leads_to @ summed @ taken
    return mean / cohort, (together - np.multiply.outer(mean, mean) + follow + follow.T) / cohort**2


def mean_of_model(
    moves: list[Move], law_of: NDArray[np.float64], pulls: NDArray[np.float64], optima: NDArray[np.float64]
) -> float:
    """Mean of x in the limit of x <- x + mean over cohorts of u_i (c_i - x), one coordinate: a series, by doubling."""
    shrink, gain = np.zeros((len(law_of), len(law_of))), np.zeros(len(law_of))
    for source, target, chance, chosen in moves:
        shrink[target, source] += chance * (1.0 - sum(pulls[i] for i in chosen) / len(chosen))
        gain[target] += law_of[source] * chance * sum(pulls[i] * optima[i] for i in chosen) / len(chosen)
    while np.abs(shrink).max() > 1e-18:
        gain, shrink = gain + shrink @ gain, shrink @ shrink
    return float(gain.sum())


def shortage_shares(
    weights: NDArray[np.float64], separations: Sequence[int], size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shares of participations and pulls under law `bernoulli`, from all ready, averaged over a very long time.

    States are the remaining waits, and cohorts are written out in full; all are taken where at most `size` are ready.
    """
    start = (0,) * weights.size
    number, queue, rows = {start: 0}, [start], list[tuple[int, int, float, tuple[int, ...]]]()
    for waits in queue:
        free = [i for i, wait in enumerate(waits) if not wait]
        low, high = 0.0, 1.0 / weights.min()
        for _ in range(200):  # of the factor s of min(1, s p_i)
            middle = (low + high) / 2
            low, high = (middle, high) if np.minimum(1.0, middle * weights[free]).sum() < size else (low, middle)
        chances = np.minimum(1.0, high * weights[free]) if len(free) > size else np.ones(len(free))
        for taken in product([False, True], repeat=len(free)):
            chance = float(np.where(taken, chances, 1.0 - chances).prod())
            if chance < 1e-15:
                continue
            chosen = tuple(i for i, takes in zip(free, taken, strict=True) if takes)
            after = tuple(separations[i] if i in chosen else max(0, wait - 1) for i, wait in enumerate(waits))
            if after not in number:
                number[after] = len(queue)
                queue.append(after)
            rows.append((number[waits], number[after], chance, chosen))
    lazy = np.eye(len(queue)) / 2
    for source, target, chance, _ in rows:
        lazy[source, target] += chance / 2
    for _ in range(40):
        lazy = lazy @ lazy
        lazy /= lazy.sum(axis=1, keepdims=True)
    shares, pulls = np.zeros((2, weights.size))
    for source, _, chance, chosen in rows:
        shares[list(chosen)] += lazy[0, source] * chance
        pulls[list(chosen)] += lazy[0, source] * chance / max(1, len(chosen))
    return shares / shares.sum(), pulls / pulls.sum()


def turns(clients: int, cohort: int, separations: Sequence[int]) -> list[Fraction] | None:
    """Shares when clients take part in turn, who waits being skipped; None where too few are ready for a round."""
    after, waits, seen, cohorts = 0, (0,) * clients, dict[tuple[int, tuple[int, ...]], int](), list[list[int]]()
    while (after, waits) not in seen:
        seen[after, waits] = len(cohorts)
        chosen = [i for i in ((after + k) % clients for k in range(clients)) if not waits[i]][:cohort]
        if len(chosen) < cohort:
            return None
        after = (chosen[-1] + 1) % clients
        waits = tuple(separations[i] if i in chosen else max(0, wait - 1) for i, wait in enumerate(waits))
        cohorts.append(chosen)
    period = cohorts[seen[after, waits] :]
    return [Fraction(sum(i in each for each in period), cohort * len(period)) for i in range(clients)]
