"""What the paper says of the chain of participation, statement by statement, and what came of it."""

from functools import cache
from types import ModuleType
from typing import NamedTuple

import numpy as np
from measurements import HERE, check, with_error
from tables import Kept

from fedsim import Scenario
from fedsim.population import build_population
from fedsim.theory import distances, mixing, stationary

SMALL = np.array([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
"""The weights of the paper's statements that are computed here: N = 6, B = 1."""


class Row(NamedTuple):
    """A statement of the paper, the number that tests it, where that comes from, over what, and the verdict."""

    claim: str
    measured: str
    source: str
    over: str
    verdict: str


def page(name: str) -> str:
    """Return a link to a scenario of the paper."""
    return f"[`{name}`](../scenarios/paper/{name}.fedsim.yaml)"


def script(name: str) -> str:
    """Return a link to an independent script."""
    return f"[`{name}.py`](checks/{name}.py)"


def rows(kept: Kept) -> list[Row]:
    """Return the statements in the order of the paper."""
    exact = "exact, nothing drawn"
    irreducibility, appendix = check("irreducibility"), check("appendix_lemmas")
    running = kept["two-speeds"]
    return [
        Row(
            "Special cases: R = 0 is independent choice with probabilities p_i, R = N/B − 1 takes turns",
            f"at R = 0 π = p to {_apart(stationary(SMALL, 0).pi, SMALL / SMALL.sum())}; at R = 5 everyone once in "
            "6 rounds",
            "[chain.md](chain.md)",
            exact,
            "yes",
        ),
        Row(
            "Definition 1; Proposition 1 (1), (2): a chain of order R; cohorts within R + 1 rounds are disjoint; the "
            "next has probability in proportion to its weight among those that have waited",
            f"enumeration and formula agree to {_closed():.0e} in every π_i, for R = 0 to 4",
            "[chain.md](chain.md); the simulation's log against the same law, in tests",
            exact,
            "yes",
        ),
        Row(
            "Proposition 1 (3) to (5): windows of R cohorts are a chain with d(M, R) states; each has σ(B(M − R), B) "
            "followers and as many predecessors",
            _sizes(irreducibility),
            script("irreducibility"),
            exact,
            "yes",
        ),
        Row(
            "Example N = 4, B = 1, R = 2: what follows (2, 1), what precedes (1, 4)",
            _example(irreducibility),
            script("irreducibility"),
            exact,
            "yes",
        ),
        Row(
            "A client is in the cohort with B times the probability of being its first member",
            "members of a cohort change places without changing its weight",
            "[closed-form.md](closed-form.md)",
            "proof",
            "yes",
        ),
        Row(
            "Lemma 1: irreducible for R ≤ M − 1, aperiodic for R ≤ M − 2",
            "(N, B, R) = (6, 1, 4), (6, 2, 1): one class, period 1; (6, 1, 5): "
            "{1} classes of period {2}; (6, 2, 2): {4} of period {5}".format(
                *irreducibility.classes(6, 1, 5), *irreducibility.classes(6, 2, 2)
            ),
            script("irreducibility"),
            exact,
            "up to R = M − 2; **not** irreducible at M − 1",
        ),
        Row(
            "For R ≤ M − 2 the stationary law is unique and positive; at R = M − 1 there is one Perron vector",
            f"N = 6: smallest π_i at R = 4 {stationary(SMALL, 4).pi.min():.4f}; at R = 5 each of the 120 "
            "classes has its own",
            script("irreducibility"),
            exact,
            "yes; **not** unique at M − 1, where all give the same π",
        ),
        Row(
            "π is uniform at R = M − 1, whatever p is",
            f"L1 at N = 6, R = 5: {stationary(SMALL, 5).l1_uniform:.4f}",
            "[closed-form.md](closed-form.md)",
            exact,
            "yes",
        ),
        Row(
            "Proposition 2: equal weights, uniform π at every R",
            f"largest L1 at N = 6 over all R: {max(stationary(np.ones(6), r).l1_uniform for r in range(6)):.0e}",
            "[closed-form.md](closed-form.md)",
            exact,
            "yes",
        ),
        Row(
            "Figure 1: N = 500, B = 1, random p: larger R brings π closer to uniform",
            "L1 at R = 0, 100, 250, 400, 499: " + _figure_1(),
            page("bias-vs-separation") + "; that L1 never grows with R is [proved](closed-form.md) for all weights",
            "exact, one draw of p; the proof holds for all",
            "yes",
        ),
        Row(
            "Theorem 3: for nearly equal weights π ends within O(1/N) of uniform",
            _neighbourhood(),
            "`tests/theory/test_closed_form.py`, [chain.md](chain.md)",
            "exact; ten draws of p for each N",
            "yes",
        ),
        Row(
            "Appendix, definitions: irreducible, period, mixing time; lemmas: one period for all states, geometric "
            "convergence",
            "textbook statements, used here as they are",
            "[chain.md](chain.md)",
            "nothing to measure",
            "yes",
        ),
        Row(
            "Appendix, lemma on total variation: d(t) never grows, t_mix(2⁻ᵏ) ≤ (k − 1) τ_mix, Σ d(t) ≤ c₀ τ_mix",
            "N = 6, R = 1, 2, 3: Σ d(t) / τ_mix = " + _total_variation(appendix),
            script("appendix_lemmas"),
            exact,
            "yes, c₀ = 3 suffices",
        ),
        Row(
            "Conjecture: larger R, smaller τ_mix",
            f"N = 6, R = 1 to 4: {_mixing_times()} rounds; never at R = 5",
            script("mixing_conjecture"),
            exact,
            "**no**; the counted frequencies do [settle sooner](chain.md#two-speeds)",
        ),
        Row(
            "Appendix figure: the law of who takes part settles sooner for larger R",
            "L1 of the running frequencies after 100 rounds: "
            + "; ".join(
                f"R = {r}: {with_error([running['running_l1'][r]['100'], 1.96 * running['running_l1_error'][r]], 3)}"
                for r in ("0", "50", "95")
            ),
            page("convergence") + ", `reports/two_speeds.py`",
            "256 participations; 95 % interval",
            "yes of the running frequencies, **no** of one round's law",
        ),
    ]


@cache
def _figure_1() -> str:
    scenario = Scenario.load(HERE.parent / "scenarios/paper/bias-vs-separation.fedsim.yaml")
    by_r = distances(build_population(scenario).weight, [0, 100, 250, 400, 499])
    return ", ".join(f"{value:.4f}" for value in by_r)


@cache
def _closed() -> float:
    """Return the largest difference between the closed form and enumeration."""
    laws = [[stationary(SMALL, r, method=each).pi for each in ("closed-form", "exact")] for r in range(5)]
    return max(float(np.abs(one - other).max()) for one, other in laws)


@cache
def _mixing_times() -> str:
    return ", ".join(str(mixing(SMALL, r).mixing_time) for r in (1, 2, 3, 4))


def _apart(left: np.ndarray, right: np.ndarray) -> str:
    return f"{np.abs(left - right).max():.0e}"


@cache
def _sizes(found: ModuleType) -> str:
    """Count states, followers and predecessors of three chains, and say what the formulas give."""
    parts = []
    for clients, cohort, separation, states, each in ((6, 1, 2, 30, 4), (6, 2, 1, 30, 12), (6, 2, 2, 360, 2)):
        every = found.states(clients, cohort, separation)
        after = [found.successors(state, clients, cohort) for state in every]
        before = dict.fromkeys(every, 0)
        for following in (each for some in after for each in some):
            before[following] += 1
        counts = {*map(len, after), *before.values()}
        assert len(every) == states, (clients, cohort, separation)
        assert counts == {each}, (clients, cohort, separation)
        parts.append(f"({clients}, {cohort}, {separation}): {states} states, {each} each way")
    return "counted for (N, B, R) = " + "; ".join(parts) + ", as the formulas say"


def _example(found: ModuleType) -> str:
    def shown(states: list[tuple[tuple[int, ...], ...]]) -> str:
        return ", ".join("(" + ", ".join(str(cohort[0] + 1) for cohort in state) + ")" for state in states)

    every = found.states(4, 1, 2)
    after = found.successors(((1,), (0,)), 4, 1)
    before = [state for state in every if ((0,), (3,)) in found.successors(state, 4, 1)]
    return f"{shown(after)} follow; {shown(before)} precede"


@cache
def _neighbourhood() -> str:
    """N times the largest L1 at R = N - 2 over ten draws of weights within half of their mean."""
    parts = []
    for clients in (10, 50, 250):
        draws = np.random.default_rng(clients).uniform(0.5, 1.5, (10, clients))
        largest = max(float(distances(weights, [clients - 2])[0]) for weights in draws)
        parts.append(f"{clients * largest:.2f} at N = {clients}")
    return "N times L1 at R = N − 2, weights within half of their mean, at most " + ", ".join(parts)


@cache
def _total_variation(found: ModuleType) -> str:
    shown = []
    for r in (1, 2, 3):
        falls, times, ratio = found.total_variation(r)
        assert falls, r
        assert times, r
        shown.append(f"{ratio:.2f}")
    return ", ".join(shown)
