"""The mean field: every client for itself, in a population whose free mass does not fluctuate.

A client waits R_i rounds after taking part, then is chosen with a fixed chance h_i in every round: its cycle lasts
R_i + 1 / h_i rounds, so it takes part in a share P_i = h_i / (1 + R_i h_i) of them (renewal theorem), and is ready in
a share w_i = 1 / (1 + R_i h_i). With F the mean weight of the ready clients, a client that is ready sees F, plus
its own weight instead of w_i times it, so one draw takes it with chance a_i = p_i / (F + (1 - w_i) p_i), from which the
rule makes h_i. F is the root of sum_i P_i = B, with the w_i of the previous sweep; sweeps repeat until these settle.
Every left-hand side is monotone in its unknown and the root is bracketed, so it is always found.
"""

from itertools import islice

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats
from fedsim.common.errors import ChainError
from fedsim.selection.rules import MIDZUNO, SelectionRule
from fedsim.theory.monte_carlo import rounds_of
from fedsim.theory.pull import independent_pulls
from fedsim.theory.question import AnyRule, Question, Stationary, ask, per_client, reduced

STALLS = "this chain stalls"
_SWEEPS = 30
_SETTLED = 1e-12
_REPLICAS, _ROUNDS, _CELLS = 8, 1000, 2_000_000  # of the trial of stalls
_FEWEST = 5  # rounds of a trial that could tell something


def mean_field(weights: ArrayLike, separation: ArrayLike, cohort: int = 1, law: AnyRule = MIDZUNO) -> Stationary:
    """Approximate stationary participation for any separations and selection law, in O(N).

    Raises a `ChainError` if the question makes no sense, or the cohort is more than the separations allow.

    What the mean field leaves out is the fluctuation of the free mass. `error_bound` estimates the largest relative
    error of a client by what the rule says of that, a multiple of sum_i s_i^2 (1 - w_i), with s_i the larger of pi_i
    and i's share w_i p_i / F of the ready weight. It falls as 1/N, and is at most 1, which says nothing. The form was
    argued and the constants were set by comparison with exact results, so it is an estimate and no bound:
    ``docs/chain.md`` tells how often it was exceeded. Shortages are not modelled: the answer is for the
    chain while it does not stall, and where it may, `caveats` of the answer say what a trial showed.
    """
    question = ask(weights, separation, cohort, law)
    if question.rule.in_turn:
        uniform = np.full(question.clients, 1.0 / question.clients)
        return Stationary(*question.asked, uniform, method="mean-field", error_bound=0.0)
    units = reduced(question)
    rounds = units.separations.astype(np.float64)
    most = 1.0 / (1.0 + rounds)
    all_they_can = bool(units.cohort >= most.sum() * (1.0 - 1e-12))
    taken = most if all_they_can else participation(units.weights, rounds, units.cohort, units.rule)[0]
    pi, caveats, pull = per_client(question, taken / taken.sum()), _stall_caveats(units), None
    if not units.rule.fixed_size:
        pull = independent_pulls(taken, taken / (1.0 - rounds * taken))
    ready, error = np.maximum(1.0 - rounds * taken, 1e-12), 0.0
    if not (units.rule.fixed_size and all_they_can):
        error = fluctuation(units.weights, taken, ready, units.rule, units.cohort)
    return Stationary(*question.asked, pi, method="mean-field", error_bound=error, caveats=caveats, pull=pull)


def participation(weights: Floats, rounds: Floats, cohort: int, rule: SelectionRule) -> tuple[Floats, Floats]:
    """Return the share of rounds in which each client takes part, and that in which it is ready, both (N,).

    Each waits so many `rounds` (N,) on average after taking part; these must leave more than the cohort.
    """
    ready = np.ones(len(weights))
    for _ in range(_SWEEPS):
        before = ready
        chances = rule.chances(weights, rounds, cohort, before)
        ready = 1.0 / (1.0 + rounds * chances)
        if float(np.abs(ready - before).max()) < _SETTLED:
            break
    return chances * ready, ready


def fluctuation(weights: Floats, taken: Floats, ready: Floats, rule: SelectionRule, cohort: int) -> float:
    """Return the `error_bound` of `mean_field`, by the shares of rounds in which clients take part and are ready."""
    return min(1.0, rule.fluctuation(ready * weights / float((ready * weights).sum()), taken, ready, cohort))


def _stall_caveats(units: Question) -> tuple[str, ...]:
    """Say whether the chain was seen to stall; nothing where it cannot.

    Eight replicas are followed from all ready, for up to 1,000 rounds, fewer beyond 250 clients; beyond 50,000
    nothing is tried.
    """
    rounds = units.separations
    if not units.rule.fixed_size or (rounds == rounds[0]).all():
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
