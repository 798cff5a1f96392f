"""Learning problems: the protocol in `problem`, then one module for each problem.

To add one, write the class in a module of its own and name it in `PROBLEMS`; its fields are its options.
"""

from typing import Final

from fedsim.common.registry import Registry
from fedsim.learning.failures import LearningError
from fedsim.learning.problems.problem import Problem

PROBLEMS: Final = Registry[Problem](
    "a problem",
    Problem,
    {
        "robust_regression": "fedsim.learning.problems.robust_regression:RobustRegression",
        "quadratic": "fedsim.learning.problems.quadratic:Quadratic",
        "sampled_quadratic": "fedsim.learning.problems.quadratic:SampledQuadratic",
        "softmax_regression": "fedsim.learning.problems.softmax_regression:SoftmaxRegression",
        "torch": "fedsim.learning.problems.torch_module:TorchModule",
    },
    given=("clients", "seed"),
    offered=("folder", "traits"),
    error=LearningError,
    at="learning.problem",
    chance="draw the data from np.random.default_rng(seed), seed being an argument of the constructor",
)
