"""Short lengths of habits fitted to a trace: the law, of those that habits know, that foretells other lengths best."""

from typing import Any

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.scenario.units import format_duration

_LARGEST_SIGMA = 10.0


def short_lengths(lengths: Floats) -> dict[str, Any]:
    """Return the law of some lengths as it is written in a scenario: exponential or lognormal.

    Each law is fitted by maximum likelihood to every other length and judged by its likelihood of the rest, and the
    other way round; the lognormal law, which has one parameter more, must gain more than one unit by it. The one that
    is chosen is fitted to all.

    Parameters
    ----------
    lengths
        (n,) positive seconds, in an order that says nothing about them.
    """
    halves = (lengths[::2], lengths[1::2])
    gain = sum(
        _lognormal_likelihood(judged, fitted) - _exponential_likelihood(judged, fitted)
        for fitted, judged in (halves, halves[::-1])
    )
    if gain <= 1.0:
        return {"kind": "exponential", "mean": format_duration(max(float(round(lengths.mean())), 1.0))}
    logs = np.log(lengths)
    return lognormal(float(np.exp(logs.mean())), float(logs.std()))


def lognormal(median: float, sigma: float) -> dict[str, Any]:
    """Write a lognormal law, to the second."""
    written = format_duration(max(float(round(median)), 1.0))
    return {"kind": "lognormal", "median": written, "sigma": round(min(sigma, _LARGEST_SIGMA), 3)}


def _exponential_likelihood(judged: Floats, fitted: Floats) -> float:
    mean = float(fitted.mean())
    return -len(judged) * float(np.log(mean)) - float(judged.sum()) / mean


def _lognormal_likelihood(judged: Floats, fitted: Floats) -> float:
    logs, own = np.log(judged), np.log(fitted)
    sigma = max(float(own.std()), 1e-3)
    scores = (logs - own.mean()) / sigma
    return -float((logs + scores**2 / 2).sum()) - len(judged) * float(np.log(sigma * np.sqrt(2 * np.pi)))
