"""Learning replayed over a participation log: problems, optimizers, and what they reach."""

from fedsim.learning.cohorts import frequencies
from fedsim.learning.components import build_optimizer, build_problem, check_optimizer, check_problem, problem_size
from fedsim.learning.failures import LearningError
from fedsim.learning.local_training import LocalWork
from fedsim.learning.optimizers import (
    OPTIMIZERS,
    Cohort,
    DebiasedFedAvg,
    DebiasedFedBuff,
    FedAu,
    FedAvg,
    FedBuff,
    FedVarp,
    Mifa,
    Optimizer,
    OracleWeighted,
)
from fedsim.learning.prediction import biases
from fedsim.learning.problems import PROBLEMS, Problem, Quadratic, RobustRegression, SoftmaxRegression, TorchModule
from fedsim.learning.server_updates import SERVER_UPDATES, Adam, Composed, Momentum, ServerUpdate, Sgd
from fedsim.learning.summary import converged, summarise
from fedsim.learning.train import Course, Trained, replay, replay_together
from fedsim.learning.trajectory import End

__all__ = [
    "OPTIMIZERS",
    "PROBLEMS",
    "SERVER_UPDATES",
    "Adam",
    "Cohort",
    "Composed",
    "Course",
    "DebiasedFedAvg",
    "DebiasedFedBuff",
    "End",
    "FedAu",
    "FedAvg",
    "FedBuff",
    "FedVarp",
    "LearningError",
    "LocalWork",
    "Mifa",
    "Momentum",
    "Optimizer",
    "OracleWeighted",
    "Problem",
    "Quadratic",
    "RobustRegression",
    "ServerUpdate",
    "Sgd",
    "SoftmaxRegression",
    "TorchModule",
    "Trained",
    "biases",
    "build_optimizer",
    "build_problem",
    "check_optimizer",
    "check_problem",
    "converged",
    "frequencies",
    "problem_size",
    "replay",
    "replay_together",
    "summarise",
]
