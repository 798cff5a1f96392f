"""When a run ends. Only this file knows which criteria there are: all others ask a `Stop` what follows from them."""

import math
from typing import Annotated, NamedTuple, Self

from pydantic import Field, model_validator

from fedsim.common.instants import to_ms
from fedsim.scenario.model import Model
from fedsim.scenario.units import PositiveDuration, format_duration


class Counts(NamedTuple):
    """What has happened in a run so far: rounds (or versions) that have closed, participations that have begun."""

    rounds: int
    participations: int


class Stop(Model):
    """When the run ends: whichever comes first."""

    rounds: Annotated[int, Field(ge=1, le=10**9)] | None = None
    """Number of rounds; of versions, with a buffered server."""
    duration: PositiveDuration | None = None
    """Simulated time."""

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.rounds is None and self.duration is None:
            raise ValueError("needs rounds, duration or both")
        return self

    def reached(self, counts: Counts) -> bool:
        """Say whether what has happened ends the run before its `horizon`."""
        return self.rounds is not None and counts.rounds >= self.rounds

    def share(self, rounds: int, now_s: float) -> float:
        """Return how much of the run is done, from 0 to 1, after so many rounds and seconds."""
        return min(1.0, max(rounds / (self.rounds or math.inf), now_s / self.most_s))

    def at_most(self, rounds: int) -> int:
        """Return `rounds`, or the most rounds that the run can have if these are fewer."""
        return rounds if self.rounds is None else min(self.rounds, rounds)

    @property
    def most_s(self) -> float:
        """The longest simulated time in seconds; infinite where only rounds end the run."""
        return math.inf if self.duration is None else self.duration

    @property
    def horizon(self) -> int:
        """The instant at which the run is cut off, `FOREVER` where time does not end it."""
        return to_ms(self.most_s)

    @property
    def key(self) -> str:
        """The key of the scenario file that decides how long the run is."""
        return "duration" if self.rounds is None else "rounds"

    def in_words(self) -> str:
        """Return the criteria as a person reads them: ``200 rounds or 30d``."""
        rounds = [] if self.rounds is None else [f"{self.rounds:,} rounds"]
        return " or ".join(rounds + ([] if self.duration is None else [format_duration(self.duration)]))
