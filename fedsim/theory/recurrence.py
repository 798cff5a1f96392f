"""Conditional Poisson sampling of every sample size at once, by recurrences in which nothing cancels.

With e_k the elementary symmetric polynomials of the weights and rho_k = e_k / e_{k-1}, adding a unit of
weight p gives

    rho_k <- (rho_k + p) rho_{k-1} / (rho_{k-1} + p),

and the inclusion probabilities of consecutive sample sizes are tied by c_i(n) = a (1 - c_i(n - 1)), a = p_i /
rho_n (Chen, Dempster and Liu 1994). Since c_i increases with n, c_i(n - 1) <= 1/2 while a <= 1: going up
keeps full precision there. Where a >= 1, 1 - c_i(n) <= 1/2, and going down from c_i(N) = 1 keeps it. All N
sizes cost O(N^2).
"""

import numpy as np

from fedsim.common.arrays import Floats


def ratios(weights: Floats) -> Floats:
    """Return rho_k = e_k / e_{k-1} for k = 1..N of (N,) positive weights, in O(N^2).

    The relative error is at most a few N rounding units.
    """
    rho = np.zeros(weights.size)
    for count, p in enumerate(weights.tolist()):
        before = rho[:count]
        rho[1 : count + 1] = (rho[1 : count + 1] + p) * (before / (before + p))  # in this order nothing underflows
        rho[0] += p
    return rho


def spreads(weights: Floats) -> Floats:
    """Return sum_i abs(c_i(n) - n/N) for n = 1..N of (N,) positive weights, in O(N^2) time and O(N) memory."""
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
        known = slice(0, heavy[n])
        rest[known] = (1.0 - rest[known]) * (rho[n] / p[known])
        total[n - 1] += np.abs((1.0 - n / count) - rest[: heavy[n - 1]]).sum()
    return total
