"""Distributions of weights, speeds and lengths of time: the protocol in `distribution`, then one small class for each.

To add one, write the class and name it in `DISTRIBUTIONS`; its arguments are its options. A scenario names the built-in
ones by their models (`fedsim.scenario.sources`), and anybody's own as ``module:Class``.
"""

from functools import lru_cache
from typing import Final

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.errors import PluginError
from fedsim.common.registry import Findings, Registry
from fedsim.population.distributions.distribution import Distribution, Quantiles
from fedsim.population.distributions.numbers import Constant
from fedsim.scenario.component import chosen, components
from fedsim.scenario.model import Model

DISTRIBUTIONS: Final = Registry[Quantiles](
    "a law",
    Quantiles,
    {
        "constant": "fedsim.population.distributions.numbers:Constant",
        "uniform": "fedsim.population.distributions.numbers:Uniform",
        "whole_uniform": "fedsim.population.distributions.numbers:WholeUniform",
        "dirichlet": "fedsim.population.distributions.numbers:Dirichlet",
        "zipf": "fedsim.population.distributions.numbers:Zipf",
        "exponential": "fedsim.population.distributions.lengths:Exponential",
        "weibull": "fedsim.population.distributions.lengths:Weibull",
        "lognormal": "fedsim.population.distributions.lengths:Lognormal",
        "pareto": "fedsim.population.distributions.lengths:Pareto",
    },
    offered=("count",),
)
_PROBE = np.array([2.0**-54, 0.25, 0.5, 0.75, 1.0 - 2.0**-53])


class Brought(Distribution):
    """Somebody's own law, whose values are checked.

    Parameters
    ----------
    law
        What they brought.
    kind
        How the scenario calls it.
    """

    def __init__(self, law: Quantiles, kind: str) -> None:
        self._law, self._where = law, f"law {kind!r}"

    def quantile(self, p: Floats) -> Floats:
        """Return what the law says, if it can be: one number at least 0 and finite for each probability."""
        with DISTRIBUTIONS.blame(self._where):
            values = np.asarray(self._law.quantile(p), dtype=np.float64)
            if values.shape != p.shape:
                raise ValueError(f"quantile gives the shape {values.shape} for probabilities of shape {p.shape}")
            good = np.isfinite(values) & (values >= 0)
            if not good.all():
                first = int(np.argmin(good))
                raise ValueError(f"quantile must be at least 0 and finite, but is {values[first]} at {p[first]:.12g}")
        return values


@lru_cache(maxsize=4096)
def distribution(source: Model, count: int = 1) -> Distribution:
    """Return the law that a scenario's source names.

    Parameters
    ----------
    source
        One of the models of laws, or a component.
    count
        How many clients draw from it.

    Raises
    ------
    PluginError
        If it is somebody's own, and cannot be made.
    """
    kind, options = chosen(source)
    options.pop("correlation", None)
    law = DISTRIBUTIONS.build(getattr(source, "law", kind), options, count=count)
    return law if isinstance(law, Distribution) else Brought(law, kind)


def check_laws(part: Model) -> Findings:
    """Return every mistake in the choices of people's own laws that a part of the scenario makes, wherever in it."""
    findings: Findings = []
    for path, law in components(part):
        wrong = DISTRIBUTIONS.check(law.kind, law.options)
        if not wrong:
            try:
                distribution(law).quantile(_PROBE)
            except PluginError as error:
                wrong = [(("kind",), str(error))]
        findings += [((*path, *inner), message) for inner, message in wrong]
    return findings


__all__ = ["DISTRIBUTIONS", "Constant", "Distribution", "Quantiles", "check_laws", "distribution"]
