"""Amplification by sampling: epsilon of Gaussian noise where a secret coin decides in which rounds a client takes part.

In each of some steps a client's update, of norm 1 at most, is in the sum with probability q at most, whatever happened
before; the noise has the standard deviation sigma. With and without the client a step is at worst one of the pair
(1 - q) N(0, sigma^2) + q N(1, sigma^2) and N(0, sigma^2), in both orders. Their privacy loss L is put on a grid such
that no delta becomes smaller (Doroshenko et al.), weighted by e^{t L} so that rounding does no harm where delta is
tiny, and composed by FFT. With K(t) = ln E[e^{t L}], ``steps K(t) / t`` is the Renyi divergence of order t + 1.

A C whose coefficients end within b rounds, with clients of which each can be drawn in every b-th round alone, is
ceil(n / b) such steps with the norm of its coefficients as sensitivity (Choquette-Choo et al.).

Sources:
Mironov, Talwar and Zhang, *Renyi Differential Privacy of the Sampled Gaussian Mechanism*, 2019, arXiv:1908.10530.
Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, *Connect the Dots*, PETS 2022, arXiv:2207.04380.
Choquette-Choo et al., *(Amplified) Banded Matrix Factorization*, NeurIPS 2023, arXiv:2306.08153, Theorem 4.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.intervals import bisected
from fedsim.common.later import fft, optimize, special
from fedsim.privacy.epsilon import epsilon_of, epsilon_of_rho, noise_for, rho_of

_TOLERANCE, _SHARE, _SMALL = 1e-3, 1e-3, 0.1  # of epsilon, by the grid; relative to an epsilon that is small
_NOTHING = 1e-9  # epsilon
_CELLS = 1 << 20
_NODES = 4_001
_LEAST, _STEP = math.log(1e-2), 0.25  # logarithms of a noise multiplier


class SampledEpsilon(NamedTuple):
    """Epsilon at delta, by the distribution of the privacy loss; and by Renyi divergences, which give more."""

    epsilon: float
    epsilon_rdp: float


@lru_cache
def epsilon_of_sampled(sigma: float, delta: float, chance: float, steps: int) -> SampledEpsilon:
    """Return epsilon of some steps with a chance q, in (0, 1], and noise of a multiplier sigma > 0."""
    if chance >= 1.0:
        whole = sigma / math.sqrt(steps)
        return SampledEpsilon(epsilon_of(whole, delta), epsilon_of_rho(rho_of(whole), delta))
    ways = [_Way(sigma, delta, chance, steps, sign) for sign in (1, -1)]
    return SampledEpsilon(max(each.epsilon() for each in ways), max(each.renyi[0] for each in ways))


def noise_for_sampled(epsilon: float, delta: float, chance: float, steps: int) -> float:
    """Return a noise multiplier whose `epsilon_of_sampled` is at most epsilon, hardly larger than the smallest."""
    high = math.log(noise_for(epsilon, delta) * math.sqrt(steps))  # it does without sampling
    if chance >= 1.0:
        return math.exp(high)
    low = high

    def removed(log_sigma: float) -> _Way:
        return _Way(math.exp(log_sigma), delta, chance, steps, 1)

    def excess(log_sigma: float) -> float:
        return math.log(max(removed(log_sigma).epsilon(), _NOTHING) / epsilon)

    while removed(low).renyi[0] <= epsilon and low > _LEAST:
        high, low = low, low - _STEP
    while (above := excess(low)) <= 0.0 and low > _LEAST:
        high, low = low, low - _STEP
    log_noise = low if above <= 0.0 else float(optimize.brentq(excess, low, high + 1e-3, xtol=1e-5))
    while epsilon_of_sampled(math.exp(log_noise), delta, chance, steps).epsilon > epsilon:
        log_noise += 1e-5
    return math.exp(log_noise)


@dataclass(frozen=True)
class _Way:
    """Removing a client (sign 1) or adding one (sign -1), with a chance below 1."""

    sigma: float
    delta: float
    chance: float
    steps: int
    sign: int

    def _loss(self, x: Floats) -> Floats:
        """Return the privacy loss of removing a client where a step's sum is x."""
        return np.asarray(np.logaddexp(math.log1p(-self.chance), math.log(self.chance) + (x - 0.5) / self.sigma**2))

    def _reach(self, t: float) -> tuple[float, float]:
        """Return from where to where a step's sum makes a difference, with weights e^{t L}."""
        far = self.sigma * math.sqrt(2.0 * (40.0 + math.log(self.steps) - math.log(self.delta)))
        return (-far, 1.0 + far + t) if self.sign > 0 else (-far - t, 1.0 + far)

    @cached_property
    def renyi(self) -> tuple[float, float]:
        """The least epsilon by Renyi divergences, with the conversion of Canonne, Kamath and Steinke; and its t."""

        def at(log_t: float) -> float:
            t = math.exp(log_t)
            x = np.linspace(*self._reach(t), _NODES)
            scale = math.log(self.sigma * math.sqrt(2.0 * math.pi) / (x[1] - x[0]))
            exponents = (self.sign * t + (self.sign > 0)) * self._loss(x) - 0.5 * np.square(x / self.sigma)
            k = float(special.logsumexp(exponents))
            return (self.steps * (k - scale) - math.log(self.delta) - math.log1p(t)) / t - math.log1p(1.0 / t)

        limits = (math.log(1e-3 * self.sigma), math.log(100.0 * self.sigma))
        minimum = optimize.minimize_scalar(at, bounds=limits, method="bounded", options={"xatol": 1e-3})
        return max(0.0, float(minimum.fun)), math.exp(minimum.x)

    def epsilon(self) -> float:
        """Return the least epsilon by the distribution of the sum of privacy losses."""
        rough = self._epsilon(_TOLERANCE)
        return min(rough, self._epsilon(_SHARE * max(rough, 1e-6))) if _NOTHING < rough < _SMALL else rough

    def _epsilon(self, tolerance: float) -> float:
        sign, steps, (most, t) = self.sign, self.steps, self.renyi
        # 1. The losses of a step: the mass between two edges of the grid goes to both, so that both distributions keep
        # it. Logarithms, since masses can be tiny.
        low, high = self._loss(np.array(self._reach(t))).tolist()
        cell = max(math.sqrt(8.0 * tolerance / (steps * t)), (high - low) / _CELLS)
        place = np.arange(math.floor(low / cell), math.ceil(high / cell) + 1)
        nobody, drawn = math.log1p(-self.chance), math.log(self.chance)
        above = np.maximum(cell * place - nobody, 1e-300)
        x = 0.5 + self.sigma**2 * (above + np.log(-np.expm1(-above)) + nobody - drawn)
        x[0 if sign > 0 else -1] = -sign * np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            without = _log_mass(x / self.sigma)
            mixed = np.logaddexp(nobody + without, drawn + _log_mass((x - 1.0) / self.sigma))
            p, q = (mixed, without) if sign > 0 else (without, mixed)
            lower = cell * (place[:-1] if sign > 0 else -place[1:])
            up = np.clip(-np.expm1(np.minimum(lower + q - p, 0.0)) / -math.expm1(-cell), 0.0, 1.0)
            up[np.isneginf(p)] = 0.0
            value = np.concatenate([lower, lower + cell])
            logs = np.concatenate([p + np.log1p(-up), p + np.log(up)]) + t * value
        # 2. Their sum, with weights e^{t L}, on a circle of losses that is wide enough.
        k = float(special.logsumexp(logs))
        weights = np.exp(logs - k)
        mean = float(weights @ value)
        spread = math.sqrt(steps * float(weights @ np.square(value - mean)))
        size = fft.next_fast_len(math.ceil((high - low + 24.0 * spread) / cell) + 2, real=True)
        of_step = np.bincount(np.rint(value / cell).astype(np.int64) % size, weights, size)
        sums = np.maximum(fft.irfft(fft.rfft(of_step) ** steps, size), 0.0)
        first = round(steps * mean / cell) - size // 2
        sums, values = np.roll(sums, -(first % size)), cell * (first + np.arange(size))

        # 3. delta(epsilon) = sum over L > epsilon of P(L) (1 - e^{epsilon - L}), with the weights taken out: its two
        # parts, in units of what they are around the middle.
        beyond = values - steps * mean
        with np.errstate(over="ignore"):
            first_part, second_part = (
                np.cumsum((sums * np.exp(np.minimum(-power * beyond, 700.0)))[::-1])[::-1] for power in (t, t + 1.0)
            )

        def too_low(epsilon: float) -> bool:
            row = int(np.searchsorted(values, epsilon))
            if row in {0, size}:
                return row == 0
            total = float(first_part[row] - second_part[row] * math.exp(min(epsilon - steps * mean, 700.0)))
            return total > 0.0 and steps * (k - t * mean) + math.log(total) > math.log(self.delta)

        return min(most, bisected(too_low, 0.0, max(most, 1e-9))) if too_low(0.0) else 0.0


def _log_mass(z: Floats) -> Floats:
    """Return the logarithms of the normal mass between neighbours of ascending numbers."""
    right = z[:-1] > 0.0
    larger = special.log_ndtr(np.where(right, -z[:-1], z[1:]))
    smaller = special.log_ndtr(np.where(right, -z[1:], z[:-1]))
    return np.asarray(larger + np.log(-np.expm1(np.minimum(smaller - larger, 0.0))))
