"""Learning problems: the protocol in `base`, then one module for each problem.

To add one, write the class in a module of its own and name it in `PROBLEMS`; its dataclass fields are its
options.
"""

from collections.abc import Mapping
from typing import Final

from fedsim.learning.problems.problem import Problem, Sampled, Solved
from fedsim.learning.problems.quadratic import Quadratic
from fedsim.learning.problems.robust_regression import RobustRegression
from fedsim.learning.problems.softmax_regression import SoftmaxRegression
from fedsim.learning.problems.torch_module import TorchModule

PROBLEMS: Final[Mapping[str, type[Problem]]] = {
    "robust_regression": RobustRegression,
    "quadratic": Quadratic,
    "softmax_regression": SoftmaxRegression,
    "torch": TorchModule,
}

__all__ = [
    "PROBLEMS",
    "Problem",
    "Quadratic",
    "RobustRegression",
    "Sampled",
    "SoftmaxRegression",
    "Solved",
    "TorchModule",
]
