"""Oracle-weighted FedAvg: Debiased FedAvg that knows the frequencies instead of counting them.

::

    nu_i     = 1 / (N pi_i)
    x^i_{t,k+1} = x^i_{t,k} - alpha nu_i grad f_i(x^i_{t,k})
    x_{t+1}  = x_t + (1/|S_t|) sum_{i in S_t} Delta_i

The difference between its curve and that of Debiased FedAvg is the price of estimating the frequencies, which no server
knows at the start; with ``source: predicted`` they come from a model of the devices' availability, not from the log.

Source: Sun, Zhang, Xu, Joshi, Sharma and Wei, *Debiasing Federated Learning with Correlated Client Participation*, ICLR
2025, arXiv:2410.01209: equation (9) with lambda_i replaced by its limit pi_i.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from fedsim.common.arrays import Floats
from fedsim.learning.failures import LearningError
from fedsim.learning.optimizers.fedavg import MeanChange
from fedsim.learning.optimizers.optimizer import Cohort, FrequencyOption, LongRun, inverse_frequency


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
    frequency_option: ClassVar[FrequencyOption] = FrequencyOption(
        "source", "theory", "log for those of the whole log, or predicted for a mean field's"
    )

    def __post_init__(self) -> None:
        if self.source == "theory" and self.pi is None:
            raise LearningError(
                "there is no theory for this scenario's participation, so the frequencies are not known beforehand; "
                "write source: log to use those that the whole log shows, or source: predicted to use those that a "
                "mean field predicts from the devices' availability"
            )
        if self.source == "log" and self.frequency is None:
            raise LearningError("the frequencies of the log were not given")
        if self.source == "predicted" and self._known is None:
            raise LearningError("nothing that predicts the frequencies was given")

    @property
    def _known(self) -> Floats | None:
        if self.source == "predicted":
            return None if self.predicted is None else self.predicted()
        return self.pi if self.source == "theory" else self.frequency

    def init(self, clients: int, _dimension: int) -> Floats:
        known = self._known
        if known is None or known.shape != (clients,):
            raise LearningError(f"expected {clients} frequencies, got {0 if known is None else len(known)}")
        return inverse_frequency(known)

    def prepare(self, nu: Floats, cohort: Cohort) -> tuple[Floats, Floats]:
        return nu, nu[cohort.clients]

    def long_run(self, pi: Floats) -> LongRun:
        known = self._known if self.source == "predicted" else pi
        assert known is not None
        return LongRun(pi, inverse_frequency(known))
