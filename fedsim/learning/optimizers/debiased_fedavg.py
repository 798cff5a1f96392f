"""Debiased FedAvg: FedAvg in which a client's local steps are longer the less often it has taken part.

::

    t_i      = participations of client i so far, this one included
    lambda_i = t_i / sum_j t_j                                  an estimate of its frequency pi_i
    nu_i     = 1 / (N lambda_i)
    x^i_{t,k+1} = x^i_{t,k} - alpha nu_i grad f_i(x^i_{t,k})
    x_{t+1}  = x_t + (1/|S_t|) sum_{i in S_t} Delta_i

Averaged over rounds, client i moves the model with weight pi_i nu_i = 1/N, whatever the participation. The
paper writes lambda_i = t_i / ((t + 1) B): the same number when each of the rounds 0..t had B clients. The sum
over everyone keeps the lambda_i a distribution when some did not report, and a round without any report does
not count.

Over a buffered log, a client scales its steps by the nu_i of its download: t_i is then what it has reported, this time
included, for it is in one session at a time; the sum runs over the steps up to the version that it downloads, each of
which takes as many reports. So a server could do it; `debiased_fedbuff` weighs the reports when they arrive instead.

The first lambda_i are rough: nu_i of a client that first takes part in round t is (t + 1) B / N, which may be large
enough to throw the model far off. Three options tame them, all off by default, as in the paper::

    clip c      nu_i <- min(nu_i, c); a bias remains for every client whose true 1 / (N pi_i) lies above c
    warm_up T   nu_i = 1 in the first T rounds, in which everyone is counted already
    prior c     lambda_i = (c N b_i + t_i) / (c N + sum_j t_j): c participations a client are counted in advance,
                shared out by b, which is uniform or what theory predicts (`prior_from`); their weight fades as 1/t

The paper's output is an iterate drawn uniformly from the run; the metrics ``drawn_loss`` and ``drawn_grad_norm`` are
those of such an iterate, for this optimizer and every other.

References
----------
Sun, Zhang, Xu, Joshi, Sharma and Wei, *Debiasing Federated Learning with Correlated Client Participation*,
ICLR 2025, arXiv:2410.01209, Algorithm 1 and equation (9).
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats
from fedsim.learning.failures import LearningError
from fedsim.learning.optimizers.fedavg import MeanChange
from fedsim.learning.optimizers.optimizer import Cohort, LongRun, inverse_frequency


@dataclass(slots=True)
class Participations:
    """How often each client has taken part, or with what weight, shape (N,), and all of them together."""

    of_client: Floats
    total: float = 0.0


@dataclass(frozen=True)
class DebiasedFedAvg(MeanChange[Participations]):
    """Debiased FedAvg, Algorithm 1 of the paper. Its state counts participations.

    Parameters
    ----------
    clip
        Largest nu_i, at least 1; without a bound where it is None, as in the paper.
    warm_up
        Rounds (versions, of a buffered server) from the start in which every nu_i is 1.
    prior
        Participations counted in advance, the mean over clients, at least 0.
    prior_from
        How they are shared out: ``uniform``, to everyone alike; ``theory``, as `pi`.
    pi
        What theory predicts, shape (N,), or None where it does not apply; the scenario's run gives it.

    Raises
    ------
    LearningError
        When a prior from theory is asked for and there is none.
    """

    clip: Annotated[float, Field(ge=1)] | None = None
    warm_up: Annotated[int, Field(ge=0)] = 0
    prior: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    prior_from: Literal["uniform", "theory"] = "uniform"
    pi: Floats | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.prior and self.prior_from == "theory" and self.pi is None:
            raise LearningError(
                "there is no theory for this scenario's participation, so there is no prior to be had from it; "
                "write prior_from: uniform"
            )

    def init(self, clients: int, _dimension: int) -> Participations:
        """Return the counts of the prior; zero without one."""
        if self.prior_from == "uniform" or self.pi is None:
            return Participations(np.full(clients, self.prior), self.prior * clients)
        if self.pi.shape != (clients,):
            raise LearningError(f"expected {clients} frequencies, got {len(self.pi)}")
        return Participations(self.prior * clients * self.pi, self.prior * clients)

    def prepare(self, state: Participations, cohort: Cohort) -> tuple[Participations, Floats]:
        """Count the cohort, and return nu_i of its clients."""
        np.add.at(state.of_client, cohort.clients, 1.0)
        state.total += len(cohort.clients)
        if cohort.round < self.warm_up:
            return state, np.ones(len(cohort.clients))
        counted = float(len(state.of_client)) * state.of_client[cohort.clients]
        if not np.count_nonzero(cohort.staleness):
            return state, self._clipped(state.total / counted)
        known = state.total - cohort.staleness * len(cohort.clients)
        return state, self._clipped(known / counted)

    def long_run(self, pi: Floats) -> LongRun:
        """Return pi, and steps that undo it."""
        return LongRun(pi, self._clipped(inverse_frequency(pi)))

    def _clipped(self, nu: Floats) -> Floats:
        return nu if self.clip is None else np.minimum(nu, self.clip)
