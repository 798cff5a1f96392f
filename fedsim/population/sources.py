"""Per-client numbers from their sources: constants, lists, laws and file columns."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PolarsError
from scipy.special import gammainccinv, gammaincinv, ndtr, ndtri

from fedsim.keyed import Stream
from fedsim.scenario.sources import (
    Column,
    Constant,
    ConstantRounds,
    ConstantTime,
    Dirichlet,
    Drawn,
    Listed,
    ListedRounds,
    ListedTimes,
    Lognormal,
    Mixture,
    Pareto,
    Uniform,
    UniformRounds,
    UniformTime,
    Zipf,
)

NumberSource = Constant | Listed | Zipf | Uniform | Lognormal | Pareto | Dirichlet | Mixture | Column
RoundsSource = ConstantRounds | ListedRounds | UniformRounds | Column
ClientTimeSource = ConstantTime | ListedTimes | UniformTime | Column

_VALUE, _PART = 0, 1  # indices of a client's draws for one quantity
_SMALLEST, _LARGEST = 2.0**-60, 1.0 - 2.0**-53


@dataclass(frozen=True)
class Members:
    """The clients of one group, and what their quantities can go with.

    Attributes
    ----------
    clients
        (n,) indices in the population, the keys of the draws.
    propensity
        Returns how available each is by habit, standard normal scores (n,).
    locate
        Finds the file that the scenario calls so, or raises `ValueError`.
    """

    clients: NDArray[np.int64]
    propensity: Callable[[NDArray[np.int64]], NDArray[np.float64]]
    locate: Callable[[str], Path]

    def __len__(self) -> int:
        return len(self.clients)

    def scores(self, source: Drawn, draws: Stream) -> NDArray[np.float64]:
        """Return a standard normal score (n,) for each client, correlated as the source says.

        z = rho * (score of the other property) + sqrt(1 - rho^2) * (own draw): a Gaussian copula.
        """
        own = draws.normals(self.clients, _VALUE)
        if source.correlation is None:
            return own
        if source.correlation.to == "availability":
            other = self.propensity(self.clients)
        else:
            other = np.asarray(ndtri((np.arange(len(self)) + 0.5) / len(self)), dtype=np.float64)
        rho = source.correlation.rho
        return np.asarray(rho * other + np.sqrt(1 - rho**2) * own)


def numbers(source: NumberSource, members: Members, draws: Stream) -> NDArray[np.float64]:
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
    """
    values = _numbers(source, members, draws)
    _check(values, len(members), np.isfinite(values) & (values > 0), "above 0 and finite")
    return values


def rounds(source: RoundsSource, members: Members, draws: Stream) -> NDArray[np.int64]:
    """Return a whole number of rounds, 0 or more, for each client of a group; parameters as in `numbers`."""
    match source:
        case ConstantRounds():
            return np.full(len(members), source.value, dtype=np.int64)
        case UniformRounds():
            width = source.high - source.low + 1
            return source.low + np.floor(width * _share(source, members, draws)).astype(np.int64)
        case ListedRounds():
            values: NDArray[np.generic] = np.asarray(source.values, dtype=np.int64)
            whole = np.asarray(source.values, dtype=np.int64)
        case Column():
            values = _column(source, members.locate)
            with np.errstate(invalid="ignore"):
                whole = values.astype(np.int64)
    _check(values, len(members), (whole == values) & (whole >= 0) & (whole <= 10**9), "a whole number from 0 to 10^9")
    return whole


def seconds(source: ClientTimeSource, members: Members, draws: Stream) -> NDArray[np.float64]:
    """Return a length in seconds, 0 or more, for each client of a group; a column holds seconds."""
    match source:
        case ConstantTime():
            return np.full(len(members), source.value)
        case UniformTime():
            return source.low + (source.high - source.low) * _share(source, members, draws)
        case ListedTimes():
            values = np.asarray(source.values, dtype=np.float64)
        case Column():
            values = _column(source, members.locate).astype(np.float64)
    _check(values, len(members), np.isfinite(values) & (values >= 0), "at least 0 and finite")
    return values


def _numbers(source: NumberSource, members: Members, draws: Stream) -> NDArray[np.float64]:
    match source:
        case Constant():
            return np.full(len(members), source.value)
        case Listed():
            return np.asarray(source.values, dtype=np.float64)
        case Zipf():
            return np.asarray((1.0 + np.arange(len(members)) // source.per_rank) ** -source.exponent)
        case Uniform():
            return source.low + (source.high - source.low) * _share(source, members, draws)
        case Lognormal():
            return np.asarray(source.median * np.exp(source.sigma * members.scores(source, draws)))
        case Pareto():
            return source.minimum * (1.0 - _share(source, members, draws)) ** (-1.0 / source.shape)
        case Dirichlet():
            return _gamma(source.concentration, _share(source, members, draws))
        case Mixture():
            return _mixture(source, members, draws)
        case Column():
            return _column(source, members.locate).astype(np.float64)


def _share(source: Drawn, members: Members, draws: Stream) -> NDArray[np.float64]:
    """Return uniform draws, strictly between 0 and 1."""
    if source.correlation is None:
        return draws.uniforms(members.clients, _VALUE)
    return np.clip(ndtr(members.scores(source, draws)), _SMALLEST, _LARGEST)


def _gamma(shape: float, share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Gamma(shape) quantiles: n independent ones, divided by their sum, are one Dirichlet draw.

    Quantiles above the median from the upper tail, where the lower one is near 1 and has lost its digits.
    """
    values = np.where(share < 0.5, gammaincinv(shape, share), gammainccinv(shape, 1.0 - share))
    return np.asarray(values, dtype=np.float64)


def _mixture(source: Mixture, members: Members, draws: Stream) -> NDArray[np.float64]:
    shares = np.cumsum([part.share for part in source.parts])
    chosen = np.searchsorted(shares / shares[-1], draws.uniforms(members.clients, _PART), side="right")
    each = [_numbers(part.source, members, draws) for part in source.parts]
    return np.choose(np.minimum(chosen, len(each) - 1), each)


def _check(values: NDArray[np.generic], count: int, good: NDArray[np.bool_], wanted: str) -> None:
    if len(values) != count:
        raise ValueError(f"has {len(values):,} values for {count:,} devices")
    if not good.all():
        first = int(np.argmin(good))
        raise ValueError(f"must be {wanted}, but value {first} is {values[first]}")


def _column(source: Column, locate: Callable[[str], Path]) -> NDArray[np.generic]:
    file = locate(source.file)
    parquet = file.suffix.lower() in {".parquet", ".pq"}
    if file.exists() and not file.is_file():
        raise ValueError(f"{str(file)!r} is not a file")
    try:
        table = pl.read_parquet(file, glob=False) if parquet else pl.read_csv(file, glob=False)
    except FileNotFoundError:
        raise ValueError(f"there is no file {str(file)!r}") from None
    except (OSError, PolarsError) as error:
        message = str(error).strip().partition("\n")[0]
        raise ValueError(f"{str(file)!r} is not a readable {'Parquet' if parquet else 'CSV'} file: {message}") from None
    if source.column not in table.columns:
        raise ValueError(f"{str(file)!r} has no column {source.column!r}; it has {', '.join(table.columns)}")
    column = table[source.column]
    if not column.dtype.is_numeric() or column.null_count():
        raise ValueError(f"column {source.column!r} of {str(file)!r} holds something that is not a number")
    return column.to_numpy()
