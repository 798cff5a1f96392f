"""What both engines share: the clock, how long sessions take, cool-downs, who selects, and what keeps clients out."""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, cast

import numpy as np
import simpy
from simpy.events import EventPriority

from fedsim.availability.batch import Reasons
from fedsim.availability.population import PopulationAvailability, Strata
from fedsim.availability.shocks import server_shocks
from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import DAY, FOREVER, each_to_ms, to_ms, to_seconds
from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.common.reasons import OF_DEVICES, Reason
from fedsim.common.registry import is_own
from fedsim.log.columns import Arrays, part_of, with_prefix
from fedsim.log.recorder import Recorder
from fedsim.population import Population
from fedsim.population.sessions import session_failures, session_phases, upload_bits
from fedsim.scenario import Scenario
from fedsim.scenario.server import Server
from fedsim.scenario.units import format_duration
from fedsim.selection import (
    Candidates,
    Eligibility,
    Feedback,
    Informed,
    Remembering,
    Request,
    needs_feedback,
    selection_law,
)
from fedsim.selection.law import Remembers
from fedsim.selection.matching import Wish
from fedsim.simulation.arrays.precomputed import PrecomputedAvailability
from fedsim.simulation.check_ins import connections_of

NEVER: Final = 1 << 62
"""The round from which a client may be selected again that has taken part as often as it may."""
_WORDS = (
    (Reason.SPENT, "out for good, having taken part as often as they may"),
    (Reason.SEPARATION, "kept out by their separation"),
    (Reason.GONE, "never available again"),
    (Reason.IN_SESSION, "in a session"),
    (Reason.COOLDOWN, "in their wall-clock cool-down"),
    (Reason.SHOCK, "out in a shock or not joined yet"),
    (Reason.NO_CHARGER, "on no charger"),
    (Reason.NO_NETWORK, "with no network"),
    (Reason.IN_USE, "in use"),
    (Reason.UNAVAILABLE, "not available"),
    (Reason.NOT_CONNECTED, "not checked in"),
)
_COUNTED = (
    Reason.NO_CHARGER,
    Reason.NO_NETWORK,
    Reason.IN_USE,
    Reason.UNAVAILABLE,
    Reason.SHOCK,
    Reason.SEPARATION | Reason.COOLDOWN,
    Reason.SPENT,
)
"""Reasons in the order of their columns in the gauges."""
KINDS = 2 + len(_COUNTED)


class Turn:
    """The order within one instant. SimPy's own URGENT events (starts, interrupts) come before all but the first."""

    GATE: Final = EventPriority(0)
    DEVICE: Final = EventPriority(1)
    SESSION: Final = EventPriority(2)
    SERVER: Final = EventPriority(3)
    MATCH: Final = EventPriority(4)
    GAUGE: Final = EventPriority(5)
    STOP: Final = EventPriority(6)


class Clock(simpy.Environment):
    """A SimPy environment whose time is a whole number of milliseconds, with events at instants."""

    now: int

    def at(self, instant: int, turn: EventPriority) -> simpy.Event:
        """Return an event that happens at `instant`, or now where that is over, in the given turn."""
        return _Due(self, instant, turn)


class _Due(simpy.Event):
    """An event that will happen at an instant, as `simpy.Timeout` does after a delay."""

    def __init__(self, clock: Clock, instant: int, turn: EventPriority) -> None:
        self.env, self.callbacks, self._ok, self._value = clock, [], True, None
        delay = instant - clock.now
        clock.schedule(self, turn, delay if delay > 0 else 0)  # noqa: FURB136  this is called for every event


def in_words(ms: int) -> str:
    """Return an instant or a length of time as messages show it."""
    return format_duration(to_seconds(ms))


def whole_lengths(phases: Floats, speed: Floats) -> Ints:
    """Return how long sessions take if nothing ends them, (n,) milliseconds: (download + train + upload) / speed."""
    download, train, upload = phases
    return each_to_ms((download + train + upload) / speed)


class EndedSession(NamedTuple):
    """A session of a buffered server that has ended; in the order of rows, which is that of versions and positions.

    `version` is the server's when it began; a report may still turn out to be stale.
    """

    row: int
    client: int
    version: int
    outcome: str


class Cooldown(NamedTuple):
    """The first round (or version), and the first instant, that may select each client again: arrays (n,)."""

    from_round: Ints
    from_instant: Ints


def free_round(server: Server, separation: Ints, number: Ints | int) -> Ints:
    """Return the first round, of a buffered server the first version, that may select those who took part in `number`.

    R_i rounds are waited in full: a client of round t is free again in round t + 1 + R_i. A round selects once, so
    where R_i = 0 nothing is left to wait for; a buffered server selects again and again, and R_i = 0 still means once
    in a version.
    """
    free = number + 1 + separation
    return np.where(separation == 0, number, free) if server.selects_once else free


class Cooldowns(Remembers):
    """Begins cool-downs by a scenario's server, and counts participations where clients have a cap on them."""

    remembered = ("_taken",)

    def __init__(self, server: Server, population: Population) -> None:
        self._server, self._population = server, population
        self._taken = np.zeros(0 if population.most is None else len(population), dtype=np.int64)
        kept_out = population.most is not None or population.separation.any() or population.cooldown_s.any()
        self.exclude = bool(kept_out or not server.selects_once)
        """Whether taking part ever keeps a client out, beside the session itself."""

    def begin(self, clients: Ints, number: int, since: Ints | int) -> Cooldown:
        """Count a participation of clients (n,), and return their cool-downs, which begin at the instants `since`.

        `number` is the round in which they were selected; of a buffered server the version at which the cool-down
        begins.
        """
        population = self._population
        from_round = free_round(self._server, population.separation[clients], number)
        if population.most is not None:
            self._taken[clients] += 1
            from_round = np.where(self._taken[clients] >= population.most[clients], NEVER, from_round)
        return Cooldown(from_round, since + each_to_ms(population.cooldown_s[clients]))

    def spent(self) -> Ints:
        """Return the clients that have taken part as often as they may."""
        most = self._population.most
        return np.empty(0, dtype=np.int64) if most is None else np.flatnonzero(self._taken >= most)


class SharedRoster(Protocol):
    """A job's roster, as the other jobs on the fleet see it."""

    def rest_all(self, clients: Ints, until: int) -> None:
        """Keep clients out until an instant."""
        ...

    def look_again(self) -> None:
        """Forget who was eligible: another job has begun or ended sessions."""
        ...


class Sharing(Remembers):
    """What jobs on one fleet share: who is in a session, what a day still allows, and whose turn it is.

    `busy_until` and `rest_until` (N,) are the instants until which each device is in a session of any job, as far as
    that is known, and has had its sessions of a day. `most_a_day` is their number, None for any; `rank` puts what jobs
    want at an instant in an order, and `draws` are the draws for it.
    """

    remembered = ("rest_until", "_taken", "_day")

    def __init__(
        self, clock: Clock, clients: int, rank: Callable[[Wish], float], draws: Stream, most_a_day: int | None
    ) -> None:
        self._clock, self._rank, self._draws, self._most = clock, rank, draws, most_a_day
        self.busy_until, self.rest_until = np.zeros((2, clients), dtype=np.int64)
        self._taken, self._day = np.zeros(clients, dtype=np.int64), -1
        self._asking: list[tuple[float, int, simpy.Event]] = []
        self.rosters: list[SharedRoster] = []
        self._jobs: list[tuple[str, float, Recorder]] = []
        self.news = clock.event()
        """Happens when devices have come free before the instant that was known."""

    def join(self, name: str, weight: float, recorder: Recorder, roster: SharedRoster) -> None:
        """Take the next job in."""
        self._jobs.append((name, weight, recorder))
        self.rosters.append(roster)

    def turn(self, job: int, since: int, wanted: int) -> simpy.Event:
        """Return the event at which it is a job's turn to select, in this instant, after all servers' turns.

        It has wanted devices `since` an instant.
        """
        now, (name, weight, recorder) = self._clock.now, self._jobs[job]
        draw = float(self._draws.uniforms(job, now)[0])
        times = to_seconds(now), to_seconds(since)
        wish = Wish(name, weight, *times, wanted, recorder.counts.participations, draw)
        if not self._asking:
            due = self._clock.at(now, Turn.MATCH)
            assert due.callbacks is not None
            due.callbacks.append(self._grant)
        self._asking.append((self._rank(wish), job, self._clock.event()))
        return self._asking[-1][-1]

    def took(self, clients: Ints, ends: Ints) -> None:
        """Note sessions that begin now, and when each ends unless the server cuts it."""
        self.busy_until[clients] = ends
        day = self._clock.now // DAY
        if self._most is not None:
            if day > self._day:
                self._taken[:], self._day = 0, day
            self._taken[clients] += 1
            spent = clients[self._taken[clients] >= self._most]
            self.rest_until[spent] = (day + 1) * DAY
            for roster in self.rosters:
                roster.rest_all(spent, (day + 1) * DAY)
        for roster in self.rosters:
            roster.look_again()

    def freed(self, clients: Ints) -> None:
        """Note devices whose sessions the server has cut: who waits for devices looks again."""
        self.busy_until[clients] = np.minimum(self.busy_until[clients], self._clock.now)
        for roster in self.rosters:
            roster.look_again()
        news, self.news = self.news, self._clock.event()
        news.succeed()

    def _grant(self, _due: simpy.Event) -> None:
        asking, self._asking = sorted(self._asking, key=lambda each: each[:2]), []
        for *_, event in asking:
            event.succeed()  # in this order their servers go on, one after the other


class Countable(Eligibility, Protocol):
    """Who is eligible now, and how many are ready."""

    @property
    def counted(self) -> bool:
        """Whether counting those who are ready costs next to nothing, since all clients have been looked at."""
        ...

    def ready(self, most: int) -> int:
        """Clients that could be selected now, counted up to `most`: all eligible ones, or those in whole groups."""
        ...


class Trial(NamedTuple):
    """How many clients are ready, counted up to those wanted; and the selected ones, None where too few are ready."""

    ready: int
    cohort: Ints | None


class Selector:
    """Selects by the scenario's law, and remembers who was selected last.

    `last_selected` is the client selected last, -1 before the first; `informed` says whether the law needs feedback.
    """

    def __init__(
        self,
        scenario: Scenario,
        population: Population,
        roster: Countable,
        recorder: Recorder,
        replicate: int,
        clock: Clock | None = None,
    ) -> None:
        server = scenario.server
        self._law = selection_law(server.selection, population.weight, server.wanted, scenario.own_seed, replicate)
        self._few = server.check_ins is not None and server.check_ins.few
        self._finds_shortage = bool(getattr(self._law, "finds_shortage", False))
        own = is_own(server.selection.kind)
        self._roster = roster
        self._candidates = Candidates(roster, population, recorder.last_round, checked=own)
        self._draws = stream(scenario.own_seed, replicate, Purpose.OWN_SELECTION)
        self.last_selected = -1
        self.informed, self._clock = needs_feedback(server.selection), clock or Clock()

    def take(self, feedback: Feedback) -> None:
        """Tell the law what came of a round."""
        cast("Informed", self._law).take_feedback(feedback)

    def try_select(self, number: int, turn: int, count: int) -> Trial:
        """Select `count` clients, if so many are ready, in the round or version `turn`.

        `number` counts the selections, and is the key of the draws.
        """
        if self._finds_shortage and not self._roster.counted:
            # Asking the law is cheaper than looking at all clients.
            cohort = self._ask(number, turn, count, None)
            if len(cohort) == count:
                return Trial(count, self._chosen(cohort))
        ready = self._roster.ready(count)
        return Trial(ready, self.select(number, turn, count) if ready == count else None)

    def select(self, number: int, turn: int, count: int, everyone: Ints | None = None) -> Ints:
        """Select where enough clients are ready; `everyone` is given where all that are eligible are wanted."""
        return self._chosen(self._ask(number, turn, count, everyone))

    def state(self) -> Arrays:
        """Return who was selected last, and what the law remembers."""
        remembered = self._law.state() if isinstance(self._law, Remembering) else {}
        return {"last_selected": np.array(self.last_selected), **with_prefix("law", remembered)}

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned."""
        self.last_selected = int(state["last_selected"])
        if isinstance(self._law, Remembering):
            self._law.restore(part_of("law", state))

    def _ask(self, number: int, turn: int, count: int, everyone: Ints | None) -> Ints:
        now_s = to_seconds(self._clock.now)
        request = Request(number, count, turn, self._draws, self.last_selected, everyone, now_s, self._few)
        return self._law.select(request, self._candidates)

    def _chosen(self, cohort: Ints) -> Ints:
        if len(cohort):
            self.last_selected = int(cohort[-1])
        return cohort


@dataclass(eq=False)
class World:
    """What the states of both engines have; the parameters are those of the simulation."""

    scenario: Scenario
    population: Population
    devices: Strata
    clock: Clock
    recorder: Recorder
    replicate: int
    shared: Sharing | None = None  # with other jobs on the fleet; None where there is nothing to share
    selector: Selector = field(init=False)
    availability: PopulationAvailability | PrecomputedAvailability = field(init=False)

    def __post_init__(self) -> None:
        scenario = self.scenario
        self._job = 0 if self.shared is None else len(self.shared.rosters)
        self.server_shocks = server_shocks(scenario, self.replicate)
        self.connections = connections_of(scenario, self.devices, self.replicate)
        draws = stream(scenario.own_seed, self.replicate, Purpose.SESSION)
        self._phases, self._bits = session_phases(scenario, self.population, draws), upload_bits(scenario)
        self._failing = session_failures(scenario, self.population, draws)
        self._cooldowns = Cooldowns(scenario.server, self.population)
        self.deadline = to_ms(scenario.server.deadline or math.inf)
        self.planned: list[tuple[Ints, Ints]] | None = None
        """Clients that were selected, and when their sessions end if nothing cuts them, where a `Gate` wants them."""

    def state(self) -> Arrays:
        """Return all that is needed to go on at the opening of a round, except the clock and the log."""
        shared = {} if self.shared is None else with_prefix("shared", self.shared.state())
        return {**self.selector.state(), **with_prefix("cooldowns", self._cooldowns.state()), **shared}

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned; the clock has been set."""
        self.selector.restore(state)
        self._cooldowns.restore(part_of("cooldowns", state))
        if self.shared is not None:
            self.shared.restore(part_of("shared", state))

    def record_late(self) -> None:
        """Record the late sessions that have ended; those that are processes do so themselves."""

    def own_ends(self, cohort: Ints, number: int) -> Ints:
        """Return the instants (n,) at which sessions that begin now end if nothing cuts them.

        `number` is that of the round, or `session_key`. Devices that become unavailable leave the rest of the server's
        uplink to the others, and late uploads have no part in those of the next rounds.
        """
        now, phases, uplink = self.clock.now, self._phases(cohort, number), self.scenario.server.uplink
        if uplink is not None:
            from fedsim.population.uplink import shared  # only where needed: it compiles

            bits = self._bits[self.population.group[cohort]]
            at_most = np.maximum(phases[2], len(cohort) * bits / uplink)  # if all of them share it all of the time
            until = now + each_to_ms(phases[0] + phases[1] + at_most) + 1
            gone = np.minimum(self.availability.ends(cohort, now, until), self.failures(cohort, number))
            phases[2], _ = shared(phases, bits, (gone - now) / 1000, uplink)
        lengths = whole_lengths(phases, self.population.speed[cohort])
        ends = now + (lengths if self.shared is None else np.maximum(lengths, 1))  # so that nobody serves two at once
        if self.planned is not None:
            self.planned.append((cohort, ends))
        return ends

    def failures(self, cohort: Ints, number: int) -> Ints:
        """Return the instants (n,) at which sessions that begin now fail, by themselves; parameters of `own_ends`."""
        if self._failing is None:
            return np.full(len(cohort), FOREVER)
        return self.clock.now + self._failing(cohort, number)

    def turn(self, since: int, wanted: int) -> Generator[simpy.Event, None, None]:
        """Wait until it is this server's turn to select in this instant; it has wanted devices `since` an instant."""
        if self.shared is not None:
            yield self.shared.turn(self._job, since, wanted)

    def or_news(self, event: simpy.Event) -> simpy.Event:
        """Return an event for what a server waits for, or for devices that another job has let go early."""
        return event if self.shared is None else event | self.shared.news


def count_by_group(reasons: Reasons, group: Ints, groups: int) -> Ints:
    """Count (`KINDS`, groups) clients by group: available ones, eligible ones, and those under each reason.

    `reasons` and `group` (n,) are the mask of `Reason` and the group of each client.
    """
    against = [(reasons & np.uint16(some)) != 0 for some in _COUNTED]
    masks = [(reasons & np.uint16(OF_DEVICES)) == 0, reasons == 0, *against]
    return np.array([np.bincount(group[mask], minlength=groups) for mask in masks])


def explain(reasons: Reasons, due: int, turn: str) -> str:
    """Say in words what keeps the clients (N,) out, each counted once.

    The first separation is over in round `due`; `turn` is what the server counts by, ``round`` or ``version``.
    """
    parts, rest = [], reasons
    for reason, words in _WORDS:
        against = (rest & np.uint16(reason)) != 0
        count, rest = int(against.sum()), rest[~against]
        until = f" (the first of them until {turn} {due:,})" if reason == Reason.SEPARATION else ""
        if count:
            parts.append(f"{count:,} {words}{until}")
    parts.append(f"{len(rest):,} eligible")
    return f"of {len(reasons):,} clients: {', '.join(parts)}"
