"""Audits a stated epsilon from outside: a canary goes through the training that a scenario asks for.

A canary is a client whose updates are as long as the clip allows, in one direction, in all rounds in which one client
may take part, in cohorts as large as those of the scenario or the log. Training runs with it and without, over the same
noise; the difference is what it does to the released models, and the other directions show the noise. The best test for
a shift in normal noise gives a lower bound of epsilon, whatever the code in between promises.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import ScenarioError
from fedsim.learning.optimizers.optimizer import Cohort, LocalSteps
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

_DIRECTIONS, _LEAST, _NUMBERS = 2_000, 200, 1 << 21  # in which the noise is measured, with an error of 1.6 % to 5 %
_OTHERS = 16  # rounds in which others send too, to see whether their weights go by the canary's coin
_NOT_FINITE = "an update that is not finite changes its models"
_READS_COINS = "the weights of other clients follow the coin of one, and its class says that they do not"
_SURE = 3.1  # standard errors that are taken off: a bound is too high in one of 1,000 audits
_TRIED = 200  # clients of a log that are tried as canaries, those that contributed most


@dataclass(frozen=True)
class Audited:
    """What an audit found of the models of one optimizer, or of two that are released together."""

    released: str
    stated: float | None  # epsilon that the scenario states, to whom knows the schedule; None where it states none
    at_least: float  # epsilon that the audit shows, infinite where no noise is left
    fault: str = ""  # what else breaks the promise

    @property
    def refuted(self) -> bool:
        """Whether the stated epsilon is not kept."""
        return bool(self.fault) or (self.stated is not None and self.at_least > self.stated)


def audit(scenario: Scenario, run: Run | None = None) -> list[Audited]:
    """Return what an audit finds of each optimizer, of what shares its noise, and of a run without its empty rounds.

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
    c, coefficients = np.zeros(promised.bounds.rounds), mechanism_of(privacy).coefficients(promised.bounds)
    c[: len(coefficients)] = coefficients
    steps, pattern = _as_allowed(promised.bounds, c) if run is None else _as_in(run, c)
    sizes = np.full(len(steps), scenario.divisor)
    if run is not None:
        sizes = np.bincount(reports(run.participations).collect()["at"].to_numpy())[steps]
    directions = max(_LEAST, min(_DIRECTIONS, _NUMBERS // int(sizes.max())))
    world_of = partial(_released, steps=steps, pattern=pattern, sizes=sizes, directions=directions)
    stated = promised.epsilon if promised.amplified is None else promised.amplified.epsilon_if_known
    few, begun = steps[:_OTHERS], steps[: int(np.searchsorted(steps, pattern[0])) + 2]
    quiet = {name: world_of(each, 0.0) for name, each in optimizers.items()}
    findings = []
    for name, each in optimizers.items():
        change = (world_of(each, 2.0 * each.clip) - quiet[name])[:, 0]
        signal = np.zeros(len(c))
        signal[steps] = change
        weights = correlation(product(c, signal, len(c)), c)[steps]
        sure = 1 + _SURE / math.sqrt(2 * directions)
        deviation = float(np.sqrt(np.square(weights @ quiet[name]).mean())) * sure
        odd = (world_of(each, value, steps=begun) for value in (math.nan, math.inf))
        fault = "" if all(np.array_equal(moved, quiet[name][: len(begun)]) for moved in odd) else _NOT_FINITE
        if each.steps_alone:  # others send, and the canary, which sends zeros, is there or not
            among = partial(world_of, each, 0.0, steps=few, others=each.clip)
            joins, leaves = among(pattern=few), among(pattern=few[:0], sizes=sizes - 1)
            fault = fault if np.allclose(joins, leaves, rtol=1e-9, atol=1e-9 * each.clip) else _READS_COINS
        at_least = _epsilon(abs(float(weights @ change)), deviation, privacy.delta)
        findings.append(Audited(name, stated, at_least, fault))
    for one, other in combinations(optimizers, 2):
        ratio = optimizers[other].clip / optimizers[one].clip
        same = np.allclose(quiet[one] * ratio, quiet[other], rtol=1e-9, atol=0)
        findings += [Audited(f"{one} and {other}", None, math.inf)] if same else []
    noise = next(iter(optimizers.values())).noise
    for words, changed in _beside(scenario):
        there = private_optimizers(replace(world, scenario=changed), changed.learning or scenario.learning)
        shared = any(noise and each.noise and each.noise.draws == noise.draws for each in there.values())
        findings += [Audited(words, None, math.inf)] if shared else []
    if len(steps) < promised.bounds.rounds and run is not None:
        worst = float(np.linalg.norm(product(c, np.isin(steps, pattern).astype(float), len(steps))))
        scale = promised.noise_multiplier * promised.sensitivity
        findings.append(Audited("without its empty rounds", None, _epsilon(worst, scale, privacy.delta)))
    return findings


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


def _beside(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Yield what may be released beside the models of a scenario: that at which it starts, another of its settings."""
    if scenario.learning is not None and scenario.learning.start is not None:
        yield "the models and that at which they start", scenario.with_values({"learning.start": None})
    swept = {} if scenario.sweep is None else scenario.sweep.grid | scenario.sweep.zip
    if values := {path: each[-1] for path, each in (swept | scenario.choose).items()}:
        yield "the models of two settings", scenario.with_values({"sweep": None, "choose": {}, **values})


def _released(
    optimizer: Private, value: float, steps: Ints, pattern: Ints, sizes: Ints, directions: int, others: float = 0.0
) -> Floats:
    """Return what each step adds to the sum of the updates, (steps, directions).

    In its rounds the canary is client 0, and sends a `value`; those beside it send updates of the length of `others`.
    """
    state, model = optimizer.init(int(sizes.max()) + 1, directions), np.zeros(directions)
    moves = np.empty((len(steps), directions))
    for row, (number, size) in enumerate(zip(steps.tolist(), sizes.tolist(), strict=False)):
        there = number in pattern
        clients, deltas = np.arange(size) + (not there), np.zeros((size, directions))
        cohort = Cohort(number, clients, downloaded=model)
        state, local = optimizer.prepare(state, cohort)
        scales = local.scales if isinstance(local, LocalSteps) else local
        deltas[np.arange(size), clients % directions] = others * (1.0 if scales is None else scales)
        if there:
            deltas[0, 0] = value
        state, moved = optimizer.apply(state, model, cohort, deltas)
        moves[row], model = (moved - model) * optimizer.divisor, moved
    return moves


def _epsilon(shift: float, deviation: float, delta: float) -> float:
    """Return epsilon of the test whether normal noise of some deviation is shifted."""
    if shift == 0.0:
        return 0.0
    return epsilon_of(deviation / shift, delta) if deviation > 1e-9 * shift else math.inf
