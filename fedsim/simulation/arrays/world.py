"""A federation whose devices are looked up and whose sessions are arrays."""

import math

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.cells import Cells
from fedsim.availability.population import PopulationAvailability, population_availability
from fedsim.common.keyed import Purpose, stream
from fedsim.log.columns import Arrays, part_of, within
from fedsim.log.recorder import CODES, Recorder
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.selection import Request, selection_law
from fedsim.simulation.arrays.flights import ArrayFlights
from fedsim.simulation.arrays.roster import ArrayRoster
from fedsim.simulation.arrays.sessions import CohortRound, Ends
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.federation import wanted_together
from fedsim.simulation.processes.session import session_lengths

Rows = tuple[int, NDArray[np.int64], Ends]
"""Number of a round, rows of the log, and how their sessions end."""
_NONE = np.empty(0, dtype=np.int64)


class ArrayWorld:
    """The state of one simulation: a `Federation` without a process for anything but the server.

    Parameters
    ----------
    scenario, population, clock, recorder, replicate
        As of the simulation.
    devices
        As the attribute.

    Attributes
    ----------
    devices
        The availability of all devices.
    session_models, session_draws
        Session model of each group, and the stream for session lengths.
    block
        Clients that can be selected only together.
    least
        Fewest ready clients with which a round can start.
    """

    def __init__(
        self,
        scenario: Scenario,
        population: Population,
        clock: Clock,
        recorder: Recorder,
        replicate: int,
        devices: PopulationAvailability,
    ) -> None:
        server = scenario.server
        self.scenario, self.population, self.clock, self.recorder = scenario, population, clock, recorder
        self.block, self.least = wanted_together(server)
        law = selection_law(server.selection.kind, population.weight, self.block, scenario.seed, replicate)
        self._horizon_s = math.inf if scenario.stop.duration is None else scenario.stop.duration
        fixed_size = server.selection.kind != "bernoulli"
        self.roster = ArrayRoster(clock, devices, law, self.block, fixed_size, self._horizon_s)
        self.devices = devices
        self.session_models = [group.session for group in scenario.population]
        self.session_draws = stream(scenario.seed, replicate, Purpose.SESSION)
        self._round: CohortRound | None = None
        self._beyond: list[Rows] = []  # sessions that end after the stop, unless it comes too late to matter

    @property
    def open_round(self) -> CohortRound | None:
        """The round whose reports still count."""
        return None if self._round is None or self._round.closed else self._round

    @property
    def last_selected(self) -> int:
        """The client selected last, -1 before the first."""
        return self.roster.last_selected

    @last_selected.setter
    def last_selected(self, client: int) -> None:
        self.roster.last_selected = client

    def select(self, request: Request) -> NDArray[np.int64]:
        """Choose a cohort by the selection law."""
        return self.roster.select(request)

    def start(self, number: int, cohort: NDArray[np.int64], row: int, target: int) -> CohortRound:
        """Work out how the sessions of a cohort end."""
        clock, now = self.clock, self.clock.now
        lengths = session_lengths(self.session_models, self.population, cohort, number, self.session_draws)
        own_ends = now + lengths
        device_ends = self.devices.ends(cohort, now, own_ends)
        round_ = CohortRound(clock, number, target, own_ends, device_ends, self.scenario.server.deadline)
        self._cool_down(cohort, number, round_.ends)
        self.roster.start(cohort, round_.ends.at_s)
        if len(cohort):
            rows, within = row + np.arange(len(cohort)), round_.ends.at_s <= self._horizon_s
            self._end(number, rows[within], round_.ends.at_s[within], round_.ends.outcome[within])
            if not within.all():
                rest = Ends(round_.ends.at_s[~within], round_.ends.outcome[~within])
                self._beyond.append((number, rows[~within], rest))
        self._round = round_
        return round_

    def state(self) -> Arrays:
        """Return all that is needed to go on at the opening of a round, beside the clock and the log."""
        number = [np.full(len(rows), number) for number, rows, _ in self._beyond]
        columns = {
            "number": np.concatenate([*number, _NONE]),
            "rows": np.concatenate([*(rows for _, rows, _ in self._beyond), _NONE]),
            "at_s": np.concatenate([*(ends.at_s for _, _, ends in self._beyond), np.empty(0)]),
            "outcome": np.concatenate([*(ends.outcome for _, _, ends in self._beyond), np.empty(0, dtype=np.int8)]),
        }
        return {**within("roster", self.roster.state()), **within("beyond", columns)}

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned; the clock has been set."""
        self.roster.restore(part_of("roster", state))
        beyond = part_of("beyond", state)
        for number in np.unique(beyond["number"]).tolist():
            own = beyond["number"] == number
            self._beyond.append((number, beyond["rows"][own], Ends(beyond["at_s"][own], beyond["outcome"][own])))

    def flights(self) -> ArrayFlights:
        """Return what a buffered server needs of its sessions."""
        return ArrayFlights(self)

    def stop(self) -> None:
        """Cut all sessions short: the run is over."""
        for number, rows, _ in self._beyond:
            aborted = self._round is not None and number == self._round.number and self._round.stopped
            self._end(number, rows, self.clock.now, CODES["aborted" if aborted else "late"])
        self._beyond.clear()

    def finish(self) -> None:
        """Let the clock run until no session is left."""
        last = self.clock.at(self.roster.last_end_s, Turn.SESSION)
        while not last.processed and self.roster.last_end_s > self.clock.now:
            self.clock.step()
        for number, rows, ends in self._beyond:
            self._end(number, rows, ends.at_s, ends.outcome)
        self._beyond.clear()

    def _end(
        self,
        number: int,
        rows: NDArray[np.int64],
        ended_s: NDArray[np.float64] | float,
        outcome: NDArray[np.int8] | int,
    ) -> None:
        if len(rows):
            self.recorder.end(number, rows, ended_s, outcome)

    def _cool_down(self, cohort: NDArray[np.int64], number: int, ends: Ends) -> None:
        """Note from which round and which instant on nothing but their availability keeps these clients out."""
        roster, population = self.roster, self.population
        if self.scenario.server.cooldown_from == "selected":
            since, counted = np.full(len(cohort), self.clock.now), np.ones(len(cohort), dtype=np.bool_)
        else:
            since, counted = ends.at_s, ends.outcome == CODES["reported"]
        separation = population.separation[cohort]
        waits = counted & (separation > 0)
        roster.free_round[cohort[waits]] = number + 1 + separation[waits]
        rests = np.where(counted, since + population.cooldown_s[cohort], 0.0)
        roster.free_s[cohort] = np.maximum(ends.at_s, rests)


def vectorized_world(
    scenario: Scenario, population: Population, devices: Cells, clock: Clock, recorder: Recorder, replicate: int
) -> ArrayWorld:
    """Return a simulation that looks devices up when they are asked about."""
    draws = stream(scenario.seed, replicate, Purpose.AVAILABILITY)
    everyone = population_availability(devices.models, devices.places, devices.of_client, draws)
    return ArrayWorld(scenario, population, clock, recorder, replicate, everyone)
