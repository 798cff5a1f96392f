"""Data for problems that learn from samples: where they come from, and which client has which."""

from fedsim.learning.data.choice import (
    Data,
    Digits,
    DirichletPartition,
    Partition,
    federated,
    missing_extras,
    not_installed,
)
from fedsim.learning.data.dataset import Federated, Samples

__all__ = [
    "Data",
    "Digits",
    "DirichletPartition",
    "Federated",
    "Partition",
    "Samples",
    "federated",
    "missing_extras",
    "not_installed",
]
