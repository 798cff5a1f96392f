"""What the states of both engines have."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import simpy

from fedsim.availability.population import PopulationAvailability, Strata
from fedsim.availability.shocks import server_shocks
from fedsim.common.arrays import Ints
from fedsim.common.instants import FOREVER, each_to_ms
from fedsim.common.keyed import Purpose, stream
from fedsim.log.columns import Arrays, part_of, with_prefix
from fedsim.log.recorder import Recorder
from fedsim.population import Population
from fedsim.population.sessions import PHASES, cut_short, session_failures, session_phases, upload_bits, whole_steps
from fedsim.scenario import Scenario
from fedsim.simulation.arrays.precomputed import PrecomputedAvailability
from fedsim.simulation.check_ins import connections_of
from fedsim.simulation.clock import Clock
from fedsim.simulation.cooldowns import Cooldowns
from fedsim.simulation.endings import Closing, Endings, Limits, deadline_ms, whole_lengths
from fedsim.simulation.selector import Selector
from fedsim.simulation.sharing import Alone


@dataclass(eq=False)
class World:
    """What the states of both engines have; the parameters are those of the simulation."""

    scenario: Scenario
    population: Population
    devices: Strata
    clock: Clock
    recorder: Recorder
    replicate: int
    shared: Alone  # with other jobs on the fleet
    selector: Selector = field(init=False)
    availability: PopulationAvailability | PrecomputedAvailability = field(init=False)

    def __post_init__(self) -> None:
        scenario = self.scenario
        self._job = len(self.shared.rosters)
        self.server_shocks = server_shocks(scenario, self.replicate)
        self.connections = connections_of(scenario, self.devices, self.replicate)
        draws = stream(scenario.own_seed, self.replicate, Purpose.SESSION)
        self._phases, self._bits = session_phases(scenario, self.population, draws), upload_bits(scenario)
        self._steps = whole_steps(scenario, self.population) if scenario.server.partial else None
        self._failing = session_failures(scenario, self.population, draws)
        self._cooldowns = Cooldowns(scenario.server, self.population)
        self.planned: Callable[[Ints, Ints], None] = lambda _cohort, _ends: None
        """Called with clients that are selected, and when their sessions end if nothing cuts them."""

    def state(self) -> Arrays:
        """Return all that is needed to go on at the opening of a round, except the clock and the log."""
        kept = with_prefix("cooldowns", self._cooldowns.state()) | with_prefix("shared", self.shared.state())
        return self.selector.state() | kept

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned; the clock has been set."""
        self.selector.restore(state)
        self._cooldowns.restore(part_of("cooldowns", state))
        self.shared.restore(part_of("shared", state))

    @cached_property
    def closing(self) -> Closing:
        """When rounds close."""
        return Closing.of(self.scenario.sync_server)

    def record_late(self) -> None:
        """Record the late sessions that have ended; those that are processes do so themselves."""

    def take(self, clients: Ints, ends: Ints) -> None:
        """Note which clients are in a session, and until when."""
        self.shared.took(clients, ends)

    def limits(self, cohort: Ints, number: int, row: int, until: int = FOREVER) -> Limits:
        """Return what may end sessions that begin now, as far as it is known, and comes before `until`.

        `number` is that of the round, or `session_key`; `row` is the recorder's of the first.
        """
        reports = self._reports(cohort, number, row)
        self.planned(cohort, reports)
        device = self.device_ends(cohort, reports, until)
        return Limits(reports, device, *self._failing(cohort, number, self.clock.now))

    def given_up(self, cohort: Ints, key: int, row: int) -> Endings:
        """Begin sessions of a buffered server, which gives them up `deadline` later, and return how they end."""
        until = self.clock.now + deadline_ms(self.scenario.server)
        endings = self.limits(cohort, key, row, until).endings(until, "late")
        self.take(cohort, endings.at)
        return endings

    def device_ends(self, cohort: Ints, ends: Ints, until: int) -> Ints | int:
        """Return when devices leave during sessions that end at `ends`, before `until`; processes tell it then."""
        return FOREVER

    def _reports(self, cohort: Ints, number: int, row: int) -> Ints:
        """Return the instants (n,) at which sessions that begin now report if nothing cuts them.

        Devices that become unavailable leave the rest of the server's uplink to the others, and late uploads have no
        part in those of the next rounds. Where partial reports are taken, sessions that would be cut train less.
        """
        now, phases, uplink = self.clock.now, self._phases(cohort, number), self.scenario.server.uplink
        speed = self.population.speed[cohort]
        if self._steps is not None:
            leaves = self.availability.ends(cohort, now, now + whole_lengths(phases, speed) + 1)
            room = np.minimum(leaves - 1 - now, deadline_ms(self.scenario.server))
            self.recorder.note(row, steps=cut_short(phases, self._steps[cohort], room / 1000 * speed))
        if self.population.device is not None:
            self.recorder.note(row, **dict(zip(PHASES, phases, strict=True)))
        if uplink is not None:
            from fedsim.population.uplink import shared  # only where needed: it compiles

            bits = self._bits[self.population.group[cohort]]
            at_most = np.maximum(phases[2], len(cohort) * bits / uplink)  # if all of them share it all of the time
            until = now + each_to_ms(phases[0] + phases[1] + at_most) + 1
            gone = np.minimum(self.availability.ends(cohort, now, until), self._failing(cohort, number, now)[0])
            phases[2], _ = shared(phases, bits, (gone - now) / 1000, uplink)
        return now + np.maximum(whole_lengths(phases, speed), self.shared.shortest)

    def wait_to_select(self, since: int, wanted: int) -> Generator[simpy.Event, None, None]:
        """Wait until it is this server's turn to select in this instant; it has wanted devices `since` an instant."""
        return self.shared.wait_to_select(self._job, since, wanted)
