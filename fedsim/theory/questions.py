"""What ``fedsim chain`` answers: participation, inverse questions, fluctuation, convergence, mixing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.common.errors import ChainError
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.scenario.server import BufferedServer
from fedsim.theory import (
    Stationary,
    answer,
    asymptotic_variance,
    convergence,
    mixing,
    rounds_needed,
    smallest_separation,
)
from fedsim.theory.buffered_prediction import describe, flow_of
from fedsim.theory.laws import law_of
from fedsim.theory.prediction import predicted


@dataclass(frozen=True)
class Extras:
    """What to say about each separation beside its stationary law.

    Attributes
    ----------
    precision
        Relative error of the debiasing weights, for the number of rounds until they are so good; None not to ask.
    convergence_rounds
        Rounds over which to follow the law of the participants from the start; None not to ask.
    mixing
        Whether to compute the mixing time and the spectral gap.
    """

    precision: float | None = None
    convergence_rounds: int | None = None
    mixing: bool = False


@dataclass(frozen=True)
class Target:
    """The distance from uniform that a separation is to reach; exactly one is not None."""

    l1: float | None = None
    tv: float | None = None
    ratio: float | None = None

    @property
    def given(self) -> bool:
        """Whether there is a target at all."""
        return any(value is not None for value in (self.l1, self.tv, self.ratio))


def chain_results(
    scenario: Scenario,
    population: Population,
    separations: Sequence[int] | None,
    method: str,
    law: str | None,
    target: Target,
    extras: Extras,
) -> list[tuple[Stationary, dict[str, Any]]]:
    """Return each result with the object that stands for it in JSON.

    Parameters
    ----------
    scenario, population
        Whose weights, cohort and selection law are taken.
    separations
        Common separations to ask about; None for the population's own.
    method, law
        As in `fedsim.theory.stationary`; `law` None for the scenario's own.
    target
        When given, the one result is that of the smallest separation that reaches it.
    extras
        What else to say.

    Raises
    ------
    ChainError
        If a question has no answer, or none by the method asked for.
    """
    if isinstance(scenario.server, BufferedServer):
        return _of_buffered(scenario, scenario.server, population, separations, method, law, target, extras)
    if target.given:
        results = [
            smallest_separation(
                population.weight,
                scenario.server.wanted,
                law or law_of(scenario.server),
                target_l1=target.l1,
                target_tv=target.tv,
                target_ratio=target.ratio,
            )
        ]
    else:
        own: list[int | None] = [None]
        wanted = own if separations is None else list(separations)
        results = [predicted(scenario, population, separation, method, law) for separation in wanted]
    return [(result, answer(result) | _more(scenario, result, extras)) for result in results]


def _of_buffered(
    scenario: Scenario,
    server: BufferedServer,
    population: Population,
    separations: Sequence[int] | None,
    method: str,
    law: str | None,
    target: Target,
    extras: Extras,
) -> list[tuple[Stationary, dict[str, Any]]]:
    if target.given or extras != Extras():
        raise ChainError(
            "targets, precision, convergence and mixing are about synchronous rounds, and this scenario's server is "
            "buffered: of that, fedsim chain tells the long-run participation"
        )
    own: list[int | None] = [None]
    flows = [
        flow_of(scenario, server, population, separation, method, law)
        for separation in (own if separations is None else separations)
    ]
    return [
        (flow.stationary, answer(flow.stationary) | {"buffered": describe(flow, server, population)}) for flow in flows
    ]


def _more(scenario: Scenario, result: Stationary, extras: Extras) -> dict[str, Any]:
    question = (result.weights, result.separation, result.cohort, result.law)
    more: dict[str, Any] = {}
    if extras.precision is not None:
        fluctuation = asymptotic_variance(*question, seed=scenario.seed)
        more["fluctuation"] = {
            "method": fluctuation.method,
            "variance": fluctuation.variance.tolist(),
            "precision": extras.precision,
            "rounds_needed": _whole(rounds_needed(fluctuation, extras.precision)),
        }
    if extras.convergence_rounds is not None:
        found = convergence(*question, rounds=extras.convergence_rounds, seed=scenario.seed, limit=result)
        more["convergence"] = {
            "quantity": "TV distance between the law of the participants of round t, all ready at round 0, and pi",
            "method": found.method,
            "replicas": found.replicas,
            "tv": found.tv.tolist(),
            "noise_floor": None if found.noise_floor is None else found.noise_floor.tolist(),
        }
    if extras.mixing:
        speed = mixing(*question)
        more["mixing"] = {
            "quantity": "TV distance between the law of the chain's state and its stationary law, from the worst start",
            "mixing_time": speed.mixing_time,
            "level": speed.level,
            "spectral_gap": speed.spectral_gap,
            "period": speed.period,
            "recurrent_classes": speed.recurrent_classes,
            "states": speed.states,
        }
    return more


def _whole(rounds: NDArray[np.float64]) -> list[int | None]:
    """Return rounds as integers; null for a client of which no number of rounds is enough."""
    return [int(value) if np.isfinite(value) else None for value in rounds.tolist()]
