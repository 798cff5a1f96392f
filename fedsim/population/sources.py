"""Per-client numbers from their sources: constants, lists, laws and file columns."""

import numpy as np

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.keyed import Stream
from fedsim.population.distributions import distribution
from fedsim.population.files import read_numbers
from fedsim.population.members import Members
from fedsim.scenario.sources import ClientTimeSource, Column, Constant, Listed, Mixture, NumberSource, RoundsSource


def numbers(source: NumberSource, members: Members, draws: Stream) -> Floats:
    """Return a positive number for each client of a group.

    Parameters
    ----------
    source
        The law, or where the numbers are written.
    members
        The group's n clients.
    draws
        Stream for this quantity.

    Raises
    ------
    ValueError
        If there are not n numbers, or one is not positive and finite; the message says which.
    PluginError
        If somebody's own law fails.
    """
    values = _values(source, members, draws)
    _check(values, len(members), np.isfinite(values) & (values > 0), "above 0 and finite")
    return values


def rounds(source: RoundsSource, members: Members, draws: Stream) -> Ints:
    """Return a whole number of rounds, 0 or more, for each client of a group; parameters as in `numbers`.

    What a law gives is rounded to the nearest whole number; a list or a column must hold whole numbers.
    """
    values = _values(source, members, draws)
    if not isinstance(source, Listed | Column):
        values = np.rint(values)
    whole = (values == np.rint(values)) & (values >= 0) & (values <= 1e9)
    _check(values, len(members), whole, "a whole number from 0 to 10^9")
    return values.astype(np.int64)


def counts(source: RoundsSource, members: Members, draws: Stream) -> Ints:
    """Return a whole number of at least 1 for each client of a group; as `rounds` otherwise."""
    values = rounds(source, members, draws)
    _check(values.astype(np.float64), len(members), values >= 1, "a whole number of at least 1")
    return values


def seconds(source: ClientTimeSource, members: Members, draws: Stream) -> Floats:
    """Return a length in seconds, 0 or more, for each client of a group; a column holds seconds."""
    values = _values(source, members, draws)
    _check(values, len(members), np.isfinite(values) & (values >= 0), "at least 0 and finite")
    return values


def _values(source: NumberSource | RoundsSource | ClientTimeSource, members: Members, draws: Stream) -> Floats:
    """Return what the source says, whatever it is; what is too large for a float is infinite."""
    with np.errstate(over="ignore"):
        match source:
            case Constant():
                return np.full(len(members), float(source.value))
            case Listed():
                return np.asarray(source.values, dtype=np.float64)
            case Column():
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
