"""An event-driven simulator of participation in cross-device federated learning.

>>> from fedsim import Scenario, simulate
>>> result = simulate(Scenario.load("scenarios/paper/synthetic.fedsim.yaml", ["stop.rounds=200"]))
>>> len(result.rounds), result.metrics["participation.gap.min"]
(200, 5.0)
"""

from typing import TYPE_CHECKING

from fedsim._version import __version__

if TYPE_CHECKING:
    from fedsim.experiment.result import Result
    from fedsim.experiment.run import simulate
    from fedsim.scenario import Scenario

__all__ = ["Result", "Scenario", "__version__", "simulate"]

_HOMES = {"Result": "fedsim.experiment.result", "Scenario": "fedsim.scenario", "simulate": "fedsim.experiment.run"}


def __getattr__(name: str) -> object:
    # Imported when first used: `fedsim --help` should not wait for numpy, polars and pydantic.
    if name not in _HOMES:
        raise AttributeError(f"module 'fedsim' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
