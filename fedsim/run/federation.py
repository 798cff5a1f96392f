"""What was made of a scenario to check it: everything that a run begins with."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedsim.availability.population import Strata
from fedsim.measure.metrics.own import Own
from fedsim.population import Population
from fedsim.scenario import Scenario


@dataclass(frozen=True)
class PreparedFederation:
    """A scenario of one server, with its devices for one replicate, its own metrics, and notes on its models."""

    scenario: Scenario
    population: Population
    devices: Strata
    replicate: int = 0
    own: Sequence[Own] = ()
    notes: Sequence[str] = ()
