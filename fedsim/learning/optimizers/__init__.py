"""Federated optimizers: the protocol in `base`, then one module for each optimizer, its equation on top.

To add one, write the class in a module of its own and name it in `OPTIMIZERS`; its dataclass fields are its
options.
"""

from typing import Final

from fedsim.common.registry import Registry
from fedsim.learning.failures import LearningError
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg
from fedsim.learning.optimizers.debiased_fedbuff import DebiasedFedBuff
from fedsim.learning.optimizers.fedau import FedAu
from fedsim.learning.optimizers.fedavg import FedAvg
from fedsim.learning.optimizers.fedbuff import FedBuff
from fedsim.learning.optimizers.fedvarp import FedVarp
from fedsim.learning.optimizers.mifa import Mifa
from fedsim.learning.optimizers.optimizer import Cohort, Foreseeable, LongRun, Optimizer, Remembering
from fedsim.learning.optimizers.oracle_weighted import OracleWeighted

OPTIMIZERS: Final = Registry[Optimizer](
    "an optimizer",
    Optimizer,
    {
        "fedavg": "fedsim.learning.optimizers.fedavg:FedAvg",
        "debiased_fedavg": "fedsim.learning.optimizers.debiased_fedavg:DebiasedFedAvg",
        "oracle_weighted": "fedsim.learning.optimizers.oracle_weighted:OracleWeighted",
        "fedvarp": "fedsim.learning.optimizers.fedvarp:FedVarp",
        "fedau": "fedsim.learning.optimizers.fedau:FedAu",
        "mifa": "fedsim.learning.optimizers.mifa:Mifa",
        "fedbuff": "fedsim.learning.optimizers.fedbuff:FedBuff",
        "debiased_fedbuff": "fedsim.learning.optimizers.debiased_fedbuff:DebiasedFedBuff",
    },
    offered=("pi", "frequency"),
    error=LearningError,
)

__all__ = [
    "OPTIMIZERS",
    "Cohort",
    "DebiasedFedAvg",
    "DebiasedFedBuff",
    "FedAu",
    "FedAvg",
    "FedBuff",
    "FedVarp",
    "Foreseeable",
    "LongRun",
    "Mifa",
    "Optimizer",
    "OracleWeighted",
    "Remembering",
]
