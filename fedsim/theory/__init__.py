"""What theory predicts about participation: who takes part how often, and how wrong that can be."""

from fedsim.theory.closed_form import closed_form, distances, smallest_separation
from fedsim.theory.convergence import Convergence, RunningFrequencies, convergence, running_frequencies
from fedsim.theory.exact import Mixing, exact, mixing
from fedsim.theory.fluctuation import Fluctuation, asymptotic_variance, best_prior, rounds_for_all, rounds_needed
from fedsim.theory.mean_field import mean_field
from fedsim.theory.monte_carlo import monte_carlo
from fedsim.theory.quadratic_mean import mean_model
from fedsim.theory.question import CHAIN_LAWS, Stationary, largest_separation
from fedsim.theory.stationary import METHODS, answer, stationary

__all__ = [
    "CHAIN_LAWS",
    "METHODS",
    "Convergence",
    "Fluctuation",
    "Mixing",
    "RunningFrequencies",
    "Stationary",
    "answer",
    "asymptotic_variance",
    "best_prior",
    "closed_form",
    "convergence",
    "distances",
    "exact",
    "largest_separation",
    "mean_field",
    "mean_model",
    "mixing",
    "monte_carlo",
    "rounds_for_all",
    "rounds_needed",
    "running_frequencies",
    "smallest_separation",
    "stationary",
]
