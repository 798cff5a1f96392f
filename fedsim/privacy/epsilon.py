"""From a noise multiplier to (epsilon, delta): the Gaussian mechanism, exactly and through zCDP.

With the sensitivity divided out, a whole training by a matrix mechanism is one Gaussian mechanism of multiplier sigma,
inputs that are chosen adaptively included (Denisov, McMahan, Rush, Smith and Thakurta, 2022, arXiv:2202.08312).

Sources:
Balle and Wang, *Improving the Gaussian Mechanism for Differential Privacy*, ICML 2018, arXiv:1805.06530, Theorem 8.
Bun and Steinke, *Concentrated Differential Privacy*, TCC 2016, arXiv:1605.02065 (zCDP).
Papernot and Steinke, *Hyperparameter Tuning with Renyi Differential Privacy*, ICLR 2022, arXiv:2110.03620, Theorem 2.
Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy*, 2020, arXiv:2004.00010, Corollary 13.
"""

import math

from fedsim.common.intervals import bisected
from fedsim.common.later import optimize, special


def rho_of(sigma: float) -> float:
    """Return rho of the zCDP that noise of a multiplier sigma > 0 gives: 1 / (2 sigma^2)."""
    return 0.5 / sigma / sigma


def log_delta(epsilon: float, sigma: float) -> float:
    """Return ln delta of the Gaussian mechanism of multiplier sigma > 0 at an epsilon >= 0; -inf where it underflows.

    ::

        delta = Phi(1 / (2 sigma) - epsilon sigma) - e^epsilon Phi(-1 / (2 sigma) - epsilon sigma)

    With a = 1 / (2 sigma) - epsilon sigma and b = a - 1 / sigma, e^epsilon phi(b) = phi(a): where a < 0 the difference
    is taken between scaled complementary error functions, so that nothing cancels however small delta is.
    """
    a = 0.5 / sigma - epsilon * sigma
    b = -0.5 / sigma - epsilon * sigma
    if a < 0.0:
        scaled = float(special.erfcx(-a * math.sqrt(0.5)) - special.erfcx(-b * math.sqrt(0.5)))
        return -math.inf if scaled <= 0.0 else math.log(0.5 * scaled) - 0.5 * a * a
    first, second = float(special.log_ndtr(a)), epsilon + float(special.log_ndtr(b))
    return -math.inf if second >= first else first + math.log(-math.expm1(second - first))


def epsilon_of(sigma: float, delta: float) -> float:
    """Return the exact epsilon of the Gaussian mechanism of multiplier sigma > 0, at a delta between 0 and 1."""
    wanted = math.log(delta)
    if log_delta(0.0, sigma) <= wanted:
        return 0.0
    high = 1.0
    while log_delta(high, sigma) > wanted:
        high *= 2.0
    return bisected(lambda each: log_delta(each, sigma) > wanted, 0.0, high)


def noise_for(epsilon: float, delta: float) -> float:
    """Return the smallest noise multiplier whose exact epsilon at delta is at most this one; both are positive."""
    wanted = math.log(delta)
    low = high = 1.0
    while log_delta(epsilon, high) > wanted:
        high *= 2.0
    while log_delta(epsilon, low) <= wanted:
        low /= 2.0
    return bisected(lambda each: log_delta(epsilon, each) > wanted, low, high)


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Return the epsilon at delta that follows from rho-zCDP by Canonne, Kamath and Steinke, at least 0.

    That is the minimum over alpha > 1 of rho alpha + ln(1 / (alpha delta)) / (alpha - 1) + ln(1 - 1 / alpha).
    """

    def at(log_excess: float) -> float:
        excess = math.exp(log_excess)  # alpha - 1
        return rho * (1.0 + excess) - (math.log1p(excess) + math.log(delta)) / excess - math.log1p(1.0 / excess)

    around = 0.5 * math.log(-math.log(delta) / rho)  # where the older conversion is least
    limits = (around - 10.0, around + 10.0)
    minimum = optimize.minimize_scalar(at, bounds=limits, method="bounded", options={"xatol": 1e-9})
    return max(0.0, float(minimum.fun))


def epsilon_of_best(sigma: float, delta: float, runs: float) -> float:
    """Return epsilon of releasing the best of K runs of a multiplier sigma each, K >= 1 being geometric of mean `runs`.

    That is Theorem 2 of Papernot and Steinke with eta = 1: the Renyi divergence of order a is at most
    rho a + 2 ((1 - 1 / b) rho b + ln(runs) / b) + ln(runs) / (a - 1) for any b >= 1.
    """
    rho, tries = rho_of(sigma), math.log(runs)
    b = max(1.0, math.sqrt(tries / rho))
    return 2.0 * ((b - 1.0) * rho + tries / b) + epsilon_of_rho(rho, delta / runs)
