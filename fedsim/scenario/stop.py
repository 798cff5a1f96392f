"""When a run ends. Only this file knows which criteria there are: all others ask a `Stop` what follows from them."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field, model_validator

from fedsim.common.instants import to_ms
from fedsim.scenario.strict import SparseModel
from fedsim.scenario.units import PositiveDuration, format_duration


class Counts(NamedTuple):
    """What has happened in a run so far."""

    rounds: int  # (or versions) that have closed
    participations: int  # that have begun
    reports: int  # that were taken, of rounds that have closed


class Stop(SparseModel):
    """When the run ends: whichever comes first; rounds or a duration are needed."""

    unwritten = frozenset({"reports"})

    rounds: Annotated[int, Field(ge=1, le=10**9)] | None = None
    """Number of rounds; of versions, with a buffered server."""
    reports: Annotated[int, Field(ge=1, le=10**12)] | None = None
    """Number of reports that were taken; the round in which there are so many is the last."""
    duration: PositiveDuration | None = None
    """Simulated time."""

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.rounds is None and self.duration is None:
            raise ValueError("needs rounds, duration or both")
        return self

    @property
    def _criteria(self) -> dict[str, float]:
        """What ends the run, by key: numbers, and of ``duration`` seconds."""
        return {name: limit for name, limit in self if limit is not None}

    def shares(self, counts: Counts, now_s: float) -> list[float]:
        """Return how much of each criterion is done, after so many seconds; 1 and more ends the run."""
        done = {**counts._asdict(), "duration": now_s}
        return [done[name] / limit for name, limit in self._criteria.items()]

    def reached(self, counts: Counts) -> bool:
        """Say whether what has happened ends the run before its `horizon`."""
        limits = map(self.__dict__.get, Counts._fields)  # asked at every report
        return any(limit is not None and count >= limit for count, limit in zip(counts, limits, strict=True))

    def share(self, counts: Counts, now_s: float) -> float:
        """Return how much of the run is done, from 0 to 1, after so many seconds."""
        return min(1.0, max(self.shares(counts, now_s)))

    @property
    def by_length(self) -> bool:
        """Whether rounds or time alone end the run, so that one cut to fewer of these is a part of it."""
        return self._criteria.keys() <= {"rounds", "duration"}

    @property
    def most_rounds(self) -> float:
        """The most rounds that the run can have; infinite where they do not end it."""
        return math.inf if self.rounds is None else self.rounds

    def about_rounds(self, round_s: float, size: float) -> float:
        """Return about how many rounds the run has, if one takes so many seconds and selects so many clients."""
        return min(self.most_rounds, self.most_s / max(round_s, 1e-9), (self.reports or math.inf) / size)

    def sure_rounds(self, round_s: float, size: int) -> float:
        """Return how many rounds the run surely has, if one takes so long at most and so many report at most."""
        by_time = math.inf if self.duration is None else self.duration // round_s if round_s else 0.0
        return min(self.most_rounds, by_time, self.reports // size if self.reports else math.inf)

    def cut(self, rounds: int) -> Self:
        """Return what ends the run after so many rounds at the latest."""
        return self.model_copy(update={"rounds": int(min(self.most_rounds, rounds))})

    def within(self, run: Self) -> dict[str, Any]:
        """Return the criteria as they are written, of a server that ends with its `run`."""
        return self._written({**self._criteria, "duration": min(self.most_s, run.most_s)})

    def times(self, number: int) -> dict[str, Any]:
        """Return the criteria as they are written, of a run so many times as long."""
        return self._written({name: limit * number for name, limit in self._criteria.items()})

    def _written(self, criteria: Mapping[str, float]) -> dict[str, Any]:
        given = {name: limit for name, limit in criteria.items() if limit < math.inf}
        return {name: format_duration(limit) if name == "duration" else limit for name, limit in given.items()}

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
        return next(iter(self._criteria))

    def in_words(self) -> str:
        """Return the criteria as a person reads them: ``200 rounds or 30d``."""
        return " or ".join(
            format_duration(limit) if name == "duration" else f"{limit:,} {name}"
            for name, limit in self._criteria.items()
        )
