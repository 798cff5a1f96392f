"""What server and clients know of the world: its run directory, and the images that it gives to each phone."""

from functools import lru_cache

import numpy as np

import fedsim
from fedsim.learning import build_problem


@lru_cache
def run_of(world):
    """Return the run that ``fedsim run`` wrote."""
    return fedsim.load(world)


@lru_cache
def problem_of(world):
    """Return the objectives of all phones, for evaluation: mean cross-entropy on the images of each."""
    scenario, clients = run_of(world).scenario, len(run_of(world).clients)
    problem = scenario.learning.problem
    return build_problem(problem.kind, problem.options, clients=clients, seed=scenario.seed)


@lru_cache
def images_of(world, phone):
    """Return the images of one phone, in single precision with a one at the end, and their labels as unit vectors."""
    problem = problem_of(world)
    inputs, labels = problem.samples_of(phone)
    return inputs.astype(np.float32), labels.astype(np.float32)
