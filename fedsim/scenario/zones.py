"""Where a client's time zone comes from: one name, a list of names, a mixture, or a column of a file."""

from typing import Annotated

from pydantic import Field

from fedsim.scenario.civil import TimeZone
from fedsim.scenario.component import Kinds
from fedsim.scenario.sources import Column, Constant, Listed, Mixture, Part, short_source


class ConstantZone(Constant[TimeZone]):
    """The same time zone for every client of the group."""


class ListedZones(Listed[TimeZone]):
    """One time zone for each client of the group, in order."""


class ZonePart(Part[TimeZone]):
    """One part of a mixture of time zones."""


class ZoneMixture(Mixture[ZonePart]):
    """Each client lives in one of several time zones, by chance.

    Its correlation is that of the place in the list: `order` with rho 1 gives the first zone to the first clients.
    """

    parts: Annotated[list[ZonePart], Field(min_length=1, max_length=1000)]
    """The zones."""


ZoneSource = Annotated[
    ConstantZone | ListedZones | ZoneMixture | Column, Kinds(short_source, TimeZone | list[TimeZone])
]
