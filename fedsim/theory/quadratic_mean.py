"""The exact long-run mean of FedAvg's model on quadratics: what participation does to it beyond the shares pi.

A cohort S takes the model from x to x + (1/|S|) sum_{i in S} u_i (c_i - x), coordinate by coordinate, with u_i the pull
of client i's local steps towards its optimum c_i. To first order in u the mean model rests where sum_i pi_i u_i (c_i -
x) = 0. Exactly it does not: x remembers recent cohorts, and a separation keeps their members out of the next one.
"""

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats
from fedsim.common.errors import ChainError
from fedsim.common.later import sparse
from fedsim.selection.rules import MIDZUNO
from fedsim.theory.exact import recurrent_classes, stationary_vector
from fedsim.theory.question import AnyRule, ask, reduced
from fedsim.theory.windows import enumerate_windows


def mean_model(
    pulls: ArrayLike,
    optima: ArrayLike,
    weights: ArrayLike,
    separation: ArrayLike,
    cohort: int = 1,
    law: AnyRule = MIDZUNO,
) -> Floats:
    """Return the mean over time, (d,), of the model of FedAvg with any number of local steps on quadratics.

    `optima`, (N, d), are the clients' c_i and `pulls`, (N, d), their u_i: 1 - (1 - alpha nu_i h_ij)^K for K local steps
    of size alpha nu_i on a diagonal curvature h_ij, nu_i = 1 in plain FedAvg and 1 / (N pi_i) where the frequencies are
    known; each lies between 0 and 2. The rest is as in `exact`; gradient noise of mean 0 changes nothing.

    Raises a `ChainError` if the question makes no sense, or the chain is too large, can stall, or has several recurrent
    classes.

    m_y = E[x 1{Y = y}] solves the linear system m_y' = sum over transitions y -> y' with cohort S of
    P(y -> y') ((1 - u_S) m_y + zeta_y b_S), u_S and b_S being the means of u_i and u_i c_i over S.
    """
    question = ask(weights, separation, cohort, law)
    if question.rule.in_blocks or question.rule.in_turn:
        raise ChainError(f"the mean model is for laws that choose clients one by one, not for {question.law!r}")
    pull, optimum = (np.asarray(each, dtype=np.float64) for each in (pulls, optima))
    if pull.shape != optimum.shape or pull.ndim != 2 or len(pull) != question.clients:
        raise ChainError(f"pulls {pull.shape} and optima {optimum.shape} must both be ({question.clients}, d)")
    if not ((pull > 0.0) & (pull < 2.0)).all():
        raise ChainError("a pull must lie between 0 and 2: with others local steps do not converge")
    windows = enumerate_windows(reduced(question))
    matrix = windows.matrix()
    states, *others = recurrent_classes(matrix)
    if others:
        raise ChainError(f"the chain has {1 + len(others)} recurrent classes: which one it ends up in is chance")
    distribution = np.zeros(windows.count)
    distribution[states] = stationary_vector(matrix[states][:, states])[0]
    mean = windows.members / np.maximum(windows.members.sum(axis=1, keepdims=True), 1)
    flow, shape = distribution[windows.source] * windows.chance, (windows.count, windows.count)
    model = np.empty(pull.shape[1])
    for j, (u, c) in enumerate(zip(pull.T, optimum.T, strict=True)):
        kept = windows.chance * (1.0 - mean @ u)[windows.cohort]
        gained = np.bincount(windows.target, flow * (mean @ (u * c))[windows.cohort], windows.count)
        steps = sparse.coo_array((kept, (windows.target, windows.source)), shape=shape)
        system = sparse.eye_array(windows.count) - steps
        model[j] = sparse.linalg.spsolve(system.tocsc(), gained).sum()
    return model
