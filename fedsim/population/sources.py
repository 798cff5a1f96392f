"""What each client of a group gets from the sources of a scenario: numbers, lengths of time, and time zones."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.keyed import Stream
from fedsim.common.later import special
from fedsim.population.distributions import distribution
from fedsim.population.distributions.distribution import Distribution, normal_probabilities
from fedsim.scenario.component import Choice
from fedsim.scenario.devices import PLACES, check_device_class
from fedsim.scenario.sources import Column, ConstantZone, Listed, ListedZones, Mixture, ZoneMixture
from fedsim.scenario.units import check_time_zone
from fedsim.scenario.work import ConstantDevice, DeviceShares, DeviceSource

if TYPE_CHECKING:
    import polars as pl

VALUE, PART = 0, 1
"""Indices of a client's draws for one quantity: its value, and the part of a mixture that it belongs to."""
PROPENSITY = 1 << 48
"""Index of the score among a client's draws for availability."""


def propensity(clients: Ints, draws: Stream) -> Floats:
    """Return how available each client is by habit: standard normal scores, from the stream for availability.

    Devices of high score charge on more days, have an unmetered network more often, and are used less often. All else
    about a person is independent of it.
    """
    return draws.normals(clients, PROPENSITY)


@dataclass(frozen=True)
class Members:
    """The clients (n,) of one group: their indices in the population are the keys of their draws.

    `habits` is the stream for availability, from which propensities are drawn; `locate` finds the files of a scenario,
    or raises `ValueError`.
    """

    clients: Ints
    habits: Stream
    locate: Callable[[str], Path]

    def __len__(self) -> int:
        return len(self.clients)

    def _scores(self, source: Choice, draws: Stream, index: int) -> Floats:
        """Return a standard normal score (n,) for each client, correlated as the source says.

        z = rho * (score of the other property) + sqrt(1 - rho^2) * (own draw): a Gaussian copula.
        """
        score = draws.normals(self.clients, index)
        if source.correlation is None:
            return score
        if source.correlation.to == "availability":
            other = propensity(self.clients, self.habits)
        else:
            other = np.asarray(special.ndtri((np.arange(len(self)) + 0.5) / len(self)), dtype=np.float64)
        rho = source.correlation.rho
        return np.asarray(rho * other + np.sqrt(1 - rho**2) * score)

    def values(self, quantiles: Distribution, source: Choice, draws: Stream) -> Floats:
        """Return a value (n,) of a law for each client: by a draw of its own, or by its rank, as the law says."""
        if quantiles.ranked:
            return quantiles.quantile(1.0 - (self._ranks(source, draws) + 0.5) / len(self))
        if source.correlation is None:
            return quantiles.quantile(draws.uniforms(self.clients, VALUE))
        return quantiles.of_scores(self._scores(source, draws, VALUE))

    def parts(self, source: Choice, shares: list[float], draws: Stream) -> NDArray[np.intp]:
        """Return the part (n,) of a mixture that each client belongs to, with chances proportional to the shares."""
        if source.correlation is None:
            return _part_at(shares, draws.uniforms(self.clients, PART))
        return _part_at(shares, normal_probabilities(self._scores(source, draws, PART)))

    def _ranks(self, source: Choice, draws: Stream) -> Ints:
        """Return the rank (n,) of each client, from 0: in order or, if correlated, by score, the largest first."""
        if source.correlation is None:
            return np.arange(len(self))
        ranks = np.empty(len(self), dtype=np.int64)
        ranks[np.argsort(-self._scores(source, draws, VALUE), kind="stable")] = np.arange(len(self))
        return ranks


def _part_at(shares: list[float], u: Floats) -> NDArray[np.intp]:
    """Return the part (n,) in which each number between 0 and 1 falls, the parts as wide as their shares."""
    until = np.cumsum(shares)
    return np.minimum(np.searchsorted(until / until[-1], u, side="right"), len(shares) - 1)


def numbers(source: Choice, members: Members, draws: Stream) -> Floats:
    """Return a positive number for each client of a group; `draws` is the stream for this quantity.

    Raises a `ValueError` if there are not n numbers, or one is not positive and finite, with a message that says which,
    and a `PluginError` if a user's own law fails.
    """
    values = _values(source, members, draws)
    _check(values, len(members), np.isfinite(values) & (values > 0), "above 0 and finite")
    return values


def rounds(source: Choice, members: Members, draws: Stream) -> Ints:
    """Return a whole number of rounds, 0 or more, for each client of a group; parameters as in `numbers`.

    What a law gives is rounded to the nearest whole number; a list or a column must hold whole numbers.
    """
    values = _values(source, members, draws)
    if not isinstance(source, Listed | Column):
        values = np.rint(values)
    whole = (values == np.rint(values)) & (values >= 0) & (values <= 1e9)
    _check(values, len(members), whole, "a whole number from 0 to 10^9")
    return values.astype(np.int64)


def counts(source: Choice, members: Members, draws: Stream) -> Ints:
    """Return a whole number of at least 1 for each client of a group; as `rounds` otherwise."""
    values = rounds(source, members, draws)
    _check(values.astype(np.float64), len(members), values >= 1, "a whole number of at least 1")
    return values


def seconds(source: Choice, members: Members, draws: Stream) -> Floats:
    """Return a length in seconds, 0 or more, for each client of a group; a column holds seconds."""
    values = _values(source, members, draws)
    _check(values, len(members), np.isfinite(values) & (values >= 0), "at least 0 and finite")
    return values


def _values(source: Choice, members: Members, draws: Stream) -> Floats:
    """Return the values of any source; a value too large for a float is infinite."""
    with np.errstate(over="ignore"):
        match source:
            case Choice(kind="constant"):
                return np.full(len(members), float(source.value))
            case Listed():
                return np.asarray(source.values, dtype=np.float64)
            case Column():
                from fedsim.population.client_files import read_numbers  # takes long to import

                return read_numbers(source, members.locate).astype(np.float64)
            case Mixture():
                chosen = members.parts(source, [part.share for part in source.parts], draws)
                return np.choose(chosen, [_values(part.source, members, draws) for part in source.parts])
            case _:
                return members.values(distribution(source, len(members)), source, draws)


def _check(values: Floats, count: int, good: Bools, wanted: str) -> None:
    if len(values) != count:
        raise ValueError(f"has {len(values):,} values for {count:,} devices")
    if not good.all():
        first = int(np.argmin(good))
        raise ValueError(f"must be {wanted}, but value {first} is {values[first]:.12g}")


def devices(source: DeviceSource, members: Members, draws: Stream) -> NDArray[np.int8]:
    """Return the place (n,) of the class of each client's device, of those that are known; parameters as in `numbers`.

    Raises a `ValueError` if there are not n names, or one is unknown; the message says which.
    """
    match source:
        case ConstantDevice():
            return np.full(len(members), PLACES[source.value], dtype=np.int8)
        case DeviceShares():
            places = np.array([PLACES[name] for name in source.shares], dtype=np.int8)
            return places[_part_at([*source.shares.values()], draws.uniforms(members.clients, VALUE))]
        case Column():
            from fedsim.population.client_files import read_words

            words = read_words(source, members.locate)
            return _coded(words, members, check_device_class, dict(PLACES)).astype(np.int8)


Zones = ConstantZone | ListedZones | ZoneMixture | Column
Codes = dict[str, int]
"""Names that have occurred, each with its code: 0, 1, ... in the order in which they did."""


def zones(source: Zones, members: Members, draws: Stream, codes: Codes) -> NDArray[np.int16]:
    """Return the code (n,) of the time zone of each client of a group; `codes` takes the names that are new.

    Raises a `ValueError` if there are not n names, or one is unknown; the message says which.
    """
    import polars as pl  # takes long to import

    match source:
        case ConstantZone():
            return np.full(len(members), codes.setdefault(source.value, len(codes)), dtype=np.int16)
        case ZoneMixture():
            of_part = np.array([codes.setdefault(part.source, len(codes)) for part in source.parts], dtype=np.int16)
            return of_part[members.parts(source, [part.share for part in source.parts], draws)]
        case ListedZones():
            names = pl.Series(source.values, dtype=pl.String)
        case Column():
            from fedsim.population.client_files import read_words

            names = read_words(source, members.locate)
    return _coded(names, members, check_time_zone, codes)


def _coded(names: "pl.Series", members: Members, check: Callable[[str], str], codes: Codes) -> NDArray[np.int16]:
    """Return the code of each name (n,); a `ValueError` says if there are not n, or which one `check` refuses."""
    if len(names) != len(members):
        raise ValueError(f"has {len(names):,} values for {len(members):,} devices")
    distinct = names.unique(maintain_order=True)
    for name in distinct.to_list():
        try:
            check(name)
        except ValueError as error:
            raise ValueError(f"value {int((names == name).arg_max() or 0)}: {error}") from None
    coded = names.replace_strict(distinct, [codes.setdefault(name, len(codes)) for name in distinct.to_list()])
    return coded.to_numpy().astype(np.int16)
