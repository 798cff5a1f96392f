"""Availability replayed from a file of recorded intervals."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from fedsim.scenario.component import Choice
from fedsim.scenario.permissions import NameOfFile
from fedsim.scenario.strict import each_once
from fedsim.scenario.units import Duration, Instant, PositiveDuration, TimeZone

_Condition = Literal["available", "charging", "network", "idle"]


class Trace(Choice):
    """Recorded intervals from a CSV or Parquet file with the columns device, start_s, end_s and, optionally, condition.

    Each client lives the civil times of one recorded device, in the time zone of its own group.
    """

    kind: Literal["trace"]
    file: NameOfFile
    """Path, relative to the folder of the scenario file."""
    base: Instant
    """The instant from which start_s and end_s are counted."""
    time_zone: TimeZone | None = None
    """Zone in which the devices were recorded: it says which time of day their seconds stand for. By default the
    offset with which `base` is written."""
    repeat: Literal["week", "day", "device", "none"] = "week"
    """week: the trace is repeated by as many whole weeks as hold it, and Mondays are Mondays; day: by whole days;
    device: each device by its own `cycle_s`, or for as long as it was observed, whatever the time of day; none: it is
    played once, and its devices are gone at its end."""
    since: Duration | None = None
    """Part of the trace that is used, counted from `base`: its begin; by default the first start."""
    until: PositiveDuration | None = None
    """The end of that part; by default the last end."""
    require: Annotated[list[_Condition], Field(min_length=1), AfterValidator(each_once)] | None = None
    """Conditions that must hold together; by default all that the file has."""
    assign: Literal["with_replacement", "without_replacement", "in_order"] = "with_replacement"
    """How clients get their recorded devices: drawn for each client alone; shuffled and dealt, each at most once; or
    dealt in the order of the file."""
    policy: Literal["repair", "strict", "lenient"] = "repair"
    """repair: empty and negative intervals are dropped, overlapping ones merged, impossible times refused; strict: all
    of these are refused; lenient: intervals with impossible times are dropped too."""
    without_intervals: Literal["drop", "keep"] = "drop"
    """Recorded devices that are never available: left out, or kept as such."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise ValueError("`since` must be before `until`")
        return self
