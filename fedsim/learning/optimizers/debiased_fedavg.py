"""Debiased FedAvg, in which a client's local steps are longer the less often it has taken part, and the same by oracle.

::

    t_i      = participations of client i so far, this one included
    lambda_i = t_i / sum_j t_j                                  an estimate of its frequency pi_i
    nu_i     = 1 / (N lambda_i)
    x^i_{t,k+1} = x^i_{t,k} - alpha nu_i grad f_i(x^i_{t,k})
    x_{t+1}  = x_t + (1/|S_t|) sum_{i in S_t} Delta_i

Averaged over rounds, client i moves the model with weight pi_i nu_i = 1/N, whatever the participation. The paper writes
lambda_i = t_i / ((t + 1) B), which is the same if B clients report in every round; a round without reports does not
count here.

The first lambda_i are rough: nu_i of a client that first takes part in round t is (t + 1) B / N, which may throw the
model far off. Three options limit that, all off by default, as in the paper::

    clip c      nu_i <- min(nu_i, c); a bias remains for every client whose true 1 / (N pi_i) lies above c
    warm_up T   nu_i = 1 in the first T rounds, in which all clients are counted already
    prior c     lambda_i = (c N b_i + t_i) / (c N + sum_j t_j): c participations a client are counted in advance,
                shared out by b, which is uniform or what theory predicts (`prior_from`); their weight fades as 1/t

Source: Sun, Zhang, Xu, Joshi, Sharma and Wei, *Debiasing Federated Learning with Correlated Client Participation*, ICLR
2025, arXiv:2410.01209, Algorithm 1 and equation (9).

Oracle-weighted FedAvg knows the frequencies instead of counting them: lambda_i is its limit pi_i. The difference
between the two curves is the price of estimating the frequencies, which no server knows at the start; with ``source:
predicted`` they come from a model of the devices' availability, not from the log.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats
from fedsim.learning.failures import LearningError
from fedsim.learning.optimizers.fedavg import MeanChange
from fedsim.learning.optimizers.optimizer import Cohort, FrequencyOption, LongRun, inverse_frequency


@dataclass(slots=True)
class ParticipationCounts:
    """How often each client has taken part, or with what weight, shape (N,), and the sum over all clients."""

    of_client: Floats
    total: float = 0.0


@dataclass(frozen=True)
class DebiasedFedAvg(MeanChange[ParticipationCounts]):
    """Debiased FedAvg, Algorithm 1 of the paper. Its state counts participations.

    Raises a `LearningError` if a prior from theory is asked for and there is none.
    """

    clip: Annotated[float, Field(ge=1)] | None = None  # largest nu_i; None for no bound, as in the paper
    # rounds (versions, with a buffered server) from the start in which every nu_i is 1
    warm_up: Annotated[int, Field(ge=0)] = 0
    # participations counted in advance, the mean over clients
    prior: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    # how they are shared out: ``uniform``, evenly; ``theory``, as `pi`
    prior_from: Literal["uniform", "theory"] = "uniform"
    pi: Floats | None = field(default=None, compare=False)  # given by the scenario's run, see `Optimizer`
    frequency_option: ClassVar[FrequencyOption] = FrequencyOption("prior_from", "uniform", "uniform")

    def __post_init__(self) -> None:
        if self.prior and self.prior_from == "theory" and self.pi is None:
            raise LearningError(
                "there is no theory for this scenario's participation, so there is no prior to be had from it; "
                "write prior_from: uniform"
            )

    def init(self, clients: int, _dimension: int) -> ParticipationCounts:
        if self.prior_from == "uniform" or self.pi is None:
            return ParticipationCounts(np.full(clients, self.prior), self.prior * clients)
        if self.pi.shape != (clients,):
            raise LearningError(f"expected {clients} frequencies, got {len(self.pi)}")
        return ParticipationCounts(self.prior * clients * self.pi, self.prior * clients)

    def prepare(self, state: ParticipationCounts, cohort: Cohort) -> tuple[ParticipationCounts, Floats]:
        np.add.at(state.of_client, cohort.clients, 1.0)
        state.total += len(cohort.clients)
        if cohort.round < self.warm_up:
            return state, np.ones(len(cohort.clients))
        counted = float(len(state.of_client)) * state.of_client[cohort.clients]
        # A server that knows the reports up to the version that the client downloads: as many in each step.
        known = state.total - cohort.staleness * len(cohort.clients)
        return state, self._clipped(known / counted)

    def long_run(self, pi: Floats) -> LongRun:
        return LongRun(pi, self._clipped(inverse_frequency(pi)))

    def _clipped(self, nu: Floats) -> Floats:
        return nu if self.clip is None else np.minimum(nu, self.clip)


@dataclass(frozen=True, eq=False)
class OracleWeighted(MeanChange[Floats]):
    """FedAvg whose local steps are scaled by the true 1 / (N pi_i). Its state is nu, shape (N,).

    Raises a `LearningError` if the chosen source is not there.
    """

    # pi, frequency, predicted: given by the scenario's run, see `Optimizer`
    pi: Floats | None = None
    frequency: Floats | None = None
    # which of them to weight by: ``theory`` (`pi`), ``log`` (`frequency`, which exists for every scenario), or
    # ``predicted``, which is called for this source only
    source: Literal["theory", "log", "predicted"] = "theory"
    predicted: Callable[[], Floats] | None = None
    known: Floats = field(init=False)  # that of the source
    frequency_option: ClassVar[FrequencyOption] = FrequencyOption(
        "source", "theory", "log for those of the whole log, or predicted for a mean field's"
    )

    def __post_init__(self) -> None:
        if self.source == "predicted":
            known = None if self.predicted is None else self.predicted()
        else:
            known = self.pi if self.source == "theory" else self.frequency
        if known is None:
            missing = {
                "theory": "there is no theory for this scenario's participation, so the frequencies are not known "
                "beforehand; write source: log to use those that the whole log shows, or source: predicted to use "
                "those that a mean field predicts from the devices' availability",
                "log": "the frequencies of the log were not given",
                "predicted": "nothing that predicts the frequencies was given",
            }
            raise LearningError(missing[self.source])
        object.__setattr__(self, "known", known)

    def init(self, clients: int, _dimension: int) -> Floats:
        if self.known.shape != (clients,):
            raise LearningError(f"expected {clients} frequencies, got {len(self.known)}")
        return inverse_frequency(self.known)

    def prepare(self, nu: Floats, cohort: Cohort) -> tuple[Floats, Floats]:
        return nu, nu[cohort.clients]

    def long_run(self, pi: Floats) -> LongRun:
        return LongRun(pi, inverse_frequency(self.known if self.source == "predicted" else pi))
