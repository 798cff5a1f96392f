"""Differential privacy by matrix mechanisms: what (n, b, k)-participation, a mechanism and noise promise.

Prefix sums of clipped updates, A G with A the lower triangle of ones, are released as B (C G + Z) for A = B C: round t
adds row t of C^{-1} Z to the sum of updates. The rows of Z are independent normal numbers; their standard deviation is
clip norm times noise multiplier times sensitivity.
"""

from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.epsilon import epsilon_of, epsilon_of_best, noise_for, rho_of
from fedsim.privacy.mechanisms import MECHANISMS
from fedsim.privacy.sensitivity import error, sensitivity

__all__ = ["MECHANISMS", "ParticipationBounds", "epsilon_of", "epsilon_of_best", "error", "noise_for", "rho_of"]
__all__ += ["sensitivity"]
