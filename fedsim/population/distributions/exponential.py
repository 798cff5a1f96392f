"""The exponential law, which has no memory."""

import numpy as np

from fedsim.population.distributions.distribution import Distribution, Floats


class Exponential(Distribution):
    """-mean log(1 - p)."""

    def __init__(self, mean: float) -> None:
        self._mean = mean

    @property
    def mean(self) -> float:
        """As given."""
        return self._mean

    def quantile(self, p: Floats) -> Floats:
        """As told above."""
        return self._mean * -np.log1p(-p)

    def draw(self, u: Floats) -> Floats:
        """As told above, with u for 1 - p."""
        return self._mean * -np.log(u)

    def remaining(self, u: Floats, v: Floats) -> Floats:  # noqa: ARG002
        """What is left is as a whole length."""
        return self.draw(u)
