"""Federated optimizers: the protocol in `base`, then one module for each optimizer, its equation on top.

To add one, write the class in a module of its own and name it in `OPTIMIZERS`; its dataclass fields are its
options.
"""

from collections.abc import Mapping
from typing import Final

from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg
from fedsim.learning.optimizers.debiased_fedbuff import DebiasedFedBuff
from fedsim.learning.optimizers.fedau import FedAu
from fedsim.learning.optimizers.fedavg import FedAvg
from fedsim.learning.optimizers.fedbuff import FedBuff
from fedsim.learning.optimizers.fedvarp import FedVarp
from fedsim.learning.optimizers.mifa import Mifa
from fedsim.learning.optimizers.optimizer import Cohort, Foreseeable, LongRun, Optimizer, Remembering
from fedsim.learning.optimizers.oracle_weighted import OracleWeighted

OPTIMIZERS: Final[Mapping[str, type[Optimizer]]] = {
    "fedavg": FedAvg,
    "debiased_fedavg": DebiasedFedAvg,
    "oracle_weighted": OracleWeighted,
    "fedvarp": FedVarp,
    "fedau": FedAu,
    "mifa": Mifa,
    "fedbuff": FedBuff,
    "debiased_fedbuff": DebiasedFedBuff,
}

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
