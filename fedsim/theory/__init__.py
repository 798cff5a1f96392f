"""What theory predicts about participation: who takes part how often, and how wrong that can be."""

from fedsim.theory.closed_form import closed_form, distances
from fedsim.theory.convergence import Convergence, convergence
from fedsim.theory.exact import exact
from fedsim.theory.fluctuation import Fluctuation, asymptotic_variance, rounds_needed
from fedsim.theory.inverse import smallest_separation
from fedsim.theory.mean_field import mean_field
from fedsim.theory.mixing import Mixing, mixing
from fedsim.theory.monte_carlo import monte_carlo
from fedsim.theory.question import LAWS, largest_separation
from fedsim.theory.result import Stationary
from fedsim.theory.running_frequencies import RunningFrequencies, running_frequencies
from fedsim.theory.stationary import METHODS, answer, stationary

__all__ = [
    "LAWS",
    "METHODS",
    "Convergence",
    "Fluctuation",
    "Mixing",
    "RunningFrequencies",
    "Stationary",
    "answer",
    "asymptotic_variance",
    "closed_form",
    "convergence",
    "distances",
    "exact",
    "largest_separation",
    "mean_field",
    "mixing",
    "monte_carlo",
    "rounds_needed",
    "running_frequencies",
    "smallest_separation",
    "stationary",
]
