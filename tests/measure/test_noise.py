"""What chance does to frequencies, against what many replicates do."""

import math
from collections.abc import Iterator
from itertools import islice
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsim.common.keyed import Purpose, stream
from fedsim.measure.noise import SamplingNoise, SpanCounts, _bounds
from fedsim.theory.monte_carlo import monte_carlo, rounds_of
from fedsim.theory.question import ask, reduced
from fedsim.theory.stationary import stationary

DAY_S = 86_400.0
# Exponent x of the weights p_i = i^-x, N, R (or the R_i in turn), B, rounds, law.
CHAINS: dict[str, tuple[float, int, int | tuple[int, ...], int, int, str]] = {
    "no separation": (0.0, 100, 0, 5, 600, "uniform"),
    "unequal weights, no separation": (1.0, 40, 0, 4, 400, "bernoulli"),
    "half of M": (0.0, 60, 30, 1, 1_200, "midzuno"),
    "half of M, unequal weights": (1.5, 100, 10, 5, 600, "successive"),
    "own separations": (0.5, 40, (0, 1, 2, 3, 4, 5, 6, 0), 4, 1_000, "midzuno"),
    "some variance of cohorts": (0.7, 40, 5, 4, 1_000, "bernoulli"),
    "R = M - 2": (0.0, 50, 8, 5, 500, "midzuno"),
    "R = M - 2, few clients": (1.0, 10, 8, 1, 2_000, "midzuno"),
    "R = M - 2, counts that differ by one": (0.0, 30, 28, 1, 2_000, "midzuno"),
    "R = M - 2, unequal weights, counts that differ by one": (1.0, 30, 28, 1, 2_000, "midzuno"),
    "R = M - 2, of many": (0.0, 100, 98, 1, 3_000, "midzuno"),
    "R = M - 2, of many, unequal weights": (1.0, 100, 98, 1, 3_000, "midzuno"),
    "few turns": (0.5, 1_000, 0, 10, 200, "midzuno"),
    "a quarter of a turn": (0.0, 1_200, 0, 1, 300, "midzuno"),
    "a quarter of a turn, unequal weights": (0.7, 1_200, 0, 1, 300, "midzuno"),
    "half a turn, unequal weights": (0.5, 600, 100, 1, 300, "midzuno"),
}


def chain(name: str, replicas: int) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return who took part, (rounds, replicas, N), and the long-run frequencies (N,)."""
    exponent, clients, separation, cohort, rounds, law = CHAINS[name]
    apart = np.resize(separation, clients)
    question = ask(np.arange(1.0, clients + 1) ** -exponent, apart, cohort, law)
    chosen = np.stack([each.chosen for each in islice(rounds_of(reduced(question), range(replicas), seed=5), rounds)])
    if law in {"midzuno", "uniform"} and not apart.std():
        return chosen, stationary(*question.asked).pi
    return chosen, monte_carlo(*question.asked, seed=6, replicas=100, rounds=3_000).pi


def noise_of(chosen: NDArray[np.bool_], selected_s: NDArray[np.float64], days: int | None = None) -> SamplingNoise:
    """Return the noise that is told of one run, (rounds, N)."""
    number, client = np.nonzero(chosen)
    spans = SpanCounts(np.arange(len(chosen)), chosen.shape[1], len(number), days)
    spans.add(number, client, selected_s[number])
    found = spans.noise(chosen.sum(axis=0, dtype=np.int64))
    assert found is not None
    return found


def check(told: list[SamplingNoise], actual: float, distance: NDArray[np.float64], truth: float, most: float) -> None:
    """Compare what is told of replicas with their noise, their distances from uniform and the long-run distance.

    Of 200 intervals of 95 % fewer than 90 % cover once in 500 times; noise is told within 10 %.
    """
    if actual < 1.0 or truth == 0.0:  # below one turn, unequal clients look like noise
        assert np.mean([each.l1 for each in told]) == pytest.approx(actual, rel=0.1)
    covered = np.mean([each.low <= truth + 1e-12 and truth <= each.high + 1e-12 for each in told])
    assert 0.90 <= covered <= most
    if most < 1.0:
        assert math.sqrt(np.mean([each.se**2 for each in told])) == pytest.approx(distance.std(ddof=1), rel=0.2)


@pytest.mark.long
@pytest.mark.parametrize("name", CHAINS)
def test_noise_and_intervals_are_those_of_chains(name: str) -> None:
    """200 replicas; intervals may cover too often where counts differ by one or two, or are few."""
    chosen, pi = chain(name, 200)
    told = [noise_of(chosen[:, each], np.zeros(len(chosen))) for each in range(200)]
    frequency = chosen.sum(axis=0) / chosen.sum(axis=(0, 2))[:, None]
    distance, truth = np.abs(frequency - 1 / len(pi)).sum(axis=1), float(np.abs(pi - 1 / len(pi)).sum())
    coarse = chosen.sum(axis=0).std(axis=0).mean() < 1.5
    check(told, np.abs(frequency - pi).sum(axis=1).mean(), distance, truth, 1.0 if coarse else 0.99)


def persons(replicas: int, clients: int, cohort: int, seed: int, zones: int) -> Iterator[NDArray[np.bool_]]:
    """Yield who takes part in each half hour: whoever is there for some hours of most nights, in time zones."""
    draws, shape = np.random.default_rng(seed), (replicas, clients)
    begins = 22 + 1.5 * draws.standard_normal(shape) + np.arange(clients) * zones // clients * 8
    hours, often = np.clip(7 + 1.5 * draws.standard_normal(shape), 2, 12), draws.beta(4, 2, shape)
    while True:
        tonight, begin = draws.random(shape) < often, begins + 0.5 * draws.standard_normal(shape)
        for half_hour in range(48):
            there = tonight & ((half_hour / 2 - begin) % 24 < hours)
            key = np.where(there, draws.random(shape), 2.0)
            yield there & (key <= np.partition(key, cohort - 1, axis=1)[:, cohort - 1 : cohort])


@pytest.mark.long
@pytest.mark.parametrize(("clients", "cohort", "days", "zones"), [(80, 4, 14, 2), (50, 3, 7, 2), (200, 8, 7, 1)])
def test_noise_and_intervals_are_those_of_days(clients: int, cohort: int, days: int, zones: int) -> None:
    """200 replicas, each with people of its own; the truth is the mean distance of six times as many days after."""
    rounds = persons(200, clients, cohort, 3, zones)
    chosen = np.stack(list(islice(rounds, days * 48)))
    later = np.sum(list(islice(rounds, 6 * days * 48)), axis=0)
    own, frequency = (counts / counts.sum(axis=1, keepdims=True) for counts in (later, chosen.sum(axis=0)))
    distance, long = (np.abs(each - 1 / clients).sum(axis=1) for each in (frequency, own))
    truth = float(long.mean() - (distance.mean() - long.mean()) / 5)
    told = [noise_of(chosen[:, each], np.arange(0.0, days * DAY_S, 1_800.0), days) for each in range(200)]
    check(told, np.abs(frequency - own).sum(axis=1).mean() / math.sqrt(1 + 1 / 6), distance, truth, 0.99)


def test_near_cyclic_participation_has_little_noise() -> None:
    """N = 30, B = 1, R = 28: batch means said 0.0257 where the truth is 0.0075."""
    found = noise_of(chain("R = M - 2, counts that differ by one", 1)[0][:, 0], np.zeros(2_000))
    assert 0.005 < found.l1 < 0.010
    assert found.low == 0.0
    assert found.high < 0.01


def test_five_turns_of_each_client_exclude_no_long_run() -> None:
    """All have the same counts but for a few: intervals were 0 to 0, and the truth is 0.0009."""
    question = ask(1 / np.arange(1.0, 1_001), np.full(1_000, 98), 10, "midzuno")
    chosen = np.stack([each.chosen[0] for each in islice(rounds_of(reduced(question), range(1), seed=5), 500)])
    found, pi = noise_of(chosen, np.zeros(500)), stationary(*question.asked).pi
    assert found.low <= float(np.abs(pi - 1 / 1_000).sum()) <= found.high


def test_independent_rounds_have_the_noise_of_the_binomial_law() -> None:
    """20,000 rounds, one of 10 clients each: the expected L1 distance is known, and found within 20 %."""
    client = (10 * stream(1, 0, Purpose.CHAIN).uniforms(0, np.arange(20_000))).astype(np.int64)
    counts, rounds, time_s = np.bincount(client), np.arange(20_000), np.zeros(20_000)
    whole, pieces = SpanCounts(rounds, 10, 20_000), SpanCounts(rounds, 10, 20_000)
    whole.add(rounds, client, time_s)
    for first in range(0, 20_000, 777):
        part = slice(first, first + 777)
        pieces.add(rounds[part], client[part], time_s[part])
    found = whole.noise(counts)
    assert pieces.noise(counts) == found
    assert found is not None
    assert found.l1 == pytest.approx(10 * math.sqrt(2 / math.pi) * math.sqrt(0.1 * 0.9 / 20_000), rel=0.2)


def test_rounds_too_few_tell_nothing() -> None:
    spans = SpanCounts(np.arange(199), 2, 199)
    spans.add(np.arange(199), np.zeros(199, dtype=np.int64), np.zeros(199))
    assert spans.noise(np.array([199, 0])) is None


@pytest.mark.parametrize("days", [7, 23, 45])
def test_times_of_day_are_no_noise(days: int) -> None:
    """80 clients, each at its hour, on a day with a chance of its own: noise within 10 % for 40 replicas.

    Clients are independent: what is told of 40 replicas has a relative error of 1 %, and the actual noise one of 1.5 %.
    """
    chance = 0.2 + 0.6 * np.arange(80) / 80
    hour = np.repeat(np.arange(24), days).reshape(24, days).T.ravel()
    told, frequencies = [], []
    for replicate in range(40):
        there = stream(3, replicate, Purpose.CHAIN).uniforms(np.arange(days)[:, None], np.arange(80)) < chance
        chosen = np.repeat(there, 24, axis=0) & (hour[:, None] == np.arange(80) % 24)
        told.append(noise_of(chosen, np.arange(0.0, days * DAY_S, 3_600.0), days).l1)
        frequencies.append(chosen.sum(axis=0) / chosen.sum())
    actual = np.abs(np.array(frequencies) - np.mean(frequencies, axis=0)).sum(axis=1).mean() * math.sqrt(40 / 39)
    assert np.mean(told) == pytest.approx(actual, rel=0.1)


def test_of_few_days_clients_count_as_independent() -> None:
    """Counts of 60 for each of 5 clients over two days: the noise of as many draws, within 5 %."""
    spans, counts = SpanCounts(np.arange(300), 5, 300, days=2), np.full(5, 60)
    spans.add(np.arange(300), np.arange(300) % 5, np.linspace(0.0, 2 * DAY_S, 300))
    found = spans.noise(counts)
    assert found is not None
    assert found.l1 == pytest.approx(5 * math.sqrt(2 / math.pi / 5 / 300), rel=0.05)


@pytest.mark.parametrize("mean", [0.0, 0.3, 1.0, 2.0, 5.0])
def test_intervals_of_a_mean_that_is_not_negative_cover_it(mean: float) -> None:
    """With 95 %, at 0 too: over 20,000 equally likely observations."""
    normal = NormalDist(mean)
    bounds = [_bounds(normal.inv_cdf((place + 0.5) / 20_000)) for place in range(20_000)]
    assert np.mean([low <= mean + 1e-9 and mean <= high for low, high in bounds]) == pytest.approx(0.95, abs=0.003)
    assert _bounds(0.0)[0] == 0.0
    assert _bounds(0.0)[1] == pytest.approx(1.96, abs=0.01)


@pytest.mark.parametrize("days", [None, 2, 20])
@pytest.mark.parametrize("kind", ["in turn", "one client", "one after the other"])
def test_figures_are_finite_where_nothing_is_left_to_chance(kind: str, days: int | None) -> None:
    rounds = np.arange(400)
    client = {"in turn": rounds % 5, "one client": 0 * rounds, "one after the other": rounds // 80}[kind]
    spans = SpanCounts(rounds, 5, 400, days)
    spans.add(rounds, client, np.linspace(0.0, (days or 1) * DAY_S, 400))
    found = spans.noise(np.bincount(client, minlength=5))
    assert found is not None
    assert 0.0 <= found.low <= found.corrected + 1e-12 <= found.high + 2e-12
    assert math.isfinite(found.l1 + found.se + found.high)
    if kind == "in turn" and days != 2:
        assert found.l1 < 0.01
