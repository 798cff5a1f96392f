"""Audits a stated epsilon from outside: a canary goes through the training that a scenario asks for.

A canary is a client whose updates are as long as the clip allows, in one direction, in all rounds in which one client
may take part. Training runs with it and without, over the same noise; the difference is what it does to the released
models, and the other directions show the noise. The best test for a shift in normal noise gives a lower bound of
epsilon, whatever the code in between promises.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import ScenarioError
from fedsim.learning.optimizers.optimizer import Cohort
from fedsim.learning.private import Private
from fedsim.measure.contributions import reports
from fedsim.privacy.bounds import ParticipationBounds, enforced_bounds
from fedsim.privacy.epsilon import epsilon_of
from fedsim.privacy.guarantee import guarantee, mechanism_of
from fedsim.privacy.sensitivity import correlation, product, worst_response
from fedsim.run.preflight import preflight
from fedsim.run.run import Run
from fedsim.run.training import private_optimizers
from fedsim.scenario import Scenario

_DIRECTIONS = 2_000  # in which the noise is measured: its standard deviation has an error of 1.6 %
_SURE = 3.1  # standard errors that are taken off: a bound is too high in one of 1,000 audits
_TRIED = 200  # clients of a log that are tried as canaries, those that contributed most


@dataclass(frozen=True)
class Audited:
    """What an audit found of the models of one optimizer, or of two that are released together."""

    released: str
    stated: float | None  # epsilon that the scenario states, to whom knows the schedule; None where it states none
    at_least: float  # epsilon that the audit shows, infinite where no noise is left

    @property
    def refuted(self) -> bool:
        """Whether the stated epsilon is not kept."""
        return self.stated is not None and self.at_least > self.stated


def audit(scenario: Scenario, run: Run | None = None) -> list[Audited]:
    """Return what an audit finds of each optimizer, of pairs of them, and of a run without its empty rounds.

    The canary takes part as early and as often as the scenario allows; in a `run` of it in the rounds of the client
    that contributed most, and rounds without a report take no step. Raises a `ScenarioError` if training adds no noise.
    """
    privacy, world = scenario.privacy, preflight(scenario)
    if privacy is None or privacy.training != "noise" or scenario.learning is None:
        message = "there is no noise to audit: it takes learning, and privacy with training: noise"
        raise ScenarioError([scenario.mistake(("privacy",), message)])
    if privacy.stands_for is not None:
        message = "the noise here is a part of that of the larger federation that this one stands for: audit that one"
        raise ScenarioError([scenario.mistake(("privacy", "stands_for"), message)])
    if privacy.adaptive_clip is not None:
        message = "an audit compares the same noise with and without a canary, and here it changes with the clip"
        raise ScenarioError([scenario.mistake(("privacy", "adaptive_clip"), message)])
    promised = guarantee(privacy, enforced_bounds(scenario, world.population))
    optimizers = private_optimizers(world, scenario.learning)
    c, known = np.zeros(promised.bounds.rounds), mechanism_of(privacy).coefficients(promised.bounds)
    c[: len(known)] = known
    steps, pattern = _as_allowed(promised.bounds, c) if run is None else _as_in(run, c)
    stated = promised.epsilon if promised.amplified is None else promised.amplified.epsilon_if_known
    quiet = {name: _released(each, steps, pattern, canary=False) for name, each in optimizers.items()}
    found = []
    for name, each in optimizers.items():
        change = (_released(each, steps, pattern, canary=True) - quiet[name])[:, 0]
        signal = np.zeros(len(c))
        signal[steps] = change
        weights = correlation(product(c, signal, len(c)), c)[steps]
        deviation = float(np.sqrt(np.square(weights @ quiet[name]).mean())) * (1 + _SURE / math.sqrt(2 * _DIRECTIONS))
        found.append(Audited(name, stated, _epsilon(abs(float(weights @ change)), deviation, privacy.delta)))
    for one, other in combinations(optimizers, 2):
        ratio = optimizers[other].clip / optimizers[one].clip
        same = np.allclose(quiet[one] * ratio, quiet[other], rtol=1e-9, atol=0)
        found += [Audited(f"{one} and {other}", None, math.inf)] if same else []
    if len(steps) < promised.bounds.rounds and run is not None:
        worst = float(np.linalg.norm(product(c, np.isin(steps, pattern).astype(float), len(steps))))
        scale = promised.noise_multiplier * promised.sensitivity
        found.append(Audited("without its empty rounds", None, _epsilon(worst, scale, privacy.delta)))
    return found


def _as_allowed(bounds: ParticipationBounds, c: Floats) -> tuple[Ints, Ints]:
    """Return all rounds, and those in which a client takes part as early and as often as it may."""
    worst = max(bounds.of_clients, key=lambda each: float(np.linalg.norm(worst_response(c, each))))
    return np.arange(bounds.rounds), np.arange(worst.participations) * worst.min_separation


def _as_in(run: Run, c: Floats) -> tuple[Ints, Ints]:
    """Return the rounds of a run with a report, and those of the client with the largest influence among a few."""
    client, number = reports(run.participations).collect().to_numpy().T
    often = np.argsort(-np.bincount(client, minlength=1), kind="stable")[:_TRIED]
    patterns: Sequence[Ints] = [np.sort(number[client == each]) for each in often.tolist()]

    def influence(pattern: Ints) -> float:
        return float(np.linalg.norm(product(c, np.bincount(pattern, minlength=1).astype(float), len(c))))

    return np.unique(number), max(patterns, key=influence)


def _released(optimizer: Private, steps: Ints, pattern: Ints, *, canary: bool) -> Floats:
    """Return what each step adds to the sum of the updates, (steps, directions)."""
    state, model = optimizer.init(2, _DIRECTIONS), np.zeros(_DIRECTIONS)
    found = np.empty((len(steps), _DIRECTIONS))
    for row, number in enumerate(steps.tolist()):
        clients = np.arange(2) if number in pattern else np.ones(1, dtype=np.int64)
        deltas = np.zeros((len(clients), _DIRECTIONS))
        deltas[0, 0] = 2 * optimizer.clip * (canary and len(clients) > 1)
        cohort = Cohort(number, clients, downloaded=model)
        state, _ = optimizer.prepare(state, cohort)
        state, moved = optimizer.apply(state, model, cohort, deltas)
        found[row], model = (moved - model) * optimizer.divisor, moved
    return found


def _epsilon(shift: float, deviation: float, delta: float) -> float:
    """Return epsilon of the test whether normal noise of some deviation is shifted."""
    if shift == 0.0:
        return 0.0
    return epsilon_of(deviation / shift, delta) if deviation > 1e-9 * shift else math.inf
