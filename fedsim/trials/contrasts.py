"""Which settings differ by a fact, seed by seed, and which may be the best: whatever compares several runs asks here.

The same seed is the same world at every setting, so differences are taken seed by seed: what worlds have in common
cancels. A difference has the interval of its test, which excludes 0 where it is significant. Tests are done together:

- Against a reference that was fixed beforehand: paired tests, with Holm's correction over the other settings.
- Against the best that was observed: the data chose it, so all pairs are tested, with Holm's correction over them. Of
  more than 300 settings only those with the best are, at the level of Bonferroni for all pairs.
- A setting *may be the best* unless it is worse than some other by a one-sided test at 5 % over the number of others,
  two at least: of two settings, it is the one that differs. The true best is lost in at most 5 % of such answers. Not
  to be the best is not to differ from it.

Two equal settings or more are called different, somewhere, in at most 5 % of answers.

The test is Student's, of differences of values, or of logarithms where values are far apart. If all are positive, that
is where the largest of some setting is more than ten times its smallest; else where one is a hundred times as large as
s, the median size at the setting where that is least, and logarithms are signed, sign(x) log(1 + |x| / s). A difference
that has one sign in values and the other in logarithms is not significant.

Differences that are the same for all seeds, unless of two values alone, have no chance in them: they are the same, or
they differ, and no correction counts them. So few seeds that three standard deviations of the differences would not
show are *too few*, which is not a tie; so are those of logarithms where one mean is ten times the other. One run each
is judged by the standard errors that the facts themselves have; without them it is not tested.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import polars as pl

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.intervals import student_quantile
from fedsim.measure.noise import DEGREES
from fedsim.measure.verdict import holm_levels
from fedsim.trials.trials import Trials

CONFIDENCE, LEVEL = 0.95, 0.05
_ROUNDING = 1e-12
_POWER = 0.8
_MOST_SEEDS = 1000
_ALL_PAIRS = 300  # settings of which all pairs are tested
FAR = 10.0
"""So many times as large as others is far off."""
_VISIBLE = 3.0  # standard deviations that enough seeds tell


class Standing(StrEnum):
    """What is known of a setting beside the reference."""

    REFERENCE = "reference"
    DIFFERS = "differs"
    TIED = "tied"  # tested, and not significant
    SAME = "the same"  # without any chance in it
    FEW = "too few seeds"
    UNTESTED = "not tested"  # one run, without an interval
    NO_VALUE = "no value"  # or left out of the comparison


class Interval(NamedTuple):
    """The mean of each row of values, and half of its 95 % interval by Student's t."""

    mean: Floats  # NaN without a value
    half: Floats  # NaN with fewer than two


class Paired(NamedTuple):
    """Paired differences, by row."""

    mean: Floats  # over the seeds that both have
    error: Floats  # its standard error
    p: Floats  # of no difference, two-sided; NaN where it cannot be tested
    seeds: Ints
    exact: Bools  # the same for all seeds, without any chance in it
    draws: Ints  # how many values the error is known as well as from

    @property
    def half(self) -> Floats:
        """Half of the 95 % interval."""
        return student_quantile(np.maximum(self.draws, 2), CONFIDENCE) * self.error


@dataclass(frozen=True, eq=False)
class Contrasts:
    """All settings against one of them, by one fact; arrays over the settings."""

    less_is_better: bool
    mean: Floats  # over the setting's own seeds, NaN without a value
    margin: Floats  # how far the interval of that reaches down and up, (2, settings): as `margins` says
    order: Ints  # the settings that are compared, the best first; of equals the first comes first
    reference: int | None  # None where no setting has a value
    difference: Floats  # from the reference, over the seeds that both have
    half: Floats  # of its 95 % interval, one at a time; NaN where it is not known
    p: Floats  # of no difference, two-sided
    exact: Bools
    states: tuple[Standing, ...]
    may_be_best: Bools
    seeds: Ints  # in common with the reference
    tests: int  # how many are corrected for
    scale: str = ""  # what differences are tested of, where it is not the values: "logarithms"
    tested_half: Floats = field(default_factory=lambda: np.zeros(0))  # of the interval of each test; NaN without one

    @property
    def best(self) -> int | None:
        """The best that was observed; None where no setting has a value."""
        return int(self.order[0]) if len(self.order) else None

    @property
    def differs(self) -> Bools:
        """Which settings differ significantly from the reference."""
        return np.array([state is Standing.DIFFERS for state in self.states], dtype=bool)

    def rows(self, *states: Standing) -> list[int]:
        """Return the settings in one of these states, the best first."""
        return [row for row in self.order.tolist() if self.states[row] in states]

    @property
    def untested(self) -> bool:
        """Whether nothing is tested, so that one sentence says it of all."""
        return Standing.UNTESTED in self.states and not {Standing.DIFFERS, Standing.TIED, Standing.FEW} & {*self.states}

    def standing(self, row: int) -> Standing | None:
        """Return how a setting stands; None where that need not be said of each, since nothing is tested."""
        state = self.states[row]
        return None if state is Standing.NO_VALUE or (state is Standing.UNTESTED and self.untested) else state

    @property
    def test(self) -> str:
        """How the settings were judged, in words."""
        if self.seeds.max(initial=0) < 2:
            return "t test of single runs, by the intervals that they state, 5\N{NARROW NO-BREAK SPACE}%"
        of = f" with Holm's correction for {self.tests:,} differences" if self.tests > 1 else ""
        on = f" of {self.scale}" if self.scale else ""
        return f"paired t test{on} over seeds, 5\N{NARROW NO-BREAK SPACE}%{of}"


def interval(values: Floats) -> Interval:
    """Return the means of values, (settings, seeds), and their intervals."""
    finite = np.isfinite(values)
    number = finite.sum(axis=-1)
    mean = np.where(finite, values, 0.0).sum(axis=-1) / np.maximum(number, 1)
    half = student_quantile(np.maximum(number, 2), CONFIDENCE) * _error(values, mean, number)[0]
    return Interval(np.where(number > 0, mean, np.nan), half)


def margins(values: Floats) -> Floats:
    """Return how far the interval of each mean reaches down and up, (2, settings).

    It is Student's, as far down as up; of what is never negative, that of the values themselves where Student's would
    reach below 0, which is never so, however little is missing.
    """
    mean, half = interval(values)
    low, high = (np.max(sign * values, axis=-1, where=np.isfinite(values), initial=-np.inf) for sign in (-1.0, 1.0))
    return np.where((low <= 0) & (half > mean), np.stack([mean + low, np.nextafter(high - mean, np.inf)]), half)


def scale_of(values: Floats) -> tuple[str, float]:
    """Return the scale on which settings' values, (settings, seeds), are tested, "" for their own, and its unit."""
    finite = np.where(np.isfinite(values), values, np.nan)
    finite = finite[~np.isnan(finite).all(axis=-1)]
    size, low = np.abs(finite), np.min(finite, where=~np.isnan(finite), initial=np.inf)
    if low > 0:
        far = finite.size > 0 and (np.nanmax(finite, axis=-1) > FAR * np.nanmin(finite, axis=-1)).any()
        return "logarithms" if far else "", 1.0
    number, most = (~np.isnan(size)).sum(axis=-1), float(np.nanmax(size))
    middle = np.take_along_axis(np.sort(size, axis=-1), (number[:, None] - 1) // 2, axis=-1)
    unit = float(np.min(middle, where=middle > 0, initial=most))
    return "signed logarithms" if most > FAR**2 * unit else "", unit


def _on(scale: str, unit: float, values: Floats) -> Floats:
    """Return values on such a scale; NaN where they are not on it."""
    if scale == "logarithms":
        return np.log(np.where(values > 0, values, np.nan))
    return np.asarray(np.sign(values) * np.log1p(np.abs(values) / unit)) if scale else values


def paired(one: Floats, other: Floats | float, errors: Floats | None = None, tested: Floats | None = None) -> Paired:
    """Return `one` less `other`, each (..., seeds); `errors` are standard errors of differences of one run each.

    `tested` are the same differences on the scale on which they are tested; by default that of the values.
    """
    apart = one - other
    finite = np.isfinite(apart)
    seeds = finite.sum(axis=-1)
    divisor = np.maximum(seeds, 1)
    mean = np.where(finite, apart, 0.0).sum(axis=-1) / divisor
    error, exact = _error(apart, mean, seeds)
    size = np.abs(np.where(finite, one, 0.0)).sum(axis=-1) / divisor
    mean = np.where(np.abs(mean) > _ROUNDING * np.maximum(size, 1e-300), mean, 0.0)
    exact &= _plain(np.broadcast_to(one, apart.shape), finite) & (seeds > 1)
    p = _p_of_t(mean, error, seeds)
    if tested is not None:
        middle = np.where(finite, tested, 0.0).sum(axis=-1) / divisor
        p = _p_of_t(middle, _error(np.where(finite, tested, np.nan), middle, seeds)[0], seeds)
        p = np.where(np.isfinite(p) & (middle * mean < 0), 1.0, p)
    p = np.where(exact, np.where(mean == 0, 1.0, 0.0), p)
    error = np.where(exact, 0.0, error)
    draws = seeds
    if errors is not None:
        single = (seeds == 1) & np.isfinite(errors)
        error, draws = np.where(single, errors, error), np.where(single, DEGREES + 1, seeds)
        p = np.where(single, _p_of_t(mean, errors, draws), p)
    return Paired(np.where(seeds > 0, mean, np.nan), error, p, seeds, exact, draws)


def _error(apart: Floats, mean: Floats, seeds: Ints) -> tuple[Floats, Bools]:
    """Return the standard error of a mean over seeds, NaN with fewer than two; and whether rounding is all of it."""
    finite = np.isfinite(apart)
    square = np.where(finite, (apart - mean[..., None]) ** 2, 0.0).sum(axis=-1)
    error = np.sqrt(square / np.maximum(seeds - 1, 1) / np.maximum(seeds, 1))
    largest = np.where(finite, np.abs(apart), 0.0).max(axis=-1, initial=0.0)
    constant = error <= _ROUNDING * np.maximum(largest, 1e-300)
    return np.where(seeds > 1, np.where(constant, 0.0, error), np.nan), constant


def _plain(values: Floats, finite: Bools) -> Bools:
    """Say which rows have one value, or three and more: of two values, the same differences of others may be chance."""
    steps = np.diff(np.sort(np.where(finite, values, np.nan), axis=-1), axis=-1)
    return np.asarray((steps > 0).sum(axis=-1) != 1)


def _p_of_t(mean: Floats, error: Floats, seeds: Ints) -> Floats:
    """Return two-sided p values; a difference that repeats, of values that do so too, has that of the sign test."""
    from scipy.special import stdtr  # takes longer to import than a small run, whose page loads this module

    t = np.abs(mean) / np.where(error > 0, error, np.nan)
    same = np.where(mean == 0, 1.0, 2.0 ** (1.0 - seeds))
    p = np.where(error > 0, 2 * stdtr(np.maximum(seeds - 1, 1), -np.nan_to_num(t)), same)
    return np.where(np.isfinite(error), p, np.nan)


def contrasts(
    trials: Trials,
    fact: str,
    *,
    less_is_better: bool,
    reference: int | None = None,
    eligible: Bools | None = None,
    level: float = LEVEL,
) -> Contrasts:
    """Compare the settings of trials by a fact.

    Parameters
    ----------
    trials
        The runs; only those of their last stage count.
    fact
        The name of a metric.
    less_is_better
        Whether the setting with the least of it is the best.
    reference
        A setting that was fixed beforehand; by default the best that is observed, which costs more tests.
    eligible
        Which settings are compared, by default all that have a value.
    level
        Of all tests together, and of losing the best: less than 5 % where there are several looks, as `spent` says.
    """
    values, errors = trials.samples(fact), trials.errors(fact)
    options = {"less_is_better": less_is_better, "reference": reference, "eligible": eligible, "level": level}
    return contrasts_of(values, errors=errors, **options)  # type: ignore[arg-type]


def contrasts_of(
    values: Floats,
    *,
    less_is_better: bool = True,
    reference: int | None = None,
    eligible: Bools | None = None,
    level: float = LEVEL,
    errors: Floats | None = None,
    logs: bool = True,
) -> Contrasts:
    """Compare settings by values, (settings, seeds), NaN where a run has none; else as `contrasts`.

    `errors`, (settings,), are standard errors of single runs. Without `logs` the values are tested as they are.
    """
    mean, margin = interval(values).mean, margins(values)
    count, sign = len(values), 1.0 if less_is_better else -1.0
    rows = np.flatnonzero(np.isfinite(mean) if eligible is None else eligible & np.isfinite(mean))
    order = rows[np.argsort(sign * mean[rows], kind="stable")]
    at = reference if reference is not None else int(order[0]) if len(order) else None
    scale, unit = scale_of(values[rows]) if logs else ("", 1.0)
    on_scale = _on(scale, unit, values)

    def less(one: Ints | slice, other: int) -> Paired:
        both = None if errors is None else np.hypot(errors[one], errors[other])
        return paired(values[one], values[other], both, on_scale[one] - on_scale[other] if scale else None)

    pairs = paired(values, np.nan) if at is None else less(slice(None), at)
    asked = np.isin(np.arange(count), rows[rows != at])
    p = np.where(asked & ~pairs.exact, pairs.p, np.nan)
    tests = int(np.isfinite(p).sum())
    beaten = asked & _worse(sign * pairs.mean, pairs.p, level / max(2, count - 1))
    if reference is not None or len(rows) < 3:
        levels = holm_levels(p, level)
    elif at is None or len(rows) > _ALL_PAIRS:
        tests = len(rows) * (len(rows) - 1) // 2
        levels = np.where(np.isfinite(p), np.float64(level / tests), np.nan)
    else:
        levels, tests, beaten = _all_pairs(less, rows, at, sign, count, level)
    may_be_best = np.isin(np.arange(count), rows) & ~beaten
    of_each = (pairs.mean, pairs.half, pairs.p, pairs.exact, (), may_be_best, pairs.seeds)
    return _judged(Contrasts(less_is_better, mean, margin, order, at, *of_each, tests, scale), levels, tests)


def _judged(compared: Contrasts, levels: Floats, tests: int) -> Contrasts:
    """Judge each setting at its level, (settings,), NaN where nothing is tested."""
    few = _too_few(compared.seeds, levels)
    if compared.scale and compared.reference is not None:  # what differs by outliers alone is not tied
        size, base = np.abs(compared.mean), abs(float(compared.mean[compared.reference]))
        few |= (size > FAR * base) | (base > FAR * size)
    states = [Standing.NO_VALUE] * len(levels)
    for row in compared.order.tolist():
        if compared.exact[row]:
            states[row] = Standing.DIFFERS if compared.difference[row] else Standing.SAME
        elif compared.p[row] <= levels[row]:
            states[row] = Standing.DIFFERS
        elif math.isnan(compared.p[row]):
            states[row] = Standing.UNTESTED
        else:
            states[row] = Standing.FEW if few[row] else Standing.TIED
    if compared.reference is not None:
        states[compared.reference] = Standing.REFERENCE
    draws = np.where(compared.seeds > 1, compared.seeds, DEGREES + 1)
    wider = student_quantile(draws, 1 - np.nan_to_num(levels, nan=LEVEL)) / student_quantile(draws, CONFIDENCE)
    finite = (compared.exact | ((compared.half > 0) & np.isfinite(levels))) & (not compared.scale)
    half = np.where(finite, wider * compared.half, np.nan)
    return replace(compared, states=tuple(states), tests=tests, tested_half=half)


def _all_pairs(
    less: Callable[[Ints, int], Paired], rows: Ints, at: int, sign: float, count: int, level: float
) -> tuple[Floats, int, Bools]:
    """Return the level at which each setting is judged beside one, the number of tests, and which another beats."""
    beaten, ps = np.zeros(count, dtype=bool), list[Floats]()
    firsts, seconds = list[Ints](), list[Ints]()
    for place, row in enumerate(rows.tolist()):
        before = rows[:place]
        if not place:
            continue
        pairs, over = less(before, row), level / max(2, count - 1)
        beaten[before] |= _worse(sign * pairs.mean, pairs.p, over)
        beaten[row] |= bool(_worse(-sign * pairs.mean, pairs.p, over).any())
        ps.append(np.where(pairs.exact, np.nan, pairs.p))
        firsts.append(before)
        seconds.append(np.full(place, row))
    p, first, second = np.concatenate(ps), np.concatenate(firsts), np.concatenate(seconds)
    levels, beside = holm_levels(p, level), np.full(count, np.nan)
    with_best = (first == at) | (second == at)
    beside[np.where(first == at, second, first)[with_best]] = levels[with_best]
    return beside, int(np.isfinite(p).sum()), beaten


def _worse(apart: Floats, p: Floats, level: float) -> Bools:
    return np.asarray((apart > 0) & (np.nan_to_num(p, nan=1.0) / 2 <= level))


def _too_few(seeds: Ints, level: Floats) -> Bools:
    """Say where a difference of three of its standard deviations, the same sign in all seeds, would not show."""
    testable = np.isfinite(level) & (seeds > 1)
    level = np.where(testable, level, LEVEL)
    needed = student_quantile(np.maximum(seeds, 2), 1 - level) / np.sqrt(np.maximum(seeds, 1))
    return np.asarray(testable & (needed > _VISIBLE))


def tested_together(comparisons: Sequence[Contrasts]) -> tuple[Contrasts, ...]:
    """Judge comparisons with references that were fixed beforehand as one family."""
    asked = [np.setdiff1d(each.order, [each.reference]) for each in comparisons]
    p = [np.where(each.exact, np.nan, each.p)[rows] for each, rows in zip(comparisons, asked, strict=True)]
    together = holm_levels(np.concatenate(p), LEVEL) if p else np.empty(0)
    tests, first, judged = int(np.isfinite(together).sum()), 0, list[Contrasts]()
    for each, rows in zip(comparisons, asked, strict=True):
        levels = np.full(len(each.p), np.nan)
        levels[rows] = together[first : first + len(rows)]
        first += len(rows)
        judged.append(_judged(each, levels, tests))
    return tuple(judged)


def spent(looks: Sequence[int]) -> Floats:
    """Return the level of each planned look, after so many seeds: together 2.5 %, as Pocock's looks spend it.

    The last comparison has 5 % of its own and mostly sees what they see: both call equal settings different in 6 %.

    The spending function is that of Lan and DeMets (Biometrika 70, 1983); what a look spends beyond those before it
    is its level, so that the sum bounds all, however looks depend on each other.
    """
    share = np.asarray(looks, dtype=np.float64) / looks[-1]
    return np.asarray(np.diff(LEVEL / 2 * np.log(1 + (math.e - 1) * share), prepend=0.0))


def detectable(half: float, seeds: int, tests: int, of: int | None = None) -> float:
    """Return the least difference that a test sees four times in five, from half of its 95 % interval over `seeds`.

    That of one run each is what the runs state. The test is Student's t at 5 % over the number of `tests`; `of` is
    another number of seeds, to plan with.
    """
    then = seeds if of is None else of
    spread = half / float(student_quantile(seeds if seeds > 1 else DEGREES + 1, CONFIDENCE)) * np.sqrt(seeds / then)
    quantiles = student_quantile(then, 1 - (1 - CONFIDENCE) / tests) + student_quantile(then, 2 * _POWER - 1)
    return float(spread * quantiles)


def seeds_needed(difference: float, half: float, seeds: int, tests: int) -> int | None:
    """Return how many seeds would tell a difference, as `detectable` says; None where a thousand would not."""
    enough = (n for n in range(seeds + 1, _MOST_SEEDS + 1) if detectable(half, seeds, tests, n) <= abs(difference))
    return next(enough, None)


def differences(
    trials: Trials, pairs: Sequence[tuple[int, int]], facts: Sequence[str] | None = None, confidence: float = CONFIDENCE
) -> pl.DataFrame:
    """Return how facts differ at the second setting of each pair from those at the first, seed by seed.

    Columns: ``point``, the parameters, ``metric``, ``seeds`` (in which both have a value), ``baseline_mean`` and
    ``mean`` over these, ``difference`` (the latter less the former), ``standard_error``, ``low``, ``high`` (null with
    fewer than two seeds). By default all facts are compared. A `ValueError` says that there is no such confidence.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"the confidence must lie between 0 and 1, not {confidence}")
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    settings = trials.settings[second].rename({"setting": "point"})
    parts = list[pl.DataFrame]()
    for fact in [*(trials.in_order if facts is None else facts)] or [""]:
        values = trials.as_measured(fact)
        one, other = values[second], values[first]
        both = np.where(np.isfinite(one + other), 1.0, np.nan)
        apart = paired(one, other)
        half = apart.error * student_quantile(np.maximum(apart.seeds, 2), confidence)
        columns = {
            "seeds": apart.seeds.astype(np.int64),
            "baseline_mean": interval(other * both).mean,
            "mean": interval(one * both).mean,
            "difference": apart.mean,
            "standard_error": apart.error,
            "low": apart.mean - half,
            "high": apart.mean + half,
        }
        table = pl.DataFrame(columns).with_columns(pl.col(pl.Float64).fill_nan(None))
        parts.append(settings.with_columns(metric=pl.lit(fact)).hstack(table).filter(pl.col("seeds") > 0))
    return pl.concat(parts).sort("point", maintain_order=True)
