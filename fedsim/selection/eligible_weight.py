r"""The weight that an eligible client competes with, when which of the others are eligible is chance.

Clients j are eligible with the chances e_j, independently of each other, and one is drawn in proportion to its weight.
With M the eligible weight,

    E[w_i / M | i is eligible] = int_0^oo w_i exp(-s w_i) prod_{j != i} (1 - e_j + e_j exp(-s w_j)) ds.

The trapezoidal rule in log s is off by about 1e-9. The eligible weight of clients who are light beside all that are
lighter still is taken to be a gamma variable, and what one of them sees of itself is of first order.
"""

import numpy as np

from fedsim.common.arrays import Floats

_STEP, _FROM, _TO = 0.4, 1e-5, 40.0  # of log s; s times all weight at first, times the least at last
_LIGHT = 0.02
_SURE = 1e-12


def competing_weight(eligible: Floats, weights: Floats) -> Floats:
    """Return 1 / E[1/M | i is eligible], (n,), by chances to be eligible and weights (n,)."""
    loose = eligible * (1.0 - eligible)
    if not loose.any():
        return np.asarray(float(eligible @ weights) + (1.0 - eligible) * weights)
    order, is_heavy = np.argsort(weights), np.zeros(len(weights), dtype=bool)
    is_heavy[order] = weights[order] > _LIGHT * np.cumsum((eligible * weights)[order])
    light, p, e = ~is_heavy, weights[is_heavy], np.clip(eligible[is_heavy], _SURE, 1.0 - _SURE)
    mean, variance = float((eligible * weights)[light].sum()), float((loose * weights**2)[light].sum())
    least = min(p.min(initial=np.inf), mean or np.inf)
    s = np.exp(np.arange(np.log(_FROM / weights.sum()), np.log(_TO / least), _STEP))[:, None]
    factor = np.log(1.0 - e + e * np.exp(-s * p))
    whole = factor.sum(axis=1, keepdims=True)
    whole -= mean**2 / variance * np.log1p(s * variance / mean) if variance else s * mean
    nodes = s * _STEP
    nodes[0] *= 1.0 + 1.0 / np.expm1(_STEP)  # and those before it
    inverse, seen = np.empty(len(weights)), nodes * np.exp(whole)
    inverse[is_heavy] = (nodes * np.exp(whole - factor - s * p)).sum(axis=0)
    inverse[light] = seen.sum() - (1.0 - eligible[light]) * weights[light] * (seen * s).sum()
    return np.asarray(1.0 / inverse)
