"""What a distribution is: a law of a weight, a speed or a length of time, given by its quantiles.

One method is enough; a user's class needs nothing but `Quantiles`. Everything else has a default derived from the
quantiles, which the laws here replace where there is a formula.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Annotated, ClassVar, Protocol, TypeAlias

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.later import special

_SMALLEST, _LARGEST = 2.0**-60, 1.0 - 2.0**-53
_NODES = 1 << 14

# Arguments of constructors whose unit and range depend on the quantity (`fedsim.scenario.sources`).
Value: TypeAlias = Annotated[float, "value"]
"""One of the values, which is whole for numbers of rounds and may be 0 for lengths of time."""
Stages: TypeAlias = Annotated[tuple[float, ...], "values"]
"""Several of them."""
Largest: TypeAlias = Annotated[float, "largest"]
"""One of the values that says how large all are; no length of 0."""
Scale: TypeAlias = Annotated[float, "scale"]
"""How large the values are: above 0, and not necessarily one of them."""
Spread: TypeAlias = Annotated[float, "spread"]
"""Standard deviation of a logarithm."""


class Quantiles(Protocol):
    """A law as a user writes it. Its class takes options when it is made, and `count`, the number of clients."""

    def quantile(self, p: Floats) -> Floats:
        """Return the values (n,) that are exceeded with probability 1 - p, for p (n,) strictly between 0 and 1."""
        ...


class Distribution(ABC):
    """A law with all that the simulation asks of it."""

    ranked: ClassVar[bool] = False
    """Whether clients have their values by rank and not by chance: the r-th of n, from 0, that at 1 - (r + 1/2) / n."""
    fixed: ClassVar[bool] = False
    """Whether all values are the same, so that they cannot be correlated with anything."""
    of_a_group: ClassVar[bool] = False
    """Whether values depend on how many clients there are, so that it cannot be a part of a mixture."""
    uses: ClassVar[tuple[str, ...]] = ("number", "rounds", "client_time", "time", "interval", "rate")
    """Where a scenario may name it: weights and speeds; numbers of rounds; a length of time for each client; one that
    is drawn each time; lengths on and off by turns; speeds of a link."""

    @abstractmethod
    def quantile(self, p: Floats) -> Floats:
        """Return the values that are exceeded with probability 1 - p."""

    def draw(self, u: Floats) -> Floats:
        """Return independent values from independent uniform draws in (0, 1)."""
        return self.quantile(u)

    def of_scores(self, z: Floats) -> Floats:
        """Return the values at standard normal scores."""
        return self.quantile(normal_probabilities(z))

    @cached_property
    def mean(self) -> float:
        """The mean, numerically."""
        return self._biased[1]

    def remaining(self, u: Floats, v: Floats) -> Floats:
        """Return what is left of an interval that runs in the steady state, from two independent uniform draws.

        A running interval of law F has a remaining length with density (1 - F(x)) / mean, the equilibrium law of
        renewal theory (Cox, *Renewal Theory*, 1962, section 5.2): the part v of a length that is drawn in proportion to
        itself. Here that length is found by numerical inversion.
        """
        (p, cumulative), mean = self._biased
        return v * self.quantile(np.interp(u * mean, cumulative, p))

    @cached_property
    def _biased(self) -> tuple[tuple[Floats, Floats], float]:
        """Return probabilities and the integral of the quantiles up to them, and the mean: the integral of all."""
        t = (np.arange(_NODES) + 0.5) / _NODES
        p = t - np.sin(2 * np.pi * t) / (2 * np.pi)  # close together at both ends
        steps = self.quantile(p) * (1 - np.cos(2 * np.pi * t)) / _NODES
        total = float(steps.sum())
        edges = (np.arange(1, _NODES)) / _NODES
        grid = np.concatenate([[_SMALLEST], edges - np.sin(2 * np.pi * edges) / (2 * np.pi), [_LARGEST]])
        return (grid, np.concatenate([[0.0], np.cumsum(steps)])), total


def normal_probabilities(z: Floats) -> Floats:
    """Return the probabilities of standard normal scores, strictly between 0 and 1."""
    return np.clip(special.ndtr(z), _SMALLEST, _LARGEST)
