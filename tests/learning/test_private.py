"""Training with privacy: what is clipped, by what it is divided, and that the noise is the mechanism's."""

from collections.abc import Iterator

import numpy as np
import pytest

from fedsim import Scenario, simulate
from fedsim.common.arrays import Floats
from fedsim.common.errors import PluginError, ScenarioError
from fedsim.common.keyed import Purpose, stream
from fedsim.learning import FedAvg, LearningError
from fedsim.learning.optimizers.optimizer import Cohort
from fedsim.learning.private import Noise, Private, caveats, with_privacy
from fedsim.learning.server_updates import Composed, Sgd
from fedsim.population import build_population
from fedsim.privacy import MECHANISMS, ParticipationBounds
from fedsim.privacy.bounds import enforced_bounds
from fedsim.privacy.epsilon import epsilon_of, epsilon_of_best
from fedsim.privacy.guarantee import guarantee
from fedsim.run.preflight import preflight
from fedsim.run.run import Result
from fedsim.scenario.component import Component
from fedsim.scenario.privacy import AdaptiveClip, Privacy
from tests.conftest import Load
from tests.privacy.test_sensitivity import toeplitz

BOUNDS = ParticipationBounds(8, 3)
CHANGES = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])


def noise(kind: str = "sqrt", scale: float = 2.0) -> Noise:
    return Noise(MECHANISMS.build(kind, {}), BOUNDS, scale, stream(5, 0, Purpose.NOISE))


def step(optimizer: Private, rounds: list[int]) -> list[Floats]:
    """Return the steps from the origin in these rounds, in each of which three clients make the same changes."""
    state, steps = optimizer.init(4, 2), []
    for number in rounds:
        state, scales = optimizer.prepare(state, Cohort(number, np.arange(3)))
        np.testing.assert_array_equal(scales, np.ones(3))
        state, model = optimizer.apply(state, np.zeros(2), Cohort(number, np.arange(3)), CHANGES)
        steps.append(model)
    return steps


def test_each_change_is_clipped_and_their_sum_divided_by_the_wanted_cohort() -> None:
    (model,) = step(Private(FedAvg(), 1.0, 5, None), [0])
    assert model == pytest.approx((np.array([0.6, 0.8]) + np.array([0.3, 0.4])) / 5)
    (model,) = step(Private(FedAvg(), 100.0, 3, None), [0])
    assert model == pytest.approx(CHANGES.mean(axis=0))


@pytest.mark.parametrize("kind", ["sqrt", "independent", "banded", "blt"])
def test_steps_have_the_noise_of_all_rounds_since_the_last(kind: str) -> None:
    """So the model's noise, a prefix sum of rows, is that of the mechanism at each step."""
    made = noise(kind)
    z = 2.0 * np.array([made.draws.normals(np.arange(2), t) for t in range(8)])
    expected = np.cumsum(np.linalg.solve(toeplitz(made.mechanism.coefficients(BOUNDS), 8), z), axis=0)
    rounds = [0, 1, 4, 7]  # in the others nobody reported
    steps = step(Private(FedAvg(), 1.0, 5, made), rounds)
    plain = step(Private(FedAvg(), 1.0, 5, None), rounds)
    assert np.cumsum(np.array(steps) - np.array(plain), axis=0) == pytest.approx(expected[rounds] / 5, abs=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.2, 0.8])
@pytest.mark.parametrize("kind", ["sqrt", "independent", "banded", "blt"])
def test_the_noise_in_training_is_the_stated_one_however_many_rounds_are_empty(kind: str, share: float) -> None:
    """Root mean square of the sums over 600 rounds and 4,000 coordinates: its own error is below half a per cent."""
    bounds = ParticipationBounds(600, 20)
    promised = guarantee(Privacy(mechanism=Component(kind=kind), noise_multiplier=1, delta=1e-6), bounds)
    made = Noise(MECHANISMS.build(kind, {}), bounds, promised.sensitivity, stream(3, 0, Purpose.NOISE))
    optimizer = Private(FedAvg(), 1.0, 1, made)
    state, model, squares = optimizer.init(1, 4_000), np.zeros(4_000), []
    for number in range(600):
        if int((number + 1) * (1 - share)) == int(number * (1 - share)):  # spread evenly
            continue
        state, model = optimizer.apply(state, model, Cohort(number, np.arange(1)), np.zeros((1, 4_000)))
        squares.append(model @ model / 4_000)
    assert np.sqrt(np.mean(squares)) == pytest.approx(promised.error_rms, rel=0.02)


def test_a_round_beyond_those_of_the_noise_is_told() -> None:
    with pytest.raises(LearningError, match=r"the noise is made for 8 rounds \(n\), and this is one more"):
        step(Private(FedAvg(), 1.0, 5, noise()), [0, 8])


def test_updates_that_are_not_finite_count_as_zero() -> None:
    optimizer = Private(FedAvg(), 1.0, 3, None)
    state, _ = optimizer.prepare(optimizer.init(4, 2), Cohort(0, np.arange(3)))
    changes = np.array([[np.nan, 1.0], [0.3, 0.4], [np.inf, -np.inf]])
    _, model = optimizer.apply(state, np.zeros(2), Cohort(0, np.array([3, 1, 2])), changes)
    assert model == pytest.approx(np.array([0.3, 0.4]) / 3)
    assert optimizer.not_finite == [3, 2]


def test_what_is_released_is_said(small: Load) -> None:
    """Two models with the same noise give their difference without any."""
    two = small(LEARNING % "{kind: fedavg, name: other}", PRIVATE % (1, "noise"), "population.0.separation=1")
    (caveat,) = [each for each in caveats(two, build_population(two)) if "releasing all 2" in each]
    assert f"epsilon = {epsilon_of(1 / np.sqrt(2), 1e-3):.4g}" in caveat
    data = two.model_dump(mode="json")
    data["learning"]["optimizers"][1]["kind"] = f"{__name__}:Louder"
    with_own_code = Scenario.model_validate(data)
    assert any(
        "it holds for 'other' only if" in each for each in caveats(with_own_code, build_population(with_own_code))
    )


def test_what_no_epsilon_covers_is_said(small: Load) -> None:
    """Simulated noise, several settings, a target that ends training: each where it is so, and nowhere else."""
    plain = [LEARNING % "fedprox", PRIVATE % (1, "noise")]
    cases = {
        "it follows from the seed (SplitMix64), as in all runs with it": ([], [PRIVATE % (1, "clip")]),
        "it covers the model of one of 6 settings": (
            ["choose={population.*.separation: [0, 1, 2], server.cohort: [2, 3]}"],
            ["sweep={grid: {population.*.separation: [0]}, seeds: 6}"],
        ),
        "training stops by losses that no noise hides": (
            ["learning.target_loss=0.1", "learning.stop_at_target=true"],
            ["learning.target_loss=0.1"],
        ),
    }
    for words, (so, not_so) in cases.items():
        for changes, wanted in ((so, True), (not_so, False)):
            scenario = small(*plain, *changes)
            assert any(words in each for each in caveats(scenario, build_population(scenario))) == wanted
    chosen = small(*plain, *cases["it covers the model of one of 6 settings"][0])
    (caveat,) = [each for each in caveats(chosen, build_population(chosen)) if "of 6 settings" in each]
    assert f"all would cost epsilon = {epsilon_of(1 / np.sqrt(6), 1e-3):.4g}" in caveat
    assert f"6 on average, would cost epsilon = {epsilon_of_best(1, 1e-3, 6):.4g} (arXiv:2110.03620)" in caveat


class Louder(FedAvg):
    """An optimizer whose server takes the clipped updates a hundred times."""


def test_a_server_update_sees_what_is_private() -> None:
    made = with_privacy(lambda each: Private(each, 1.0, 5, None), Composed(FedAvg(), Sgd(0.5)))
    assert isinstance(made, Composed)
    assert isinstance(made.optimizer, Private)


LEARNING = "learning={problem: {kind: quadratic, dimension: 3}, optimizers: [fedavg, %s], step_size: 0.1}"
PRIVATE = "privacy={mechanism: sqrt, noise_multiplier: 1, delta: 1e-3, clip: %s, training: %s}"


def trained(small: Load, *changes: str) -> Result:
    return simulate(small(LEARNING % "{kind: fedavg, name: other}", *changes))


def losses(result: Result, name: str = "fedavg") -> list[float]:
    assert result.learning is not None
    return result.learning.filter(optimizer=name)["loss"].to_list()


def test_off_clip_and_noise_are_three_runs_of_one_federation(small: Load) -> None:
    plain = trained(small)
    silent = trained(small, PRIVATE % (1, "none"))
    wide = trained(small, PRIVATE % (1e6, "clip"))
    clipped = trained(small, PRIVATE % (0.01, "clip"))
    noisy = trained(small, PRIVATE % (0.01, "noise"))
    again = trained(small, PRIVATE % (0.01, "noise"))
    assert losses(silent) == losses(plain)
    assert losses(wide) == pytest.approx(losses(plain), rel=1e-9)
    assert losses(clipped)[1] > losses(wide)[1]
    assert losses(noisy)[-1] != losses(clipped)[-1]
    assert losses(noisy) == losses(again)
    assert losses(noisy, "other") == losses(noisy)  # every optimizer of a run has the same noise
    assert losses(trained(small, PRIVATE % (0.01, "noise"), "seed=1")) != losses(noisy)
    for result in (silent, clipped, noisy):
        assert result.participations.equals(plain.participations)


def test_the_noise_has_the_size_that_the_ledger_says(small: Load) -> None:
    """With a vanishing step nothing moves but by noise: its sums have the error that is reported."""
    changes = ["stop.rounds=60", "population.0.separation=2", LEARNING.replace("0.1}", "1e-12, evaluate_every: 60}")]
    wide = [
        "learning.problem={kind: quadratic, dimension: 4000, clusters: 1, cluster_spread: 0.0, spread: 0.0}",
        PRIVATE % (1.0, "noise"),
    ]
    scenario = small(*[each % "{kind: fedavg, name: other}" if "%s" in each else each for each in changes], *wide)
    assert scenario.privacy is not None
    promised = guarantee(scenario.privacy, enforced_bounds(scenario, build_population(scenario)))
    result = simulate(scenario)
    assert result.learning is not None
    loss = result.learning.filter(optimizer="fedavg", round=59)["loss"].item()
    first = result.learning.filter(optimizer="fedavg", round=-1)["loss"].item()
    assert loss - first == pytest.approx(0.5 * 4000 * (promised.error_max / 3) ** 2, rel=0.05)


def test_a_buffered_server_divides_by_its_buffer(small: Load) -> None:
    server = "server={mode: buffered, concurrency: 4, buffer: 3, cooldown_from: reported}"
    plain, wide = trained(small, server), trained(small, server, PRIVATE % (1e6, "clip"))
    noisy = trained(small, server, PRIVATE % (1e6, "noise"))
    assert losses(wide) == pytest.approx(losses(plain), rel=1e-9)
    assert losses(noisy) != losses(wide)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([PRIVATE % ("null", "noise")], "privacy: training: noise needs clip"),
        ([PRIVATE % (1, "noise")], "privacy.training: there is no learning"),
        ([LEARNING % "mifa", PRIVATE % (1, "clip")], r"learning.optimizers\[1\]: 'mifa' makes more of the updates"),
        ([PRIVATE % (1, "nosie")], "privacy.training: must be"),
    ],
)
def test_what_cannot_be_private(small: Load, changes: list[str], words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        preflight(small(*changes))


@pytest.mark.parametrize(
    ("training", "words"),
    [("none", "neither clips nor adds noise"), ("clip", "clips each update but adds no noise"), ("noise", None)],
)
def test_what_training_does_of_it_is_said(small: Load, training: str, words: str | None) -> None:
    scenario: Scenario = small(LEARNING % "debiased_fedavg", PRIVATE.replace("1e-3", "1e-2") % (1, training))
    text = "\n".join(caveats(scenario, build_population(scenario)))
    assert ("training here" in text) == (words is not None)
    assert words is None or words in text


def test_noise_that_would_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsim.learning.private.free_bytes", lambda: 1000)
    with pytest.raises(LearningError, match=r"the noise keeps 8 rows of 1,000 parameters, .* blt keeps one for each"):
        noise().rows(1000)
    noise("independent").rows(1000)


@pytest.mark.long
def test_a_clip_undoes_debiasing_before_it_touches_fedavg(small: Load) -> None:
    def biases(*changes: str) -> tuple[float, float]:
        learning = LEARNING % "debiased_fedavg"
        problem = (
            "learning.problem={kind: quadratic, dimension: 3, clusters: 4, cluster_spread: 1.0, curvature_spread: 0.3}"
        )
        federation = ["population.0.separation=0", "stop.rounds=1500", "learning.step_size=0.02"]
        metrics = simulate(small(learning, problem, *federation, "learning.evaluate_every=1500", *changes)).metrics
        return metrics["learning.fedavg.bias"], metrics["learning.debiased_fedavg.bias"]

    plain, loose, tight = biases(), biases(PRIVATE % (100, "clip")), biases(PRIVATE % (0.05, "clip"))
    assert loose == pytest.approx(plain, rel=1e-6)
    assert plain[1] < 0.3 * plain[0]
    assert tight[1] > 3 * plain[1]


@pytest.mark.parametrize("quantile", [0.3, 0.5, 0.9])
def test_an_adaptive_clip_finds_the_quantile(quantile: float) -> None:
    """Norms are uniform between 0 and 10; the clip starts far away, and half of the reports are missing."""
    optimizer = Private(FedAvg(), 0.01, 40, None, AdaptiveClip(quantile=quantile))
    state, draws = optimizer.init(20, 1), np.random.default_rng(3)
    for number in range(600):
        deltas = draws.uniform(0, 10, (20, 1))
        state, _ = optimizer.apply(state, np.zeros(1), Cohort(number, np.arange(20)), deltas)
    assert np.mean(optimizer.clips[300:]) == pytest.approx(10 * quantile, rel=0.1)


def test_what_a_client_sends_with_an_adaptive_clip_has_norm_one_at_most() -> None:
    """The change of the two sums by one client, over the noise on each, is at most that of one update of norm 1."""
    made = noise("independent", 1.0)
    rows = np.array(list(made.rows(3)))
    for quantile, length in ((0.1, 1e-9), (0.5, 0.4), (0.7, 0.9), (0.7, 1.0), (0.7, 5.0), (0.9, 1e100)):
        adaptive = AdaptiveClip(quantile=quantile, share=0.1)
        with_it, without = (Private(FedAvg(), 0.9, 10, made, adaptive) for _ in range(2))
        moved = []
        for optimizer, deltas in ((with_it, [[length, 0.0]]), (without, [[np.nan, 0.0]])):  # which counts as nothing
            _, model = optimizer.apply(optimizer.init(1, 2), np.zeros(2), Cohort(0, np.arange(1)), np.array(deltas))
            moved.append(model * 10)
        update = (moved[0] - moved[1])[0] * np.sqrt(0.9) / 0.9
        count = -10 * np.log(with_it.clips[0] / without.clips[0]) / adaptive.rate
        count *= np.sqrt(0.1) / max(quantile, 1 - quantile)
        assert update**2 + count**2 <= 1 + 1e-9
        assert abs(count) > 0.01
        # and the noise is that of the rows
        assert moved[1] == pytest.approx(rows[0, :2] * 0.9 / np.sqrt(0.9))
        seen = -10 * np.log(without.clips[0] / 0.9) / adaptive.rate * np.sqrt(0.1) / max(quantile, 1 - quantile)
        assert seen == pytest.approx(rows[0, 2])


def test_a_run_with_an_adaptive_clip(small: Load) -> None:
    privacy = (
        "privacy={mechanism: blt, noise_multiplier: 0.1, delta: 1e-2, clip: 0.001, training: %s, adaptive_clip: {}}"
    )
    result = trained(small, privacy % "noise")
    assert result.metrics["learning.fedavg.clip"] > 0.002
    assert "learning.fedavg.clip" not in trained(small, PRIVATE % (1, "noise")).metrics
    assert trained(small, privacy % "clip").metrics["learning.fedavg.clip"] > 0.01
    (caveat,) = [
        each for each in caveats(small(privacy % "noise"), build_population(small())) if "the clip adapts" in each
    ]
    assert "is 1.03 times the stated one" in caveat
    with pytest.raises(ScenarioError, match="adaptive_clip is for training"):
        small(privacy % "none")
    with pytest.raises(ScenarioError, match="loss_parts: an adaptive clip"):
        preflight(small(LEARNING % "debiased_fedavg", privacy % "noise", "learning.loss_parts=true"))


class Sly:
    """A mechanism whose noise is right in a few columns alone, as a check before training has them."""

    def __init__(self, quiet_from: int = 0) -> None:
        self.quiet_from = quiet_from

    def coefficients(self, _bounds: ParticipationBounds) -> Floats:
        return np.ones(1)

    def correlate(self, rows: Iterator[Floats], _bounds: ParticipationBounds) -> Iterator[Floats]:
        for t, row in enumerate(rows):
            yield row if len(row) < 40 or t < self.quiet_from else 0.001 * row


@pytest.mark.parametrize("quiet_from", [0, 5])
def test_noise_is_checked_as_it_is_added(quiet_from: int) -> None:
    made = Noise(Sly(quiet_from), BOUNDS, 2.0, stream(5, 0, Purpose.NOISE))
    assert len(list(made.rows(39))) == 8
    with pytest.raises(PluginError, match=rf"row {quiet_from} of its correlate is not that of C\^-1 Z"):
        list(made.rows(40))


def test_updates_too_large_or_too_small_for_floats_are_within_the_clip() -> None:
    optimizer = Private(FedAvg(), 1.0, 1, None)
    for value in (1e308, -1e308, 1e200, 1e-308, -0.0, 5e-324):
        with np.errstate(over="ignore"):
            _, model = optimizer.apply(
                optimizer.init(1, 3), np.zeros(3), Cohort(0, np.arange(1)), np.full((1, 3), value)
            )
        assert np.linalg.norm(model) <= 1 + 1e-12
