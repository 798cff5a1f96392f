"""Distributions of weights, speeds and lengths of time: the protocol in `distribution`, then one small class for each.

To add one, write the class and name it in `DISTRIBUTIONS`; the arguments of its constructor are its options in a
scenario (`fedsim.scenario.sources`).
"""

from functools import lru_cache
from typing import Final

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.errors import PluginError
from fedsim.common.registry import Findings, Registry
from fedsim.population.distributions.distribution import Distribution, Quantiles
from fedsim.population.distributions.families import Constant
from fedsim.scenario.component import Choice, components
from fedsim.scenario.strict import Model

DISTRIBUTIONS: Final = Registry[Quantiles](
    "a law",
    Quantiles,
    {
        "constant": "fedsim.population.distributions.families:Constant",
        "uniform": "fedsim.population.distributions.families:Uniform",
        "whole_uniform": "fedsim.population.distributions.families:WholeUniform",
        "roll_out": "fedsim.population.distributions.families:RollOut",
        "dirichlet": "fedsim.population.distributions.families:Dirichlet",
        "zipf": "fedsim.population.distributions.families:Zipf",
        "largest_zipf": "fedsim.population.distributions.families:LargestZipf",
        "exponential": "fedsim.population.distributions.families:Exponential",
        "weibull": "fedsim.population.distributions.families:Weibull",
        "lognormal": "fedsim.population.distributions.families:Lognormal",
        "pareto": "fedsim.population.distributions.families:Pareto",
        "mean_pareto": "fedsim.population.distributions.families:MeanPareto",
    },
    offered=("count",),
    at="population.0.session.train",
    chance="quantile must follow from p alone, which is what fedsim draws",
)
_PROBE = np.array([2.0**-54, 0.25, 0.5, 0.75, 1.0 - 2.0**-53])


class CheckedDistribution(Distribution):
    """A user's own law, named `kind` in the scenario, whose values are checked."""

    def __init__(self, quantiles: Quantiles, kind: str) -> None:
        self._quantiles, self._where = quantiles, f"law {kind!r}"

    def quantile(self, p: Floats) -> Floats:
        """Return the values, one number at least 0 and finite for each probability, or raise a `PluginError`."""
        with DISTRIBUTIONS.reraise_as_plugin_error(self._where, self._quantiles.quantile):
            values = np.asarray(self._quantiles.quantile(p), dtype=np.float64)
            if values.shape != p.shape:
                raise ValueError(f"quantile gives the shape {values.shape} for probabilities of shape {p.shape}")
            good = np.isfinite(values) & (values >= 0)
            if not good.all():
                first = int(np.argmin(good))
                raise ValueError(f"quantile must be at least 0 and finite, but is {values[first]} at {p[first]:.12g}")
        return values


@lru_cache(maxsize=4096)
def distribution(source: Choice, count: int = 1) -> Distribution:
    """Return the law that a scenario's source names, for `count` clients that draw from it.

    Raises a `PluginError` if it is a user's own law, and cannot be made.
    """
    options = {name: value for name, value in source.options.items() if name != "correlation"}
    built = DISTRIBUTIONS.build(getattr(source, "registered", source.kind), options, count=count)
    return built if isinstance(built, Distribution) else CheckedDistribution(built, source.kind)


def check_distributions(part: Model) -> Findings:
    """Return every mistake in the choices of users' own laws, anywhere in a part of the scenario."""
    findings: Findings = []
    for path, choice in components(part):
        wrong = DISTRIBUTIONS.check(choice.kind, choice.options)
        if not wrong:
            try:
                anew = distribution.__wrapped__(choice)
                asked = (distribution(choice), distribution(choice), anew)
                first, *others = (each.quantile(_PROBE).tobytes() for each in asked)
                if any(other != first for other in others):
                    wrong = [(("kind",), DISTRIBUTIONS.unrepeatable(choice.kind))]
            except PluginError as error:
                wrong = [(("kind",), str(error))]
        findings += [((*path, *inner), message) for inner, message in wrong]
    return findings


__all__ = ["DISTRIBUTIONS", "Constant", "Distribution", "Quantiles", "check_distributions", "distribution"]
