r"""The pull of clients on a model that moves by the mean of a round, where cohorts vary in size.

::

    w_i = E[1{i in S} / |S|],    over the rounds that select anyone

Where all cohorts have one size w_i is pi_i, the share of participations. If clients take part independently, client j
with the chance P_j, the others of a cohort of i number K_i, a sum of independent indicators, and w_i is proportional to

    P_i E[1 / (1 + K_i)] = P_i \int_0^1 E[z^{K_i}] dz,    E[z^{K_i}] = prod_{j != i} (1 - P_j + P_j z).

A client that is ready in a share of the rounds, and then takes part with the chance h_j given the other clients' states
(a law that fixes the expected size of each cohort), has the factor (1 - h_j + h_j z)^{P_j / h_j} in their place: mean
and variance of the size are then those of the law.
"""

import numpy as np

from fedsim.common.arrays import Floats

_NODES = 64
_FAR = 40.0  # what is neglected is below exp(-40)


def independent_pulls(taken: Floats, chances: Floats) -> Floats:
    """Return w_i, (N,), sum 1, for clients of chances P_i = `taken` a round, and `chances` h_i where they are ready.

    Exact for independent clients (P = h), but for the quadrature, whose error is about 1e-14.
    """
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    reach = min(1.0, _FAR / float(taken.sum()))  # E[z^K] <= exp(-(1 - z) sum P)
    share, total = np.divide(taken, chances, out=np.zeros_like(taken), where=chances > 0.0), np.zeros(len(taken))
    for point, weight in zip(reach * (1.0 - points) / 2.0, weights, strict=True):
        factor = 1.0 - chances * point  # 1 - h + h z, at z = 1 - point
        total += weight * np.exp(share @ np.log(factor)) / factor
    total *= taken
    return np.asarray(total / total.sum())
