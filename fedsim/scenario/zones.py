"""Where a client's time zone comes from: one name, a list of names, a mixture, or a column of a file."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field

from fedsim.scenario.civil import TimeZone
from fedsim.scenario.model import Model
from fedsim.scenario.sources import Column, Drawn, Positive, short_source


class ConstantZone(Model):
    """The same time zone for every client of the group."""

    kind: Literal["constant"]
    value: TimeZone
    """An IANA name such as Europe/Berlin."""


class ListedZones(Model):
    """One time zone for each client of the group, in order."""

    kind: Literal["list"]
    values: Annotated[list[TimeZone], Field(min_length=1)]
    """As many IANA names as the group has devices."""


class ZonePart(Model):
    """One part of a mixture of time zones."""

    share: Positive
    """Chance that a client lives there; the shares are taken relative to their sum."""
    source: TimeZone
    """An IANA name."""


class ZoneMixture(Drawn):
    """Each client lives in one of several time zones, by chance.

    Its correlation is that of the place in the list: `order` with rho 1 gives the first zone to the first clients.
    """

    kind: Literal["mixture"]
    parts: Annotated[list[ZonePart], Field(min_length=1, max_length=1000)]
    """The zones."""


_Zone = Annotated[ConstantZone | ListedZones | ZoneMixture | Column, Discriminator("kind")]
ZoneSource = Annotated[_Zone, BeforeValidator(short_source, json_schema_input_type=TimeZone | list[TimeZone] | _Zone)]
