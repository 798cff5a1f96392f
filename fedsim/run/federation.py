"""What was made of a scenario to check it: everything that a run begins with."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from fedsim.availability.population import Strata
from fedsim.measure.frequencies import AvailableTime
from fedsim.measure.metrics.own import OwnMetrics
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.theory import Stationary
from fedsim.theory.prediction import theory_or_why_not


@dataclass(frozen=True)
class PreparedFederation:
    """A scenario of one server, with its devices for one replicate, its own metrics, and notes on its models."""

    scenario: Scenario
    population: Population
    devices: Strata
    replicate: int = 0
    own_metrics: Sequence[OwnMetrics] = ()
    notes: Sequence[str] = ()
    available: AvailableTime | None = None  # as a log of production tells it

    @cached_property
    def theory(self) -> Stationary | str:
        """What theory predicts for its log, or why theory does not hold."""
        return theory_or_why_not(self.scenario, self.population)
