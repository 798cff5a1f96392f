"""Federated optimizers: the protocol in `optimizer`, then one module for each, with its equation on top.

To add one, write the class in a module of its own and name it in `OPTIMIZERS`; its fields are its options. Its source
is cited by `fedsim.run.citation`. What all do over a buffered log stands in docs/learning.md.
"""

from typing import Final

from fedsim.common.registry import Registry
from fedsim.learning.failures import LearningError
from fedsim.learning.optimizers.optimizer import Optimizer

OPTIMIZERS: Final = Registry[Optimizer](
    "an optimizer",
    Optimizer,
    {
        "fedavg": "fedsim.learning.optimizers.fedavg:FedAvg",
        "debiased_fedavg": "fedsim.learning.optimizers.debiased_fedavg:DebiasedFedAvg",
        "fedprox": "fedsim.learning.optimizers.fedavg:FedProx",
        "fednova": "fedsim.learning.optimizers.fednova:FedNova",
        "feddyn": "fedsim.learning.optimizers.feddyn:FedDyn",
        "scaffold": "fedsim.learning.optimizers.scaffold:Scaffold",
        "amplified_fedavg": "fedsim.learning.optimizers.amplified:AmplifiedFedAvg",
        "amplified_scaffold": "fedsim.learning.optimizers.amplified:AmplifiedScaffold",
        "focus": "fedsim.learning.optimizers.focus:Focus",
        "oracle_weighted": "fedsim.learning.optimizers.debiased_fedavg:OracleWeighted",
        "fedvarp": "fedsim.learning.optimizers.mifa:FedVarp",
        "fedau": "fedsim.learning.optimizers.fedau:FedAu",
        "mifa": "fedsim.learning.optimizers.mifa:Mifa",
        "area": "fedsim.learning.optimizers.mifa:Area",
        "ace": "fedsim.learning.optimizers.ace:Ace",
        "fedawe": "fedsim.learning.optimizers.fedawe:FedAwe",
        "fedbuff": "fedsim.learning.optimizers.fedbuff:FedBuff",
        "debiased_fedbuff": "fedsim.learning.optimizers.fedbuff:DebiasedFedBuff",
        "fadas": "fedsim.learning.optimizers.fadas:Fadas",
    },
    offered=("pi", "frequency", "shares", "predicted", "local_steps"),
    beside=("name", "local_step_size", "server", "update_clip"),
    error=LearningError,
    at="learning.optimizers[]",
    chance="draw from np.random.default_rng(cohort.round), made in prepare or apply",
)
