"""A federation whose devices are looked up and whose sessions are arrays."""

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.cells import Cells
from fedsim.availability.population import PopulationAvailability, population_availability
from fedsim.common.keyed import Purpose, stream
from fedsim.log.columns import Arrays, part_of, within
from fedsim.log.recorder import CODES, Recorder
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.simulation.arrays.buffered_sessions import ArrayBufferedSessions
from fedsim.simulation.arrays.roster import ArrayRoster
from fedsim.simulation.arrays.round import ArrayRound, Ends
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.cooldown import cooldown
from fedsim.simulation.processes.session import session_lengths
from fedsim.simulation.selector import Selector

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
        self.scenario, self.population, self.clock, self.recorder = scenario, population, clock, recorder
        self._horizon_s = math.inf if scenario.stop.duration is None else scenario.stop.duration
        self.roster = ArrayRoster(clock, devices, scenario.server.block, self._horizon_s)
        self.selector = Selector(scenario, population, self.roster, recorder, replicate)
        self.devices = devices
        draws = stream(scenario.seed, replicate, Purpose.SESSION)
        models = [group.session for group in scenario.population]
        self._lengths = partial(session_lengths, models, population, draws=draws)
        self._round: ArrayRound | None = None
        self._beyond: list[Rows] = []  # sessions that end after the stop, unless it comes too late to matter

    @property
    def open_round(self) -> ArrayRound | None:
        """The round whose reports still count."""
        return None if self._round is None or self._round.closed else self._round

    def start(self, number: int, cohort: NDArray[np.int64], row: int, target: int) -> ArrayRound:
        """Work out how the sessions of a cohort end."""
        clock, now = self.clock, self.clock.now
        own_ends = now + self._lengths(cohort, number)
        device_ends = self.devices.ends(cohort, now, own_ends)
        round_ = ArrayRound(clock, number, target, own_ends, device_ends, self.scenario.server.deadline)
        self.roster.start(cohort, round_.ends.at_s)
        if self.scenario.server.cooldown_from == "selected":
            self.cool_down(cohort, number)
        else:
            reported = round_.ends.outcome == CODES["reported"]
            self._cool_down(cohort[reported], number, round_.ends.at_s[reported])
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
        last = {"last_selected": np.array(self.selector.last_selected)}
        return {**last, **within("roster", self.roster.state()), **within("beyond", columns)}

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned; the clock has been set."""
        self.selector.last_selected = int(state["last_selected"])
        self.roster.restore(part_of("roster", state))
        beyond = part_of("beyond", state)
        for number in np.unique(beyond["number"]).tolist():
            own = beyond["number"] == number
            self._beyond.append((number, beyond["rows"][own], Ends(beyond["at_s"][own], beyond["outcome"][own])))

    def cool_down(self, clients: NDArray[np.int64], number: int) -> None:
        """Begin the cool-down of clients now, in a round or at a version."""
        self._cool_down(clients, number, self.clock.now)

    def buffered_sessions(self) -> ArrayBufferedSessions:
        """Return what a buffered server needs of its sessions."""
        deadline_s = self.scenario.server.deadline or math.inf
        return ArrayBufferedSessions(self.clock, self.roster, self.devices, self._lengths, deadline_s)

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

    def _cool_down(self, clients: NDArray[np.int64], number: int, since_s: NDArray[np.float64] | float) -> None:
        self.roster.exclude(clients, cooldown(self.scenario.server, self.population, clients, number, since_s))


def vectorized_world(
    scenario: Scenario, population: Population, devices: Cells, clock: Clock, recorder: Recorder, replicate: int
) -> ArrayWorld:
    """Return a simulation that looks devices up when they are asked about."""
    draws = stream(scenario.seed, replicate, Purpose.AVAILABILITY)
    everyone = population_availability(devices.models, devices.places, devices.of_client, draws)
    return ArrayWorld(scenario, population, clock, recorder, replicate, everyone)
