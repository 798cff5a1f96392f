"""The exact stationary law of small systems, from the sparse chain over every reachable window."""

from math import gcd

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsim.common.arrays import Floats
from fedsim.common.errors import ChainError
from fedsim.theory import recurrent
from fedsim.theory.question import ask, per_client, reduced
from fedsim.theory.result import Stationary
from fedsim.theory.windows import LARGEST, Windows, enumerate_windows

_SAME = 1e-9  # recurrent classes agree when their participation differs by less


def exact(
    weights: ArrayLike,
    separation: ArrayLike,
    cohort: int = 1,
    law: str = "midzuno",
    *,
    limit: int = LARGEST,
) -> Stationary:
    """Stationary participation from the transition matrix over all reachable windows.

    Parameters
    ----------
    weights, separation, cohort
        As in `fedsim.theory.stationary`.
    law
        Any law. ``bernoulli``: each ready client takes part independently with probability min(1, s p_i), s
        such that B are expected; all ready clients when there are at most B of them.
    limit
        Most states to enumerate.

    Returns
    -------
    Stationary
        Method ``exact``, with `period`, `recurrent_classes` and `states` computed from the graph. A chain of
        period larger than 1, or with several recurrent classes that share one participation, has `pi` as its
        average over time. `error_bound` covers rounding, and iteration where the chain is too large to
        eliminate.

    Raises
    ------
    ChainError
        If the question makes no sense, the chain has more than `limit` states or can stall (see
        `fedsim.theory.windows.enumerate_windows`), or its long-run participation depends on chance because it
        has recurrent classes that differ.
    """
    question = ask(weights, separation, cohort, law)
    if question.law == "cyclic":
        turn = question.clients // gcd(question.clients, question.cohort)
        uniform = np.full(question.clients, 1.0 / question.clients)
        return Stationary(uniform, *question.asked, "exact", 0.0, period=turn, recurrent_classes=1, states=turn)
    units = reduced(question)
    windows = enumerate_windows(units, limit)
    matrix = windows.matrix()
    classes = recurrent.recurrent_classes(matrix)
    shares, periods, error = [], [], 0.0
    for states in classes:
        inside = matrix[states][:, states]
        vector = recurrent.stationary_vector(inside)
        periods.append(recurrent.period(inside))
        shares.append(_participation(windows, states, vector.law))
        least = float(shares[-1].min())
        further = vector.absolute / least if least > vector.absolute else float(vector.absolute > 0.0)
        error = max(error, vector.relative + further)
    spread = float(np.ptp(shares, axis=0).max())
    if spread > _SAME:
        raise ChainError(
            f"the chain has {len(classes)} recurrent classes, and which one it ends up in is chance: the "
            f"long-run participation of a client differs between them by up to {spread:.3g}, so there is no one "
            f"stationary law; lower the separations or the cohort"
        )
    pi = per_client(question, shares[0])
    cycle = int(np.gcd.reduce(periods))
    return Stationary(
        pi,
        *question.asked,
        method="exact",
        error_bound=error,
        period=cycle,
        recurrent_classes=len(classes),
        states=windows.count,
    )


def _participation(windows: Windows, states: NDArray[np.intp], law: Floats) -> Floats:
    """Return each unit's share of participations when the chain lives on `states` with this law."""
    full = np.zeros(windows.count)
    full[states] = law
    chances = windows.participation(full[windows.source] * windows.chance)
    return np.asarray(chances / chances.sum())
