"""What a run records beside its rounds and participations."""

from typing import Annotated

from pydantic import Field

from fedsim.scenario.server import MOST_CLIENTS
from fedsim.scenario.strict import Model
from fedsim.scenario.units import PositiveDuration


class Records(Model):
    """What is recorded beside the rounds and participations."""

    gauges: PositiveDuration | None = Field(default="1h", validate_default=True)
    """Cadence at which the population is counted; null to leave it out."""
    gauge_sample: Annotated[int, Field(ge=1, le=MOST_CLIENTS)] | None = 20_000
    """Most clients that are counted each time, evenly spaced in each group and time zone; counts are scaled up from
    these (standard error of a share at most 0.35 % at 20,000). null: count everyone. Sessions are counted in full."""
    eligible: bool = False
    """Count the eligible clients at every selection."""
    transitions: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=1000)] = Field(default_factory=list)
    """Clients whose conditions are recorded each time they change."""
