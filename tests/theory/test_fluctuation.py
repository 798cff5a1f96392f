"""Asymptotic covariances: by hand, by brute force, and against replicas; and the rounds that they call for."""

import numpy as np
import pytest
from scipy.optimize import brentq

from fedsim.common.arrays import Floats
from fedsim.common.errors import ChainError
from fedsim.theory import Fluctuation, asymptotic_variance, best_prior, exact, rounds_for_all, rounds_needed
from fedsim.theory.monte_carlo import counted, rounds_of
from fedsim.theory.question import ask, reduced
from tests.theory.reference import moves_of, summed_covariance

WEIGHTS = np.array([0.5, 1.0, 2.0, 0.3, 1.5, 0.7])


@pytest.mark.parametrize("method", ["exact", "mean-field"])
def test_independent_rounds_have_binomial_variance(method: str) -> None:
    p = WEIGHTS / WEIGHTS.sum()
    noise = asymptotic_variance(WEIGHTS, 0, method=method)
    np.testing.assert_allclose(noise.variance, p * (1.0 - p), rtol=1e-12)
    np.testing.assert_allclose(noise.pi, p, rtol=1e-12)


def test_taking_turns_does_not_fluctuate() -> None:
    for law, separation in (("midzuno", 2), ("cyclic", 1)):
        noise = asymptotic_variance(WEIGHTS, separation, 2, law)
        np.testing.assert_allclose(noise.variance, 0.0, atol=1e-12)
        assert rounds_needed(noise).tolist() == [1.0] * 6


def test_one_waiting_client_is_a_renewal_process() -> None:
    """Client 0 waits one round, the others none: its cycle is 1 + a geometric wait, so renewal theory is exact."""
    rounds = [1, 0, 0, 0, 0, 0]
    noise, renewal = (asymptotic_variance(WEIGHTS, rounds, method=m) for m in ("exact", "mean-field"))
    assert renewal.variance[0] == pytest.approx(noise.variance[0], rel=1e-10)


@pytest.mark.parametrize(
    ("rounds", "cohort", "law"),
    [
        ([0, 1, 2, 1, 0, 0], 2, "midzuno"),
        ([3] * 6, 1, "midzuno"),
        ([1] * 6, 2, "successive"),
        ([0, 1, 1, 1, 0, 0], 2, "bernoulli"),
        ([1] * 6, 2, "groups"),
    ],
)
def test_exact_variance_agrees_with_replicas(rounds: list[int], cohort: int, law: str) -> None:
    """400 replicas of 400 rounds, 5 standard errors of a variance (7 %): a false alarm in 1 of 10,000 runs."""
    noise = asymptotic_variance(WEIGHTS, rounds, cohort, law, "exact")
    counts, _ = counted(question := reduced(ask(WEIGHTS, rounds, cohort, law)), range(400), 1, 400, 400)
    share = counts / counts.sum(axis=1).mean() / (cohort if law == "groups" else 1)
    sampled = np.repeat(400 * share.var(axis=0, ddof=1), len(WEIGHTS) // question.clients)
    assert (np.abs(sampled - noise.variance) < 5.0 * sampled * np.sqrt(2.0 / 399)).all()
    np.testing.assert_allclose(noise.pi, exact(WEIGHTS, rounds, cohort, law).pi, rtol=1e-9)


def test_covariance_is_the_sum_of_autocovariances() -> None:
    """320 random systems of 3 to 7 clients, in which no round stalls: every entry to 1e-9."""
    rng = np.random.default_rng(38)
    closed = 0
    for _ in range(320):
        clients = int(rng.integers(3, 8))
        cohort = int(rng.integers(1, 3)) if clients > 4 else 1
        longest = min((clients - 1 - (cohort > 1)) // cohort, 3 if clients < 7 else 2)
        separations = (
            rng.integers(0, longest, clients) if rng.random() < 0.5 else np.full(clients, rng.integers(longest))
        )
        law = ("midzuno", "successive")[int(rng.integers(2))]
        weights = 10.0 ** rng.uniform(-1.0, 1.0, clients)
        pi, covariance = summed_covariance(weights, separations.tolist(), cohort, law)
        noise = asymptotic_variance(weights, separations, cohort, law)
        closed += noise.method == "closed-form"
        assert noise.covariance is not None
        np.testing.assert_allclose(noise.pi, pi, atol=1e-9)
        np.testing.assert_allclose(noise.covariance, covariance, atol=1e-9)
        np.testing.assert_allclose(noise.covariance.diagonal(), noise.variance, atol=1e-15)
    assert closed > 10


@pytest.mark.parametrize("many", [30, pytest.param(300, marks=pytest.mark.long)])
def test_the_bias_of_counting_is_that_of_the_start(many: int) -> None:
    """Theorem 11 of docs/theory, all ready at first: mean counts of 40 rounds, and the mean round of a 60th report."""
    rng, apart = np.random.default_rng(41), []
    for _ in range(many):
        clients = int(rng.integers(4, 6))
        cohort = int(rng.integers(1, 3)) if clients > 4 else 1
        separation = int(rng.integers(clients // cohort - 1))
        weights = 10.0 ** rng.uniform(-0.5, 0.5, clients)
        moves, matrix, distribution = moves_of(weights, [separation] * clients, cohort, "midzuno")
        _, covariance = summed_covariance(weights, [separation] * clients, cohort, "midzuno")
        distribution /= distribution.sum()  # of rounding
        with_0, without_0 = np.zeros((2, len(distribution), len(distribution)))
        for source, target, chance, chosen in moves:
            (with_0 if 0 in chosen else without_0)[source, target] += chance
        often = float(distribution @ (chances := with_0.sum(axis=1)))
        g = np.linalg.solve(np.eye(len(distribution)) - matrix + distribution, chances - often)
        after = [np.linalg.matrix_power(matrix, t)[0] for t in range(41)]
        assert sum(each @ chances for each in after[:40]) == pytest.approx(40 * often + g[0] - after[40] @ g, abs=1e-9)
        next_report = np.linalg.inv(np.eye(len(distribution)) - without_0)
        reports = [np.linalg.matrix_power(next_report @ with_0, r)[0] for r in range(60)]
        mean_round = sum(each @ next_report.sum(axis=1) for each in reports)
        limit = (cohort**2 * covariance[0, 0] / often - 1.0 + often) / 2.0 - g[0]
        apart.append(abs(often * mean_round - 60 - limit))
    assert max(apart) < 1e-3
    assert np.median(apart) < 1e-9


def test_the_bias_of_counting_is_small_beside_its_noise() -> None:
    """The figures of section 9 of docs/theory, by brute force."""
    share = {}
    for separation in (2, 3):
        moves, matrix, distribution = moves_of(np.arange(6.0, 0.0, -1.0), [separation] * 6, 1, "midzuno")
        pi, covariance = summed_covariance(np.arange(6.0, 0.0, -1.0), [separation] * 6, 1, "midzuno")
        chances, distribution = np.zeros((len(distribution), 6)), distribution / distribution.sum()
        for source, _, chance, chosen in moves:
            chances[source, list(chosen)] += chance
        g = np.linalg.solve(np.eye(len(distribution)) - matrix + distribution, chances - pi)[0]  # of all ready
        bias = ((covariance.diagonal() / pi - 1.0 + pi) / 2.0 - g) / 100
        noise = np.sqrt(covariance.diagonal() / pi / 100)
        share[separation] = (bias**2 / noise**2).max()
        if separation == 2:
            assert 0.003 < np.abs(bias).max() < 0.004
            assert (noise.min() > 0.035) & (noise.max() < 0.085)
    assert share[2] < 0.01 < share[3] < 0.035


def test_groups_that_wait_one_round_have_the_closed_form() -> None:
    closed, exactly = (asymptotic_variance(WEIGHTS, 1, 2, "groups", method=m) for m in ("closed-form", "exact"))
    assert closed.covariance is not None
    assert exactly.covariance is not None
    np.testing.assert_allclose(closed.covariance, exactly.covariance, atol=1e-15)
    weights = np.linspace(1.0, 2.0, 2_000)  # more than have a matrix: near renewal theory
    large = asymptotic_variance(weights, 1)
    assert (large.method, large.covariance) == ("closed-form", None)
    np.testing.assert_allclose(large.variance, asymptotic_variance(weights, 1, method="mean-field").variance, rtol=1e-5)


def test_the_variance_may_grow_with_the_separation_but_not_in_relation_to_the_frequency() -> None:
    """By hand for a dominating client; of relative variances a conjecture, tested on 60 systems here, to 1e-9."""
    free, waiting = (asymptotic_variance([98.0, 1.0, 1.0], separation) for separation in (0, 1))
    assert free.variance.max() == pytest.approx(0.98 * 0.02)
    assert waiting.variance.max() > 6.0 * free.variance.max()
    rng = np.random.default_rng(3)
    for _ in range(20):
        weights, cohort = 10.0 ** rng.uniform(-1.0, 1.0, 6), int(rng.integers(1, 3))
        relative = [f.variance / f.pi**2 for f in (asymptotic_variance(weights, r, cohort) for r in range(4 // cohort))]
        assert (np.diff(relative, axis=0) < 1e-9).all()


@pytest.mark.parametrize("many", [60, pytest.param(300, marks=pytest.mark.long)])
def test_relative_variances_fall_by_a_factor_that_the_number_of_clients_sets(many: int) -> None:
    """Theorem 9 of docs/theory, and the conjecture after it for longer separations: (N - R - 2) / (N - R - 1), to 1e-9.

    A client of next to no weight among equal ones comes close to it.
    """
    rng = np.random.default_rng(4)
    for number in range(many):
        clients = int(rng.integers(3, 7 if number % 10 else 8))
        separation = 0 if number % 2 or clients == 7 else int(rng.integers(1, clients - 1))
        weights = rng.lognormal(0.0, 2.0, clients)
        free, waiting = (asymptotic_variance(weights, separation + more) for more in (0, 1))
        fall = (waiting.variance / waiting.pi**2) / (free.variance / free.pi**2)
        assert (fall < (clients - separation - 2) / (clients - separation - 1) + 1e-9).all()
    free, waiting = (asymptotic_variance([1e-7, 1.0, 1.0, 1.0, 1.0], r) for r in (1, 2))
    fall = (waiting.variance / waiting.pi**2) / (free.variance / free.pi**2)
    assert fall[0] == pytest.approx(2 / 3, abs=1e-5)


@pytest.mark.parametrize("separation", [1, 2, 3])
def test_renewal_theory_is_close_in_a_moderate_system(separation: int) -> None:
    weights = np.random.default_rng(1).uniform(0.3, 1.0, 10)
    noise, renewal = (asymptotic_variance(weights, separation, method=m) for m in ("exact", "mean-field"))
    np.testing.assert_allclose(renewal.variance, noise.variance, rtol=0.15)


def test_auto_falls_back_on_renewal_theory_in_large_systems() -> None:
    assert asymptotic_variance(np.ones(1_000), 50).method == "mean-field"


@pytest.mark.long
def test_frequencies_are_within_precision_after_the_rounds_needed() -> None:
    """Play the rounds needed for 10 % at 90 % in 1,000 replicas: 90 % of them, give or take 4 %, are within 10 %.

    That is 4 standard deviations of a binomial share; rounding and skewness take some of the margin.
    """
    separation = [0, 1, 2, 1, 0, 0]
    fluctuation = asymptotic_variance(WEIGHTS, separation, 1)
    needed = rounds_needed(fluctuation, 0.1, 0.9)
    client = int(np.argmax(needed))
    length = int(needed[client])
    play = rounds_of(reduced(ask(WEIGHTS, separation, 1)), range(1_000), 3)
    counts = np.zeros(1_000)
    for now in range(length + 50):
        chosen = next(play).chosen[:, client]
        if now >= 50:
            counts += chosen
    within = np.abs(counts / length / fluctuation.pi[client] - 1.0) <= 0.1
    assert float(within.mean()) == pytest.approx(0.9, abs=0.04)


def test_rounds_needed_follow_the_formula() -> None:
    fluctuation = Fluctuation(pi=np.array([0.1, 0.9]), variance=np.array([0.09, 0.09]), method="exact")
    needed = rounds_needed(fluctuation, 0.05, 0.95)
    np.testing.assert_array_equal(needed, np.ceil(0.09 * (1.959963984540054 / (0.05 * fluctuation.pi)) ** 2))
    assert (rounds_needed(fluctuation, 0.5) < needed).all()
    unseen = Fluctuation(pi=np.array([0.0, 1.0]), variance=np.zeros(2), method="monte-carlo")
    assert rounds_needed(unseen).tolist() == [float("inf"), 1.0]


def test_rounds_for_all_counts_at_once() -> None:
    """By 20,000 normal draws of frequencies: all are within 10 % in 95 % or more, and not much more; 0.6 % of noise."""
    noise = asymptotic_variance(WEIGHTS, 1)
    assert noise.covariance is not None
    rounds = rounds_for_all(noise, 0.1)
    assert rounds_for_all(noise) == rounds_for_all(noise, 0.05) > rounds
    assert rounds_needed(noise).tolist() == rounds_needed(noise, 0.05).tolist()
    assert rounds > rounds_needed(noise, 0.1).max()
    drawn = np.random.default_rng(1).multivariate_normal(noise.pi, noise.covariance / rounds, 20_000)
    within = (np.abs(drawn / noise.pi - 1.0) <= 0.1).all(axis=1).mean()
    assert 0.944 < within < 0.98
    assert rounds_for_all(noise, 1e-10) == pytest.approx(1e18 * rounds, rel=0.01)
    one = Fluctuation(pi=np.array([0.1]), variance=np.array([0.09]), method="exact")
    assert rounds_for_all(one, 0.05, 0.9) == rounds_needed(one, 0.05, 0.9)[0]
    assert rounds_for_all(asymptotic_variance(WEIGHTS, 2, 2)) == 1.0
    assert rounds_for_all(Fluctuation(np.array([0.0, 1.0]), np.zeros(2), "monte-carlo")) == float("inf")


def mean_squared(prior: float, counts: Floats, pi: Floats, rounds: int, cohort: int) -> Floats:
    """Each replica's sum of squared relative errors of the frequencies with so many participations in advance."""
    frequency = (counts + prior) / (rounds * cohort + counts.shape[1] * prior)
    return np.asarray(((frequency / pi - 1.0) ** 2).sum(axis=1))


def test_the_best_prior_is_best() -> None:
    """2,000 replicas of three systems: a quarter and four times it have a larger error, by 20 standard errors."""
    rng = np.random.default_rng(5)
    for clients, cohort, separation in ((20, 2, 1), (20, 2, 6), (30, 1, 20)):
        weights = rng.lognormal(0.0, 0.8, clients)
        noise = asymptotic_variance(weights, separation, cohort)
        counts, _ = counted(reduced(ask(weights, separation, cohort)), range(2_000), 5, 100, 100)
        best = best_prior(noise, cohort)
        least = mean_squared(best, counts, noise.pi, 100, cohort)
        for other in (best / 4, 4 * best):
            more = mean_squared(other, counts, noise.pi, 100, cohort) - least
            assert more.mean() > 20 * more.std() / np.sqrt(len(more))


@pytest.mark.long
def test_the_best_prior_is_that_of_a_search() -> None:
    """300 random systems of 3 to 7 clients, variances by enumeration, at several T: the search's derivative is 0."""
    rng = np.random.default_rng(6)
    for _ in range(300):
        clients = int(rng.integers(3, 8))
        cohort = int(rng.integers(1, 3)) if clients > 4 else 1
        rounds = [int(rng.integers((clients - 1) // cohort if clients < 7 else 2))] * clients
        weights = 10.0 ** rng.uniform(-1.0, 1.0, clients)
        pi, covariance = summed_covariance(weights, rounds, cohort, "midzuno")
        best, size = best_prior(asymptotic_variance(weights, rounds, cohort), cohort), clients
        far = float(((1.0 / pi - size) ** 2).sum())
        taken = cohort * 10.0 ** rng.uniform(0.0, 4.0)  # participations
        noise = taken * cohort * float((covariance.diagonal() / pi**2).sum())

        def slope(k: float, far: float = far, noise: float = noise, taken: float = taken, size: int = size) -> float:
            """Of the mean squared error, times (T B + N k)^3 / 2."""
            return k * far * (taken + size * k) - size * (k**2 * far + noise)

        assert brentq(slope, 0.0, 1e9, xtol=1e-300, rtol=1e-14) == pytest.approx(best, rel=1e-9)


def test_without_a_best_prior() -> None:
    assert best_prior(asymptotic_variance(np.ones(6), 1), 1) == np.inf
    assert best_prior(Fluctuation(np.array([0.0, 1.0]), np.zeros(2), "mean-field"), 1) == np.inf


@pytest.mark.parametrize(
    ("precision", "confidence", "words"),
    [(0.0, 0.9, "precision is 0.0"), (float("nan"), 0.9, "precision is nan"), (0.1, 1.0, "confidence is 1.0")],
)
def test_senseless_precision_is_refused(precision: float, confidence: float, words: str) -> None:
    with pytest.raises(ChainError, match=words):
        rounds_needed(asymptotic_variance(WEIGHTS, 0), precision, confidence)


def test_questions_without_an_answer_are_refused() -> None:
    with pytest.raises(ChainError, match="no method 'guess'"):
        asymptotic_variance(WEIGHTS, 0, method="guess")
    with pytest.raises(ChainError, match="closed form where all wait 1 round"):
        asymptotic_variance(WEIGHTS, 2, method="closed-form")
    with pytest.raises(ChainError, match="up to 1500 clients"):
        asymptotic_variance(np.ones(1_501), 0, method="exact")
    with pytest.raises(ChainError, match=r"too many for the exact variance|limit of the exact method"):
        asymptotic_variance(np.ones(10), 4, method="exact")
