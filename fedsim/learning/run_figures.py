"""Each optimizer's run in a few numbers: losses, whether it has converged, and its bias beside the predicted one."""

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.intervals import independent, spans_of, student_quantile
from fedsim.learning.failures import LearningError, as_floats_of_shape, reraise_as_learning_error
from fedsim.learning.optimizers.optimizer import Foreseeable, LongRun, Optimizer
from fedsim.learning.problems.problem import Problem, Solved
from fedsim.learning.trajectory import End

# On the paper's synthetic problem (8,000 rounds, 60 data seeds, R = 0..19), drifts are at most 0.0020 for Debiased
# FedAvg and 0.0022 for FedAvg if the model has settled, and at least 0.0033 for Debiased FedAvg if it has not.
CONVERGED_DRIFT: Final = 0.0025

# A run that has hardly begun drifts little too, but much of its descent is late. In the learning figures of
# scenarios/paper at most 0.8 % is so late; 5 % leaves room for noise.
CONVERGED_DESCENT: Final = 0.05
INDEPENDENT: Final = 8  # values that a test of means of spans takes


def last_half(steps: Ints, closed_s: Floats, cycle_s: float | None = None) -> tuple[Bools, int]:
    """Return which rows of an optimizer are of its last half, and of how many whole cycles that is, 0 without any.

    Where losses may repeat what happens in each cycle, such as a day, these are whole ones: about half of the run.
    """
    cycles = int(float(closed_s.max()) / cycle_s / 2 + 0.5) if cycle_s and len(closed_s) else 0
    if cycle_s and cycles > 1:
        return closed_s > closed_s.max() - cycles * cycle_s, cycles
    return 2 * steps > steps.max(initial=0), 0


def summarise(learning: pl.DataFrame, cycle_s: float | None = None) -> dict[str, float]:
    """Return the figures ``learning.NAME.FIGURE`` of each optimizer, in the order of the table.

    With s = round + 1 server steps before a row of the table, and T before the optimizer's last, its last half is the
    rows with T/2 < s <= T, its third quarter those with s <= 3T/4, and its fourth the others, of mean losses m_3 and
    m_4; m_0 is the loss of the initial model. Where losses repeat what happens in every `cycle_s`, such as a day, the
    last half is that of `last_half`, and its quarters are halves of that by time. A figure is NaN after divergence, or
    if its part of the run has no row::

        loss, grad_norm, accuracy   means over the last half, accuracy if the problem evaluates it
        final_loss                  in the last row
        drift                       (m_3 - m_4) / abs(m_3)
        late_descent                (m_3 - m_4) / (m_0 - m_4), NaN without a descent
        moved                       1 if a row has another loss than the initial model, else 0
        converged                   1 if it moved and `has_converged` says so, or m_3 and m_4 differ by no more than
                                    losses fluctuate and the late descent is as small, else 0
        diverged                    1 if a model or loss was not finite, else 0
        diverged_round              the round after which that was first seen, where it was
    """
    figures: dict[str, float] = {}
    steps = learning["round"].to_numpy() + 1
    names = learning["optimizer"].to_numpy()
    loss, closed_s = learning["loss"].to_numpy(), learning["closed_s"].to_numpy()
    means = [column for column in ("loss", "grad_norm", "accuracy") if column in learning.columns]
    for name in learning["optimizer"].unique(maintain_order=True):
        rows = np.flatnonzero(names == name)
        half, cycles = last_half(steps[rows], closed_s[rows], cycle_s)
        late, length = rows[half], cycles * (cycle_s or 0.0)
        at = 1 - (closed_s[rows[-1]] - closed_s[late]) / length if cycles else np.zeros(len(late))
        last = at > 0.5 if cycles else 4 * steps[late] > 3 * steps[rows].max()
        third, fourth = _mean(loss[late[~last]]), _mean(loss[late[last]])
        drift = (third - fourth) / abs(third) if third else 0.0
        descent = loss[rows][0] - fourth
        late_descent = (third - fourth) / descent if descent > 0 else float("nan")
        moved = bool((loss[rows] != loss[rows][0]).any())
        rests = has_converged(drift, late_descent)
        if not rests and not late_descent > CONVERGED_DESCENT and np.isfinite(loss[late]).all():
            rests = _only_fluctuates(spans_of(loss[late], np.minimum(at, 1 - 1e-9), cycles))
        figures |= {f"learning.{name}.{column}": _mean(learning[column].to_numpy()[late]) for column in means}
        figures |= {
            f"learning.{name}.final_loss": float(loss[rows][-1]),
            f"learning.{name}.drift": drift,
            f"learning.{name}.late_descent": float(late_descent),
            f"learning.{name}.moved": float(moved),
            f"learning.{name}.converged": float(moved and rests),
            f"learning.{name}.diverged": float(not np.isfinite(loss[rows][-1])),
        }
        if not np.isfinite(loss[rows][-1]):
            figures[f"learning.{name}.diverged_round"] = float(steps[rows][-1] - 1)
    return figures


def _only_fluctuates(spans: Floats | None) -> bool:
    """Say whether mean losses of spans in order show no trend: whether their halves do not differ significantly."""
    if spans is None or (values := float(independent(spans[None])[0])) < INDEPENDENT:
        return False
    first, second = np.array_split(spans, 2)
    error = float(spans.std(ddof=1)) * np.sqrt(4 / values)
    return bool(abs(first.mean() - second.mean()) <= student_quantile(values - 1) * error)


def has_converged(drift: float, late_descent: float) -> bool:
    """Say whether a run has settled, by figures of `summarise`.

    The mean losses of its last two quarters may differ by 0.25 % of the loss and 5 % of the whole descent; a run that
    has hardly begun fails the second test. A drift of NaN (diverged) is not converged; a late descent of NaN (no
    descent) leaves the drift to decide.
    """
    return abs(drift) <= CONVERGED_DRIFT and not late_descent > CONVERGED_DESCENT


def biases(
    problem: Problem,
    optimizers: Mapping[str, Optimizer],
    ends: Mapping[str, End],
    pi: Floats,
    *,
    local_steps: int | Ints | None,
    step_size: float,
    own_step_sizes: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return how far from the optimum each optimizer ended, and should have ended; {} for a problem not `Solved`.

    In the long run an optimizer moves the model by sum_i w_i Delta_i(x; s_i), with weights and scales that follow from
    the pulls `pi`, shape (N,), sum 1; it comes to rest where that is zero. ``learning.NAME.bias`` is the distance of
    the server's mean model over the last half of the run from the optimum, ``learning.NAME.last_bias`` that of its last
    model; for a `Foreseeable` optimizer, ``learning.NAME.bias_predicted`` is that of the point of rest, and
    ``learning.NAME.bias_error`` the distance between the two models. `step_size`, or an optimizer's own, is alpha at
    the end of the run; what rests by `local_steps` is not predicted where they are None, each report having its own.
    """
    if not isinstance(problem, Solved):
        return {}
    figures: dict[str, float] = {}
    for name, optimizer in optimizers.items():
        average = ends[name].average
        last = ends[name].last if np.isfinite(average).all() else average
        figures[f"learning.{name}.bias"] = float(np.linalg.norm(average - problem.optimum))
        figures[f"learning.{name}.last_bias"] = float(np.linalg.norm(last - problem.optimum))
        if (limit := _long_run(name, optimizer, pi)) is not None:
            if (steps := local_steps if limit.local_steps is None else limit.local_steps) is None:
                continue
            alpha = (own_step_sizes or {}).get(name, step_size)
            with reraise_as_learning_error("problem, rest", problem.rest):
                rest = problem.rest(limit.weights, limit.scales, local_steps=steps, step_size=alpha)
                rest = as_floats_of_shape("the model", rest, average.shape)
            figures[f"learning.{name}.bias_predicted"] = float(np.linalg.norm(rest - problem.optimum))
            figures[f"learning.{name}.bias_error"] = float(np.linalg.norm(average - rest))
    return figures


def _long_run(name: str, optimizer: Optimizer, pi: Floats) -> LongRun | None:
    if not isinstance(optimizer, Foreseeable):
        return None
    with reraise_as_learning_error(f"optimizer {name!r}, long_run", optimizer.long_run):
        limit: object = optimizer.long_run(pi)
        if limit is not None and not isinstance(limit, LongRun):
            raise LearningError(f"must return a LongRun or None, and returned {type(limit).__name__}")
        return limit


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")
