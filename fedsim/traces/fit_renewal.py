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
from scipy.special import gammaln, log_ndtr, ndtr

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
    laws = [_exponential(whole, cut), _weibull(whole, cut), _lognormal(whole, cut), _pareto(whole, cut)]
    found = []
    # Two parameters are worth it where they gain more than one unit of log-likelihood in all (Akaike).
    for source, mean, likelihood, survival, parameters in (law for law in laws if law is not None):
        score = (likelihood - parameters) / (len(whole) + len(cut))
        found.append(FittedLaw(source, mean, score, _distance(lengths, survival)))
    return sorted(found, key=lambda law: -law.log_likelihood)


def _exponential(whole: Floats, cut: Floats) -> Any:
    mean = (whole.sum() + cut.sum()) / len(whole)
    likelihood = -len(whole) * np.log(mean) - (whole.sum() + cut.sum()) / mean
    return {"kind": "exponential", "mean": mean}, mean, likelihood, lambda x: np.exp(-x / mean), 1


def _weibull(whole: Floats, cut: Floats) -> Any:
    from scipy.optimize import minimize_scalar

    logs, every = np.log(whole), np.concatenate([whole, cut])
    largest = every.max()

    def scaled(shape: float) -> tuple[float, float]:
        """Return log of scale ** shape for this shape, and the likelihood."""
        power = shape * np.log(largest) + np.log(((every / largest) ** shape).sum() / len(whole))
        likelihood = len(whole) * (np.log(shape) - power) + (shape - 1) * logs.sum() - len(whole)
        return power, float(likelihood)

    shape = float(
        np.exp(
            minimize_scalar(
                lambda x: -scaled(float(np.exp(x)))[1], bounds=(np.log(0.1), np.log(100)), method="bounded"
            ).x
        )
    )
    power, likelihood = scaled(shape)
    scale = np.exp(power / shape)
    mean = float(scale * np.exp(gammaln(1 + 1 / shape)))
    return (
        {"kind": "weibull", "mean": mean, "shape": shape},
        mean,
        likelihood,
        lambda x: np.exp(-((x / scale) ** shape)),
        2,
    )


def _lognormal(whole: Floats, cut: Floats) -> Any:
    from scipy.optimize import minimize

    logs, later = np.log(whole), np.log(cut)

    def minus(parameters: Floats) -> float:
        centre, sigma = parameters[0], np.exp(np.clip(parameters[1], -7, 2.3))
        seen = -0.5 * (((logs - centre) / sigma) ** 2).sum() - len(logs) * (np.log(sigma) + 0.5 * np.log(2 * np.pi))
        return float(-(seen - logs.sum() + log_ndtr((centre - later) / sigma).sum()))

    first = np.array([logs.mean(), np.log(max(logs.std(), 1e-3))])
    centre, spread = minimize(minus, first, method="Nelder-Mead").x
    sigma = float(np.exp(np.clip(spread, -7, 2.3)))
    mean = float(np.exp(centre + sigma**2 / 2))
    source = {"kind": "lognormal", "median": float(np.exp(centre)), "sigma": sigma}
    likelihood = -minus(np.array([centre, spread]))
    return source, mean, likelihood, lambda x: ndtr((centre - np.log(np.maximum(x, 1e-300))) / sigma), 2


def _pareto(whole: Floats, cut: Floats) -> Any:
    least = whole.min()
    beyond = np.log(np.maximum(cut, least) / least).sum()
    excess = np.log(whole / least).sum() + beyond
    shape = len(whole) / excess if excess > 0 else np.inf
    if not 1.01 < shape <= 100:  # no mean, or a point
        return None
    likelihood = (
        len(whole) * (np.log(shape) + shape * np.log(least)) - (shape + 1) * np.log(whole).sum() - shape * beyond
    )
    mean = float(least * shape / (shape - 1))
    source = {"kind": "pareto", "mean": mean, "shape": float(shape)}
    return source, mean, likelihood, lambda x: np.minimum(1.0, (np.maximum(x, least) / least) ** -shape), 2


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
