"""Renewal laws fitted to a trace: lengths on and off by maximum likelihood, those that were cut short included.

An interval that runs when the observation ends is censored: all that is known is that it is longer, so it enters the
likelihood with its survival function. One that runs when the observation begins is left out, since it was met with a
chance proportional to its length. The distance of a fitted law is that of Kolmogorov and Smirnov to the estimator of
Kaplan and Meier, which takes censored lengths into account in the same way.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsim.availability.trace.unions import Spans
from fedsim.common.arrays import Floats

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
    from scipy import stats  # takes long to import

    data, total = stats.CensoredData(uncensored=whole, right=cut), float(whole.sum() + cut.sum())
    mean = total / len(whole)
    shape, _, scale = stats.weibull_min.fit(data, 1.0, floc=0, scale=mean)
    sigma, _, median = stats.lognorm.fit(data, max(np.log(whole).std(), 1e-3), floc=0, scale=np.median(whole))
    shape, sigma = float(np.clip(shape, 0.1, 100)), float(np.clip(sigma, 1e-3, 10))
    weibull, lognormal = stats.weibull_min(shape, scale=scale), stats.lognorm(sigma, scale=median)
    tried: list[tuple[dict[str, Any], Any, int]] = [
        ({"kind": "exponential", "mean": mean}, stats.expon(scale=mean), 1),
        ({"kind": "weibull", "mean": float(weibull.mean()), "shape": shape}, weibull, 2),
        ({"kind": "lognormal", "median": float(median), "sigma": sigma}, lognormal, 2),
    ]
    least = float(whole.min())
    excess = np.log(whole / least).sum() + np.log(np.maximum(cut, least) / least).sum()
    if 1.01 * excess < len(whole) <= 100 * excess:  # else it has no mean, or is a point
        steepness = float(len(whole) / excess)
        pareto = stats.pareto(steepness, scale=least)
        tried.append(({"kind": "pareto", "mean": float(pareto.mean()), "shape": steepness}, pareto, 2))
    found = []
    for source, law, parameters in tried:
        # Two parameters are worth it where they gain more than one unit of log-likelihood in all (Akaike).
        likelihood = float(law.logpdf(whole).sum() + law.logsf(cut).sum())
        score = (likelihood - parameters) / (len(whole) + len(cut))
        found.append(FittedLaw(source, float(law.mean()), score, _distance(lengths, law.sf)))
    return sorted(found, key=lambda fitted: -fitted.log_likelihood)


def _distance(lengths: Lengths, survival: Any) -> float:
    """Return the largest distance between a survival function and the Kaplan-Meier estimate."""
    times = np.unique(lengths.whole)
    every = np.sort(np.concatenate([lengths.whole, lengths.cut]))
    events = np.diff(np.append(np.searchsorted(np.sort(lengths.whole), times), len(lengths.whole)))
    at_risk = len(every) - np.searchsorted(every, times)
    after = np.cumprod(1 - events / at_risk)
    before = np.concatenate([[1.0], after[:-1]])
    model = survival(times)
    return float(max(np.abs(model - after).max(), np.abs(model - before).max()))
