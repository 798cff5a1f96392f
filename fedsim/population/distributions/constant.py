"""The same value every time."""

import numpy as np

from fedsim.population.distributions.distribution import Distribution, Floats


class Constant(Distribution):
    """All at `value`."""

    def __init__(self, value: float) -> None:
        self.value = float(value)

    def quantile(self, p: Floats) -> Floats:
        """The value."""
        return np.full(p.shape, self.value)
