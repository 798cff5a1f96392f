"""How fast the chain forgets where it started, exactly, on small systems."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats
from fedsim.common.errors import ChainError
from fedsim.theory import recurrent
from fedsim.theory.cohorts import ChainTooLargeError
from fedsim.theory.question import ask, reduced
from fedsim.theory.windows import enumerate_windows

LARGEST = 1_500  # recurrent states
_LONGEST = 40  # doublings of the time


@dataclass(frozen=True)
class Mixing:
    """How fast the law of the state Y_t (not of one client's participation) approaches stationarity.

    Parameters
    ----------
    mixing_time
        Smallest t at which the TV distance between the law of Y_t and the stationary law is at most `level`, whatever
        the recurrent state it started from; ``None`` when that never happens (periodic, or several classes).
    level
        TV distance asked for.
    spectral_gap
        1 - max abs(eigenvalue) over the eigenvalues of the transition matrix other than one 1; 0 when the chain is
        periodic or has several recurrent classes.
    period, recurrent_classes, states
        The period of the chain, the number of its recurrent classes, and of its recurrent states.
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
    law: str = "midzuno",
    *,
    level: float = 0.25,
    limit: int = LARGEST,
) -> Mixing:
    """Exact mixing time and spectral gap over the recurrent windows.

    Parameters
    ----------
    weights, separation, cohort, law
        As in `fedsim.theory.exact`; law ``cyclic`` never mixes and is refused.
    level
        TV distance, strictly between 0 and 1; 1/4 is the usual definition of tau_mix.
    limit
        Most recurrent states, whose dense matrix is computed with: O(states^3) time.

    Raises
    ------
    ChainError
        If the question makes no sense, the chain has too many states, or it can stall.

    Notes
    -----
    d(t) = max over starts of TV(P^t(start, .), pi) never grows with t (Levin, Peres and Wilmer, *Markov Chains and
    Mixing Times*, section 4.4), so repeated squaring and bisection find the first t with d(t) <= level.
    """
    if not 0.0 < level < 1.0:
        raise ChainError(f"the level is {level}: a TV distance to reach lies strictly between 0 and 1")
    question = reduced(ask(weights, separation, cohort, law))
    if question.law == "cyclic":
        raise ChainError("law 'cyclic' follows its order for ever, so it does not mix: ask about another law")
    windows = enumerate_windows(question)
    matrix = windows.matrix()
    classes = recurrent.recurrent_classes(matrix)
    states = sum(len(part) for part in classes)
    inside = matrix[classes[0]][:, classes[0]]
    cycle = recurrent.period(inside)
    if len(classes) > 1 or cycle > 1:
        return Mixing(None, level, 0.0, cycle, len(classes), states)
    if states > limit:
        raise ChainTooLargeError(
            f"the chain has {states} recurrent states, more than {limit}: too many for the exact mixing time; look "
            f"at the law of the participants from one start instead (fedsim.theory.convergence)"
        )
    dense = inside.toarray()
    sizes = np.sort(np.abs(np.linalg.eigvals(dense)))
    law_of_state = recurrent.stationary_vector(inside).law
    return Mixing(
        mixing_time=_first_below(dense, law_of_state, level),
        level=level,
        spectral_gap=float(max(0.0, 1.0 - sizes[-2])) if states > 1 else 1.0,
        period=cycle,
        recurrent_classes=1,
        states=states,
    )


def _first_below(dense: Floats, law: Floats, level: float) -> int:
    def distance(power: Floats) -> float:
        return float(np.abs(power - law).sum(axis=1).max()) / 2.0

    if distance(np.eye(len(dense))) <= level:
        return 0
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
