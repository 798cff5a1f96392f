"""What the learning table says about each optimizer in a few numbers, and whether its run has converged."""

from typing import Final

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats

# Seen on the paper's synthetic problem, 8,000 rounds, 60 data seeds, R = 0..19: where the paper's claims hold, at most
# 0.0020 for Debiased FedAvg and 0.0022 for FedAvg, whose noise at R = 0 is the larger; where they do not, because the
# model is still on its way, at least 0.0033 for Debiased FedAvg.
CONVERGED_DRIFT: Final = 0.0025

# A run that has hardly begun drifts little too, but much of its descent is late. In the learning figures of
# scenarios/paper on synthetic data and digits at most 0.8 % fell so late; 5 % leaves room for noise: a judgement.
CONVERGED_DESCENT: Final = 0.05


def summarise(learning: pl.DataFrame) -> dict[str, float]:
    """Return the figures of each optimizer, by name.

    Parameters
    ----------
    learning
        What `fedsim.learning.train` returns. With s = round + 1 server steps behind a row, and T behind the
        last row of the table, the last half of the run is the rows with T/2 < s <= T, its third quarter those
        with T/2 < s <= 3T/4, and its fourth those with 3T/4 < s <= T. The initial model is in none of them.

    Returns
    -------
    For each optimizer NAME, in the order of the table:

    ``learning.NAME.loss``, ``learning.NAME.grad_norm``
        Means over the evaluated rounds of the last half.
    ``learning.NAME.final_loss``
        Loss in its last row.
    ``learning.NAME.drift``
        (m_3 - m_4) / abs(m_3), where m_3 and m_4 are the mean losses over the third and the fourth quarter:
        by what share the loss was still falling (negative: rising).
    ``learning.NAME.late_descent``
        (m_3 - m_4) / (m_0 - m_4), where m_0 is the loss of the initial model: how much of the whole descent fell so
        late. NaN where there was no descent.
    ``learning.NAME.converged``
        1 where `converged` says so, else 0.
    ``learning.NAME.diverged``
        1 where a model or loss was not finite any more, else 0.
    ``learning.NAME.accuracy``
        Mean over the last half, where the problem tells accuracies.

    A figure is NaN where the optimizer has diverged, or the stretch of the run holds no row.
    """
    figures: dict[str, float] = {}
    steps = learning["round"].to_numpy() + 1
    total = steps.max(initial=0)
    names = learning["optimizer"].to_numpy()
    loss = learning["loss"].to_numpy()
    means = [column for column in ("loss", "grad_norm", "accuracy") if column in learning.columns]
    for name in learning["optimizer"].unique(maintain_order=True):
        own = names == name
        late, last_quarter = own & (2 * steps > total), own & (4 * steps > 3 * total)
        third, fourth = _mean(loss[late & ~last_quarter]), _mean(loss[last_quarter])
        drift = (third - fourth) / abs(third) if third else 0.0
        descent = loss[own][0] - fourth
        late_descent = (third - fourth) / descent if descent > 0 else float("nan")
        figures |= {f"learning.{name}.{column}": _mean(learning[column].to_numpy()[late]) for column in means}
        figures |= {
            f"learning.{name}.final_loss": float(loss[own][-1]),
            f"learning.{name}.drift": drift,
            f"learning.{name}.late_descent": float(late_descent),
            f"learning.{name}.converged": float(converged(drift, late_descent)),
            f"learning.{name}.diverged": float(not np.isfinite(loss[own][-1])),
        }
    return figures


def converged(drift: float, late_descent: float) -> bool:
    """Say whether a run has settled.

    The mean losses of its last two quarters must differ by at most 0.25 % of the loss, and what the loss fell between
    them must be at most 5 % of its whole descent: a run that has hardly begun passes the first test, not the second.

    Parameters
    ----------
    drift, late_descent
        As in `summarise`. A drift of NaN, which a diverged run has, is never converged; a late descent of NaN, which
        a run without any descent has, leaves the drift to decide.
    """
    return abs(drift) <= CONVERGED_DRIFT and not late_descent > CONVERGED_DESCENT


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")
