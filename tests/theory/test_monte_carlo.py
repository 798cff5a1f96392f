"""Monte Carlo: right on average, with standard errors that cover the truth under the chain's correlation."""

import numpy as np
import pytest
from scipy import stats

from fedsim.common.errors import ChainError
from fedsim.theory import closed_form, exact, monte_carlo
from fedsim.theory.monte_carlo import rounds_of
from fedsim.theory.question import ask, reduced
from fedsim.theory.windows import cohorts

LAWS = ["midzuno", "successive", "bernoulli", "uniform"]
WEIGHTS = np.array([0.5, 1.0, 2.0, 0.3, 1.5, 0.7])


@pytest.mark.long
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("rounds", [[0, 1, 2, 1, 0, 0], [1] * 6])
def test_agrees_with_the_exact_law(law: str, rounds: list[int]) -> None:
    """12 clients at 4.5 standard errors of 63 degrees of freedom: a false alarm in 1 of 5,000 runs, the seed fixed."""
    truth = exact(WEIGHTS, rounds, 2, law)
    answer = monte_carlo(WEIGHTS, rounds, 2, law, seed=1, rounds=1_000)
    assert answer.standard_error is not None
    assert (np.abs(answer.pi - truth.pi) < 4.5 * answer.standard_error).all()


@pytest.mark.parametrize(
    ("weights", "separation", "cohort", "law"),
    [
        (np.arange(1.0, 13.0), 6, 1, "midzuno"),
        (np.arange(1.0, 13.0), 1, 3, "midzuno"),
        (np.arange(1.0, 13.0), 1, 3, "groups"),
        (np.arange(1.0, 13.0), 2, 3, "cyclic"),
    ],
)
def test_agrees_with_the_closed_form(
    weights: "np.ndarray[tuple[int], np.dtype[np.float64]]", separation: int, cohort: int, law: str
) -> None:
    """At 4.5 standard errors per client: a false alarm in 1 of 2,000 runs, the seed fixed."""
    truth = closed_form(weights, separation, cohort, law)
    answer = monte_carlo(weights, separation, cohort, law, seed=2, rounds=2_000)
    assert answer.standard_error is not None
    assert (np.abs(answer.pi - truth.pi) < 4.5 * answer.standard_error).all()


@pytest.mark.long
@pytest.mark.parametrize(
    ("separation", "law"),
    [
        (3, "midzuno"),
        (1, "successive"),
        *(pytest.param(*case, marks=pytest.mark.long) for case in ((0, "midzuno"), (1, "bernoulli"))),
    ],
)
def test_nineteen_of_twenty_intervals_cover_the_truth(separation: int, law: str) -> None:
    """150 runs of 6 clients: coverage of 95 % intervals lies in [0.92, 0.98] but once in 1,000 times.

    Clients of one run are dependent, so the 900 intervals count as 150 at worst: 150 binomial trials at 0.95 have a
    standard deviation of 0.018, and averaging over nearly independent clients brings it below 0.01.
    """
    cohort = 1 if separation == 3 else 2
    truth = exact(WEIGHTS, separation, cohort, law).pi
    width = stats.t.ppf(0.975, df=31)
    inside = []
    for seed in range(150):
        answer = monte_carlo(WEIGHTS, separation, cohort, law, seed=seed, replicas=32, rounds=150)
        assert answer.standard_error is not None
        inside.append(np.abs(answer.pi - truth) <= width * answer.standard_error)
    assert 0.92 <= float(np.mean(inside)) <= 0.98


@pytest.mark.parametrize("law", ["midzuno", "successive", "bernoulli"])
def test_one_round_follows_its_law(law: str) -> None:
    """Chi-square over every cohort of 6,000 first rounds; a false alarm in 1 of 1,000 runs, the seed fixed."""
    question = reduced(ask(WEIGHTS[:5], 1, 2, law))
    chosen = next(rounds_of(question, range(6_000), 9)).chosen
    members, chances = cohorts(law, question.weights, 2)
    code = 1 << np.arange(5)
    number = {int(c): k for k, c in enumerate(members @ code)}
    counts = np.bincount([number[int(c)] for c in chosen @ code], minlength=len(chances))
    expected = chances * 6_000
    large = expected > 5.0
    observed = np.r_[counts[large], counts[~large].sum()]
    theory = np.r_[expected[large], expected[~large].sum()]
    keep = theory > 0.0
    assert stats.chisquare(observed[keep], theory[keep]).pvalue > 1e-3


@pytest.mark.parametrize("law", ["midzuno", "bernoulli", "uniform"])
def test_stated_chances_are_those_of_the_cohort_law(law: str) -> None:
    """Round by round, P(i in S_t | past) equals the marginal of the enumerated law for the clients that are ready."""
    question = reduced(ask(WEIGHTS, [0, 1, 2, 1, 0, 2], 2, law))
    play = rounds_of(question, range(4), 1)
    waits = np.zeros((4, 6), dtype=int)
    for _ in range(8):
        step = next(play)
        assert step.chances is not None
        for row in range(4):
            ready = np.flatnonzero(waits[row] == 0)
            members, chances = cohorts(question.law, question.weights[ready], 2)
            expected = np.zeros(6)
            expected[ready] = chances @ members
            np.testing.assert_allclose(step.chances[row], expected, atol=1e-12)
        waits = np.where(step.chosen, question.separations, np.maximum(waits - 1, 0))


@pytest.mark.parametrize("law", [*LAWS, "groups", "cyclic"])
def test_separations_are_kept(law: str) -> None:
    rounds = np.repeat([0, 1, 2, 1], 2) if law == "groups" else np.array([0, 1, 2, 1, 0, 1, 1, 0])
    question = reduced(ask(np.arange(1.0, 9.0), rounds if law != "cyclic" else 3, 2, law))
    last = np.full((5, question.clients), -100)
    for now, step in zip(range(60), rounds_of(question, range(5), 4), strict=False):
        rows, clients = np.nonzero(step.chosen)
        assert (now - last[rows, clients] > question.separations[clients]).all()
        last[rows, clients] = now
        if question.law != "bernoulli":
            assert (step.chosen.sum(axis=1) == question.cohort).all()


def test_a_seed_gives_one_answer() -> None:
    first = monte_carlo(WEIGHTS, 1, 2, seed=5, replicas=10, rounds=50)
    again = monte_carlo(WEIGHTS, 1, 2, seed=5, replicas=10, rounds=50)
    np.testing.assert_array_equal(first.pi, again.pi)
    assert not np.array_equal(first.pi, monte_carlo(WEIGHTS, 1, 2, seed=6, replicas=10, rounds=50).pi)


@pytest.mark.parametrize("law", ["midzuno", "successive", "bernoulli"])
def test_replicas_do_not_depend_on_how_they_are_batched(law: str) -> None:
    question = reduced(ask(WEIGHTS, 1, 2, law))
    plays = [rounds_of(question, part, 5) for part in (range(7), range(3), range(3, 7))]
    for _ in range(20):
        whole, first, second = (next(play).chosen for play in plays)
        np.testing.assert_array_equal(whole, np.concatenate([first, second]))


def test_a_client_never_seen_keeps_a_standard_error() -> None:
    answer = monte_carlo([1.0, 1.0, 1e-12], 0, replicas=4, rounds=25)
    assert answer.standard_error is not None
    assert answer.pi[2] == 0.0
    assert answer.standard_error[2] == pytest.approx(1.0 / 100.0)
    assert answer.ratio == float("inf")


def test_a_replica_that_stalls_is_reported() -> None:
    with pytest.raises(ChainError, match=r"stalls: by round \d+ of replica \d+, 1 of 4 are ready"):
        monte_carlo(np.ones(4), [0, 2, 1, 1], 2)


@pytest.mark.parametrize(
    ("replicas", "rounds", "words"),
    [(1, 10, "number of replicas is 1"), (4, 0, "number of rounds is 0"), (2.5, 5, "whole number")],
)
def test_senseless_sizes_are_refused(replicas: int, rounds: int, words: str) -> None:
    with pytest.raises(ChainError, match=words):
        monte_carlo(WEIGHTS, 0, replicas=replicas, rounds=rounds)
