"""The population as one array per quantity, client by client, group after group."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import Mistake, ScenarioError
from fedsim.keyed import Purpose, stream
from fedsim.population import sources
from fedsim.population.propensity import propensity
from fedsim.population.sources import Members
from fedsim.scenario import Scenario


@dataclass(frozen=True)
class Population:
    """Every client's numbers; all arrays have shape (N,).

    Attributes
    ----------
    group
        Index into `group_names`.
    group_names
        Names of the scenario's groups, in order.
    weight
        p_i, normalised to sum 1.
    separation
        R_i in rounds.
    cooldown_s
        Wall-clock cool-down in seconds.
    speed
        How fast the device is; a session takes the scenario's lengths divided by it.
    """

    group: NDArray[np.int64]
    group_names: tuple[str, ...]
    weight: NDArray[np.float64]
    separation: NDArray[np.int64]
    cooldown_s: NDArray[np.float64]
    speed: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def common_separation(self) -> int | None:
        """R, where all clients have the same one."""
        first = int(self.separation[0])
        return first if bool((self.separation == first).all()) else None


def build_population(scenario: Scenario, replicate: int = 0) -> Population:
    """Draw or read every client's numbers.

    Raises
    ------
    ScenarioError
        If a list or a file does not fit its group; every mistake with its place.
    """
    streams = {purpose: stream(scenario.seed, replicate, purpose) for purpose in Purpose}
    scores = partial(propensity, draws=streams[Purpose.AVAILABILITY])
    counts = [group.devices for group in scenario.population]
    starts = np.cumsum([0, *counts])
    weight, separation, cooldown_s, speed = [], [], [], []
    mistakes: list[Mistake] = []
    for index, group in enumerate(scenario.population):
        members = Members(np.arange(starts[index], starts[index + 1]), scores, scenario.locate)
        try:
            key = "weight"
            weight.append(sources.numbers(group.weight, members, streams[Purpose.WEIGHT]))
            key = "separation"
            separation.append(sources.rounds(group.separation, members, streams[Purpose.SEPARATION]))
            key = "cooldown"
            cooldown_s.append(sources.seconds(group.cooldown, members, streams[Purpose.COOLDOWN]))
            key = "speed"
            speed.append(sources.numbers(group.session.speed, members, streams[Purpose.SPEED]))
        except ValueError as error:
            path = ("session", key) if key == "speed" else (key,)
            mistakes.append(scenario.mistake(("population", index, *path), str(error)))
    if mistakes:
        raise ScenarioError(mistakes)
    return Population(
        group=np.repeat(np.arange(len(counts)), counts),
        group_names=tuple(group.name for group in scenario.population),
        weight=_normalised(np.concatenate(weight), scenario),
        separation=np.concatenate(separation),
        cooldown_s=np.concatenate(cooldown_s),
        speed=np.concatenate(speed),
    )


def _normalised(weight: NDArray[np.float64], scenario: Scenario) -> NDArray[np.float64]:
    with np.errstate(over="ignore", under="ignore"):
        weight = weight / weight.max()
        weight = weight / weight.sum()
    if not (weight > 0).all():
        message = f"weights span too many orders of magnitude: client {int(np.argmin(weight))} would have none"
        raise ScenarioError([scenario.mistake(("population",), message)])
    return weight
