"""The stationary participation law of a chain, and how it was obtained."""

from dataclasses import dataclass

import numpy as np

from fedsim.common.arrays import Floats, Ints


@dataclass(frozen=True)
class Stationary:
    """Long-run participation of every client under one separation, cohort and selection law.

    Parameters
    ----------
    pi
        (N,) share of all participations that are client i's: P(i in S_t) / E|S_t| in the long run; sums to 1.
    weights
        (N,) the clients' weights p_i, normalised to sum 1.
    separation
        The common separation R, or the (N,) separations R_i, in rounds.
    cohort, law, method
        Clients wanted per round, B; the law of selection; how `pi` was found.
    error_bound
        Largest relative error of an entry of `pi`: for ``closed-form`` and ``exact`` from rounding and truncation; for
        ``mean-field`` an *estimate* of the modelling error, not a guarantee; ``None`` for ``monte-carlo``.
    standard_error
        (N,) standard error of each entry of `pi`; ``None`` unless the method is ``monte-carlo``.
    period, recurrent_classes, states
        Of ``exact``: the period of the chain, 1 if it is aperiodic; how many sets of states it can end up in; how many
        states were visited. With a larger period, or several classes, `pi` is the long-run average over time.
    caveats
        What the answer leaves out, in sentences: ``mean-field`` with separations that differ does not see stalls.
    """

    pi: Floats
    weights: Floats
    separation: int | Ints
    cohort: int
    law: str
    method: str
    error_bound: float | None = None
    standard_error: Floats | None = None
    period: int | None = None
    recurrent_classes: int | None = None
    states: int | None = None
    caveats: tuple[str, ...] = ()

    @property
    def clients(self) -> int:
        """Number of clients, N."""
        return int(self.pi.size)

    @property
    def l1_uniform(self) -> float:
        """L1 distance of `pi` from uniform, sum_i abs(pi_i - 1/N); between 0 and 2."""
        return float(np.abs(self.pi - 1.0 / self.pi.size).sum())

    @property
    def tv_uniform(self) -> float:
        """Total-variation distance of `pi` from uniform: half the L1 distance."""
        return self.l1_uniform / 2.0

    @property
    def ratio(self) -> float:
        """Largest entry of `pi` over the smallest; infinite if some client was never seen (Monte Carlo)."""
        least = float(self.pi.min())
        return float(self.pi.max()) / least if least > 0.0 else float("inf")
