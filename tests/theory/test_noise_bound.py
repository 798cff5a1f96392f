"""What gradient noise leaves of any unbiased sum of reports: at least sigma^2 sum_i 1 / (N^2 E n_i) in all.

A report of client i is c_i plus noise of variance 1, and the mean of the c_i is estimated by a sum of weighted reports.
Weights may depend on who took part; here on the client and on the rounds since its last report, up to a limit.
"""

from itertools import combinations

import numpy as np
import pytest

from fedsim.common.arrays import Floats, Ints

Chain = tuple[Ints, Ints, Floats, Ints, Ints]


def gaps_of(weights: Floats, separations: Ints, cohort: int, longest: int) -> Chain:
    """Transitions between the rounds since last reports, by Midzuno cohorts: (from, to, chance, members, gaps).

    Members are (transitions, N) of 0 and 1; gaps are those before the transition.
    """
    start = (longest,) * len(weights)
    number, queue, rows = {start: 0}, [start], []
    for gaps in queue:
        ready = [i for i, gap in enumerate(gaps) if gap > separations[i]]
        cohorts = list(combinations(ready, cohort))
        masses = np.array([weights[list(each)].sum() for each in cohorts])
        for chosen, chance in zip(cohorts, masses / masses.sum(), strict=True):
            after = tuple(1 if i in chosen else min(gap + 1, longest) for i, gap in enumerate(gaps))
            if after not in number:
                number[after] = len(queue)
                queue.append(after)
            rows.append((number[gaps], number[after], chance, [i in chosen for i in range(len(gaps))], gaps))
    return tuple(np.array(column) for column in zip(*rows, strict=True))  # type: ignore[return-value]


def law_of(chain: Chain) -> tuple[Floats, Floats]:
    """The transition matrix, and its stationary law."""
    source, target, chance = chain[:3]
    matrix = np.zeros((source.max() + 1,) * 2)
    np.add.at(matrix, (source, target), chance)
    system = np.vstack([matrix.T - np.eye(len(matrix)), np.ones(len(matrix))])
    return matrix, np.linalg.lstsq(system, np.append(np.zeros(len(matrix)), 1.0), rcond=None)[0]


def counted(chain: Chain, values: Floats) -> tuple[Floats, Floats, Floats]:
    """How often each client takes part, (N,); the weight of its report in each transition; how many transitions flow.

    `values`, (N, longest), are what a counter gives by the gap; they are scaled so that the sum is unbiased.
    """
    _, distribution = law_of(chain)
    source, _, chance, members, gaps = chain
    flow = distribution[source] * chance
    weight = members * values[np.arange(members.shape[1]), gaps - 1]
    return flow @ members, weight / (members.shape[1] * (flow @ weight)), flow


def variance(chain: Chain, reward: Floats) -> float:
    """T times the variance of the mean of T rewards (transitions,), for large T, by Poisson's equation."""
    matrix, distribution = law_of(chain)
    source, target, chance = chain[:3]
    flow = distribution[source] * chance
    mean = float(flow @ reward)
    ahead = np.bincount(source, chance * reward, minlength=len(distribution)) - mean
    solved = np.linalg.solve(np.eye(len(distribution)) - matrix + distribution, ahead)
    return float(flow @ (reward - mean) ** 2 + 2.0 * flow @ ((reward - mean) * solved[target]))


def systems(count: int, seed: int) -> list[tuple[Chain, Floats, np.random.Generator]]:
    """Random systems of 3 to 7 clients that never stall, and random counters."""
    rng, chains = np.random.default_rng(seed), []
    for _ in range(count):
        clients = int(rng.integers(3, 8))
        cohort = 2 if clients in {5, 6} and rng.random() < 0.5 else 1
        most = 2 if clients < 5 else int(clients == 5 and cohort == 1)
        separations = rng.integers(0, min(most, clients - 2) + 1, clients)
        longest = int(separations.max()) + 2
        chain = gaps_of(10.0 ** rng.uniform(-1.0, 1.0, clients), separations, cohort, longest)
        chains.append((chain, np.exp(rng.normal(0.0, 1.0, (clients, longest))), rng))
    return chains


def test_no_unbiased_counter_has_less_noise() -> None:
    """300 random systems of 3 to 7 clients, by enumeration; known frequencies attain the bound to 1e-9."""
    apart = []
    for chain, values, rng in systems(300, 4):
        often, weight, flow = counted(chain, values)
        clients = len(often)
        np.testing.assert_allclose(flow @ weight, 1.0 / clients, rtol=1e-9)  # unbiased, whatever the c_i are
        least = (1.0 / often).sum() / clients**2
        noise = float(flow @ (weight**2).sum(axis=1))
        assert noise >= least * (1.0 - 1e-9)
        both = noise + variance(chain, weight @ rng.normal(0.0, 1.0, clients))
        assert both >= least * (1.0 - 1e-9)
        apart.append(noise / least)
        _, means, _ = counted(chain, np.ones_like(values))
        assert float(flow @ (means**2).sum(axis=1)) == pytest.approx(least, rel=1e-9)
    assert np.median(apart) > 1.1


def test_a_simulation_has_the_variance_of_the_enumeration() -> None:
    """4,000 runs of 250 rounds after 50: 5 standard errors, 11 %, and what 250 rounds leave of the limit."""
    (chain, values, _) = systems(12, 4)[11]
    often, weight, flow = counted(chain, values)
    optima = np.arange(float(len(often)))
    source, target, chance = chain[:3]
    expected = variance(chain, weight @ optima) + float(flow @ (weight**2).sum(axis=1))
    rng, state, total = np.random.default_rng(1), np.zeros(4_000, dtype=int), np.zeros(4_000)
    first, ends = np.searchsorted(source, np.arange(source.max() + 2)), np.cumsum(chance)
    before = np.append(0.0, ends)[first[:-1]]
    for now in range(300):
        taken = np.minimum(np.searchsorted(ends, before[state] + rng.random(4_000)), first[state + 1] - 1)
        noisy = optima + rng.normal(size=(4_000, len(optima)))
        total += (weight[taken] * noisy).sum(axis=1) * (now >= 50)
        state = target[taken]
    assert total.mean() / 250 == pytest.approx(optima.mean(), abs=5 * np.sqrt(expected / 250 / 4_000))
    assert total.var() / 250 == pytest.approx(expected, rel=0.13)
