"""The inverse question: weights p under which the long-run participation pi(p, R) is a wanted one.

For a common R under Midzuno there is one answer up to scale, within limits (theorem 6 of ``docs/theory/README.md``).
With other laws, and separations that differ, that is conjectured, and tested against enumeration
(``tests/theory/test_wanted_weights.py``). No client can have more than 1 / (B (1 + R_i)) of the participations: it
rests. Under Midzuno, none can have less than its chance in the second draws, which are uniform.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Bools, Floats
from fedsim.common.errors import ChainError
from fedsim.common.intervals import bisected
from fedsim.selection.rules import MIDZUNO, RULES, SelectionRule, rule_of
from fedsim.theory.question import AnyRule, Stationary, ask, normalised, separations
from fedsim.theory.stationary import stationary, without_draws

INVERTIBLE = tuple(name for name, rule in RULES.items() if rule.says("first_draw") or rule.says("constant"))
"""Built-in laws whose participation weights can set."""
EXACT = 1e-10
"""How close participation comes to what is wanted, relative, where theory is not a trial."""
_NEARLY = 1e-7  # where theory is an approximation
_STEPS = 400
_LEAST = 1e-9  # weight, of the median, below which none is tried
_NOTHING = 1e-6  # of what is wanted
_MATTERS = 1e-9  # by what share a step must bring shares closer
_ROOM = 0.02  # of a limit, that is kept free
_ROUNDS = 5  # of the search for what is within the limits
_FAR, _CLOSE = 800.0, 2.0**-49  # logarithms of a common factor: the most, and how close they come


@dataclass(frozen=True, eq=False)
class Designed:
    """Weights for a wanted participation."""

    weights: Floats = field(repr=False)  # (N,), mean 1
    shares: Floats = field(repr=False)  # (N,) that theory expects under them, sum 1
    target: Floats = field(repr=False)  # (N,) shares that were aimed at, sum 1: those wanted, as far as they can be had
    cut: Bools = field(repr=False)  # (N,) clients that cannot have what was wanted
    method: str  # of `fedsim.theory.stationary`
    error: float  # of a share, relative, at most; of the mean field an estimate


def weights_for(
    target: ArrayLike, separation: ArrayLike, cohort: int = 1, rule: AnyRule = MIDZUNO, *, means: bool = True
) -> Designed:
    """Find weights under which always-available clients participate as `target` (N,) says, in proportion.

    With `means` the target is of their pulls on a model that moves by the mean of a round, which is the same where all
    cohorts have one size. What cannot be had is replaced by a limit, and the others keep their proportions.

    Raises a `ChainError` if the question makes no sense, weights do not matter to the law, or theory has no answer by
    numbers alone.
    """
    shares, rule = normalised(target), rule_of(rule)
    alone = rule.says("constant")
    if not (alone or rule.says("first_draw")):
        raise ChainError(f"law {rule.name!r} does not take clients by their weights alone: use {', '.join(INVERTIBLE)}")
    rounds = np.broadcast_to(np.asarray(separations(separation, len(shares))), shares.shape).astype(np.float64)
    if alone:
        wanted, cut = shares, np.zeros(len(shares), dtype=np.bool_)
    else:
        ask(shares, separation, cohort)  # whether the clients can fill the cohorts at all
        wanted, cut = _within_limits(shares, rounds, cohort, rule)

    method = without_draws(wanted, separation, cohort, rule).method

    def asked(weights: Floats) -> Stationary:
        return stationary(weights, separation, cohort, rule, method)

    def shares_of(answer: Stationary) -> Floats:
        return answer.pi if answer.pull is None or not means else answer.pull

    def expected(weights: Floats) -> Floats:
        return shares_of(asked(weights))

    def ready(share: Floats) -> Floats:
        return share if alone else _rule_of_thumb(share, rounds, cohort, rule)

    weights = fitted(expected, wanted, ready(wanted), ready, _NEARLY if method == "mean-field" else EXACT)
    best = asked(weights)
    return Designed(weights, shares_of(best), wanted, cut, method, best.error_bound or 0.0)


def fitted(
    expected: Callable[[Floats], Floats],
    target: Floats,
    start: Floats,
    ready: Callable[[Floats], Floats] = lambda share: share,
    close: float = EXACT,
    steps: int = _STEPS,
) -> Floats:
    """Return weights (N,), mean 1, whose `expected` shares are the target, or the closest that was met on the way.

    Each step multiplies the weights by ready(target) / ready(expected), to a power that is halved where a step has not
    led closer by more than rounding might. Closer is by the chi-square distance: where some cannot have what they want,
    it is least where the others keep their proportions, and L1 in many places. `ready` returns the weights that a rule
    of thumb takes for shares. Who takes part in next to nothing whatever the weights keeps its own.
    """
    weights: Floats = start / np.median(start)
    best, aim, power, least, way = weights, ready(target), 1.0, np.inf, np.ones(len(target))
    for _ in range(steps):
        shares = expected(weights)
        apart = np.abs(shares / target - 1.0)
        if (distance := float(apart**2 @ target)) < least * (1.0 - _MATTERS):
            best, least, power = weights, distance, min(1.0, 1.5 * power)
            way = np.where(shares > _NOTHING * target, aim / ready(shares), 1.0)
        else:
            power /= 2  # again from the best, not as far
        if float(apart.max()) < close or power < 1e-3:
            break
        weights = best * way**power
        weights = np.clip(weights / np.median(weights), _LEAST, 1.0 / _LEAST)
    return np.asarray(best / best.mean())


def _rule_of_thumb(shares: Floats, rounds: Floats, cohort: int, rule: SelectionRule) -> Floats:
    """Return the odds of a leader, where R is common and one drawn by weight, else what the mean field would weigh."""
    if rule.one_by_weight and np.ptp(rounds) == 0.0:
        size = rounds[0] + 1.0
        others = (cohort - 1) / max(len(shares) - size, 1.0)
        leads = (cohort * shares - others) / (1.0 / size - others)
        leads = np.clip(leads, 1e-12, 1.0 - 1e-12)
        return np.asarray(leads / (1.0 - leads))
    taken = np.minimum(cohort * shares, (1.0 - 1e-9) / (1.0 + rounds))
    ready = 1.0 - rounds * taken
    chance = taken / ready
    first = np.maximum(rule.first_draw(chance, ready, cohort), 0.02 * chance)
    return np.asarray(first / np.maximum(1.0 - first * (1.0 - ready), 1e-9))


def _within_limits(shares: Floats, rounds: Floats, cohort: int, rule: SelectionRule) -> tuple[Floats, Bools]:
    """Return the shares in proportion that can be had, but for clients at a limit, and which clients these are."""
    high, low = (1.0 - _ROOM) / (cohort * (1.0 + rounds)), np.zeros(len(shares))
    wanted = shares
    seconds = rule.one_by_weight and cohort > 1
    for _ in range(_ROUNDS if seconds else 1):
        if seconds:
            ready = 1.0 - rounds * np.minimum(cohort * wanted, 1.0 / (1.0 + rounds))
            second = (cohort - 1) / np.maximum(ready.sum() - 1.0, cohort - 1)  # exact for a common R
            low = (1.0 + _ROOM) * second / (1.0 + rounds * second) / cohort
        if low.sum() > 1.0 - EXACT or high.sum() < 1.0 + EXACT:
            raise ChainError("whatever their weights, these clients take part in nearly the same shares")
        wanted = _of_sum_1(shares, low, high)
    return wanted / wanted.sum(), (wanted <= low) | (wanted >= high)


def _of_sum_1(shares: Floats, low: Floats, high: Floats) -> Floats:
    """Return the shares times a common factor, but for those at a limit."""
    factor = bisected(lambda x: bool(np.clip(shares * np.exp(x), low, high).sum() <= 1.0), -_FAR, _FAR, _CLOSE)
    return np.asarray(np.clip(shares * np.exp(factor), low, high))
