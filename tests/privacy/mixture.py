"""What a client's coins do to the models that training releases, by the code of training and exact mixtures.

A system is run without noise for every pattern of one client's coins, with those of the others drawn and known to who
attacks. Its models, put through C, are then normal numbers around one of these means, and the losses of privacy are
those between two mixtures.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

from fedsim.common.arrays import Bools, Floats
from fedsim.learning.optimizers.optimizer import Cohort, LocalSteps
from fedsim.learning.private import Private
from fedsim.privacy.sensitivity import product

SURE = 3.1  # standard errors: one of 1,000 estimates is further off


class Estimate(NamedTuple):
    """Delta at an epsilon, the larger of both orders, and its standard error."""

    delta: float
    error: float


def patterns(rounds: int, cycle: int, separation: int, most: int, chance: float) -> list[tuple[Bools, float]]:
    """Return the rounds in which a client is drawn, with the chance of each pattern, by its own coins alone."""
    schedules = []
    for coins in itertools.product((False, True), repeat=-(-rounds // cycle)):
        drawn, last, likely = np.zeros(rounds, dtype=np.bool_), -math.inf, 1.0
        for coin, number in zip(coins, range(0, rounds, cycle), strict=True):
            if number - last > separation and drawn.sum() < most:
                likely *= chance if coin else 1.0 - chance
                drawn[number], last = coin, number if coin else last
            elif coin:
                likely = 0.0
        if likely:
            schedules.append((drawn, likely))
    return schedules


def released(private: Private, drawn: Bools, others: Bools, length: float = 1.0) -> Floats:
    """Return what each round adds to the sum of updates (rounds, 2), where client 0 is `drawn`, and others are.

    `others` is (rounds, N - 1). Updates are of one direction and, before scales and the clip, of a `length` in clips.
    """
    state, model, models = private.init(others.shape[1] + 1, 2), np.zeros(2), np.zeros((len(drawn), 2))
    for number, (mine, theirs) in enumerate(zip(drawn, others, strict=True)):
        clients = np.flatnonzero(np.concatenate([[mine], theirs]))
        cohort = Cohort(number, clients, downloaded=model)
        if not len(clients):
            continue
        state, local = private.prepare(state, cohort)
        scales = local.scales if isinstance(local, LocalSteps) else local
        deltas = np.zeros((len(clients), 2))
        deltas[:, 0] = length * private.clip * (1.0 if scales is None else scales)
        state, moved = private.apply(state, model, cohort, deltas)
        models[number], model = (moved - model) * private.divisor, moved
    return models


def delta_of(
    private: Private,
    coins: list[tuple[Bools, float]],
    others: Bools,
    c: Floats,
    deviation: float,
    epsilon: float,
    draws: np.random.Generator,
    length: float = 1.0,
    samples: int = 20_000,
) -> Estimate:
    """Return delta between the models with client 0 and those without it; `others` is (times, rounds, N - 1)."""
    rounds = others.shape[1]
    deltas = np.empty((2, len(others)))
    errors = np.empty((2, len(others)))
    for row, theirs in enumerate(others):
        without = released(private, np.zeros(rounds, dtype=np.bool_), theirs, length)
        means = np.array([released(private, drawn, theirs, length) - without for drawn, _ in coins])
        likely = np.log([each for _, each in coins])
        white = np.stack([np.stack([product(c, column, rounds) for column in each.T], axis=1) for each in means])
        white = white.reshape(len(coins), -1) / deviation
        for order in (0, 1):
            noise = draws.normal(size=(samples, white.shape[1]))
            which = np.arange(samples) % len(coins)  # all patterns alike, each with its chance as a weight
            weight = np.exp(likely[which]) * len(coins) if order == 0 else 1.0
            x = noise + (white[which] if order == 0 else 0.0)
            loss = np.logaddexp.reduce(likely + x @ white.T - 0.5 * np.square(white).sum(axis=1), axis=1)
            gained = weight * np.maximum(0.0, -np.expm1(epsilon - (loss if order == 0 else -loss)))
            deltas[order, row], errors[order, row] = gained.mean(), gained.std() / math.sqrt(samples)
    mean, error = deltas.mean(axis=1), np.sqrt(np.square(errors).sum(axis=1)) / len(others)
    worst = int(mean.argmax())
    return Estimate(float(mean[worst]), float(error[worst]))
