"""Laws of weights, speeds and whole numbers."""

from dataclasses import dataclass

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.population.distributions.distribution import Distribution


@dataclass(frozen=True)
class Constant(Distribution):
    """The same value every time."""

    value: float

    def quantile(self, p: Floats) -> Floats:
        """The value."""
        return np.full(p.shape, float(self.value))


@dataclass(frozen=True)
class Uniform(Distribution):
    """low + (high - low) p."""

    low: float
    high: float

    def quantile(self, p: Floats) -> Floats:
        """As told above."""
        return self.low + (self.high - self.low) * p


@dataclass(frozen=True)
class WholeUniform(Uniform):
    """low + floor((high - low + 1) p): a whole number, `high` as likely as all others."""

    def quantile(self, p: Floats) -> Floats:
        """As told above."""
        return self.low + np.floor((self.high - self.low + 1) * p)


@dataclass(frozen=True)
class Dirichlet(Distribution):
    """Gamma(concentration): n independent ones, divided by their sum, are one Dirichlet draw."""

    concentration: float

    def quantile(self, p: Floats) -> Floats:
        """Above the median from the upper tail, where the lower one is near 1 and has lost its digits."""
        shape = self.concentration
        from scipy.special import gammainccinv, gammaincinv  # takes long to import

        values = np.where(p < 0.5, gammaincinv(shape, p), gammainccinv(shape, 1.0 - p))
        return np.asarray(values, dtype=np.float64)


@dataclass(frozen=True)
class Zipf(Distribution):
    """largest rank^-exponent: the ranks are 1, 2, ... from the top among `count` clients, `per_rank` to each."""

    ranked = True

    exponent: float
    per_rank: int
    count: int
    largest: float = 1.0

    def quantile(self, p: Floats) -> Floats:
        """That of the rank of which the part 1 - p of all lies above."""
        ranks = 1.0 + np.floor((1.0 - p) * self.count).astype(np.int64) // self.per_rank
        return np.asarray(self.largest * ranks**-self.exponent)
