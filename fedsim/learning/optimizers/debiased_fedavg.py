"""Debiased FedAvg, in which a client's local steps are longer the less often it has taken part, and the same by oracle.

::

    W_i      = (1/T) sum of 1/|S_s| over the T rounds s so far, this one included, in which client i reported
    nu_i     = 1 / (N W_i)
    x^i_{t,k+1} = x^i_{t,k} - alpha nu_i grad f_i(x^i_{t,k})
    x_{t+1}  = x_t + (1/|S_t|) sum_{i in S_t} Delta_i

W_i counts what the server does: in the long run it is the client's pull w_i = E[1{i in S}/|S|], so all move the model
with the same weight w_i nu_i = 1/N, whatever the participation. The paper writes lambda_i = t_i / ((t + 1) B), t_i
being the client's participations so far, which is W_i if B clients report in every round; a round without reports does
not count here. Where the server divides by a fixed number (privacy), each report counts alike.

``counts: shares`` counts lambda_i = t_i / sum_j t_j in place of W_i whatever the sizes of cohorts. Then client i keeps
the weight w_i / (N lambda_i), which is even only where cohorts have one size, and may be farther from even than w_i.

Where clients take unequal numbers K_i of local steps, client i keeps the weight K_i, with small steps: nu_i evens out
how often it takes part, not how far it goes. ``counts: steps`` counts K_i / |S_s| in place of 1/|S_s|, and comes to
rest near the optimum again; the mean length of a report stays as it is.

The first W_i are rough: nu_i of a client that first takes part in round t is (t + 1) B / N, which may throw the
model far off. Three options limit that, all off by default, as in the paper::

    clip c      nu_i <- min(nu_i, c); a bias remains for every client whose true 1 / (N w_i) lies above c
    warm_up T   nu_i = 1 in the first T rounds, in which all clients are counted already
    prior c     W_i <- (c N b_i + n W_i) / (c N + n), n being the reports so far: c reports a client are counted in
                advance, shared out by b, which is uniform or what theory predicts (`prior_from`)

``forgetting a`` counts what is s rounds old (1 - a)^s times, for participation that changes: W_i follows it with a lag
of about 1/a rounds, and is noisy for ever, as only so many rounds are remembered. Off by default.

Source: Sun, Zhang, Xu, Joshi, Sharma and Wei, *Debiasing Federated Learning with Correlated Client Participation*, ICLR
2025, arXiv:2410.01209, Algorithm 1 and equation (9).

Oracle-weighted FedAvg knows the pulls instead of counting them: W_i is its limit w_i. The difference between the two
curves is the price of estimating them, which no server can know at the start; with ``source: predicted`` they come from
a model of the devices' availability, not from the log.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.failures import LearningError
from fedsim.learning.optimizers.fedavg import MeanChange
from fedsim.learning.optimizers.optimizer import Cohort, FrequencyOption, LongRun, inverse_frequency

_LARGE = 1e100


@dataclass(slots=True)
class ParticipationCounts:
    """How often each client has taken part, or with what weight, shape (N,), and the sum over all clients."""

    of_client: Floats
    total: float = 0.0
    reports: float = 0.0  # of all clients
    unit: int = 0  # reports that a round's counts sum up to: as many as the first took, so that one size counts by one
    newest: float = 1.0  # by what a count of now is multiplied, where older ones are forgotten


@dataclass(frozen=True)
class DebiasedFedAvg(MeanChange[ParticipationCounts]):
    """Debiased FedAvg: a client's local steps are longer the less often it took part, as its state counts.

    Raises a `LearningError` if a prior from theory is asked for and there is none.
    """

    clip: Annotated[float, Field(ge=1)] | None = None
    """Upper bound of nu_i; a client whose true weight is larger keeps a bias. null: none, as in the paper."""
    warm_up: Annotated[int, Field(ge=0)] = 0
    """Rounds, or versions, from the start in which every nu_i is 1, while participations are counted already."""
    counts: Literal["pulls", "shares", "steps"] = "pulls"
    """What a report counts: `pulls`, 1 / |S_t|; `shares`, 1 in rounds of any size; `steps`, K_i / |S_t|."""
    prior: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Reports of each client, on average, that are counted in advance; their weight vanishes in time."""
    prior_from: Literal["uniform", "theory"] = "uniform"
    """How the prior is shared out: `uniform`, evenly; `theory`, by the shares that theory predicts."""
    forgetting: Annotated[float, Field(gt=0, lt=1)] | None = None
    """a: each round with reports leaves 1 - a of all earlier counts: about 1/a rounds count. null: all rounds."""
    # pi, shares, local_steps: given by the scenario's run, see `Optimizer`
    pi: Floats | None = field(default=None, compare=False)
    shares: Floats | None = field(default=None, compare=False)
    local_steps: Ints | None = field(default=None, compare=False)
    frequency_option: ClassVar[FrequencyOption] = FrequencyOption("prior_from", "uniform", "uniform")

    def __post_init__(self) -> None:
        if self.prior and self.prior_from == "theory" and self.pi is None:
            raise LearningError(
                "there is no theory for this scenario's participation, so there is no prior to be had from it; "
                "write prior_from: uniform"
            )

    def init(self, clients: int, _dimension: int) -> ParticipationCounts:
        if self.prior_from == "theory" and self.pi is not None and self.pi.shape != (clients,):
            raise LearningError(f"expected {clients} frequencies, got {len(self.pi)}")
        return ParticipationCounts(np.zeros(clients))

    def prepare(self, state: ParticipationCounts, cohort: Cohort) -> tuple[ParticipationCounts, Floats]:
        members, size = cohort.clients, len(cohort.clients)
        divisor = cohort.divisor or size
        state.unit = state.unit or divisor
        if self.forgetting is not None:
            state.newest /= 1.0 - self.forgetting
            if state.newest > _LARGE:
                state.of_client /= state.newest
                state.total, state.reports, state.newest = state.total / state.newest, state.reports / state.newest, 1.0
        weight = state.newest * (1.0 if self.counts == "shares" else state.unit / divisor)
        each = weight * cohort.steps if self.counts == "steps" else weight
        np.add.at(state.of_client, members, each)
        total = weight * float(cohort.steps.sum()) if self.counts == "steps" else weight * size
        state.total += total
        state.reports += state.newest * size
        if cohort.round < self.warm_up:
            return state, np.ones(size)
        clients, mean = float(len(state.of_client)), state.reports / state.total
        by_theory = self.pi if self.prior_from == "theory" else None
        prior = self.prior if by_theory is None else self.prior * clients * by_theory[members]
        # A server that knows the reports up to the version that the client downloads: as many in each step.
        before = 0.0 if self.forgetting is not None else cohort.staleness * total
        counted = self.prior * clients + mean * (state.total - before)
        return state, self._clipped(counted / (clients * (prior + mean * state.of_client[members])))

    def long_run(self, pi: Floats) -> LongRun | None:
        if self.forgetting is not None:  # nu_i is noisy for ever, and its mean is not that of what it estimates
            return None
        counted = pi if self.counts != "shares" or self.shares is None else self.shares
        if self.counts == "steps" and self.local_steps is not None and pi.any():
            counted = pi * self.local_steps / (pi @ self.local_steps)
        return LongRun(pi, self._clipped(inverse_frequency(counted)))

    def _clipped(self, nu: Floats) -> Floats:
        return nu if self.clip is None else np.minimum(nu, self.clip)


@dataclass(frozen=True, eq=False)
class OracleWeighted(MeanChange[Floats]):
    """FedAvg whose local steps are scaled by the true 1 / (N w_i). Its state is nu, shape (N,).

    Raises a `LearningError` if the chosen source is not there.
    """

    # pi, frequency, predicted: given by the scenario's run, see `Optimizer`
    pi: Floats | None = None
    frequency: Floats | None = None
    source: Literal["theory", "log", "predicted"] = "theory"
    """Where the weights come from: `theory`; `log`, the whole log, which every scenario has; `predicted`, a mean field
    of devices that come and go.
    """
    predicted: Callable[[], Floats] | None = None
    pulls: Floats = field(init=False)  # that of the source
    frequency_option: ClassVar[FrequencyOption] = FrequencyOption(
        "source", "theory", "log for those of the whole log, or predicted for a mean field's"
    )

    @staticmethod
    def ignores_schedule(options: Mapping[str, object]) -> bool:
        return options.get("source", "theory") == "theory"

    def __post_init__(self) -> None:
        if self.source == "predicted":
            pulls = None if self.predicted is None else self.predicted()
        else:
            pulls = self.pi if self.source == "theory" else self.frequency
        if pulls is None:
            missing = {
                "theory": "there is no theory for this scenario's participation, so the frequencies are not known "
                "beforehand; write source: log to use those that the whole log shows, or source: predicted to use "
                "those that a mean field predicts from the devices' availability",
                "log": "the frequencies of the log were not given",
                "predicted": "nothing that predicts the frequencies was given",
            }
            raise LearningError(missing[self.source])
        object.__setattr__(self, "pulls", pulls)

    def init(self, clients: int, _dimension: int) -> Floats:
        if self.pulls.shape != (clients,):
            raise LearningError(f"expected {clients} frequencies, got {len(self.pulls)}")
        return inverse_frequency(self.pulls)

    def prepare(self, nu: Floats, cohort: Cohort) -> tuple[Floats, Floats]:
        return nu, nu[cohort.clients]

    def long_run(self, pi: Floats) -> LongRun:
        return LongRun(pi, inverse_frequency(self.pulls if self.source == "predicted" else pi))
