"""BLT, a buffered linear Toeplitz mechanism: a few buffers on the server instead of many bands.

::

    c_0 = 1,    c_j = sum_i omega_i theta_i^{j-1},    omega_i >= 0,  sum_i omega_i <= 1,  0 < theta_i < 1

The noise is made row by row, with one row of state s_i for each buffer::

    x_t = z_t - sum_i omega_i s_i,    then    s_i <- theta_i s_i + x_t

Source: Dvijotham, McMahan, Pillutla, Steinke and Thakurta, *Efficient and Near-Optimal Noise Generation for Streaming
Differential Privacy*, FOCS 2024, arXiv:2404.16706. For (n, b, k)-participation: McMahan, Xu and Zhang, *A Hassle-free
Algorithm for Private Learning in Practice*, 2024, arXiv:2408.08868.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from scipy.special import expit, logit

from fedsim.common.arrays import Floats
from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.mechanisms.mechanism import NoiseRows
from fedsim.privacy.optimized import Objective, cached, minimize_loss, objective_of

_STARTS, _FEWER, _MANY_ROUNDS = 5, 2, 10_000  # of the search, for each number of buffers; fewer with many rounds


@dataclass(frozen=True)
class Blt:
    """A Toeplitz C of a few geometric series."""

    buffers: Annotated[int, Field(ge=1, le=8)] = 3
    """Number of geometric series, each with a buffer at the server."""
    objective: Objective = "rms"
    """Error to minimise: its root mean square over the rounds (`rms`), or its maximum (`max`)."""

    def coefficients(self, bounds: ParticipationBounds) -> Floats:
        return series(*self.parameters(bounds), bounds.rounds)

    def parameters(self, bounds: ParticipationBounds) -> tuple[Floats, Floats]:
        """Return omega and theta, (buffers,) each."""
        if bounds.rounds == 1:
            return np.zeros(self.buffers), np.full(self.buffers, 0.5)
        n, b, k = bounds.rounds, bounds.min_separation, bounds.participations
        values = cached(("blt", self.buffers, self.objective, n, b, k, *bounds.pairs), lambda: self._optimized(bounds))
        return values[: self.buffers], values[self.buffers :]

    def exported(self, bounds: ParticipationBounds) -> dict[str, Any]:
        omega, theta = self.parameters(bounds)
        return {"output_scale": omega.tolist(), "buf_decay": theta.tolist()}

    def _optimized(self, bounds: ParticipationBounds) -> Floats:
        """Search from several starts for one buffer, then for one more at a time, from the best with one fewer too."""

        def loss(free: Floats) -> tuple[float, Floats]:
            omega, theta = _meant(free)
            powers = _powers(theta, bounds.rounds - 1)
            value, slope = objective_of(np.concatenate([np.ones(1), omega @ powers]), bounds, self.objective)
            by_omega = powers @ slope[1:]
            by_theta = omega * (powers[:, :-1] @ (np.arange(1, bounds.rounds - 1) * slope[2:]))
            # omega is a softmax with one share left over, theta a logistic function.
            return value, np.concatenate([omega * (by_omega - omega @ by_omega), theta * (1.0 - theta) * by_theta])

        slowest = min(14.0, float(logit(1.0 - 0.1 / max(2, bounds.rounds))))
        number = _STARTS if bounds.rounds <= _MANY_ROUNDS else _FEWER
        best: Floats = np.empty(0)
        for buffers in range(1, self.buffers + 1):
            starts = [_start(buffers, slowest, share) for share in np.linspace(0.0, 1.0, number).tolist()]
            if buffers > 1:
                shares, logits = np.split(best, 2)
                starts += [np.concatenate([shares, [-3.0], logits, [each]]) for each in (-1.0, slowest)]
            limits = [(-30.0, 30.0)] * buffers + [(-14.0, 14.0)] * buffers
            tried = [minimize_loss(loss, start, limits, steps=200) for start in starts]
            best = min(tried, key=lambda each: float(each.fun)).x
        return np.concatenate(_meant(best))

    def kept(self, _bounds: ParticipationBounds) -> int:
        return self.buffers

    def correlate(self, rows: NoiseRows, bounds: ParticipationBounds) -> NoiseRows:
        omega, theta = self.parameters(bounds)
        state: Floats | None = None
        for row in rows:
            if state is None:
                state = np.zeros((self.buffers, len(row)))
            made = np.asarray(row - omega @ state)
            state *= theta[:, None]
            state += made
            yield made


def series(omega: Floats, theta: Floats, terms: int) -> Floats:
    """Return c_0, c_1, ..., c_{terms - 1}."""
    return np.concatenate([np.ones(1), omega @ _powers(theta, terms - 1)])


def _powers(theta: Floats, count: int) -> Floats:
    """Return theta_i^j for j = 0, ..., count - 1, shape (buffers, count)."""
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(np.log(theta)[:, None] * np.arange(count)))


def _meant(free: Floats) -> tuple[Floats, Floats]:
    """Return omega and theta for what the search moves: logarithms of shares, beside one that is 0, and logits."""
    shares, logits = np.split(free, 2)
    highest = max(0.0, float(shares.max()))
    weights = np.exp(shares - highest)
    return np.asarray(weights / (weights.sum() + np.exp(-highest))), np.asarray(expit(logits))


def _start(buffers: int, slowest: float, share: float) -> Floats:
    """Return a start: buffers from quick to slow, the slowest by a share of the way to the whole length of the run."""
    last = 0.5 + share * (slowest - 0.5)
    logits = np.linspace(-0.5, last, buffers) if buffers > 1 else np.array([last])
    return np.concatenate([np.linspace(0.0, -2.0, buffers), logits])
