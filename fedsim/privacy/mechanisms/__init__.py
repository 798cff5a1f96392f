"""Mechanisms by name: the protocol in `mechanism`, then one module for each."""

from typing import Final

from fedsim.common.registry import Registry
from fedsim.privacy.mechanisms.mechanism import Mechanism

_ROOM = "fedsim.privacy.mechanisms"
MECHANISMS: Final = Registry[Mechanism](
    "a privacy mechanism",
    Mechanism,
    {
        "independent": f"{_ROOM}.independent:Independent",
        "sqrt": f"{_ROOM}.sqrt:Sqrt",
        "banded": f"{_ROOM}.banded:Banded",
        "blt": f"{_ROOM}.blt:Blt",
    },
)
