"""A group of devices: how many there are, and what each of its clients gets."""

from typing import Annotated

from pydantic import Field

from fedsim.scenario.component import BuiltIn, Component, Kinds
from fedsim.scenario.habits import Habits
from fedsim.scenario.server import MOST_CLIENTS
from fedsim.scenario.session import AnySession, Participations, Session
from fedsim.scenario.sources import ClientTimeSource, NumberSource, RoundsSource, ZoneSource
from fedsim.scenario.strict import SparseModel
from fedsim.scenario.trace import Trace

Availability = Annotated[BuiltIn | Habits | Trace | Component, Kinds(role="availability model")]


class Group(SparseModel):
    """Devices that are described together; every value below is drawn or read for each client."""

    name: Annotated[str, Field(min_length=1, max_length=200)] = ""
    """How reports call the group; everyone, or group-1, group-2, ..., where it is not given."""
    devices: Annotated[int, Field(ge=1, le=MOST_CLIENTS)]
    """How many devices the group has."""
    weight: NumberSource = Field(default=1, validate_default=True)
    """p_i before normalisation over the whole population."""
    separation: RoundsSource = Field(default=0, validate_default=True)
    """R_i: rounds between two participations; round t, then t + 1 + R_i at the earliest."""
    cooldown: ClientTimeSource = Field(default="0s", validate_default=True)
    """Time by the clock, such as ``1d``, before a client may take part again, beside the separation."""
    participations: Participations | None = None
    """A cap on how often each may take part, or report; none, where this is not given."""
    joins: ClientTimeSource | None = None
    """When each device joins, after the run's beginning, as by the roll-out of an app: a law such as roll_out. All are
    there from the beginning, where this is not given."""
    leaves: ClientTimeSource | None = None
    """How long after it joined each device leaves for good; never, where this is not given."""
    time_zone: ZoneSource = Field(default="UTC", validate_default=True)
    """Whose civil time each device lives by, an IANA name such as Europe/Berlin."""
    availability: Availability = Field(default="always", validate_default=True)
    """When the devices can take part."""
    session: AnySession = Field(default_factory=Session)
    """How long a participation takes: in plain times, or from what there is to transfer and to train."""
    left_out: bool = False
    """Whether the server takes no device of the group, so that none ever takes part."""

    unwritten = frozenset({"participations", "joins", "leaves", "left_out"})

    @property
    def churns(self) -> bool:
        """Whether devices join or leave during the run."""
        return self.joins is not None or self.leaves is not None
