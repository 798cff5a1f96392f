"""Distances of all separations at once, by recurrences over sample sizes: independent of `poisson_sampling`."""

import numpy as np

from fedsim.common.arrays import Floats


def distances_by_recurrence(weights: Floats, cohort: int, law: str) -> Floats:
    """Return the L1 distance of pi_R from uniform for all R from 0 to floor(N / B) - 1, of Midzuno or groups."""
    p, size = weights / weights.sum(), cohort
    if law == "groups":
        p, size = p.reshape(-1, cohort).sum(axis=1), 1
    n = np.arange(1, p.size // size + 1)
    room = p.size - n * size
    return np.where(room > 0, spreads(p)[n - 1] * room / (n * np.maximum(p.size - n, 1) * size), 0.0)


def spreads(weights: Floats) -> Floats:
    """Return sum_i abs(c_i(n) - n/N) for n = 1..N, in O(N^2) time and O(N) memory.

    The inclusion probabilities of consecutive sample sizes are tied by c_i(n) = a (1 - c_i(n - 1)), a = p_i / rho_n
    (Chen, Dempster and Liu 1994). Since c_i increases with n, c_i(n - 1) <= 1/2 while a <= 1: going up keeps full
    precision there. Where a >= 1, 1 - c_i(n) <= 1/2, and going down from c_i(N) = 1 keeps it.
    """
    p = np.sort(weights)[::-1]
    count = p.size
    rho = ratios(p)
    heavy = np.searchsorted(-p, -rho, side="left")  # how many weights are above rho_n: those go down, the rest up
    total = np.zeros(count)
    c = np.zeros(count)
    for n in range(1, count + 1):
        light = slice(heavy[n - 1], count)
        c[light] = p[light] / rho[n - 1] * (1.0 - c[light])
        total[n - 1] = np.abs(c[light] - n / count).sum()
    rest = np.zeros(count)  # 1 - c_i(n) of the heavy ones
    for n in range(count - 1, 0, -1):
        heaviest = slice(0, heavy[n])
        rest[heaviest] = (1.0 - rest[heaviest]) * (rho[n] / p[heaviest])
        total[n - 1] += np.abs((1.0 - n / count) - rest[: heavy[n - 1]]).sum()
    return total


def ratios(weights: Floats) -> Floats:
    """Return rho_k = e_k / e_{k-1} of elementary symmetric polynomials, k = 1..N, to a few N rounding units.

    Adding a unit of weight p gives rho_k <- (rho_k + p) rho_{k-1} / (rho_{k-1} + p), in which nothing cancels.
    """
    rho = np.zeros(weights.size)
    for count, p in enumerate(weights.tolist()):
        before = rho[:count]
        rho[1 : count + 1] = (rho[1 : count + 1] + p) * (before / (before + p))  # in this order nothing underflows
        rho[0] += p
    return rho
