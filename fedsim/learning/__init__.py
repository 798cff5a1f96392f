"""Learning replayed over a participation log: problems, optimizers, and what they reach."""

from fedsim.learning.cohorts import frequencies
from fedsim.learning.components import build_optimizer, build_problem, check_optimizer, problem_size
from fedsim.learning.failures import LearningError
from fedsim.learning.local_training import LocalWork
from fedsim.learning.optimizers import OPTIMIZERS
from fedsim.learning.optimizers.by_participant import ByParticipant
from fedsim.learning.optimizers.fedavg import FedAvg
from fedsim.learning.optimizers.optimizer import Cohort, LocalSteps, Optimizer
from fedsim.learning.problems import PROBLEMS
from fedsim.learning.problems.problem import Problem
from fedsim.learning.run_figures import biases, has_converged, last_half, summarise
from fedsim.learning.server_updates import SERVER_UPDATES
from fedsim.learning.train import Course, Trained, replay, replay_together
from fedsim.measure.contributions import pulls

__all__ = [
    "OPTIMIZERS",
    "PROBLEMS",
    "SERVER_UPDATES",
    "ByParticipant",
    "Cohort",
    "Course",
    "FedAvg",
    "LearningError",
    "LocalSteps",
    "LocalWork",
    "Optimizer",
    "Problem",
    "Trained",
    "biases",
    "build_optimizer",
    "build_problem",
    "check_optimizer",
    "frequencies",
    "has_converged",
    "last_half",
    "problem_size",
    "pulls",
    "replay",
    "replay_together",
    "summarise",
]
