"""Mechanisms by name: the protocol in `mechanism`, then one module for each."""

from typing import Final

from fedsim.common.registry import Registry
from fedsim.privacy.mechanisms.mechanism import Mechanism

MECHANISMS: Final = Registry[Mechanism](
    "a privacy mechanism",
    Mechanism,
    {
        "independent": "fedsim.privacy.mechanisms.fixed:Independent",
        "sqrt": "fedsim.privacy.mechanisms.fixed:Sqrt",
        "banded": "fedsim.privacy.mechanisms.banded:Banded",
        "lambda_cgd": "fedsim.privacy.mechanisms.lambda_cgd:LambdaCgd",
        "blt": "fedsim.privacy.mechanisms.blt:Blt",
    },
    at="privacy.mechanism",
    chance="coefficients must follow from the bounds, and correlated rows from the rows given",
)
