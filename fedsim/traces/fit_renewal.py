"""Renewal laws fitted to a trace: lengths on and off by maximum likelihood, those that were cut short included.

An interval that runs when the observation ends is censored: all that is known is that it is longer, so it enters the
likelihood with its survival function. One that runs when the observation begins is left out, since it was met with a
chance proportional to its length. The distance of a fitted law is that of Kolmogorov and Smirnov to the estimator of
Kaplan and Meier, which takes censored lengths into account in the same way.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.trace.unions import Spans

Floats = NDArray[np.float64]
_FEWEST = 10


@dataclass(frozen=True)
class Lengths:
    """Lengths of one kind.

    Attributes
    ----------
    whole
        Lengths that were seen from start to end.
    cut
        Lengths up to the end of the observation.
    """

    whole: Floats
    cut: Floats


@dataclass(frozen=True)
class FittedLaw:
    """One law fitted to some lengths.

    Attributes
    ----------
    source
        As it is written in a scenario, times in seconds.
    mean
        Mean length in seconds.
    log_likelihood
        Per length, less one per parameter in all (Akaike).
    ks
        Largest distance of its distribution function from the Kaplan-Meier estimate.
    """

    source: dict[str, Any]
    mean: float
    log_likelihood: float
    ks: float


def lengths_on_and_off(spans: Spans, begin: float, end: float) -> tuple[Lengths, Lengths]:
    """Take the lengths on and off out of a trace that was observed from `begin` to `end`."""
    starts, ends, devices = spans.starts, spans.ends, spans.devices
    lengths = ends - starts
    known, open_ = starts > begin, ends >= end
    on = Lengths(lengths[known & ~open_], lengths[known & open_])
    same = devices[1:] == devices[:-1]
    last = np.append(~same, np.ones(min(len(ends), 1), dtype=np.bool_))
    tail = end - ends[last]
    return on, Lengths((starts[1:] - ends[:-1])[same], tail[tail > 0])


def fit_laws(lengths: Lengths) -> list[FittedLaw]:
    """Fit every law that a renewal model knows; the likeliest comes first.

    Raises
    ------
    ValueError
        If there are fewer than ten whole lengths.
    """
    whole, cut = lengths.whole, lengths.cut
    if len(whole) < _FEWEST:
        raise ValueError(f"{len(whole)} whole lengths are too few to fit a law to; at least {_FEWEST} are needed")
    found = []
    for kind in ("exponential", "weibull", "lognormal", "pareto"):
        law, source, parameters = _likeliest(kind, whole, cut)
        # Two parameters are worth it where they gain more than one unit of log-likelihood in all (Akaike).
        score = (_log_likelihood(law, whole, cut) - parameters) / (len(whole) + len(cut))
        if np.isfinite(score):
            found.append(FittedLaw({"kind": kind, **source}, float(law.mean()), score, _distance(lengths, law)))
    return sorted(found, key=lambda law: -law.log_likelihood)


def _likeliest(kind: str, whole: Floats, cut: Floats) -> tuple[Any, dict[str, float], int]:
    """Return the likeliest law of a kind, how it is written in a scenario, and how many parameters it has."""
    from scipy import stats

    if kind == "exponential":
        mean = float((whole.sum() + cut.sum()) / len(whole))
        return stats.expon(scale=mean), {"mean": mean}, 1
    if kind == "pareto":
        least = whole.min()
        excess = np.log(whole / least).sum() + np.log(np.maximum(cut, least) / least).sum()
        shape = float(len(whole) / excess) if excess > 0 else np.inf
        # Without a mean, or a point: no law of a scenario.
        law = stats.pareto(shape if 1.01 < shape <= 100 else np.nan, scale=least)
        return law, {"mean": float(law.mean()), "shape": shape}, 2
    if kind == "weibull":
        shape, scale = _numerically(stats.weibull_min, whole, cut, (0.1, 100))
        law = stats.weibull_min(shape, scale=scale)
        return law, {"mean": float(law.mean()), "shape": shape}, 2
    sigma, median = _numerically(stats.lognorm, whole, cut, (1e-3, 10))
    return stats.lognorm(sigma, scale=median), {"median": median, "sigma": sigma}, 2


def _numerically(law: Any, whole: Floats, cut: Floats, shapes: tuple[float, float]) -> tuple[float, float]:
    """Return the shape, within bounds, and the scale of the greatest likelihood."""
    from scipy.optimize import minimize

    def minus(logs: Floats) -> float:
        return -_log_likelihood(law(np.exp(logs[0]), scale=np.exp(logs[1])), whole, cut)

    (low, high), first = np.log(shapes), np.array([0.0, np.log(np.median(whole))])
    found = minimize(minus, first, method="Nelder-Mead", bounds=[(low, high), (None, None)], tol=1e-7)
    shape, scale = np.exp(found.x).tolist()
    return shape, scale


def _log_likelihood(law: Any, whole: Floats, cut: Floats) -> float:
    return float(law.logpdf(whole).sum() + law.logsf(cut).sum())


def _distance(lengths: Lengths, law: Any) -> float:
    """Return the largest distance between a law's survival function and the Kaplan-Meier estimate."""
    from scipy import stats

    survival = stats.ecdf(stats.CensoredData(lengths.whole, right=lengths.cut)).sf
    times = np.unique(lengths.whole)
    after = survival.evaluate(times)
    before = np.append(1.0, after[:-1])
    model = law.sf(times)
    return float(np.maximum(np.abs(model - after), np.abs(model - before)).max())
