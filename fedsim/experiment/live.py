"""A simulation that is stepped: a round comes out once it has closed, and what came of it goes in."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from fedsim.common.arguments import whole
from fedsim.common.arrays import Floats
from fedsim.common.errors import RunError, StalledError
from fedsim.experiment.budget import check_log_size
from fedsim.experiment.evaluation import evaluate
from fedsim.experiment.preflight import made_ready
from fedsim.experiment.result import Result
from fedsim.log.recorder import InMemoryLog
from fedsim.scenario import Scenario, as_scenario
from fedsim.selection import needs_feedback
from fedsim.simulation import Closed, stepped

_TOLD = ("losses", "rms_losses", "norms", "samples")
_SCHEMA = {"round": pl.Int64, "client": pl.Int64, **dict.fromkeys(_TOLD, pl.Float64)}


@dataclass(frozen=True, eq=False)
class LiveRound(Closed):
    """A round of a fleet, or a version of a buffered server; the fields are those of `Closed`."""

    _tell: Callable[["LiveRound", list[Floats]], None] = field(repr=False, default=lambda *_: None)

    def report(
        self,
        losses: ArrayLike | Mapping[int, float],
        *,
        rms_losses: ArrayLike | Mapping[int, float] | None = None,
        norms: ArrayLike | Mapping[int, float] | None = None,
        samples: ArrayLike | Mapping[int, float] | None = None,
    ) -> None:
        """Tell what came of the round, once, before the next one is asked for.

        Parameters
        ----------
        losses
            The mean loss of the samples of each of the `reporters`, in their order, shape (b,), or by client. What is
            told must be finite and at least 0.
        rms_losses
            The roots of the means of their squares, which Oort goes by; by default the losses.
        norms
            Euclidean norms of the updates.
        samples
            How many samples each client has; by default 1.

        Raises
        ------
        RunError
            If the round has been told already or is over, or the numbers do not fit the clients that reported.
        """
        mean = self._checked("losses", losses)
        others = [("rms_losses", rms_losses, mean), ("norms", norms, np.nan), ("samples", samples, 1.0)]
        told = [np.full(len(mean), default) if x is None else self._checked(name, x) for name, x, default in others]
        self._tell(self, [mean, *told])

    def _checked(self, name: str, given: Any) -> Floats:
        reporters = self.reporters
        if isinstance(given, Mapping):
            if unknown := given.keys() - set(reporters.tolist()):
                raise RunError(f"{name}: client {min(unknown)} has no report in round {self.number:,}")
            if missing := set(reporters.tolist()) - given.keys():
                raise RunError(f"{name}: client {min(missing)} reported in round {self.number:,}, and has no number")
            given = [given[client] for client in reporters.tolist()]
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise RunError(f"{name} must be numbers, one for each of the reporters, not {given!r}") from None
        if values.shape != reporters.shape:
            raise RunError(
                f"{name} has the shape {values.shape}, and {len(reporters):,} reports came in round {self.number:,}: "
                "give one number for each, in the order of reporters"
            )
        if not (fits := (values >= 0) & (values < np.inf)).all():
            client, value = reporters[~fits][0], values[~fits][0]
            raise RunError(f"{name} of client {client} in round {self.number:,} is {value}; it must be at least 0")
        return values


class LiveFleet:
    """The rounds of a scenario, one after the other: iterate over it, or ask for ``next(fleet)``.

    A `StalledError` says that the federation can never make progress again. As a context manager it is closed at the
    end of the block.
    """

    def __init__(self, scenario: Scenario, replicate: int, told: pl.DataFrame | None) -> None:
        self.scenario, self.replicate = scenario, replicate
        self._ready = made_ready(scenario, replicate, live=True)
        check_log_size(scenario)
        self._memory, self._informed = InMemoryLog(), needs_feedback(scenario.server.selection)
        population, devices = self._ready.population, self._ready.devices
        self._steps = stepped(self._memory, scenario, population, replicate, None, devices)
        self._round: LiveRound | None = None
        self._last: list[Floats] | None = None  # what was told of it
        self._parts: list[tuple[LiveRound, list[Floats]]] = []
        self._ended_s: float | None = None
        self._closed = False
        if told is not None:
            self._catch_up(told)

    @property
    def clients(self) -> int:
        """N, the clients of the federation."""
        return len(self._ready.population)

    @property
    def told(self) -> pl.DataFrame:
        """All that was told, by round and client: ``live(scenario, told=...)`` goes on from it."""
        columns: dict[str, Any] = {name: [] for name in _SCHEMA}
        for round_, values in self._parts:
            rows = (np.full(len(values[0]), round_.number), round_.reporters, *values)
            for column, part in zip(columns.values(), rows, strict=True):
                column.append(part)
        joined = {name: np.concatenate(parts or [np.empty(0)]) for name, parts in columns.items()}
        return pl.DataFrame(joined, schema=_SCHEMA, strict=False)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> LiveRound:
        """Return the next round; a `RunError` if the law needs to be told of the one before, or the fleet is closed."""
        if self._closed:
            raise RunError("the fleet is closed: fedsim.live(scenario, told=...) goes on from what it was told")
        if self._ended_s is not None:
            raise StopIteration
        feedback, last = None, self._round
        if last is not None and self._informed:
            if self._last is None and len(last.reporters):
                kind = self.scenario.server.selection.kind
                raise RunError(
                    f"selection by {kind!r} goes by what came of round {last.number:,}, and that has not been told: "
                    "call its report(losses=...) first"
                )
            feedback = last.feedback(*(self._last or [np.empty(0)] * len(_TOLD)))
        try:
            closed = self._steps.send(feedback)
        except StopIteration as end:
            self._ended_s = float(end.value)
            raise StopIteration from None
        except StalledError as error:
            error.log = self._memory.log(error.ended_s)
            raise
        self._round, self._last = LiveRound(**vars(closed), _tell=self._tell), None
        return self._round

    def result(self) -> Result:
        """Return what `fedsim.simulate` returns of the run; a `RunError` before its end."""
        if self._ended_s is None:
            at = 0 if self._round is None else self._round.number + 1
            raise RunError(f"the run has not ended: {at:,} rounds of it have closed; step it to its end first")
        log = self._memory.log(self._ended_s)
        return Result(**vars(evaluate(self.scenario, self._ready, log, self.replicate)))

    def close(self) -> None:
        """End the simulation where it stands."""
        self._steps.close()
        self._closed = self._ended_s is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(self, round_: LiveRound, values: list[Floats]) -> None:
        if round_ is not self._round or self._ended_s is not None or self._closed:
            raise RunError(f"round {round_.number:,} is over: only the round that came last can be told of")
        if self._last is not None:
            raise RunError(f"round {round_.number:,} has been told already")
        self._last = values
        self._parts.append((round_, values))

    def _catch_up(self, told: pl.DataFrame) -> None:
        if missing := [name for name in _SCHEMA if name not in told.columns]:
            raise RunError(f"told has no column {missing[0]!r}: it must be the table `told` of an earlier fleet")
        rows = told.partition_by("round", as_dict=True)
        last = max((number for (number,) in rows), default=-1)
        while self._round is None or self._round.number < last:
            if last < 0 or (round_ := next(self, None)) is None:
                break
            own = rows.pop((round_.number,), told.clear())
            if len(own):
                if own["client"].to_list() != round_.reporters.tolist():
                    raise RunError(f"told is of another run: other clients reported in its round {round_.number:,}")
                norms = None if own["norms"].is_nan().all() else own["norms"].to_numpy()
                columns = {name: own[name].to_numpy() for name in ("rms_losses", "samples")}
                round_.report(own["losses"].to_numpy(), norms=norms, **columns)
        if rows:
            raise RunError(f"told is of another run: it has round {min(rows)[0]:,}, and the run has none")


def live(
    scenario: Scenario | str | os.PathLike[str],
    *,
    replicate: int = 0,
    seed: int | None = None,
    told: pl.DataFrame | None = None,
) -> LiveFleet:
    """Return a scenario as a fleet that is stepped: a round comes out, what came of it goes in.

    With a law that needs no feedback it gives the log of `simulate`, byte for byte.

    Parameters
    ----------
    scenario
        What to run, or the name of its file.
    replicate
        Which repetition, from 0.
    seed
        In place of the scenario's own.
    told
        What an earlier fleet was told, its `told`: this one goes on after the last round in it.

    Raises
    ------
    ScenarioError
        If the scenario cannot work.
    RunError
        If `told` is of another run.
    """
    scenario, replicate = as_scenario(scenario), whole("replicate", replicate)
    if seed is not None:
        scenario = scenario.with_values({"seed": whole("seed", seed)})
    return LiveFleet(scenario, replicate, told)
