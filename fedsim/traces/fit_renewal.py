"""Renewal laws fitted to a trace: lengths on and off by maximum likelihood, those that were cut short included.

An interval that runs when the observation ends is censored: all that is known is that it is longer, so it enters the
likelihood with its survival function. One that runs when the observation begins is left out, since it was met with a
chance proportional to its length. What the end cuts short leaves the tail open, and with it the mean of the lengths
that it cuts most: that mean is set so that the share of time available is the one recorded, and the rest of the law is
fitted. Laws are chosen by how likely they make lengths that they were not fitted to. The distance of a fitted law is
that of Kolmogorov and Smirnov to the estimator of Kaplan and Meier, which takes censored lengths into account in the
same way.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

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
    """A law fitted to some lengths.

    Attributes
    ----------
    source
        As it is written in a scenario, times in seconds.
    mean
        Mean length in seconds.
    log_likelihood
        Per length, of lengths that were held out: fitted to every other one, and judged by the rest, both ways; less
        one per parameter in all, so that one more must gain something.
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


def check_lengths(lengths: Lengths) -> None:
    """Raise a ValueError if there are fewer than ten whole lengths."""
    if len(lengths.whole) < _FEWEST:
        raise ValueError(
            f"{len(lengths.whole)} whole lengths are too few to fit a law to; at least {_FEWEST} are needed"
        )


def cut_share(lengths: Lengths) -> float:
    """Return the share of the time that lies in lengths that were cut short."""
    total = float(lengths.whole.sum() + lengths.cut.sum())
    return float(lengths.cut.sum()) / total if total else 0.0


def fit_laws(lengths: Lengths, mean: float | None = None) -> list[FittedLaw]:
    """Fit every law that a renewal model knows; the best comes first.

    Parameters
    ----------
    lengths
        At least ten of them whole.
    mean
        The mean in seconds that the law must have; None to fit it too.

    Raises
    ------
    ValueError
        If there are fewer than ten whole lengths.
    """
    whole, cut = lengths.whole, lengths.cut
    check_lengths(lengths)
    least = float(whole.min())
    halves = [Lengths(whole[side::2], cut[side::2]) for side in (0, 1)]
    found = []
    for fitted in _FITTED.values():
        law = fitted(lengths, mean, least)
        by_half = [fitted(half, mean, least) for half in halves]
        if law is None or None in by_half:
            continue
        held_out = sum(
            _likelihood(other.law, judged) for other, judged in zip(by_half, halves[::-1], strict=True) if other
        )
        score = (held_out - law.parameters) / (len(whole) + len(cut))
        found.append(FittedLaw(law.source, float(law.law.mean()), score, _distance(lengths, law.law.sf)))
    return sorted(found, key=lambda each: -each.log_likelihood)


class Parameters(NamedTuple):
    """A law of a given kind, fitted: its mean in seconds, and its parameters, times in seconds."""

    mean: float
    parameters: dict[str, float]


def fit_kind(kind: str, lengths: Lengths, mean: float | None = None) -> Parameters | None:
    """Fit a law of one kind as `fit_laws` does; None where it cannot be fitted."""
    if len(lengths.whole) < _FEWEST:
        return None
    law = _FITTED[kind](lengths, mean, float(lengths.whole.min()))
    if law is None:
        return None
    return Parameters(float(law.law.mean()), {key: value for key, value in law.source.items() if key != "kind"})


class _Law(NamedTuple):
    source: dict[str, Any]
    law: Any
    parameters: int


def _likelihood(law: Any, lengths: Lengths) -> float:
    return float(law.logpdf(lengths.whole).sum() + law.logsf(lengths.cut).sum())


def _exponential(lengths: Lengths, mean: float | None, least: float) -> _Law:  # noqa: ARG001
    from scipy import stats  # takes long to import

    own = mean or float(lengths.whole.sum() + lengths.cut.sum()) / len(lengths.whole)
    return _Law({"kind": "exponential", "mean": own}, stats.expon(scale=own), int(mean is None))


def _weibull(lengths: Lengths, mean: float | None, least: float) -> _Law:  # noqa: ARG001
    from scipy import special, stats

    if mean is None:
        data = stats.CensoredData(uncensored=lengths.whole, right=lengths.cut)
        rough = float(lengths.whole.sum() + lengths.cut.sum()) / len(lengths.whole)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # lengths that are all alike
            shape, _, scale = stats.weibull_min.fit(data, 1.0, floc=0, scale=rough)
        shape = float(np.clip(shape, 0.1, 100))
        law = stats.weibull_min(shape, scale=scale)
    else:

        def with_mean(shape: float) -> Any:
            return stats.weibull_min(shape, scale=mean / special.gamma(1 + 1 / shape))

        shape = _likeliest(with_mean, lengths, 0.1, 100)
        law = with_mean(shape)
    source = {"kind": "weibull", "mean": float(law.mean()), "shape": shape}
    return _Law(source, law, 1 + (mean is None))


def _lognormal(lengths: Lengths, mean: float | None, least: float) -> _Law:  # noqa: ARG001
    from scipy import stats

    if mean is None:
        data = stats.CensoredData(uncensored=lengths.whole, right=lengths.cut)
        deviation = max(float(np.log(lengths.whole).std()), 1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            sigma, _, median = stats.lognorm.fit(data, deviation, floc=0, scale=np.median(lengths.whole))
        sigma = float(np.clip(sigma, 1e-3, 10))
    else:
        sigma = _likeliest(lambda s: stats.lognorm(s, scale=mean * np.exp(-(s**2) / 2)), lengths, 1e-3, 10)
        median = mean * np.exp(-(sigma**2) / 2)
    source = {"kind": "lognormal", "median": float(median), "sigma": sigma}
    return _Law(source, stats.lognorm(sigma, scale=median), 1 + (mean is None))


def _pareto(lengths: Lengths, mean: float | None, least: float) -> _Law | None:
    from scipy import stats

    if mean is None:
        excess = np.log(lengths.whole / least).sum() + np.log(np.maximum(lengths.cut, least) / least).sum()
        if not 1.01 * excess < len(lengths.whole) <= 100 * excess:  # it has no mean, or is a point
            return None
        steepness = float(len(lengths.whole) / excess)
    elif mean > least and mean / (mean - least) <= 100:
        steepness = mean / (mean - least)
    else:
        return None
    law = stats.pareto(steepness, scale=least)
    return _Law({"kind": "pareto", "mean": float(law.mean()), "shape": steepness}, law, 1 + (mean is None))


_FITTED: Final[dict[str, Callable[[Lengths, float | None, float], _Law | None]]] = {
    "exponential": _exponential,
    "weibull": _weibull,
    "lognormal": _lognormal,
    "pareto": _pareto,
}


def _likeliest(law_of: Callable[[float], Any], lengths: Lengths, low: float, high: float) -> float:
    """Return the parameter, between two positive numbers, under whose law the lengths are likeliest."""
    from scipy import optimize

    def unlikely(logarithm: float) -> float:
        with np.errstate(all="ignore"):
            found = -_likelihood(law_of(float(np.exp(logarithm))), lengths)
        return found if np.isfinite(found) else 1e300

    found = optimize.minimize_scalar(unlikely, bounds=(np.log(low), np.log(high)), method="bounded")
    return float(np.exp(found.x))


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
