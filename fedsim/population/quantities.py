"""The population as one array per quantity, client by client, group after group."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import KeyPath, Mistake, PluginError, ScenarioError
from fedsim.common.instants import FOREVER, each_to_ms, each_to_seconds
from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.population.distributions import check_distributions
from fedsim.population.sources import Codes, Members, counts, devices, numbers, rounds, seconds, zones
from fedsim.scenario import Scenario
from fedsim.scenario.devices import DEVICE_CLASSES, PLACES
from fedsim.scenario.group import Group
from fedsim.scenario.sources import MOST_STEPS, ByDeadline, ByEpochs, Column
from fedsim.scenario.work import Work

# Paths of the quantities in a group of the scenario.
WEIGHT, SEPARATION, COOLDOWN = ("weight",), ("separation",), ("cooldown",)
_MOST = ("participations", "most")
TIME_ZONE, SESSION, SPEED = ("time_zone",), ("session",), ("session", "speed")
_JOINS, _LEAVES = ("joins",), ("leaves",)
_DEVICE, _SAMPLES = ("session", "device"), ("session", "samples")
_LINKS = tuple(("session", "link", way) for way in ("down", "up"))
UNCAPPED = 1 << 62


@dataclass(frozen=True)
class Population:
    """Every client's numbers; all arrays have shape (N,), and are not written to."""

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
    joins: Ints | None = None
    """Instant at which each device joins, in ms; None where all are there from the beginning."""
    leaves: Ints | None = None
    """Instant at which it leaves for good, `FOREVER` for never; None where nobody does."""
    train_s: Floats | None = None
    """Seconds of training in a session from work; None where there are none."""
    down: Floats | None = None
    """Bits a second from the server to each device, where a column has them: 0 elsewhere; None where none has."""
    up: Floats | None = None
    """The same from the devices to the server."""
    local_steps: Ints | None = None
    """K_i, where `learning.local_steps` is a law, a list or a column; None otherwise."""

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
        """Return the clients that can never take part: their memory is too small, or their group is left out."""
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


_DEFAULTS: Mapping[KeyPath, Any] = {
    SPEED: 1.0,
    _MOST: UNCAPPED,
    _JOINS: 0.0,
    _LEAVES: np.inf,
    _DEVICE: np.int8(-1),
    _SAMPLES: 0.0,
    **dict.fromkeys(_LINKS, 0.0),
}
"""What clients have in a group that does not ask for a quantity which others ask for."""


def _asked(group: Group, codes: Codes) -> dict[KeyPath, tuple[Callable[..., NDArray[Any]], Any, Purpose]]:
    """Return how each quantity that a group asks for is read, from which source, with which draws.

    `codes` takes the time zones that are read.
    """
    asked: dict[KeyPath, tuple[Callable[..., NDArray[Any]], Any, Purpose]] = {
        WEIGHT: (numbers, group.weight, Purpose.WEIGHT),
        SEPARATION: (rounds, group.separation, Purpose.SEPARATION),
        COOLDOWN: (seconds, group.cooldown, Purpose.COOLDOWN),
        TIME_ZONE: (partial(zones, codes=codes), group.time_zone, Purpose.TIME_ZONE),
        _JOINS: (seconds, group.joins, Purpose.JOINS),
        _LEAVES: (seconds, group.leaves, Purpose.LEAVES),
        _MOST: (counts, group.participations and group.participations.most, Purpose.PARTICIPATIONS),
    }
    if isinstance(group.session, Work):
        asked[_DEVICE] = (devices, group.session.device, Purpose.DEVICE)
        asked[_SAMPLES] = (numbers, group.session.samples, Purpose.SAMPLES)
        for path, source in zip(_LINKS, (group.session.link.down, group.session.link.up), strict=True):
            if isinstance(source, Column):
                asked[path] = (numbers, source, Purpose.SESSION)
    else:
        asked[SPEED] = (numbers, group.session.speed, Purpose.SPEED)
    return {path: each for path, each in asked.items() if each[1] is not None}


def build_population(scenario: Scenario, replicate: int = 0) -> Population:
    """Draw or read every client's numbers.

    Raises a `ScenarioError` if a list or a file does not fit its group, or a user's own law fails; every mistake with
    its place.
    """
    streams = {purpose: stream(scenario.seed, replicate, purpose) for purpose in Purpose}
    sizes = [group.devices for group in scenario.population]
    starts = np.cumsum([0, *sizes])
    codes: Codes = {}
    asked = [_asked(group, codes) for group in scenario.population]
    wanted = dict.fromkeys(path for each in asked for path in each)
    columns: dict[KeyPath, list[NDArray[Any]]] = {path: [] for path in wanted}
    mistakes: list[Mistake] = []
    for index, group in enumerate(scenario.population):
        members = Members(np.arange(starts[index], starts[index + 1]), streams[Purpose.AVAILABILITY], scenario.locate)
        parts = {path: source for path, (_, source, _) in asked[index].items()} | {SESSION: group.session}
        del parts[TIME_ZONE]
        wrong = [((*path, *at), message) for path, part in parts.items() for at, message in check_distributions(part)]
        mistakes += [scenario.mistake(("population", index, *path), message) for path, message in wrong]
        for path in wanted:
            if any(place[: len(path)] == path for place, _ in wrong):
                continue
            try:
                if path not in asked[index]:
                    columns[path].append(np.broadcast_to(_DEFAULTS[path], group.devices))
                    continue
                read, source, purpose = asked[index][path]
                columns[path].append(_narrow(read(source, members, streams[purpose])))
            except (ValueError, PluginError) as error:
                problem, read_from = str(error), asked[index][path][1]
                if isinstance(read_from, Column) and read_from.file not in problem:
                    problem = f"column {read_from.column!r} of {read_from.file!r}: {problem}"
                mistakes.append(scenario.mistake(("population", index, *path), problem))
    local_steps, of_steps = _local_steps(scenario, streams, int(starts[-1]))
    if mistakes or of_steps:
        raise ScenarioError([*mistakes, *of_steps])
    most = _joined(columns[_MOST]) if _MOST in columns else None
    device = train_s = joins = leaves = None
    if _JOINS in columns or _LEAVES in columns:
        lasting = _joined(columns.get(_LEAVES, [np.full(starts[-1], np.inf)]))
        joins = each_to_ms(_joined(columns.get(_JOINS, [np.zeros(starts[-1])])))
        leaves = np.minimum(joins + each_to_ms(lasting), FOREVER)
    if _DEVICE in columns:
        device, samples = _joined(columns[_DEVICE]), _joined(columns[_SAMPLES])
        step_s = np.array([each.step_s for each in DEVICE_CLASSES])[device]
        cost = [group.session.cost if isinstance(group.session, Work) else 0.0 for group in scenario.population]
        train_s = samples * step_s * np.repeat(cost, sizes)
        most = _barred(scenario, device, starts, most)
    down, up = (_joined(columns[path]) if path in columns else None for path in _LINKS)
    if any(left_out := [group.left_out for group in scenario.population]):
        if all(left_out):
            message = "every group is left out, so that nobody can take part; leave one in"
            raise ScenarioError([scenario.mistake(("population", 0, "left_out"), message)])
        most = np.full(starts[-1], UNCAPPED) if most is None else most.copy()
        most[np.repeat(left_out, sizes)] = 0
    return Population(
        group=_narrow(np.repeat(np.arange(len(sizes)), sizes)),
        group_names=tuple(group.name for group in scenario.population),
        weight=_narrow(_normalised(_joined(columns[WEIGHT]), scenario)),
        separation=_joined(columns[SEPARATION]),
        cooldown_s=_narrow(each_to_seconds(each_to_ms(_joined(columns[COOLDOWN])))),
        speed=_joined(columns.get(SPEED, [np.broadcast_to(1.0, starts[-1])])),
        zone=_joined(columns[TIME_ZONE]),
        zone_names=tuple(codes),
        most=most,
        device=device,
        joins=joins,
        leaves=leaves,
        train_s=train_s,
        down=down,
        up=up,
        local_steps=local_steps,
    )


def _local_steps(
    scenario: Scenario, streams: Mapping[Purpose, Stream], clients: int
) -> tuple[Ints | None, list[Mistake]]:
    """Return K_i (N,), None where the scenario does not give them by a law, a list or a column; and what is wrong."""
    source: Any = None if scenario.learning is None else scenario.learning.local_steps
    if source is None or isinstance(source, int | ByEpochs | ByDeadline):
        return None, []
    path = ("learning", "local_steps")
    members = Members(np.arange(clients), streams[Purpose.AVAILABILITY], scenario.locate)
    if wrong := check_distributions(source):
        return None, [scenario.mistake((*path, *inner), message) for inner, message in wrong]
    try:
        steps = counts(source, members, streams[Purpose.LOCAL_STEPS])
    except (ValueError, PluginError) as error:
        return None, [scenario.mistake(path, str(error))]
    if steps.max() <= MOST_STEPS:
        return steps, []
    message = f"must be at most {MOST_STEPS:,}, but value {int(steps.argmax())} is {steps.max():,}"
    return None, [scenario.mistake(path, message)]


_WRITTEN = {"constant", "list", "column"}  # sources that no seed changes


def drawn_columns(scenario: Scenario) -> list[dict[str, NDArray[Any]]]:
    """Return by group what its laws draw for its clients, by the key of the group, (n,) each, as a column holds it."""
    drawn, first = list[dict[str, NDArray[Any]]](), 0
    for group in scenario.population:
        clients, columns, codes = np.arange(first, first + group.devices), dict[str, NDArray[Any]](), Codes()
        members = Members(clients, stream(scenario.seed, 0, Purpose.AVAILABILITY), scenario.locate)
        first += group.devices
        for path, (read, source, purpose) in _asked(group, codes).items():
            if source.kind not in _WRITTEN:
                values = read(source, members, stream(scenario.seed, 0, purpose))
                names = [*codes] if path == TIME_ZONE else [*PLACES] if path == _DEVICE else None
                columns[".".join(map(str, path))] = values if names is None else np.array(names)[values]
        drawn.append(columns)
    return drawn


def _narrow(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column of equal numbers as a view of one: 40 bytes a device less, where all devices are alike."""
    return np.broadcast_to(column[0], column.shape) if (column == column[0]).all() else column


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else _narrow(np.concatenate(parts))


def _barred(scenario: Scenario, device: NDArray[np.int8], starts: Ints, most: Ints | None) -> Ints | None:
    """Return the caps (N,) with 0 for devices whose memory is too small; a `ScenarioError` if a group has no other."""
    memory = np.array([each.memory for each in DEVICE_CLASSES])[device]
    for index, group in enumerate(scenario.population):
        members = slice(starts[index], starts[index + 1])
        if not isinstance(group.session, Work) or group.session.needs is None:
            continue
        small = memory[members] < group.session.needs
        if small.all():
            largest = f"{memory[members].max() / 1e9:g}GB"
            message = f"no device of the group has so much memory: the largest has {largest}"
            raise ScenarioError([scenario.mistake(("population", index, "session", "needs"), message)])
        if small.any():
            most = np.full(len(device), UNCAPPED) if most is None else most.copy()
            most[members][small] = 0
    return most


def _normalised(weight: Floats, scenario: Scenario) -> Floats:
    with np.errstate(over="ignore", under="ignore"):
        weight = weight / weight.max()
        weight = weight / weight.sum()
    if not (weight > 0).all():
        message = f"weights span too many orders of magnitude: client {int(np.argmin(weight))} would have none"
        raise ScenarioError([scenario.mistake(("population",), message)])
    return weight
