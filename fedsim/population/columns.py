"""The population as one array per quantity, client by client, group after group."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import KeyPath, Mistake, PluginError, ScenarioError
from fedsim.common.instants import each_to_ms, each_to_seconds
from fedsim.common.keyed import Purpose, stream
from fedsim.population.distributions import check_laws
from fedsim.population.sources import Codes, Members, counts, devices, numbers, rounds, seconds, zones
from fedsim.scenario import Scenario
from fedsim.scenario.devices import DEVICE_CLASSES
from fedsim.scenario.model import Model
from fedsim.scenario.work import Work

# Paths of the quantities in a group of the scenario.
WEIGHT, SEPARATION, COOLDOWN = ("weight",), ("separation",), ("cooldown",)
_MOST = ("participations", "most")
TIME_ZONE, SESSION, SPEED = ("time_zone",), ("session",), ("session", "speed")
_DEVICE, _SAMPLES = ("session", "device"), ("session", "samples")
UNCAPPED = 1 << 62


@dataclass(frozen=True)
class Population:
    """Every client's numbers; all arrays have shape (N,)."""

    group: Ints  # index into `group_names`
    group_names: tuple[str, ...]  # of the scenario's groups, in order
    weight: Floats  # p_i, normalised to sum 1
    separation: Ints  # R_i in rounds
    cooldown_s: Floats  # wall-clock cool-down in seconds, whole milliseconds
    speed: Floats  # how fast the device is; a session takes the scenario's lengths divided by it
    zone: NDArray[np.int16]  # index into `zone_names`
    zone_names: tuple[str, ...]  # IANA names of the time zones that occur
    most: Ints | None = None
    """Participations after which a client is out for good, `UNCAPPED` without a cap, 0 where its memory is too small;
    None where nobody has a cap."""
    device: NDArray[np.int8] | None = None
    """Place of each device's class in `DEVICE_CLASSES`, -1 where sessions have plain times; None where all have."""
    train_s: Floats | None = None
    """Seconds of training in a session from work; None where there are none."""

    def __len__(self) -> int:
        return len(self.weight)

    def at_most(self, rounds: int, lag: int = 0) -> Ints:
        """Return how often each client (N,) can take part in some rounds, by its separation and its cap.

        With a `lag`, participations may be that many rounds closer to each other than the separation.
        """
        fitting = -(-rounds // (self.separation + 1 - lag))
        return fitting if self.most is None else np.minimum(fitting, self.most)

    @property
    def barred(self) -> Ints:
        """Return the clients that can never take part: their memory is too small."""
        return np.empty(0, dtype=np.int64) if self.most is None else np.flatnonzero(self.most == 0)

    @property
    def common_separation(self) -> int | None:
        """R, where all clients have the same one."""
        first = int(self.separation[0])
        return first if bool((self.separation == first).all()) else None


class Residence(NamedTuple):
    """The k pairs of group and time zone that occur, in the order of groups, as indices into the population's names.

    `of_client` (N,) is the pair of each client.
    """

    group: Ints
    zone: Ints
    of_client: Ints


def residence(population: Population) -> Residence:
    """Return the pairs of group and time zone that occur."""
    group, zone = population.group, population.zone.astype(np.int64)
    changes = np.flatnonzero((group[1:] != group[:-1]) | (zone[1:] != zone[:-1])) + 1
    if len(changes) == int(group[-1]):  # only where a group begins: nothing need be sorted
        first = np.concatenate([[0], changes])
        return Residence(group[first], zone[first], group)
    zones = len(population.zone_names)
    pairs, of_client = np.unique(group * zones + zone, return_inverse=True)
    return Residence(pairs // zones, pairs % zones, of_client.astype(np.int64, copy=False))


def build_population(scenario: Scenario, replicate: int = 0) -> Population:
    """Draw or read every client's numbers.

    Raises a `ScenarioError` if a list or a file does not fit its group, or a user's own law fails; every mistake with
    its place.
    """
    streams = {purpose: stream(scenario.seed, replicate, purpose) for purpose in Purpose}
    sizes = [group.devices for group in scenario.population]
    starts = np.cumsum([0, *sizes])
    capped = any(group.participations is not None for group in scenario.population)
    any_works = any(isinstance(group.session, Work) for group in scenario.population)
    codes: Codes = {}
    columns: dict[KeyPath, list[NDArray[Any]]] = {}
    mistakes: list[Mistake] = []
    for index, group in enumerate(scenario.population):
        members = Members(np.arange(starts[index], starts[index + 1]), streams[Purpose.AVAILABILITY], scenario.locate)
        sources: dict[KeyPath, Callable[[], NDArray[Any]]] = {
            WEIGHT: partial(numbers, group.weight, members, streams[Purpose.WEIGHT]),
            SEPARATION: partial(rounds, group.separation, members, streams[Purpose.SEPARATION]),
            COOLDOWN: partial(seconds, group.cooldown, members, streams[Purpose.COOLDOWN]),
            TIME_ZONE: partial(zones, group.time_zone, members, streams[Purpose.TIME_ZONE], codes),
        }
        if isinstance(group.session, Work):
            work = group.session
            sources[_DEVICE] = partial(devices, work.device, members, streams[Purpose.DEVICE])
            sources[_SAMPLES] = partial(numbers, work.samples, members, streams[Purpose.SAMPLES])
            sources[SPEED] = partial(np.ones, group.devices)
        else:
            sources[SPEED] = partial(numbers, group.session.speed, members, streams[Purpose.SPEED])
            if any_works:
                sources[_DEVICE] = partial(np.full, group.devices, -1, np.int8)
                sources[_SAMPLES] = partial(np.zeros, group.devices)
        parts: dict[KeyPath, Model] = {
            WEIGHT: group.weight,
            SEPARATION: group.separation,
            COOLDOWN: group.cooldown,
            SESSION: group.session,
        }
        if group.participations is not None:
            parts[_MOST] = group.participations.most
            sources[_MOST] = partial(counts, group.participations.most, members, streams[Purpose.PARTICIPATIONS])
        elif capped:
            sources[_MOST] = partial(np.full, group.devices, UNCAPPED)
        wrong = [((*path, *inner), message) for path, part in parts.items() for inner, message in check_laws(part)]
        mistakes += [scenario.mistake(("population", index, *path), message) for path, message in wrong]
        for path, source in sources.items():
            if any(found[: len(path)] == path for found, _ in wrong):
                continue
            try:
                columns.setdefault(path, []).append(source())
            except (ValueError, PluginError) as error:
                mistakes.append(scenario.mistake(("population", index, *path), str(error)))
    if mistakes:
        raise ScenarioError(mistakes)
    most = np.concatenate(columns[_MOST]) if capped else None
    device = train_s = None
    if any_works:
        device, samples = np.concatenate(columns[_DEVICE]), np.concatenate(columns[_SAMPLES])
        step_s = np.array([each.step_s for each in DEVICE_CLASSES])[device]
        cost = [group.session.cost if isinstance(group.session, Work) else 0.0 for group in scenario.population]
        train_s = samples * step_s * np.repeat(cost, sizes)
        most = _barred(scenario, device, starts, most)
    return Population(
        group=np.repeat(np.arange(len(sizes)), sizes),
        group_names=tuple(group.name for group in scenario.population),
        weight=_normalised(np.concatenate(columns[WEIGHT]), scenario),
        separation=np.concatenate(columns[SEPARATION]),
        cooldown_s=each_to_seconds(each_to_ms(np.concatenate(columns[COOLDOWN]))),
        speed=np.concatenate(columns[SPEED]),
        zone=np.concatenate(columns[TIME_ZONE]),
        zone_names=tuple(codes),
        most=most,
        device=device,
        train_s=train_s,
    )


def _barred(scenario: Scenario, device: NDArray[np.int8], starts: Ints, most: Ints | None) -> Ints | None:
    """Return the caps (N,) with 0 for devices whose memory is too small; a `ScenarioError` if a group has no other."""
    memory = np.array([each.memory for each in DEVICE_CLASSES])[device]
    for index, group in enumerate(scenario.population):
        own = slice(starts[index], starts[index + 1])
        if not isinstance(group.session, Work) or group.session.needs is None:
            continue
        small = memory[own] < group.session.needs
        if small.all():
            largest = f"{memory[own].max() / 1e9:g}GB"
            message = f"no device of the group has so much memory: the largest has {largest}"
            raise ScenarioError([scenario.mistake(("population", index, "session", "needs"), message)])
        if small.any():
            most = np.full(len(device), UNCAPPED) if most is None else most
            most[own][small] = 0
    return most


def _normalised(weight: Floats, scenario: Scenario) -> Floats:
    with np.errstate(over="ignore", under="ignore"):
        weight = weight / weight.max()
        weight = weight / weight.sum()
    if not (weight > 0).all():
        message = f"weights span too many orders of magnitude: client {int(np.argmin(weight))} would have none"
        raise ScenarioError([scenario.mistake(("population",), message)])
    return weight
