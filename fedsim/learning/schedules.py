"""Step-size schedules: the local step size alpha_t of round t = 0, 1, ..., counted in rounds of the log."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Schedule: TypeAlias = Callable[[int], float]
"""alpha_t, given t: how many rounds are over."""


@dataclass(frozen=True)
class ConstantStep:
    """alpha_t = initial."""

    initial: float

    def __call__(self, _t: int) -> float:
        """Return alpha_t."""
        return self.initial


@dataclass(frozen=True)
class Power:
    """alpha_t = initial (1 + t / scale)^-exponent.

    With 1/2 < exponent <= 1 the steps are long enough together to get anywhere, and short enough in the end for the
    noise to die out (Robbins and Monro, 1951).
    """

    initial: float
    exponent: float = 0.5
    scale: float = 1.0

    def __call__(self, t: int) -> float:
        """Return alpha_t."""
        return self.initial * float((1.0 + t / self.scale) ** -self.exponent)


@dataclass(frozen=True)
class Cosine:
    """From initial to final over `rounds` rounds along half a cosine, and final from there on.

    Loshchilov and Hutter, *SGDR*, ICLR 2017, arXiv:1608.03983, without restarts.
    """

    initial: float
    rounds: int
    final: float = 0.0

    def __call__(self, t: int) -> float:
        """Return alpha_t."""
        share = min(1.0, t / self.rounds)
        return self.final + 0.5 * (self.initial - self.final) * (1.0 + math.cos(math.pi * share))


@dataclass(frozen=True)
class Stages:
    """alpha_t = initial times factor to the number of milestones that are over."""

    initial: float
    milestones: tuple[int, ...]
    factor: float = 0.1

    def __call__(self, t: int) -> float:
        """Return alpha_t."""
        return self.initial * float(self.factor ** sum(t >= milestone for milestone in self.milestones))
