"""When devices are available: the models that a group of the scenario may name."""

from typing import Annotated, Literal

from pydantic import Field

from fedsim.scenario.component import Component, Kinds
from fedsim.scenario.habits import Habits
from fedsim.scenario.model import Model, short_kind, value_as
from fedsim.scenario.sources import ExponentialTime, LognormalTime
from fedsim.scenario.trace import Trace
from fedsim.scenario.units import PositiveDuration


class Always(Model):
    """The device is available at every instant."""

    kind: Literal["always"]


class WeibullTime(Model):
    """Weibull: below shape 1 many short lengths and a few long ones, above 1 lengths close to the mean."""

    kind: Literal["weibull"]
    mean: PositiveDuration
    """Mean length."""
    shape: Annotated[float, Field(ge=0.1, le=100)]
    """1 is the exponential law."""


class ParetoTime(Model):
    """Pareto: a least length and a heavy tail; the chance to exceed x falls as x ** -shape."""

    kind: Literal["pareto"]
    mean: PositiveDuration
    """Mean length; the least is mean * (shape - 1) / shape."""
    shape: Annotated[float, Field(gt=1, le=100)]
    """How fast the tail falls; up to 1 the mean would be infinite, up to 2 the variance is."""


Length = Annotated[
    ExponentialTime | WeibullTime | LognormalTime | ParetoTime | Component,
    Kinds(value_as("exponential", "mean"), PositiveDuration),
]


class Renewal(Model):
    """On and off by turns, with independent lengths, stationary from the first instant."""

    kind: Literal["renewal"]
    on: Length
    """Lengths of the times available; a bare duration is the mean of an exponential law."""
    off: Length
    """Lengths of the times not available."""


Availability = Annotated[Always | Habits | Renewal | Trace | Component, Kinds(short_kind, Literal["always", "habits"])]
