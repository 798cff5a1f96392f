"""What theory asks of a selection law, and what the built-in laws answer.

A `SelectionRule` says how clients are chosen among those that are ready. Theory asks it, and knows none by name: exact
theory for the cohorts and their chances, Monte Carlo for draws, the mean field for the chance of a client given the
free mass. What a rule does not say is unknown.
"""

from collections.abc import Callable
from functools import cache
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bools, Floats
from fedsim.common.errors import CannotAnswerError, ChainError
from fedsim.common.later import optimize
from fedsim.selection.eligible_weight import competing_weight
from fedsim.selection.poisson_sampling import inclusion

RoundDraw = Callable[[int | NDArray[np.uint64]], Floats]
"""The draws of one round by replicas, (replicas, n), uniform in (0, 1): 0 for the leader, 1 + i for client i."""

_TOLERANCE = 1e-13  # of the logarithm of a mass
_STEP = 1e-3  # of a logarithm, where a bracket begins
_BLOCK = 1 << 14  # clients
_STEPS, _CLOSE = 100, 1e-9  # of iterations, and how close they have to come
_ROUNDING = 1e-12  # measured against extended precision: see tests/theory/test_closed_form.py
_LARGEST_ORDERED = 12  # successive draws: 2^B partial cohorts
_LARGEST_FREE = 16  # clients that may or may not take part: 2^n cohorts


class SelectionRule:
    """How a law chooses among clients that are ready; an own one inherits from this, and is its law's ``theory``.

    `weights` (n,) are positive, of the clients that are meant; `size`, B, is how many clients a round wants.
    """

    name: ClassVar[str] = "of one's own"
    fixed_size: ClassVar[bool] = True
    """Whether a round takes exactly B clients; else a random number, of the mean B where more are ready."""
    in_turn: ClassVar[bool] = False
    """Whether clients take part in the order of their indices, whatever their weights."""
    in_blocks: ClassVar[bool] = False
    """Whether B consecutive clients take part as a whole."""
    one_by_weight: ClassVar[bool] = False
    """Whether one client of a round is drawn by weight, and the others uniformly."""

    def says(self, method: str) -> bool:
        """Say whether the rule declares one of the methods below."""
        return getattr(type(self), method) is not getattr(SelectionRule, method)

    def reduced(self, weights: Floats, size: int) -> "tuple[Floats, int, SelectionRule]":
        """Return the same rule on what is chosen: weights, size and rule."""
        return weights, size, self

    def constant(self, weights: Floats, size: int) -> Floats:
        """Return the chance (n,) of each that is ready, whoever else is, where each is drawn by itself."""
        raise self._unknown("constant chances")

    def closed_form(self, weights: Floats, rounds: int, size: int) -> tuple[Floats, float]:
        """Return the shares (n,) of all participations where all wait so many rounds, and their relative error."""
        raise self._unknown("a closed form")

    def cohorts(self, weights: Floats, size: int) -> tuple[Bools, Floats]:
        """Return which clients each possible cohort holds, (cohorts, n), and numbers proportional to their chances.

        Of a rule of a fixed size n is at least B.
        """
        raise self._unknown("the chances of cohorts")

    def play(self, weights: Floats, ready: Bools, size: int, draw: RoundDraw) -> tuple[Floats | None, Bools]:
        """Draw a round of every replica: the chance of each client, if known, and who takes part, (replicas, n).

        By default one of the `cohorts` is drawn.
        """
        chances, chosen, at = np.zeros(ready.shape), np.zeros_like(ready), draw(0)[:, 0]
        for row, here in enumerate(ready):
            members, of_cohorts = self.cohorts(weights[here], size)
            whole = of_cohorts.cumsum()
            chances[row, here] = of_cohorts @ members / whole[-1]
            chosen[row, here] = members[np.searchsorted(whole, at[row] * whole[-1], side="right")]
        return chances, chosen

    def mean_chance(self, first: Floats, size: int) -> Floats:
        """Return the chance (n,) of a client that one draw by weight would take with the chance `first`, (n,)."""
        raise self._unknown("mean chances")

    def chances(self, weights: Floats, rounds: Floats, size: int, ready: Floats) -> Floats:
        """Return the chance h (n,) of a ready client, so that B take part on average.

        Clients wait for `rounds` (n,), and were found to be `ready` in so large a share (n,) of all. By default the
        mean free mass is solved for, from which `mean_chance` follows.
        """

        def excess(mass: float) -> float:
            def each(p: Floats, ready: Floats, rounds: Floats) -> Floats:
                return _shares(self.mean_chance(_one_draw(p, mass, ready), size), rounds)

            return _total(each, weights, ready, rounds) - size

        mass = _root(excess, float(weights @ ready))
        return self.mean_chance(_one_draw(weights, mass, ready), size)

    def chances_now(self, eligible: Floats, weights: Floats, size: float) -> Floats:
        """Return the chance (n,) of an eligible client in a round for which all are `eligible` with chances (n,)."""
        raise self._unknown("chances where devices come and go")

    def fluctuation(self, first: Floats, taken: Floats, ready: Floats, size: int) -> float:
        """Return an estimate of the largest relative error of the mean field, by shares (n,).

        Clients have so large a share of the `first` draws, and take part and are ready in so large shares of rounds.
        """
        return 1.0

    def first_draw(self, chance: Floats, ready: Floats, size: int) -> Floats:
        """Return the inverse of `mean_chance`, (n,), for clients that are `ready` in so large a share of rounds."""
        raise self._unknown("what weights lead to chances")

    def _unknown(self, what: str) -> CannotAnswerError:
        left = {"exact": "cohorts", "mean-field": "mean_chance", "monte-carlo": "play"}
        methods = [name for name, method in left.items() if self.says(method)]
        methods += ["monte-carlo"] * (self.says("cohorts") and not self.says("play"))
        other = f"use the method {' or '.join(map(repr, methods))}" if methods else "no other method knows it either"
        return CannotAnswerError(f"law {self.name!r} does not say {what}: {other}")


def rule_of(rule: "SelectionRule | str") -> SelectionRule:
    """Return the rule of that name, or the one that is given; a `ChainError` says that there is none."""
    if isinstance(rule, SelectionRule):
        return rule
    if rule not in RULES:
        raise ChainError(f"there is no selection law {rule!r}: choose one of {', '.join(RULES)}")
    return RULES[rule]


class MidzunoRule(SelectionRule):
    """One by weight, the rest uniformly: P(S) is proportional to the sum of its weights (Sun et al. 2025, section 3).

    With c_i the inclusion probability of a conditional Poisson sample of n = R + 1 clients,

        B pi_i = c_i / n + (1 - c_i) (B - 1) / (N - n)

    (theorem 4 of ``docs/theory/README.md``). In the mean field h_i = a_i + (1 - a_i) (B - 1) / (D - w_i), the second
    draws being uniform over D ready clients, and D makes the mean number of first draws 1.
    """

    name = "midzuno"
    one_by_weight = True

    def closed_form(self, weights: Floats, rounds: int, size: int) -> tuple[Floats, float]:
        count, n = len(weights), rounds + 1
        # Where n cohorts hold the whole population, everyone takes part in every n rounds.
        if weights.min() == weights.max() or n * size == count:
            return np.full(count, 1.0 / count), 0.0
        c, defect = inclusion(weights, n)
        pi = c / n
        if size > 1:
            pi += (1.0 - c) * ((size - 1) / (count - n))
            pi /= size
        return pi, _ROUNDING + 10.0 * defect

    def cohorts(self, weights: Floats, size: int) -> tuple[Bools, Floats]:
        members, chosen = _sets(len(weights), size)
        return members, weights[chosen].sum(axis=1)

    def play(self, weights: Floats, ready: Bools, size: int, draw: RoundDraw) -> tuple[Floats | None, Bools]:
        mass = np.where(ready, weights, 0.0)
        total = mass.cumsum(axis=1)
        first = mass / total[:, -1:]
        leader = (total > draw(0) * total[:, -1:]).argmax(axis=1)
        chosen = np.zeros_like(ready)
        rows = np.arange(len(ready))
        if size > 1:
            keys = np.where(ready, draw(_each(weights)), 2.0)
            keys[rows, leader] = 2.0
            chosen = _smallest(keys, size - 1)
            fill = (size - 1) / (ready.sum(axis=1, keepdims=True) - 1.0)
            first = np.where(ready, first + (1.0 - first) * fill, 0.0)
        chosen[rows, leader] = True
        return first, chosen

    def mean_chance(self, first: Floats, size: int) -> Floats:
        return first

    def chances(self, weights: Floats, rounds: Floats, size: int, ready: Floats) -> Floats:
        near = float(weights @ ready)

        def second(share: float, ready: Floats) -> Floats:
            """(B - 1) / (D - w_i), at most 1, with share = (B - 1) / D."""
            return np.asarray(share / np.maximum(1.0 - ready * share / (size - 1), share))

        def both(mass: float, share: float, p: Floats, ready: Floats) -> tuple[Floats, Floats]:
            """Chances of the first draw, and of any."""
            first = _one_draw(p, mass, ready)
            return first, first if size == 1 else first + (1.0 - first) * second(share, ready)

        def mass_at(share: float) -> float:
            nonlocal near

            def excess(mass: float) -> float:
                def each(p: Floats, ready: Floats, rounds: Floats) -> Floats:
                    return _shares(both(mass, share, p, ready)[1], rounds)

                return _total(each, weights, ready, rounds) - size

            near = _root(excess, near)
            return near

        def firsts(share: float) -> float:
            """First draws per round, minus the one that there is."""
            mass = mass_at(share)

            def each(p: Floats, ready: Floats, rounds: Floats) -> Floats:
                first, chance = both(mass, share, p, ready)
                return np.asarray(first / (1.0 + rounds * chance))

            return _total(each, weights, ready, rounds) - 1.0

        def seconds(share: float) -> float:
            return _total(lambda ready, rounds: _shares(second(share, ready), rounds), ready, rounds) - size

        share = 0.0
        if size > 1:
            # where second draws alone would fill the cohort, no first draws are left
            alone = float(optimize.brentq(seconds, 0.0, 1.0, xtol=_TOLERANCE))
            share = _root(firsts, (size - 1) / float(ready.sum()), alone * (1.0 - 1e-9))
        return both(mass_at(share), share, weights, ready)[1]

    def chances_now(self, eligible: Floats, weights: Floats, size: float) -> Floats:
        """Return a_i + (1 - a_i) phi, with a_i the chance of the first draw."""
        first = _drawn(eligible, weights, 1.0)
        return first + _level(eligible, 1.0 - first, size - 1.0, 1.0 - first)

    def fluctuation(self, first: Floats, taken: Floats, ready: Floats, size: int) -> float:
        """Return 2 sum_i s_i^2 (1 - w_i): the fluctuation of the free mass, in squared relative terms."""
        return _fluctuation(first, taken, 2.0 * (1.0 - ready))

    def first_draw(self, chance: Floats, ready: Floats, size: int) -> Floats:
        second = (size - 1) / np.maximum(ready.sum() - ready, size - 1)
        return np.asarray((chance - second) / (1.0 - second))


class UniformRule(SelectionRule):
    """All alike, whatever their weights."""

    name = "uniform"

    def reduced(self, weights: Floats, size: int) -> tuple[Floats, int, SelectionRule]:
        return np.full_like(weights, 1.0 / weights.size), size, MIDZUNO

    def chances_now(self, eligible: Floats, weights: Floats, size: float) -> Floats:
        return _level(eligible, np.ones(len(weights)), size)


class SuccessiveRule(SelectionRule):
    """One client after the other, each by weight among those that are left (Plackett-Luce).

    In the mean field h_i = 1 - (1 - a_i)^B; where devices come and go, 1 - exp(-theta p_i) (Rosén).
    """

    name = "successive"

    def reduced(self, weights: Floats, size: int) -> tuple[Floats, int, SelectionRule]:
        return weights, size, MIDZUNO if size == 1 else self

    def cohorts(self, weights: Floats, size: int) -> tuple[Bools, Floats]:
        """Return P(S) by recursion over the sets of members drawn first; the mass left is summed, never subtracted."""
        members, chosen = _sets(len(weights), size)
        if size > _LARGEST_ORDERED:
            raise CannotAnswerError(
                f"a cohort of {size} can be drawn in too many orders: the exact law of successive draws goes up "
                f"to {_LARGEST_ORDERED}; use the method 'mean-field' or 'monte-carlo'"
            )
        masses, outside = weights[chosen], np.where(members, 0.0, weights).sum(axis=1)
        drawn = [np.ones(len(masses))]
        for first in range(1, 1 << size):
            total = np.zeros(len(masses))
            for last in range(size):
                if first >> last & 1:
                    before = first ^ 1 << last
                    left = outside + sum(masses[:, k] for k in range(size) if not before >> k & 1)
                    total += drawn[before] * masses[:, last] / left
            drawn.append(total)
        return members, drawn[-1]

    def play(self, weights: Floats, ready: Bools, size: int, draw: RoundDraw) -> tuple[Floats | None, Bools]:
        """Take the B first of independent exponential clocks of rates p_i (Efraimidis-Spirakis 2006)."""
        clocks = np.where(ready, -np.log(draw(_each(weights))) / weights, np.inf)
        return None, _smallest(clocks, size)

    def mean_chance(self, first: Floats, size: int) -> Floats:
        return np.asarray(1.0 - (1.0 - first) ** size)

    def chances_now(self, eligible: Floats, weights: Floats, size: float) -> Floats:
        if eligible.sum() <= size:
            return np.ones(len(weights))
        if size == 1.0:
            return _drawn(eligible, weights, size)
        theta = size / float(eligible @ weights)  # left of the root of a concave function: Newton comes from there
        for _ in range(_STEPS):
            missed = np.exp(-theta * weights)
            slope = float((eligible * weights) @ missed)
            step = (size - float(eligible @ (1.0 - missed))) / slope if slope else 0.0  # 0 where all others surely rest
            step = min(max(step, 0.0), 1e3 * theta)  # beyond that it is rounding
            theta += step
            if step <= _CLOSE * theta:
                break
        return np.asarray(1.0 - np.exp(-theta * weights))

    def fluctuation(self, first: Floats, taken: Floats, ready: Floats, size: int) -> float:
        """Add h_i to 1 - w_i, because weight also leaves during a round."""
        return _fluctuation(first, taken, 2.0 * (1.0 - ready + taken / ready))

    def first_draw(self, chance: Floats, ready: Floats, size: int) -> Floats:
        return np.asarray(-np.expm1(np.log1p(-chance) / size))


class BlocksRule(SelectionRule):
    """B consecutive clients at a time, by the block's weight: the rule of one client on blocks."""

    name = "groups"
    in_blocks = True

    def reduced(self, weights: Floats, size: int) -> tuple[Floats, int, SelectionRule]:
        return weights.reshape(-1, size).sum(axis=1), 1, MIDZUNO


class InTurnRule(SelectionRule):
    """Every client in turn, in the order of indices."""

    name = "cyclic"
    in_turn = True


class BernoulliRule(SelectionRule):
    """Each ready client by itself, with min(1, s p_i), s such that B are expected; all, when at most B are ready.

    In the mean field h_i = min(1, B a_i).
    """

    name = "bernoulli"
    fixed_size = False

    def cohorts(self, weights: Floats, size: int) -> tuple[Bools, Floats]:
        """Return all sets of those who are not certain, beside those who are."""
        chances = bernoulli_chances(weights, size)
        free = np.flatnonzero(chances < 1.0)
        if free.size > _LARGEST_FREE:
            raise CannotAnswerError(
                f"with {free.size} clients that may or may not take part there are 2^{free.size} cohorts a round: "
                f"the exact method goes up to 2^{_LARGEST_FREE}; use the method 'mean-field' or 'monte-carlo'"
            )
        members = np.ones((1 << free.size, weights.size), dtype=np.bool_)
        members[:, free] = (np.arange(1 << free.size)[:, None] >> np.arange(free.size)) & 1
        return members, np.where(members, chances, 1.0 - chances).prod(axis=1)

    def play(self, weights: Floats, ready: Bools, size: int, draw: RoundDraw) -> tuple[Floats | None, Bools]:
        """In order of weight, client j is certain when s p_j would reach 1."""
        order = np.argsort(-weights, kind="stable")
        here = ready[:, order]
        mass = np.where(here, weights[order], 0.0)
        tail = mass[:, ::-1].cumsum(axis=1)[:, ::-1]
        left = size - (here.cumsum(axis=1) - here)
        certain = here & (mass * left >= tail)
        spare = size - certain.sum(axis=1, keepdims=True)
        rest = np.where(certain, 0.0, mass)
        free = rest.sum(axis=1, keepdims=True)
        chances = np.where(certain, 1.0, rest * (np.maximum(spare, 0) / np.where(free > 0.0, free, 1.0)))
        few = here.sum(axis=1, keepdims=True) <= size
        chances = np.where(few, here.astype(np.float64), np.minimum(chances, 1.0))
        in_order = np.empty_like(chances)
        in_order[:, order] = chances
        return in_order, draw(_each(weights)) < in_order

    def mean_chance(self, first: Floats, size: int) -> Floats:
        return np.asarray(np.minimum(1.0, size * first))

    def chances_now(self, eligible: Floats, weights: Floats, size: float) -> Floats:
        return _drawn(eligible, weights, size)

    def fluctuation(self, first: Floats, taken: Floats, ready: Floats, size: int) -> float:
        """Put (1 - w_i) / w_i in the place of 1 - w_i and 4 B in that of 2, since cohorts vary."""
        return _fluctuation(first, taken, 4.0 * size * (1.0 - ready) / ready)

    def first_draw(self, chance: Floats, ready: Floats, size: int) -> Floats:
        return chance / size


class PoissonRule(SelectionRule):
    """Each client by itself, with the constant chance min(1, B p_i)."""

    name = "poisson"
    fixed_size = False

    def constant(self, weights: Floats, size: int) -> Floats:
        return poisson_chances(weights, size)

    def fluctuation(self, first: Floats, taken: Floats, ready: Floats, size: int) -> float:
        return _fluctuation(first, taken, 2.0 * (1.0 - ready))


def bernoulli_chances(weights: Floats, size: int) -> Floats:
    """Return min(1, s p_i) with sum `size` over the (n,) eligible clients, or ones when n <= size."""
    if weights.size <= size:
        return np.ones_like(weights)
    certain = np.zeros(weights.shape, dtype=np.bool_)
    while True:
        left = size - int(np.count_nonzero(certain))
        chances = np.where(certain, 1.0, weights * (left / weights[~certain].sum()))
        over = ~certain & (chances >= 1.0)
        if not over.any():
            return chances
        certain |= over


def poisson_chances(weights: Floats, cohort: int) -> Floats:
    """Return min(1, B p_i) for all clients, shape (N,)."""
    return np.minimum(1.0, cohort * weights)


def _each(weights: Floats) -> NDArray[np.uint64]:
    return 1 + np.arange(len(weights), dtype=np.uint64)


def _smallest(keys: Floats, count: int) -> Bools:
    """Mark the `count` smallest keys of each row."""
    places = np.argpartition(keys, count - 1, axis=1)[:, :count]
    marked = np.zeros(keys.shape, dtype=np.bool_)
    np.put_along_axis(marked, places, values=True, axis=1)
    return marked


def _sets(clients: int, size: int) -> tuple[Bools, NDArray[np.intp]]:
    """Return all sets of `size` clients: as masks, (sets, n), and as indices, (sets, size)."""
    chosen = np.array(list(combinations(range(clients), size)), dtype=np.intp).reshape(-1, size)
    members = np.zeros((len(chosen), clients), dtype=np.bool_)
    np.put_along_axis(members, chosen, values=True, axis=1)
    return members, chosen


def _fluctuation(first: Floats, taken: Floats, away: Floats) -> float:
    """Return sum_i s_i^2 times what is `away`, with s_i the larger of the shares of draws and participations."""
    return float((np.maximum(first, taken / taken.sum()) ** 2 * away).sum())


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


def _level(
    eligible: Floats, weights: Floats, total: float, most: Floats | float = 1.0, own_weight: Floats | None = None
) -> Floats:
    """Return h = min(most, B w / (M + (1 - e) w)) with sum of e h = B, or `most` where that is not enough for it.

    M is the eligible weight, in which a device that is eligible sees all of its own weight instead of e times it; or by
    M + own_weight.
    """
    highest = np.broadcast_to(most, len(weights))
    if float(eligible @ highest) <= total:
        return highest
    own_weight = (1.0 - eligible) * weights if own_weight is None else own_weight
    mass, wanted, chances = float(eligible @ weights), total * weights, np.empty(len(weights))
    for _ in range(_STEPS if total else 1):
        np.add(mass, own_weight, out=chances)  # in place: at 10^6 clients new arrays take as long as the sums
        np.minimum(highest, np.divide(wanted, chances, out=chances), out=chances)
        reached = float(eligible @ chances)
        if abs(reached - total) <= _CLOSE * total:
            break
        mass *= reached / total
    return chances


def _drawn(eligible: Floats, weights: Floats, total: float) -> Floats:
    """Return min(1, theta w / M_i), M_i the eligible weight that i competes with, with sum of e h = B."""
    return _level(eligible, weights / competing_weight(eligible, weights), total, own_weight=np.zeros(1))


MIDZUNO: SelectionRule = MidzunoRule()
RULES = {
    each.name: each
    for each in (MIDZUNO, UniformRule(), SuccessiveRule(), BlocksRule(), InTurnRule(), BernoulliRule(), PoissonRule())
}
"""The rules of the built-in laws that theory knows."""
