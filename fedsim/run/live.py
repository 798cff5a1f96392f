"""A simulation that is stepped: a round comes out once it has closed, and its outcome goes in."""

from typing import Self

import numpy as np
import polars as pl

from fedsim.common.arguments import whole
from fedsim.common.errors import RunError, StalledError
from fedsim.common.renamed import once_called, warn_of
from fedsim.log.recorder import InMemoryLog
from fedsim.run.budget import check_log_size
from fedsim.run.evaluate import evaluate
from fedsim.run.preflight import preflight
from fedsim.run.run import Run
from fedsim.scenario import GivenScenario, Scenario, as_scenario
from fedsim.selection import needs_feedback
from fedsim.simulation import Closed, stepped
from fedsim.simulation.engine import Simulation
from fedsim.simulation.gate import ANSWERS

_SCHEMA = {"round": pl.Int64, "client": pl.Int64, **dict.fromkeys(ANSWERS, pl.Float64)}


class LiveFleet:
    """The rounds of a scenario, one after the other: iterate over it, or ask for ``next(fleet)``.

    A `StalledError` says that the federation can never make progress again. As a context manager it is closed at the
    end of the block.
    """

    def __init__(self, scenario: Scenario, replicate: int, feedback: pl.DataFrame | None) -> None:
        self.scenario, self.replicate = scenario, replicate
        self._world = preflight(scenario, replicate, live=True)
        check_log_size(scenario)
        self._memory, self._informed = InMemoryLog(), needs_feedback(scenario.server.selection)
        population, devices = self._world.population, self._world.devices
        self._steps = stepped(self._memory, Simulation(scenario, population, replicate, devices=devices))
        self._rounds: list[Closed] = []  # that were reported on, and the last one
        self._ended_s: float | None = None
        self._closed = False
        if feedback is not None:
            self._catch_up(feedback)

    @property
    def clients(self) -> int:
        """N, the clients of the federation."""
        return len(self._world.population)

    @property
    def feedback(self) -> pl.DataFrame:
        """All that was reported, by round and client: ``live(scenario, feedback=...)`` goes on from it."""
        parts = [
            pl.DataFrame([np.full(len(each.reporters), each.number), each.reporters, *each.answers], schema=_SCHEMA)
            for each in self._rounds
            if each.answers is not None
        ]
        return pl.concat([pl.DataFrame(schema=_SCHEMA), *parts])

    @property
    def told(self) -> pl.DataFrame:
        """The old name of `feedback`."""
        warn_of("LiveFleet.told", "LiveFleet.feedback")
        return self.feedback

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Closed:
        """Return the next round; a `RunError` if the law needs the report of the one before, or the fleet is closed."""
        if self._closed:
            raise RunError("the fleet is closed: fedsim.live(scenario, feedback=fleet.feedback) goes on")
        if self._ended_s is not None:
            raise StopIteration
        feedback, last = None, self._last
        if last is not None and self._informed:
            if last.answers is None and len(last.reporters):
                kind = self.scenario.server.selection.kind
                raise RunError(
                    f"selection by {kind!r} goes by the outcome of round {last.number:,}, which has not been reported: "
                    "call its report(losses=...) first"
                )
            feedback = last.feedback()
        if last is not None:
            last.over = True
        try:
            closed = self._steps.send(feedback)
        except StopIteration as end:
            self._ended_s = float(end.value)
            raise StopIteration from None
        except StalledError as error:
            error.log, self._memory.ended_s = self._memory, error.ended_s
            raise
        if last is not None and last.answers is None:
            self._rounds.pop()
        self._rounds.append(closed)
        return closed

    def result(self) -> Run:
        """Return what `fedsim.simulate` returns of the run; a `RunError` before its end."""
        if self._ended_s is None:
            at = 0 if self._last is None else self._last.number + 1
            raise RunError(f"the run has not ended: {at:,} rounds of it have closed; step it to its end first")
        self._memory.ended_s = self._ended_s
        return evaluate(self._world, self._memory)

    def close(self) -> None:
        """End the simulation where it stands."""
        if self._last is not None:
            self._last.over = True
        self._steps.close()
        self._closed = self._ended_s is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _last(self) -> Closed | None:
        return self._rounds[-1] if self._rounds else None

    def _catch_up(self, feedback: pl.DataFrame) -> None:
        if missing := [name for name in _SCHEMA if name not in getattr(feedback, "columns", ())]:
            raise RunError(
                f"feedback has no column {missing[0]!r}: it must be the table `feedback` of an earlier fleet"
            )
        rows = feedback.partition_by("round", as_dict=True)
        last = max((number for (number,) in rows), default=-1)
        while self._last is None or self._last.number < last:
            if last < 0 or (round_ := next(self, None)) is None:
                break
            answers = rows.pop((round_.number,), feedback.clear())
            if len(answers):
                if answers["client"].to_list() != round_.reporters.tolist():
                    raise RunError(f"feedback is of another run: other clients reported in its round {round_.number:,}")
                norms = None if answers["norms"].is_nan().all() else answers["norms"].to_numpy()
                columns = {name: answers[name].to_numpy() for name in ("rms_losses", "samples")}
                round_.report(answers["losses"].to_numpy(), norms=norms, **columns)
        if rows:
            raise RunError(f"feedback is of another run: it has round {min(rows)[0]:,}, and the run has none")


@once_called(feedback="told")
def live(
    scenario: GivenScenario, *, replicate: int = 0, seed: int | None = None, feedback: pl.DataFrame | None = None
) -> LiveFleet:
    """Return a scenario as a fleet that is stepped: a round comes out, its outcome goes in.

    With a law that needs no feedback it gives the log of `simulate`, byte for byte.

    Parameters
    ----------
    scenario
        What to run: a scenario, the name of its file, or a mapping with its keys.
    replicate
        Which repetition, from 0.
    seed
        In place of the scenario's own.
    feedback
        What was reported to an earlier fleet, its `feedback`: this one goes on after the last round in it.

    Raises
    ------
    ScenarioError
        If the scenario cannot work.
    RunError
        If `feedback` is of another run.

    >>> with live("paper/synthetic") as fleet:
    ...     print(next(fleet).outcome)
    target
    """
    scenario, replicate = as_scenario(scenario), whole("replicate", replicate)
    if seed is not None:
        scenario = scenario.with_values({"seed": whole("seed", seed)})
    return LiveFleet(scenario, replicate, feedback)
