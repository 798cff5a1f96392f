"""Learning problems: the protocol in `base`, then one module for each problem.

To add one, write the class in a module of its own and name it in `PROBLEMS`; its dataclass fields are its
options.
"""

from typing import Final

from fedsim.common.registry import Registry
from fedsim.learning.failures import LearningError
from fedsim.learning.problems.problem import Problem, Sampled, Solved
from fedsim.learning.problems.quadratic import Quadratic
from fedsim.learning.problems.robust_regression import RobustRegression
from fedsim.learning.problems.softmax_regression import SoftmaxRegression
from fedsim.learning.problems.torch_module import TorchModule

PROBLEMS: Final = Registry[Problem](
    "a problem",
    Problem,
    {
        "robust_regression": "fedsim.learning.problems.robust_regression:RobustRegression",
        "quadratic": "fedsim.learning.problems.quadratic:Quadratic",
        "softmax_regression": "fedsim.learning.problems.softmax_regression:SoftmaxRegression",
        "torch": "fedsim.learning.problems.torch_module:TorchModule",
    },
    given=("clients", "seed"),
    offered=("folder",),
    error=LearningError,
)

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
