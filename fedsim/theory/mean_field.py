"""The mean field: every client for itself, in a population whose free mass does not fluctuate.

A client waits R_i rounds after taking part, then is chosen with a fixed chance h_i in every round: its cycle lasts
R_i + 1 / h_i rounds, so it takes part in a share P_i = h_i / (1 + R_i h_i) of them (renewal theorem), and is ready in
a share w_i = 1 / (1 + R_i h_i). With F the mean weight of the ready clients, a client that is ready sees F, plus
its own weight instead of w_i times it, so one draw takes it with chance a_i = p_i / (F + (1 - w_i) p_i). Then

- Midzuno: h_i = a_i + (1 - a_i) (B - 1) / (D - w_i), the second draws being uniform over D ready clients.
- successive: h_i = 1 - (1 - a_i)^B.
- bernoulli: h_i = min(1, B a_i).

F is the root of sum_i P_i = B (and D makes the mean number of first draws 1), with the w_i of the previous sweep;
sweeps repeat until these settle. Every left-hand side is monotone in its unknown and the root is bracketed, so it is
always found.
"""

from collections.abc import Callable
from functools import cache, partial
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats
from fedsim.common.errors import ChainError
from fedsim.common.later import optimize
from fedsim.theory.monte_carlo import rounds_of
from fedsim.theory.pull import independent_pulls
from fedsim.theory.question import Question, Stationary, ask, per_client, reduced

STALLS = "this chain stalls"
_TOLERANCE = 1e-13  # of the logarithm of a mass
_SWEEPS = 30
_SETTLED = 1e-12
_STEP = 1e-3  # of a logarithm, where a bracket begins
_BLOCK = 1 << 14  # clients
_REPLICAS, _ROUNDS, _CELLS = 8, 1000, 2_000_000  # of the trial of stalls
_FEWEST = 5  # rounds of a trial that could tell something


def mean_field(weights: ArrayLike, separation: ArrayLike, cohort: int = 1, law: str = "midzuno") -> Stationary:
    """Approximate stationary participation for any separations and selection law, in O(N).

    Raises a `ChainError` if the question makes no sense, or the cohort is more than the separations allow.

    What the mean field leaves out is the fluctuation of the free mass. `error_bound` estimates the largest relative
    error of a client by twice sum_i s_i^2 (1 - w_i), with s_i the larger of pi_i and i's share w_i p_i / F of the ready
    weight: that fluctuation, in squared relative terms. For ``successive``, h_i is added to 1 - w_i, because weight
    also leaves during a round; for ``bernoulli``, whose cohorts vary, (1 - w_i) / w_i stands in its place and 4 B in
    that of 2. It falls as 1/N, and is at most 1, which says nothing. The form was argued and the constants were set by
    comparison with exact results, so it is an estimate and no bound: ``docs/chain.md`` tells how often it was exceeded.
    Without separation it is 0 and the mean field exact for ``midzuno`` and ``bernoulli``. Shortages are not modelled:
    the answer is for the chain while it does not stall, and where it may, `caveats` of the answer say what a trial
    showed.
    """
    question = ask(weights, separation, cohort, law)
    if law == "cyclic":
        uniform = np.full(question.clients, 1.0 / question.clients)
        return Stationary(*question.asked, uniform, method="mean-field", error_bound=0.0)
    units = reduced(question)
    rounds = units.separations.astype(np.float64)
    most = 1.0 / (1.0 + rounds)
    all_they_can = bool(units.cohort >= most.sum() * (1.0 - 1e-12))
    taken = most if all_they_can else participation(units.weights, rounds, units.cohort, units.law)[0]
    pi, caveats, pull = per_client(question, taken / taken.sum()), _stall_caveats(units), None
    if units.law == "bernoulli":
        pull = independent_pulls(taken, taken / (1.0 - rounds * taken))
    ready, error = np.maximum(1.0 - rounds * taken, 1e-12), 0.0
    if units.law == "bernoulli" or not all_they_can:
        error = fluctuation(units.weights, taken, ready, units.law, units.cohort)
    return Stationary(*question.asked, pi, method="mean-field", error_bound=error, caveats=caveats, pull=pull)


def participation(weights: Floats, rounds: Floats, cohort: int, law: str) -> tuple[Floats, Floats]:
    """Return the share of rounds in which each client takes part, and that in which it is ready, both (N,).

    Each waits so many `rounds` (N,) on average after taking part; these must leave more than the cohort.
    """
    ready = np.ones(len(weights))
    for _ in range(_SWEEPS):
        before = ready
        chances = _CHANCES[law](weights, rounds, cohort, before)
        ready = 1.0 / (1.0 + rounds * chances)
        if float(np.abs(ready - before).max()) < _SETTLED:
            break
    return chances * ready, ready


def _total(each: Callable[..., Floats], *arrays: Floats) -> float:
    """Sum a function of arrays, block by block: what it makes stays in the cache, at a third of the time for 10^6."""
    blocks = range(0, len(arrays[0]), _BLOCK)
    return sum(float(each(*(array[at : at + _BLOCK] for array in arrays)).sum()) for at in blocks)


def _shares(chances: Floats, rounds: Floats) -> Floats:
    return np.asarray(chances / (1.0 + rounds * chances))


def _one_draw(p: Floats, mass: float, ready: Floats) -> Floats:
    """Chance of a ready client in one draw, from a mean free mass."""
    return np.asarray(np.minimum(1.0, p / (mass + (1.0 - ready) * p)))


def _root(excess: Callable[[float], float], near: float, most: float = np.inf) -> float:
    """Return the root of a decreasing function of a positive number; the bracket widens until it holds it."""
    at, top = cache(lambda logarithm: excess(float(np.exp(logarithm)))), float(np.log(most))
    here, step = min(float(np.log(near)), top), _STEP
    side = 1.0 if at(here) > 0.0 else -1.0
    while at(there := min(here + side * step, top)) * side > 0.0 and there < top:
        here, step = there, 8.0 * step
    return float(np.exp(optimize.brentq(at, here, there, xtol=_TOLERANCE, rtol=_TOLERANCE)))


def _midzuno(p: Floats, rounds: Floats, cohort: int, ready: Floats) -> Floats:
    near = float(p @ ready)

    def second(share: float, ready: Floats) -> Floats:
        """(B - 1) / (D - w_i), at most 1, with share = (B - 1) / D."""
        return np.asarray(share / np.maximum(1.0 - ready * share / (cohort - 1), share))

    def both(mass: float, share: float, p: Floats, ready: Floats) -> tuple[Floats, Floats]:
        """Chances of the first draw, and of any."""
        first = _one_draw(p, mass, ready)
        return first, first if cohort == 1 else first + (1.0 - first) * second(share, ready)

    def mass_at(share: float) -> float:
        nonlocal near

        def excess(mass: float) -> float:
            taken = _total(lambda p, ready, rounds: _shares(both(mass, share, p, ready)[1], rounds), p, ready, rounds)
            return taken - cohort

        near = _root(excess, near)
        return near

    def firsts(share: float) -> float:
        """First draws per round, minus the one that there is."""
        mass = mass_at(share)

        def each(p: Floats, ready: Floats, rounds: Floats) -> Floats:
            first, chance = both(mass, share, p, ready)
            return np.asarray(first / (1.0 + rounds * chance))

        return _total(each, p, ready, rounds) - 1.0

    def seconds(share: float) -> float:
        return _total(lambda ready, rounds: _shares(second(share, ready), rounds), ready, rounds) - cohort

    share = 0.0
    if cohort > 1:
        # where second draws alone would fill the cohort, no first draws are left
        alone = float(optimize.brentq(seconds, 0.0, 1.0, xtol=_TOLERANCE))
        share = _root(firsts, (cohort - 1) / float(ready.sum()), alone * (1.0 - 1e-9))
    return both(mass_at(share), share, p, ready)[1]


def _one_after_another(p: Floats, mass: float, ready: Floats, cohort: int) -> Floats:
    return np.asarray(1.0 - (1.0 - _one_draw(p, mass, ready)) ** cohort)


def _alone(p: Floats, mass: float, ready: Floats, cohort: int) -> Floats:
    return np.asarray(np.minimum(1.0, cohort * p / (mass + (1.0 - ready) * p)))


def _filled(chances: Callable[..., Floats], p: Floats, rounds: Floats, cohort: int, ready: Floats) -> Floats:
    """Return the chances at the mass at which they fill the cohort."""

    def excess(mass: float) -> float:
        def each(p: Floats, ready: Floats, rounds: Floats) -> Floats:
            return _shares(chances(p, mass, ready, cohort), rounds)

        return _total(each, p, ready, rounds) - cohort

    return chances(p, _root(excess, float(p @ ready)), ready, cohort)


_CHANCES: dict[str, Callable[[Floats, Floats, int, Floats], Floats]] = {
    "midzuno": _midzuno,
    "successive": partial(_filled, _one_after_another),
    "bernoulli": partial(_filled, _alone),
}


def fluctuation(weights: Floats, taken: Floats, ready: Floats, law: str, cohort: int) -> float:
    """Return the `error_bound` of `mean_field`, by the shares of rounds in which clients take part and are ready."""
    first = ready * weights / float((ready * weights).sum())
    share = np.maximum(first, taken / taken.sum())
    away, factor = 1.0 - ready, 2.0
    if law == "successive":
        away = away + taken / ready
    elif law == "bernoulli":
        away, factor = away / ready, 4.0 * cohort
    return min(1.0, factor * float((share**2 * away).sum()))


def _stall_caveats(units: Question) -> tuple[str, ...]:
    """Say whether the chain was seen to stall; nothing where it cannot.

    Eight replicas are followed from all ready, for up to 1,000 rounds, fewer beyond 250 clients; beyond 50,000
    nothing is tried.
    """
    rounds = units.separations
    if units.law == "bernoulli" or (rounds == rounds[0]).all():
        return ()
    tried = min(_ROUNDS, _CELLS // (_REPLICAS * units.clients))
    if tried < _FEWEST:
        return (
            "separations differ, and such a chain may stall, which was not tried with so many clients; pi is that of a "
            "chain that never does",
        )
    passed = 0
    try:
        for _ in islice(rounds_of(units, range(_REPLICAS), 0), tried):
            passed += 1
    except ChainError:
        return (
            f"{STALLS}: after {passed:,} rounds too few clients were ready in one of {_REPLICAS} replicas, "
            "and none of those who wait ever comes back; pi is that of a chain that has not stalled",
        )
    return (
        f"separations differ, and such a chain may stall; none of {_REPLICAS} replicas did in {tried:,} rounds, and pi "
        "is that of a chain that never does",
    )
