"""How often each client took part, how far that is from a law, and how far chance alone would put it."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints
from fedsim.common.row_groups import slices
from fedsim.log import CLIENTS
from fedsim.population import Population

_BATCHES = 20
_FEWEST_ROUNDS = 10 * _BATCHES
_ROUNDING = 1e-9


def clients_table(
    population: Population, participations: pl.DataFrame | pl.LazyFrame, pi: Floats | None, method: str | None
) -> pl.DataFrame:
    """Return the table of clients.

    Parameters
    ----------
    population
        N clients.
    participations
        Table with the column ``client``.
    pi, method
        (N,) long-run frequencies that theory predicts, and how they were computed; None where there is no theory.
    """
    count = np.zeros(len(population), dtype=np.int64)
    for part in slices(participations, "client"):
        count += np.bincount(part["client"].to_numpy(), minlength=len(population))
    columns = {
        "client": np.arange(len(population)),
        "group": pl.Series(population.group_names, dtype=pl.String).gather(population.group),
        "weight": population.weight,
        "separation": population.separation,
        "participations": count,
        "frequency": count / max(count.sum(), 1),
        "pi": pl.repeat(None, len(population), dtype=pl.Float64, eager=True) if pi is None else pi,
        "pi_method": pl.repeat(method, len(population), dtype=pl.String, eager=True),
        "cooldown_s": population.cooldown_s,
        "speed": population.speed,
        "time_zone": pl.Series(population.zone_names, dtype=pl.String).gather(population.zone),
    }
    return pl.DataFrame(columns, schema=CLIENTS)


def l1(left: Floats, right: Floats | float) -> float:
    """Return the L1 distance, sum_i |left_i - right_i|."""
    return math.fsum(np.abs(left - right).tolist())


def gini(counts: Ints) -> float:
    """Return the Gini coefficient of non-negative counts: 0 when all are equal, near 1 when one has all."""
    ordered = np.sort(counts)
    size, total = len(ordered), int(ordered.sum())
    ranks = 2 * np.arange(1, size + 1) - size - 1
    return float(ranks @ ordered) / (size * total)


def jain(counts: Ints) -> float:
    """Return Jain's fairness index, (sum x)^2 / (N sum x^2): 1 when all are equal, 1/N when one has all."""
    values = counts.astype(np.float64)
    return float(values.sum() ** 2 / (len(values) * (values @ values)))


def by_chance(taken: int, clients: int) -> float:
    """Return the L1 distance from uniform to be expected when each participation goes to anyone alike.

    A client's count is binomial, and its mean absolute deviation is 2 v C(n, v) p^v (1 - p)^(n - v + 1), where v is the
    least whole number above n p (De Moivre, 1730).
    """
    if not taken or clients < 2:
        return 0.0
    share = 1 / clients
    above = math.floor(taken * share + _ROUNDING) + 1
    ways = math.lgamma(taken + 1) - math.lgamma(above + 1) - math.lgamma(taken - above + 1)
    logarithm = ways + above * math.log(share) + (taken - above + 1) * math.log1p(-share)
    return 2 * above * math.exp(logarithm) * clients / taken


def chance_spread(taken: int) -> float:
    """Return the standard deviation of that distance: of a sum of N nearly independent folded normal deviations."""
    return math.sqrt((1.0 - 2.0 / math.pi) / taken) if taken else 0.0


def batch_errors(participations: Callable[[], Iterator[pl.DataFrame]], clients: int) -> tuple[float, float] | None:
    """Return what chance does to the frequencies, estimated from batch means.

    Rounds are cut into 20 batches in order. A batch is long beside the memory of the chain, so that batches are nearly
    independent though rounds are not (method of batch means; Law, *Simulation Modeling and Analysis*, ch. 9).

    Parameters
    ----------
    participations
        Called for each pass over the columns ``round`` and ``client``, in parts in the order of rounds.
    clients
        N.

    Returns
    -------
    (noise, error): the L1 distance between the frequencies and their long-run values to be expected from chance,
    sum_i sqrt(2 / pi) * se_i; and the standard error of the L1 distance from uniform. None if there are fewer than
    200 rounds with a selection, too few to tell.
    """
    count, rounds = np.zeros(clients, dtype=np.int64), [np.empty(0, dtype=np.int64)]
    for part in participations():
        np.add.at(count, part["client"].to_numpy(), 1)
        number = part["round"].to_numpy()
        rounds.append(number[np.flatnonzero(np.diff(number, prepend=-1))])
    chosen_in = np.unique(np.concatenate(rounds))
    if len(chosen_in) < _FEWEST_ROUNDS:
        return None
    frequency = count / count.sum()
    side = np.sign(frequency - 1.0 / clients)
    edges = chosen_in[np.linspace(0, len(chosen_in), _BATCHES + 1).astype(np.int64)[1:-1]]
    squares, projected = np.zeros(clients), []
    for counted in _counted_by_batch(participations(), edges, clients):
        deviation = counted / counted.sum()
        deviation -= frequency
        projected.append(float(side @ deviation))
        squares += np.square(deviation, out=deviation)
    scale = _BATCHES * (_BATCHES - 1)
    noise = math.sqrt(2.0 / math.pi) * float(np.sqrt(squares / scale).sum())
    return noise, math.sqrt(math.fsum(value**2 for value in projected) / scale)


def _counted_by_batch(parts: Iterator[pl.DataFrame], edges: Ints, clients: int) -> Iterator[Ints]:
    """Yield how often each client took part in each batch; a batch begins at each edge, a number of a round."""
    count, batch = np.zeros(clients, dtype=np.int64), 0
    for part in parts:
        client, cuts = part["client"].to_numpy(), np.searchsorted(part["round"].to_numpy(), edges[batch:])
        pieces = np.split(client, cuts[cuts < len(client)])
        for number, piece in enumerate(pieces):
            if number:
                yield count
                count, batch = np.zeros(clients, dtype=np.int64), batch + 1
            np.add.at(count, piece, 1)
    yield count
