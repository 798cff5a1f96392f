"""The exact stationary law and mixing time of small systems, from the sparse chain over every reachable window."""

from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsim.common.arrays import Floats
from fedsim.common.errors import CannotAnswerError, ChainError
from fedsim.common.later import sparse
from fedsim.selection.rules import MIDZUNO
from fedsim.theory.question import AnyRule, Stationary, ask, per_client, reduced
from fedsim.theory.windows import LARGEST, Windows, enumerate_windows

_SAME = 1e-9  # recurrent classes agree when their participation differs by less
_LARGEST_MIXING = 1_500  # recurrent states
_LONGEST = 40  # doublings of the time
_DENSE = 600  # states up to which elimination is always used
_DENSE_AT_MOST = 3_000  # and up to which it is used when iteration is too slow
_ITERATIONS = 50_000
_WORK = 5_000_000_000  # transitions multiplied
_STRIDE = 20  # iterations between checks


def exact(
    weights: ArrayLike, separation: ArrayLike, cohort: int = 1, law: AnyRule = MIDZUNO, *, limit: int = LARGEST
) -> Stationary:
    """Stationary participation from the transition matrix over all reachable windows, `limit` at most, for any law.

    `period`, `recurrent_classes` and `states` of the result are those of the graph. A chain of period larger than 1, or
    with several recurrent classes that share one participation, has `pi` as its average over time. `error_bound` covers
    rounding, and iteration where the chain is too large to eliminate.

    Raises a `ChainError` if the question makes no sense, the chain has more than `limit` states or can stall (see
    `fedsim.theory.windows.enumerate_windows`), or its long-run participation depends on chance because it has recurrent
    classes that differ.
    """
    question = ask(weights, separation, cohort, law)
    if question.rule.in_turn:
        turn = question.clients // gcd(question.clients, question.cohort)
        uniform = np.full(question.clients, 1.0 / question.clients)
        return Stationary(*question.asked, uniform, "exact", 0.0, period=turn, recurrent_classes=1, states=turn)
    windows = enumerate_windows(reduced(question), limit)
    matrix = windows.matrix()
    classes = recurrent_classes(matrix)
    shares, pulls, periods, error = [], [], [], 0.0
    for states in classes:
        inside = matrix[states][:, states]
        held, relative, absolute = stationary_vector(inside)
        periods.append(period(inside))
        chances = _participation(windows, states, held)
        shares.append(chances / chances.sum())
        pulls.append(_participation(windows, states, held, mean=True))
        least = float(shares[-1].min())
        error = max(error, relative + (absolute / least if least > absolute else float(absolute > 0.0)))
    spread = float(np.ptp(shares, axis=0).max())
    if spread > _SAME:
        raise ChainError(
            f"the chain has {len(classes)} recurrent classes, and which one it ends up in is chance: the "
            f"long-run participation of a client differs between them by up to {spread:.3g}, so there is no one "
            f"stationary law; lower the separations or the cohort"
        )
    pull = _reached(matrix, classes) @ pulls
    return Stationary(
        *question.asked,
        per_client(question, shares[0]),
        method="exact",
        error_bound=error,
        period=int(np.gcd.reduce(periods)),
        recurrent_classes=len(classes),
        states=windows.count,
        pull=pull / pull.sum() if not question.rule.fixed_size else None,
    )


def _participation(windows: Windows, states: NDArray[np.intp], distribution: Floats, *, mean: bool = False) -> Floats:
    """Return each unit's participations a round, or its pull on their mean, when the chain lives on `states`."""
    full = np.zeros(windows.count)
    full[states] = distribution
    flow = full[windows.source] * windows.chance
    if mean:
        flow /= np.maximum(windows.members.sum(axis=1)[windows.cohort], 1)
    return windows.participation(flow)


@dataclass(frozen=True)
class Mixing:
    """How fast the law of the state Y_t (not of one client's participation) approaches stationarity.

    `mixing_time` is the smallest t, 1 or more, at which the TV distance between the law of Y_t and the stationary law
    is at most `level`, from every recurrent state; None when that never happens (periodic, or several classes).
    `spectral_gap` is 1 - max abs(eigenvalue) over the eigenvalues of the transition matrix other than one 1; 0 when the
    chain is periodic or has several recurrent classes. `states` are the recurrent ones.
    """

    mixing_time: int | None
    level: float
    spectral_gap: float
    period: int
    recurrent_classes: int
    states: int


def mixing(
    weights: ArrayLike,
    separation: ArrayLike,
    cohort: int = 1,
    law: AnyRule = MIDZUNO,
    *,
    level: float = 0.25,
    limit: int = _LARGEST_MIXING,
) -> Mixing:
    """Exact mixing time and spectral gap over the recurrent windows, `limit` at most, in O(states^3) time.

    The question is as in `exact`; who takes part in turn never mixes, which is refused. `level` is the TV distance to
    reach, strictly between 0 and 1; 1/4 is the usual definition of tau_mix.

    Raises a `ChainError` if the question makes no sense, the chain has too many states, or it can stall.

    d(t) = max over starts of TV(P^t(start, .), pi) never grows with t (Levin, Peres and Wilmer, *Markov Chains and
    Mixing Times*, section 4.4), so repeated squaring and bisection find the first t with d(t) <= level.
    """
    if not 0.0 < level < 1.0:
        raise ChainError(f"the level is {level}: a TV distance to reach lies strictly between 0 and 1")
    question = reduced(ask(weights, separation, cohort, law))
    if question.rule.in_turn:
        raise ChainError(f"law {question.law!r} follows its order for ever, so it does not mix: ask about another law")
    too_large = f"the chain is too large for the exact mixing time, which takes up to {limit:,} recurrent states: "
    too_large += "leave mixing out, and ask by convergence how the law of one round's participants settles"
    try:
        matrix = enumerate_windows(question).matrix()
    except CannotAnswerError:
        raise CannotAnswerError(too_large) from None
    classes = recurrent_classes(matrix)
    states = sum(len(part) for part in classes)
    inside = matrix[classes[0]][:, classes[0]]
    cycle = period(inside)
    if len(classes) > 1 or cycle > 1:
        return Mixing(None, level, 0.0, cycle, len(classes), states)
    if states > limit:
        raise CannotAnswerError(too_large)
    dense = inside.toarray()
    sizes = np.sort(np.abs(np.linalg.eigvals(dense)))
    time = _first_below(dense, stationary_vector(inside)[0], level)
    return Mixing(time, level, float(max(0.0, 1.0 - sizes[-2])) if states > 1 else 1.0, cycle, 1, states)


def _first_below(dense: Floats, limit: Floats, level: float) -> int:
    """Return the smallest power of a transition matrix whose rows are all that close to its stationary law."""

    def distance(power: Floats) -> float:
        return float(np.abs(power - limit).sum(axis=1).max()) / 2.0

    powers = [dense]
    while distance(powers[-1]) > level:
        if len(powers) > _LONGEST:
            raise ChainError(f"the chain has not mixed after 2^{_LONGEST} rounds: it is as good as periodic")
        square = powers[-1] @ powers[-1]
        powers.append(square / square.sum(axis=1, keepdims=True))
    steps, reached = 0, np.eye(len(dense))
    for exponent in range(len(powers) - 2, -1, -1):
        further = reached @ powers[exponent]
        if distance(further) > level:
            steps, reached = steps + (1 << exponent), further
    return steps + 1


def recurrent_classes(matrix: "sparse.csr_array[np.float64, tuple[int, int]]") -> list[NDArray[np.intp]]:
    """Return the sets of states that, once entered, are never left, each as sorted state numbers."""
    count, of = sparse.csgraph.connected_components(matrix, connection="strong")
    source, target = (of[part] for part in matrix.tocoo().coords)
    return [np.flatnonzero(of == k) for k in np.setdiff1d(np.arange(count), source[source != target])]


def _reached(matrix: "sparse.csr_array[np.float64, tuple[int, int]]", classes: list[NDArray[np.intp]]) -> Floats:
    """Return how likely the chain ends up in each class, from state 0."""
    passing = np.setdiff1d(np.arange(matrix.shape[0]), np.concatenate(classes))
    if len(classes) == 1 or not passing.size:
        return np.ones(1)
    inside = matrix[passing][:, passing]
    visits = sparse.linalg.spsolve((sparse.eye_array(len(passing)) - inside).T.tocsc(), np.arange(len(passing)) == 0)
    return np.array([float(visits @ matrix[passing][:, states].sum(axis=1)) for states in classes])


def period(matrix: "sparse.csr_array[np.float64, tuple[int, int]]") -> int:
    """Return the period of an irreducible chain: the greatest common divisor of the lengths of its cycles.

    With d(s) the distance of state s from state 0, that is the gcd over all transitions of d(s) + 1 - d(s')
    (Denardo, *Periods of connected networks and powers of nonnegative matrices*, 1977).
    """
    graph = matrix.copy()  # with 32 bits, since scipy 1.14 takes no others
    graph.indices, graph.indptr = (matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32))
    distance = sparse.csgraph.dijkstra(graph, indices=np.zeros(1, dtype=np.int64), unweighted=True)[0]
    source, target = matrix.tocoo().coords
    return int(np.gcd.reduce((distance[source] + 1 - distance[target]).astype(np.int64)))


def stationary_vector(matrix: "sparse.csr_array[np.float64, tuple[int, int]]") -> tuple[Floats, float, float]:
    """Return the stationary vector of an irreducible chain, its entries' relative error, and the L1 norm of any more.

    Small chains are eliminated state by state (Grassmann, Taksar and Heyman 1985), which subtracts nothing and so keeps
    full relative precision whatever the gap. Larger ones are iterated with (I + P) / 2, which has the same stationary
    vector and no period; a `CannotAnswerError` says that one mixes too slowly for that.
    """
    count = matrix.shape[0]
    if count > _DENSE:
        try:
            return _iterated(matrix)
        except CannotAnswerError:
            if count > _DENSE_AT_MOST:
                raise
    return _eliminated(matrix.toarray())


def _eliminated(p: Floats) -> tuple[Floats, float, float]:
    count = len(p)
    for k in range(count - 1, 0, -1):
        leaving = p[k, :k].sum()
        if leaving <= 0.0:
            raise CannotAnswerError(
                "the chain has transitions less likely than 1e-300: the weights span too many orders of magnitude for "
                "the exact method; use the method 'mean-field' or 'monte-carlo'"
            )
        p[:k, k] /= leaving
        p[:k, :k] += np.multiply.outer(p[:k, k], p[k, :k])
    distribution = np.zeros(count)
    distribution[0] = 1.0
    for k in range(1, count):
        distribution[k] = distribution[:k] @ p[:k, k]
    distribution /= distribution.sum()
    return distribution, 1e-15 * count, 0.0


def _iterated(matrix: "sparse.csr_array[np.float64, tuple[int, int]]") -> tuple[Floats, float, float]:
    backward = matrix.T.tocsr()
    distribution = np.full(matrix.shape[0], 1.0 / matrix.shape[0])
    most = int(np.clip(_WORK // matrix.nnz, 1_000, _ITERATIONS))
    rate, checked = 0.9999, 0.0  # of convergence, measured while the change is well above rounding
    for step in range(1, most + 1):
        after = (distribution + backward @ distribution) / 2.0
        after /= after.sum()
        if step % _STRIDE == 0:
            change = float(np.abs(after - distribution).sum())
            if change > 1e-13 and checked > 0.0:
                rate = min((change / checked) ** (1.0 / _STRIDE), 1.0 - 1e-15)
            error = (change + 1e-16) / (1.0 - rate)  # a geometric series
            if error < 1e-14 or change < 5e-16:
                return after, 1e-15, error
            checked = change
        distribution = after
    raise CannotAnswerError(
        f"the chain of {matrix.shape[0]} states mixes too slowly to find its stationary law: after {most} iterations "
        f"it still changes by {checked:.3g}; use the method 'monte-carlo' or 'mean-field'"
    )
