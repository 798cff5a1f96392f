"""The accountant: brute force over patterns of participation, fedsim's ledger, and Flower's own accountant."""

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from flwr.serverapp import GaussianPrivacyEvent, NeighboringRelation, PrivacyConfig, SamplingMethod
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from hypothesis import given
from hypothesis import strategies as st

from fedsim.bridges.flower.accountant import Release, inverse_variance
from fedsim.common.errors import RunError
from fedsim.flower import DebiasedFedAvg, FedAU, InProcessGrid, ParticipationAccountant, Replay
from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.epsilon import epsilon_of
from fedsim.run.privacy import privacy_guarantees
from fedsim.run.simulate import simulate
from tests.bridges.flower.federations import client_app, problem_of, trained
from tests.conftest import Load


def allowed(rounds: Sequence[int], bounds: ParticipationBounds) -> bool:
    apart = all(b - a >= bounds.min_separation for a, b in itertools.pairwise(rounds))
    return apart and len(rounds) <= bounds.participations


def brute_force(bounds: ParticipationBounds, releases: Sequence[tuple[int, float]]) -> float:
    """Return the most over all patterns of participation, one by one."""
    rounds = sorted({number for number, _ in releases})
    patterns = (each for size in range(len(rounds) + 1) for each in itertools.combinations(rounds, size))
    return max(
        sum(sigma**-2 for number, sigma in releases if number in pattern)
        for pattern in patterns
        if allowed(pattern, bounds)
    )


@given(
    releases=st.lists(st.tuples(st.integers(0, 11), st.sampled_from([0.5, 0.8, 1.0, 2.0])), max_size=10),
    separation=st.integers(1, 5),
    most=st.none() | st.integers(1, 4),
)
def test_what_one_client_can_be_in(releases: list[tuple[int, float]], separation: int, most: int | None) -> None:
    bounds = ParticipationBounds(12, separation, most)
    releases.sort()
    found = inverse_variance(bounds, [Release(*each) for each in releases])
    assert found == pytest.approx(brute_force(bounds, releases), rel=1e-12)
    unknown = inverse_variance(bounds, [Release(None, sigma) for _, sigma in releases])
    if len({number for number, _ in releases}) == len(releases):
        assert unknown >= found * (1 - 1e-12)


@pytest.mark.parametrize(
    ("rounds", "overrides"),
    [
        (60, ("population.0.separation=3",)),
        (14, ("population.0.separation=1", "population.0.participations={most: 4}")),
    ],
)
def test_epsilon_is_that_of_the_ledger(small: Load, rounds: int, overrides: tuple[str, ...]) -> None:
    privacy = "privacy={epsilon: 8, delta: 1.0e-6, mechanism: independent}"
    scenario = small(f"stop.rounds={rounds}", privacy, *overrides)
    row = privacy_guarantees(scenario)
    accountant = ParticipationAccountant.of(scenario, target_delta=1e-6)
    assert accountant.bounds == row.guarantee.bounds
    assert accountant.bounds.capped == (rounds == 14)
    event = GaussianPrivacyEvent(row.guarantee.noise_multiplier * row.guarantee.sensitivity, 3, 12)
    for number in range(rounds):
        accountant.round = number
        accountant.compose(event)
    spent = accountant.get_privacy_spent()
    assert spent.epsilon == pytest.approx(row.guarantee.epsilon, rel=1e-9)
    assert (spent.delta, spent.num_releases) == (1e-6, rounds)
    assert accountant.get_delta(spent.epsilon) == pytest.approx(1e-6, rel=1e-6)


def test_flowers_own_says_as_much_where_a_client_may_be_in_all(small: Load) -> None:
    pytest.importorskip("dp_accounting")
    from flwr.serverapp import RdpAccountant

    accountant = ParticipationAccountant.of(small("population.0.separation=0"), target_delta=1e-6)
    theirs = RdpAccountant(
        PrivacyConfig(1e-6, 12, NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.NO_AMPLIFICATION)
    )
    assert accountant.config == theirs.config
    for each in (accountant, theirs):
        each.compose(GaussianPrivacyEvent(6.0, 3, 12), 30)
    exact, by_renyi = accountant.get_epsilon(1e-6), theirs.get_epsilon(1e-6)
    assert exact == pytest.approx(epsilon_of(6.0 / math.sqrt(30), 1e-6), rel=1e-12)
    assert exact <= by_renyi <= 1.1 * exact


def test_a_state_goes_through_json() -> None:
    bounds = ParticipationBounds(20, 4)
    first, second = (ParticipationAccountant(bounds, target_delta=1e-5, population_size=9) for _ in range(2))
    for number, sigma in [(0, 1.0), (2, 0.7), (6, 2.0)]:
        first.round = number
        first.compose(GaussianPrivacyEvent(sigma, 3, 9))
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.get_privacy_spent() == first.get_privacy_spent()
    other = ParticipationAccountant(ParticipationBounds(20, 3), target_delta=1e-5, population_size=9)
    with pytest.raises(ValueError, match="the state was"):
        other.load_state_dict(first.state_dict())
    with pytest.raises(ValueError, match="the state is that of 'rdp'"):
        other.load_state_dict({"backend": "rdp"})


def test_a_budget_is_seen_before_it_is_spent() -> None:
    accountant = ParticipationAccountant(
        ParticipationBounds(9, 3), target_delta=1e-5, population_size=9, max_epsilon=6.0
    )
    event = GaussianPrivacyEvent(1.2, 3, 9)
    assert accountant.get_privacy_spent().epsilon == 0
    exceeded = []
    for number in range(9):
        accountant.round = number
        exceeded.append(accountant.would_exceed(event))
        accountant.compose(event)
    within = [epsilon_of(1.2 / math.sqrt(1 + number // 3), 1e-5) <= 6.0 for number in range(9)]
    assert exceeded == [not each for each in within]
    assert 0 < sum(within) < 9
    accountant.round = 9
    with pytest.raises(RunError, match="round 10 was not promised: the server of the scenario stops after 9 rounds"):
        accountant.compose(event)


def test_what_is_no_event_of_this_accountant_is_refused() -> None:
    accountant = ParticipationAccountant(ParticipationBounds(9), target_delta=1e-5, population_size=9)
    with pytest.raises(ValueError, match="has population_size 8, and the accountant 9"):
        accountant.compose(GaussianPrivacyEvent(1.0, 3, 8))
    with pytest.raises(ValueError, match="count is 0"):
        accountant.compose(GaussianPrivacyEvent(1.0, 3, 9), 0)
    with pytest.raises(ValueError, match="no max_epsilon"):
        accountant.would_exceed(GaussianPrivacyEvent(1.0, 3, 9))
    with pytest.raises(ValueError, match="delta is 1"):
        accountant.get_epsilon(1)


def test_it_goes_with_flowers_wrapper(small: Load, tmp_path: Path) -> None:
    scenario = small("population.0.separation=2", "stop.rounds=30")
    problem, result = problem_of(12), simulate(scenario)
    accountant = ParticipationAccountant.of(scenario, target_delta=1e-5)
    private = DifferentialPrivacyServerSideFixedClipping(
        FedAvg(fraction_evaluate=0.0),
        noise_multiplier=2.0,
        clipping_norm=1.0,
        num_sampled_clients=3,
        accountant=accountant,
    )
    strategy = Replay(private, result.save(tmp_path / "run"))
    models = trained(strategy, InProcessGrid(client_app(problem), 12), problem)
    assert np.isfinite(models).all()
    assert private.privacy_spent().num_releases == 30
    assert private.privacy_spent().epsilon == pytest.approx(epsilon_of(2.0 / math.sqrt(10), 1e-5), rel=1e-12)
    closer = ParticipationAccountant.of(small("population.0.separation=3", "stop.rounds=30"), target_delta=1e-5)
    private.accountant = closer
    with pytest.raises(RunError, match=r"of the schedule has report \d of client \d+, 3 rounds after the one before"):
        Replay(private, strategy.schedule)


def test_weights_after_the_clip_are_refused_by_flower() -> None:
    accountant = ParticipationAccountant(ParticipationBounds(9, 3), target_delta=1e-5, population_size=9)
    for strategy in (DebiasedFedAvg(), FedAU()):
        with pytest.raises(ValueError, match=r"requires a strategy using FedAvg\.aggregate_train"):
            DifferentialPrivacyServerSideFixedClipping(strategy, 2.0, 1.0, 3, accountant=accountant)
