"""The Pareto law: a least value and a heavy tail."""

import numpy as np

from fedsim.population.distributions.distribution import Distribution, Floats


class Pareto(Distribution):
    """minimum (1 - p)^(-1 / shape); the chance to exceed x falls as x^-shape.

    Parameters
    ----------
    shape
        How fast the tail falls; up to 1 the mean is infinite.
    minimum
        The least value.
    mean
        Instead of it: the least value is then mean (shape - 1) / shape.
    """

    def __init__(self, shape: float, minimum: float = 1.0, mean: float | None = None) -> None:
        self.shape = shape
        self.minimum = minimum if mean is None else mean * (shape - 1) / shape
        self._mean = mean

    @property
    def mean(self) -> float:
        """As given, or minimum shape / (shape - 1)."""
        if self._mean is not None:
            return self._mean
        return self.minimum * self.shape / (self.shape - 1) if self.shape > 1 else float("inf")

    def quantile(self, p: Floats) -> Floats:
        """As told above."""
        return self.minimum * (1.0 - p) ** (-1.0 / self.shape)

    def draw(self, u: Floats) -> Floats:
        """As told above, with u for 1 - p."""
        return self.minimum * u ** (-1 / self.shape)

    def remaining(self, u: Floats, v: Floats) -> Floats:  # noqa: ARG002
        """Invert the equilibrium law: x / mean up to the minimum, 1 - (x / minimum)^(1 - shape) / shape beyond."""
        with np.errstate(over="ignore"):
            beyond = self.minimum * (self.shape * u) ** (-1 / (self.shape - 1))
        return np.where(u > 1 / self.shape, self.mean * (1 - u), beyond)
