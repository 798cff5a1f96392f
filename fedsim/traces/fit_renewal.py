"""Renewal laws fitted to a trace: lengths on and off by maximum likelihood, those that were cut short included.

Each device has an observation of its own. An interval that runs when it ends is censored: all that is known is that it
is longer, so it enters the likelihood with its survival function. One that runs when the observation begins is left
out, since it was met with a chance proportional to its length. What the end cuts short leaves the tail open, and with
it the mean of the lengths that it cuts most: that mean is set so that the share of time available is the one recorded,
and the rest of the law is fitted. Laws are chosen by how likely they make lengths that they were not fitted to. The
distance of a fitted law is that of Kolmogorov and Smirnov to the estimator of Kaplan and Meier, which takes censored
lengths into account in the same way.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError

from fedsim.availability.spells import Spells
from fedsim.availability.trace.pattern import Pattern
from fedsim.common.arguments import IN_A_FILE
from fedsim.common.arrays import Bools, Floats
from fedsim.common.later import optimize, special, stats
from fedsim.scenario.sources import Length
from fedsim.scenario.units import format_duration

_FEWEST, _MOST_STEPS = 10, 2_000
GROUPS = 20
_STUDENT = 2.0930  # the 97.5 % quantile with 19 degrees of freedom

ParameterIntervals = dict[str, dict[str, tuple[float, float]]]
"""The ends of each interval by parameter, for ``on`` and ``off``; times in seconds."""


@dataclass(frozen=True)
class CensoredLengths:
    """Lengths on or off: `whole` were seen from start to end, `cut` last beyond the end of the observation."""

    whole: Floats
    cut: Floats


@dataclass(frozen=True)
class FittedLaw:
    """A law fitted to some lengths: as it is written in a scenario with times in seconds, and its mean in seconds.

    `log_likelihood` is per length and held out: fitted to every other length and judged by the rest, both ways, less
    one per parameter in all. `ks` is the largest distance of its distribution function from the Kaplan-Meier estimate.
    """

    source: dict[str, Any]
    mean: float
    log_likelihood: float
    ks: float


def lengths_on_and_off(spans: Spells, seen: Spells) -> dict[str, CensoredLengths]:
    """Return the lengths ``on`` and ``off`` of a trace; `seen` is when each device was observed, once or more often."""
    of, window = seen.near(spans.who, spans.starts, spans.starts)
    starts, ends = spans.starts_s[of], spans.ends_s[of]
    lengths, end = ends - starts, seen.ends_s[window]
    begun, open_ = starts > seen.starts_s[window], ends >= end
    on = CensoredLengths(lengths[begun & ~open_], lengths[begun & open_])
    same = window[1:] == window[:-1]
    last = np.append(~same, np.ones(min(len(ends), 1), dtype=np.bool_))
    tail = end[last] - ends[last]
    return {"on": on, "off": CensoredLengths((starts[1:] - ends[:-1])[same], tail[tail > 0])}


def limits(seen: Spells) -> tuple[Floats, Floats]:
    """Return from when and to when each device was observed in all; infinities, the wrong way round, where not."""
    begin, end = np.full(seen.count, np.inf), np.full(seen.count, -np.inf)
    np.minimum.at(begin, seen.who, seen.starts_s)
    np.maximum.at(end, seen.who, seen.ends_s)
    return begin, end


def check_lengths(lengths: CensoredLengths) -> None:
    """Raise a ValueError if there are fewer than ten whole lengths."""
    if len(lengths.whole) < _FEWEST:
        raise ValueError(
            f"{len(lengths.whole)} whole lengths are too few to fit a law to; at least {_FEWEST} are needed"
        )


def open_side(lengths: Mapping[str, CensoredLengths]) -> str:
    """Return which of ``on`` and ``off`` has more of its time in lengths that were cut short."""

    def cut_share(name: str) -> float:
        cut, whole = lengths[name].cut.sum(), lengths[name].whole.sum()
        return float(cut) / float(whole + cut) if whole + cut else 0.0

    return max(lengths, key=cut_share)


def fit_laws(
    lengths: CensoredLengths, mean: float | None = None, kinds: Sequence[str] = (), place: Any = Length, digits: int = 0
) -> list[FittedLaw]:
    """Fit every law that the scenario takes in a place, or those of some kinds; the best comes first.

    `place` is the type of that place, such as `TimeSource`, and times are written there to so many digits. `mean` is
    the mean in seconds that the law must have; None fits it too. Raises a `ValueError` if there are fewer than ten
    whole lengths, or if the place takes no law that fits.
    """
    whole, cut = lengths.whole, lengths.cut
    check_lengths(lengths)
    least, taken = float(whole.min()), TypeAdapter[Any](place)
    halves = [CensoredLengths(whole[side::2], cut[side::2]) for side in (0, 1)]
    fits = []
    for fitted in (FITTED[kind] for kind in kinds or FITTED):
        model = fitted(lengths, mean, least)
        by_half = [fitted(half, mean, least) for half in halves]
        if model is None or None in by_half or not _is_taken(written_law(model.source, digits), taken):
            continue
        held_out = sum(
            _likelihood(other.frozen, judged) for other, judged in zip(by_half, halves[::-1], strict=True) if other
        )
        score = (held_out - model.parameters) / (len(whole) + len(cut))
        fits.append(FittedLaw(model.source, float(model.frozen.mean()), score, distance(lengths, model.frozen.sf)))
    if not fits:
        raise ValueError("no law that a scenario takes fits these lengths; are their times in seconds?")
    return sorted(fits, key=lambda each: -each.log_likelihood)


def _is_taken(written: dict[str, Any], place: TypeAdapter[Any]) -> bool:
    try:
        place.validate_python(written, context=IN_A_FILE)
    except ValidationError:
        return False
    return True


def written_law(source: dict[str, Any], digits: int = 0) -> dict[str, Any]:
    """Write a law as in a scenario: times with a unit, to so many digits of a second, other numbers to four digits."""
    written = {key: value if key == "kind" else float(f"{value:.4g}") for key, value in source.items()}
    times = source.keys() & {"mean", "median"}
    return written | {key: format_duration(max(float(round(source[key], digits)), 10.0**-digits)) for key in times}


class _Law(NamedTuple):
    """A fitted law as in a scenario and as in scipy, and how many of its parameters were fitted."""

    source: dict[str, Any]
    frozen: Any
    parameters: int


def _likelihood(distribution: Any, lengths: CensoredLengths) -> float:
    return float(distribution.logpdf(lengths.whole).sum() + distribution.logsf(lengths.cut).sum())


def _exponential(lengths: CensoredLengths, mean: float | None, least: float) -> _Law:  # noqa: ARG001
    scale = mean or float(lengths.whole.sum() + lengths.cut.sum()) / len(lengths.whole)
    return _Law({"kind": "exponential", "mean": scale}, stats.expon(scale=scale), int(mean is None))


def _weibull(lengths: CensoredLengths, mean: float | None, least: float) -> _Law:  # noqa: ARG001
    if mean is None:
        data = stats.CensoredData(uncensored=lengths.whole, right=lengths.cut)
        rough = float(lengths.whole.sum() + lengths.cut.sum()) / len(lengths.whole)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # lengths that are all alike
            shape, _, scale = stats.weibull_min.fit(data, 1.0, floc=0, scale=rough)
        shape = float(np.clip(shape, 0.1, 100))
        frozen = stats.weibull_min(shape, scale=scale)
    else:

        def with_mean(shape: float) -> Any:
            return stats.weibull_min(shape, scale=mean / special.gamma(1 + 1 / shape))

        shape = _likeliest(with_mean, lengths, 0.1, 100)
        frozen = with_mean(shape)
    source = {"kind": "weibull", "mean": float(frozen.mean()), "shape": shape}
    return _Law(source, frozen, 1 + (mean is None))


def _lognormal(lengths: CensoredLengths, mean: float | None, least: float) -> _Law:  # noqa: ARG001
    if mean is None:
        mu, sigma = _censored_normal(np.log(lengths.whole), np.log(lengths.cut[lengths.cut > 0]))
        median = np.exp(mu)
    else:
        sigma = _likeliest(lambda s: stats.lognorm(s, scale=mean * np.exp(-(s**2) / 2)), lengths, 1e-3, 10)
        median = mean * np.exp(-(sigma**2) / 2)
    source = {"kind": "lognormal", "median": float(median), "sigma": sigma}
    return _Law(source, stats.lognorm(sigma, scale=median), 1 + (mean is None))


def _censored_normal(whole: Floats, cut: Floats) -> tuple[float, float]:
    """Return the mean and the deviation, from 0.001 to 10, that are likeliest; of values `cut` only the least is known.

    Expectation and maximisation in turn: what is cut has the moments of a normal law beyond where it was cut.
    """
    mean, deviation, count = float(whole.mean()), max(float(whole.std()), 1e-3), len(whole) + len(cut)
    for _ in range(_MOST_STEPS):
        score = (cut - mean) / deviation
        hazard = np.sqrt(2 / np.pi) / special.erfcx(score / np.sqrt(2))
        beyond = mean + deviation * hazard
        new = float(whole.sum() + beyond.sum()) / count
        spread = deviation**2 * (1 + score * hazard - hazard**2) + (beyond - new) ** 2
        square = float(((whole - new) ** 2).sum() + spread.sum()) / count
        moved = abs(new - mean) + abs(np.sqrt(square) - deviation)
        mean, deviation = new, float(np.clip(np.sqrt(square), 1e-3, 10))
        if moved < 1e-9 * deviation:
            break
    return mean, deviation


def _pareto(lengths: CensoredLengths, mean: float | None, least: float) -> _Law | None:
    if mean is None:
        excess = np.log(lengths.whole / least).sum() + np.log(np.maximum(lengths.cut, least) / least).sum()
        if not 1.01 * excess < len(lengths.whole) <= 100 * excess:  # it has no mean, or is a point
            return None
        steepness = float(len(lengths.whole) / excess)
    elif mean > least and mean / (mean - least) <= 100:
        steepness = mean / (mean - least)
    else:
        return None
    frozen = stats.pareto(steepness, scale=least)
    return _Law({"kind": "pareto", "mean": float(frozen.mean()), "shape": steepness}, frozen, 1 + (mean is None))


FITTED: Final[dict[str, Callable[[CensoredLengths, float | None, float], _Law | None]]] = {
    "exponential": _exponential,
    "weibull": _weibull,
    "lognormal": _lognormal,
    "pareto": _pareto,
}


def _likeliest(law_of: Callable[[float], Any], lengths: CensoredLengths, low: float, high: float) -> float:
    """Return the parameter, between two positive numbers, under whose law the lengths are likeliest."""

    def unlikely(logarithm: float) -> float:
        with np.errstate(all="ignore"):
            value = -_likelihood(law_of(float(np.exp(logarithm))), lengths)
        return value if np.isfinite(value) else 1e300

    result = optimize.minimize_scalar(unlikely, bounds=(np.log(low), np.log(high)), method="bounded")
    return float(np.exp(result.x))


def distance(lengths: CensoredLengths, survival: Any) -> float:
    """Return the largest distance between a survival function and the Kaplan-Meier estimate."""
    times = np.unique(lengths.whole)
    data = stats.CensoredData(uncensored=lengths.whole, right=lengths.cut)
    after = stats.ecdf(data).sf.evaluate(times)
    before = np.append(1.0, after[:-1])
    model = survival(times)
    return float(max(np.abs(model - after).max(), np.abs(model - before).max()))


def renewal_intervals(pattern: Pattern, kinds: Mapping[str, str], open_: str) -> ParameterIntervals:
    """Return 95 % intervals of the parameters of a renewal model fitted to a trace.

    `kinds` are those of the chosen laws of ``on`` and ``off``, and `open_` is the one whose mean comes from the share
    of time available. A law that cannot be fitted without one of the groups has no intervals.

    The lengths of one device may depend on each other, so devices are what is independent. They are dealt into twenty
    groups; the laws are fitted again without each of them, and the spread of the fits gives the standard error of the
    logarithm of each parameter (the delete-a-group jackknife: Shao and Tu, *The Jackknife and Bootstrap*, 1995, section
    2.3). The interval is two-sided, by Student's law with 19 degrees of freedom. It does not account for the choice of
    the laws by the same data, nor for an exponential process being taken for a Weibull one. Raises a `ValueError` if
    there are fewer than two devices for each group.
    """
    devices = pattern.spans.count
    if devices < 2 * GROUPS:
        raise ValueError(f"{devices} devices are too few for intervals; at least {2 * GROUPS} are needed")
    without = [_fit_kept(pattern, kinds, open_, np.arange(devices) % GROUPS != group) for group in range(GROUPS)]
    intervals: ParameterIntervals = {"on": {}, "off": {}}
    for name in intervals:
        sources = [each[name] for each in without if name in each]
        for parameter in sources[0] if len(sources) == GROUPS else ():
            values = [source[parameter] for source in sources]
            centre = float(np.exp(np.log(values).mean()))
            intervals[name][parameter] = interval_of(values, centre, (GROUPS - 1) / GROUPS**0.5)
    return intervals


def interval_of(values: Sequence[float], centre: float, scale: float) -> tuple[float, float]:
    """Return a 95 % interval by Student's law: the standard error of the logarithm is their deviation times `scale`."""
    reach = _STUDENT * scale * float(np.log(values).std(ddof=1))
    return centre * float(np.exp(-reach)), centre * float(np.exp(reach))


def _fit_kept(pattern: Pattern, kinds: Mapping[str, str], open_: str, keep: Bools) -> dict[str, dict[str, float]]:
    """Return the parameters of the laws, as far as they can be fitted to some devices as the model was to all."""
    spans, seen = pattern.spans.select(keep), pattern.seen.select(keep)
    lengths, share = lengths_on_and_off(spans, seen), available_share(spans, seen)
    parameters, mean = dict[str, dict[str, float]](), None
    for name in ("off", "on") if open_ == "on" else ("on", "off"):
        whole = lengths[name].whole
        fitted = FITTED[kinds[name]](lengths[name], mean, float(whole.min())) if len(whole) >= _FEWEST else None
        if fitted is None or not 0.0 < share < 1.0:
            break
        parameters[name] = {key: value for key, value in fitted.source.items() if key != "kind"}
        mean = float(fitted.frozen.mean()) * mean_ratio(share, open_)
    return parameters


def available_share(spans: Spells, seen: Spells) -> float:
    """Return the share of the time that devices were observed in which they are available."""
    return float((spans.ends_s - spans.starts_s).sum()) / float((seen.ends_s - seen.starts_s).sum())


def mean_ratio(share: float, open_: str) -> float:
    """Return the mean of the open side over that of the other, where a share of all time is available."""
    return (1 - share) / share if open_ == "off" else share / (1 - share) if share < 1 else 0.0
