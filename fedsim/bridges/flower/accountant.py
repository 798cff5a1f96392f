"""Flower's privacy accountant for clients that take part at most k times, b rounds apart.

A client is in at most min(k, ceil(n / b)) of n releases, without any sampling. With independent Gaussian noise of
multipliers sigma_t, all that one client contributes is hidden by one Gaussian mechanism of multiplier sigma with

::

    1 / sigma^2 = max over participations t_1 < t_2 < ... , at most k, at least b apart, of sum_j 1 / sigma_{t_j}^2

whose epsilon is exact (Balle and Wang 2018); `fedsim.privacy` computes the same for the mechanism ``independent``.
Flower does not say in which round a release is; `Replay` tells its accountants. Without it a client may be in any
releases, as many as the bounds allow.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self

import numpy as np
from flwr.serverapp import GaussianPrivacyEvent, NeighboringRelation, PrivacyConfig, PrivacySpent, SamplingMethod

from fedsim.common.arrays import Floats
from fedsim.common.errors import RunError
from fedsim.privacy.bounds import ParticipationBounds, enforced_bounds
from fedsim.privacy.epsilon import epsilon_of, log_delta
from fedsim.run.preflight import preflight
from fedsim.scenario import Scenario, as_scenario

METHOD: Final = "fedsim-participation-bounds"


class Release(NamedTuple):
    """One release: its round, where that is known, and its noise multiplier."""

    round: int | None
    noise_multiplier: float


class ParticipationAccountant:
    """An accountant by Flower's protocol `PrivacyAccountant`.

    The bounds are n, b and k, as the server enforces them; a release beyond n is refused. `target_delta`, between 0 and
    1, is that of the budget `max_epsilon` of `would_exceed`. `round` is the round under way, where it is known; a
    release is taken to be in it. There is no amplification by sampling. What is protected is all that one client
    contributes, replaced by zeros, which Flower calls add-or-remove-one.
    """

    def __init__(
        self,
        bounds: ParticipationBounds,
        *,
        target_delta: float,
        population_size: int,
        max_epsilon: float | None = None,
    ) -> None:
        self.bounds = bounds
        self.config = PrivacyConfig(
            target_delta=target_delta,
            population_size=population_size,
            neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
            sampling_method=SamplingMethod.NO_AMPLIFICATION,
            max_epsilon=max_epsilon,
        )
        self.round: int | None = None
        self._releases: list[Release] = []

    @classmethod
    def of(cls, scenario: Scenario | str, *, target_delta: float, max_epsilon: float | None = None) -> Self:
        """Return an accountant of what the server of a scenario enforces.

        Raises a `ScenarioError` if the scenario is wrong, or enforces too little for anything to be promised.
        """
        read = as_scenario(scenario)
        population = preflight(read).population
        bounds, clients = enforced_bounds(read, population), len(population)
        return cls(bounds, target_delta=target_delta, population_size=clients, max_epsilon=max_epsilon)

    @property
    def num_releases(self) -> int:
        """Releases so far."""
        return len(self._releases)

    def compose(self, event: GaussianPrivacyEvent, count: int = 1) -> None:
        """Count one or more releases; a RunError if there are more than n."""
        self._releases += self._composed(event, count)

    def get_epsilon(self, delta: float) -> float:
        """Return epsilon at a delta, exactly."""
        return _epsilon(inverse_variance(self.bounds, self._releases), delta)

    def get_delta(self, epsilon: float) -> float:
        """Return delta at an epsilon of at least 0, exactly."""
        inverse = inverse_variance(self.bounds, self._releases)
        return 0.0 if inverse == 0.0 else math.exp(log_delta(epsilon, inverse**-0.5))

    def get_privacy_spent(self, delta: float | None = None) -> PrivacySpent:
        """Return what has been spent."""
        at = self.config.target_delta if delta is None else delta
        return PrivacySpent(
            epsilon=self.get_epsilon(at), delta=at, num_releases=self.num_releases, accounting_method=METHOD
        )

    def would_exceed(self, event: GaussianPrivacyEvent, max_epsilon: float | None = None, count: int = 1) -> bool:
        """Say whether releases would go beyond a budget, without counting them; a ValueError if there is no budget."""
        budget = self.config.max_epsilon if max_epsilon is None else max_epsilon
        if budget is None:
            raise ValueError("there is no max_epsilon, neither here nor in the configuration")
        releases = [*self._releases, *self._composed(event, count)]
        return _epsilon(inverse_variance(self.bounds, releases), self.config.target_delta) > budget

    def state_dict(self) -> dict[str, object]:
        """Return all that `load_state_dict` needs, as JSON can say it."""
        return {"backend": METHOD, "promise": self._promise(), "releases": [list(each) for each in self._releases]}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Go on from what `state_dict` returned; a ValueError if that was of an accountant with another promise."""
        if state.get("backend") != METHOD:
            raise ValueError(f"the state is that of {state.get('backend')!r}, and this accountant is {METHOD!r}")
        if state.get("promise") != self._promise():
            raise ValueError(
                f"the state was made with {state.get('promise')}, and this accountant has {self._promise()}"
            )
        releases: Any = state.get("releases")
        self._releases = [Release(number, multiplier) for number, multiplier in releases]

    def _promise(self) -> dict[str, object]:
        return {
            "rounds": self.bounds.rounds,
            "min_separation": self.bounds.min_separation,
            "most_participations": self.bounds.participations,
            "population_size": self.config.population_size,
            "target_delta": self.config.target_delta,
        }

    def _composed(self, event: GaussianPrivacyEvent, count: int) -> list[Release]:
        clients = self.config.population_size
        if event.population_size != clients:
            raise ValueError(f"the event has population_size {event.population_size}, and the accountant {clients}")
        if count < 1:
            raise ValueError(f"count is {count}; it must be at least 1")
        last = self.num_releases + count if self.round is None else self.round + 1
        if last > self.bounds.rounds:
            raise RunError(
                f"round {last:,} was not promised: the server of the scenario stops after {self.bounds.rounds:,} rounds"
            )
        return count * [Release(self.round, event.noise_multiplier)]


def inverse_variance(bounds: ParticipationBounds, releases: Sequence[Release]) -> float:
    """Return the largest sum of 1 / sigma^2 over the releases that one client can be in.

    Releases are in the order of their rounds; several of one round have the same clients. Where a round is not known,
    a client is in any min(k, ceil(n / b)) of them.
    """
    if any(each.round is None for each in releases):
        each_one = sorted((each.noise_multiplier**-2 for each in releases), reverse=True)
        return math.fsum(each_one[: bounds.participations])
    weights: dict[int, float] = {}
    for number, multiplier in releases:
        assert number is not None
        weights[number] = weights.get(number, 0.0) + multiplier**-2
    rounds = sorted(weights)
    # After each round, the most with at most 0, 1, ..., k participations; one number where no cap binds.
    most: list[Floats] = [np.zeros(bounds.participations + 1 if bounds.capped else 1)]
    for place, number in enumerate(rounds):
        before = most[bisect_right(rounds, number - bounds.min_separation, hi=place)]
        taking_part = before + weights[number]
        if bounds.capped:
            taking_part = np.concatenate([[0.0], taking_part[:-1]])
        most.append(np.maximum(most[-1], taking_part))
    return float(most[-1].max())


def _epsilon(inverse: float, delta: float) -> float:
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}; it must lie between 0 and 1")
    return 0.0 if inverse == 0.0 else epsilon_of(inverse**-0.5, delta)
