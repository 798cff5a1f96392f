"""Where a finite chain ends up: its recurrent classes, their period, and their stationary vectors."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Floats
from fedsim.theory.question import ChainTooLargeError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_DENSE = 600  # states up to which elimination is always used
_DENSE_AT_MOST = 3_000  # and up to which it is used when iteration is too slow
_ITERATIONS = 50_000
_WORK = 5_000_000_000  # transitions multiplied
_STRIDE = 20  # iterations between checks


@dataclass(frozen=True)
class Vector:
    """A stationary vector, the relative error of its entries, and the L1 norm of any further error."""

    law: Floats
    relative: float
    absolute: float


def recurrent_classes(matrix: "csr_array[np.float64, tuple[int, int]]") -> list[NDArray[np.intp]]:
    """Return the sets of states that, once entered, are never left, each as sorted state numbers."""
    from scipy.sparse import csgraph

    count, of = csgraph.connected_components(matrix, connection="strong")
    edges = matrix.tocoo()
    source, target = (of[part] for part in edges.coords)
    leaves = np.zeros(count, dtype=np.bool_)
    leaves[source[source != target]] = True
    return [np.flatnonzero(of == k) for k in np.flatnonzero(~leaves)]


def period(matrix: "csr_array[np.float64, tuple[int, int]]") -> int:
    """Return the period of an irreducible chain: the greatest common divisor of the lengths of its cycles.

    With d(s) the distance of state s from state 0, that is the gcd over all transitions of d(s) + 1 - d(s')
    (Denardo, *Periods of connected networks and powers of nonnegative matrices*, 1977).
    """
    from scipy.sparse import csgraph

    _, before = csgraph.breadth_first_order(matrix, 0, return_predecessors=True)
    order = csgraph.breadth_first_order(matrix, 0, return_predecessors=False)
    distance = np.zeros(matrix.shape[0], dtype=np.int64)
    for state in order[1:].tolist():
        distance[state] = distance[before[state]] + 1
    source, target = matrix.tocoo().coords
    return int(np.gcd.reduce(distance[source] + 1 - distance[target]))


def stationary_vector(matrix: "csr_array[np.float64, tuple[int, int]]") -> Vector:
    """Return the stationary vector of an irreducible chain.

    Small chains are eliminated state by state (Grassmann, Taksar and Heyman 1985), which subtracts nothing and so keeps
    full relative precision whatever the gap. Larger ones are iterated with (I + P) / 2, which has the same stationary
    vector and no period.

    Raises
    ------
    ChainTooLargeError
        If a large chain mixes too slowly to iterate.
    """
    count = matrix.shape[0]
    if count <= _DENSE:
        return _eliminated(matrix.toarray())
    try:
        return _iterated(matrix)
    except ChainTooLargeError:
        if count <= _DENSE_AT_MOST:
            return _eliminated(matrix.toarray())
        raise


def _eliminated(p: Floats) -> Vector:
    count = len(p)
    for k in range(count - 1, 0, -1):
        leaving = p[k, :k].sum()
        if leaving <= 0.0:
            raise ChainTooLargeError(
                "the chain has transitions less likely than 1e-300: the weights span too many orders of magnitude for "
                "the exact method; use the method 'mean-field' or 'monte-carlo'"
            )
        p[:k, k] /= leaving
        p[:k, :k] += np.multiply.outer(p[:k, k], p[k, :k])
    law = np.zeros(count)
    law[0] = 1.0
    for k in range(1, count):
        law[k] = law[:k] @ p[:k, k]
    law /= law.sum()
    return Vector(law, relative=1e-15 * count, absolute=0.0)


def _iterated(matrix: "csr_array[np.float64, tuple[int, int]]") -> Vector:
    backward = matrix.T.tocsr()
    law = np.full(matrix.shape[0], 1.0 / matrix.shape[0])
    most = int(np.clip(_WORK // matrix.nnz, 1_000, _ITERATIONS))
    rate, checked = 0.9999, 0.0  # of convergence, measured while the change is well above rounding
    for step in range(1, most + 1):
        after = (law + backward @ law) / 2.0
        after /= after.sum()
        if step % _STRIDE == 0:
            change = float(np.abs(after - law).sum())
            if change > 1e-13 and checked > 0.0:
                rate = min((change / checked) ** (1.0 / _STRIDE), 1.0 - 1e-15)
            error = (change + 1e-16) / (1.0 - rate)  # a geometric series
            if error < 1e-14 or change < 5e-16:
                return Vector(after, relative=1e-15, absolute=error)
            checked = change
        law = after
    raise ChainTooLargeError(
        f"the chain of {matrix.shape[0]} states mixes too slowly to find its stationary law: after {most} iterations "
        f"it still changes by {checked:.3g}; use the method 'monte-carlo' or 'mean-field'"
    )
