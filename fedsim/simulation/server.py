"""The server: a process that runs rounds one after the other, or takes reports as they come and fills free places."""

from collections.abc import Callable, Generator
from typing import TypeAlias

import numpy as np
import simpy

from fedsim.availability.shocks import up_again
from fedsim.common.errors import StalledError
from fedsim.common.instants import FOREVER, to_ms
from fedsim.common.keyed import Purpose, stream
from fedsim.common.outcomes import CODES
from fedsim.population.sessions import session_key
from fedsim.scenario.server import BufferedServer, SecureAggregation
from fedsim.simulation.arrays.world import ArrayRound, ArrayWorld
from fedsim.simulation.clock import Turn, in_words
from fedsim.simulation.endings import ABORTED, REPORTED, EndedSession
from fedsim.simulation.gate import Gate
from fedsim.simulation.processes.world import ProcessRound, ProcessWorld
from fedsim.simulation.selector import Trial

Federation: TypeAlias = ProcessWorld | ArrayWorld
"""A simulation as the server and the gauges see it; both engines have the same public methods and attributes."""
OpenRound: TypeAlias = ProcessRound | ArrayRound
"""The sessions of a round whose reports still count."""
Steps: TypeAlias = Generator[simpy.Event, None, None]


def serve(world: Federation, opening: Callable[[int], None], gate: Gate, number: int = 0) -> Steps:
    """Run rounds from `number` on until the scenario's stop; `opening` is called with each number before it is opened.

    It stops at the gate after the close of each round.

    Raises
    ------
    StalledError
        If a round waits longer than the server's patience, or for clients that can never be eligible in a run without
        a duration; or, in one without a deadline either, longer than the patience for reports.
    """
    clock, recorder, server, stop = world.clock, world.recorder, world.scenario.sync_server, world.scenario.stop
    wanted, least, pause, horizon = server.wanted, server.least, to_ms(server.pause), stop.horizon
    starts = max(clock.now, to_ms(world.scenario.starts or 0.0))
    yield clock.at(starts, Turn.SERVER)  # after the devices that are available from the start
    while clock.now < horizon and not stop.reached(recorder.counts):
        # 0. A server that is down opens no round.
        if (up := up_again(world.server_shocks, clock.now)) > clock.now:
            yield clock.at(up, Turn.SERVER)
            continue
        opening(number)
        # 1. Open the round: clients that have waited R_i rounds are free again.
        world.roster.open_round(number)
        recorder.open_round(clock.now)
        # 2. Gather: enough eligible clients, or what the scenario says of a shortage.
        yield from world.wait_to_select(clock.now, wanted)
        trial = world.selector.try_select(number, number, wanted)
        if trial.ready < least and server.shortage != "skip":
            trial = yield from _gather(world, number)
        if trial.ready < least:
            recorder.close_round(clock.now, "skipped")
        else:
            # 3. Select a cohort and start its sessions.
            round_ = _start(world, number, trial)
            # 4. Wait for reports until the target, the deadline, or until nobody is left.
            # Without a deadline and a duration no round outlasts the patience: gauges would count for centuries.
            if round_.any_running and server.deadline is None and horizon >= FOREVER:
                yield round_.may_close | clock.at(clock.now + to_ms(server.patience), Turn.SERVER)
            else:
                yield round_.may_close
            yield clock.at(clock.now, Turn.SERVER)  # after all devices and sessions of this instant
            if server.deadline is None and not round_.may_close.processed:
                waited = in_words(to_ms(server.patience))
                lasted = f"round {number:,} has waited {waited} for reports, which is the server's patience"
                raise StalledError(f"{lasted}. What helps: set server.deadline, or raise server.patience")
            # 5. Close the round, once the sum is unmasked; at the target those still at work are no longer needed.
            outcome = round_.outcome
            world.close(outcome)
            passed = True
            if (sums := server.secure_aggregation) is not None:
                passed = _stay(world, number, sums) >= sums.threshold
                yield clock.at(clock.now + to_ms(sums.unmasking), Turn.SERVER)
                world.record_late()
            _record(world, outcome, passed=passed)
        yield from gate.stop()
        # 6. Pause.
        if pause:
            yield clock.at(clock.now + pause, Turn.SERVER)
        number += 1


def stop_now(world: Federation) -> None:
    """Close the open round, if there is one, because the run's duration is over."""
    if world.last_round is not None and world.last_round.open:
        world.close("stopped")
        _record(world, "stopped")
    elif world.recorder.open:
        world.recorder.close_round(world.clock.now, "stopped")
    world.stop()


def _gather(world: Federation, number: int) -> Generator[simpy.Event, None, Trial]:
    """Wait until enough clients are ready."""
    clock, roster, server, horizon = world.clock, world.roster, world.scenario.sync_server, world.scenario.stop.horizon
    opened, until = clock.now, clock.now + to_ms(server.patience)
    while True:
        attainable = roster.attainable()
        if attainable < server.least and horizon < FOREVER:
            yield clock.event()  # never: the run's duration goes by
        if attainable < server.least or clock.now >= until:
            raise StalledError(_stalled(world, number, attainable, opened))
        if clock.now >= horizon:
            yield clock.event()  # never: the run ends at this instant, and selects nobody any more
        yield world.shared.or_news(roster.wait_for(server.least, until))
        yield clock.at(clock.now, Turn.SERVER)
        if clock.now >= horizon:
            continue
        yield from world.wait_to_select(opened, server.wanted)
        trial = world.selector.try_select(number, number, server.wanted)
        if trial.ready >= server.least:
            return trial


def _stalled(world: Federation, number: int, attainable: int, opened: int) -> str:
    server, least = world.scenario.sync_server, world.scenario.sync_server.least
    wanted = "a whole group" if server.block > 1 else f"{least:,} eligible client{'s' * (least > 1)}"
    head = f"round {number:,} (opened at {in_words(opened)}) wants {wanted}"
    remedy = "lower the separation or the cohort, or set server.shortage to skip"
    if world.population.most is not None:
        remedy += ", or raise participations.most"
    if attainable < least:
        why = f"but at most {attainable:,} can become eligible while it waits, so it would wait for ever"
    else:
        why = f"and has waited {in_words(world.clock.now - opened)}, which is the server's patience"
        remedy += ", or raise server.patience"
    return f"{head}, {why}; {world.roster.explain()}. What helps: {remedy}"


def _start(world: Federation, number: int, trial: Trial) -> OpenRound:
    server = world.scenario.sync_server
    eligible = world.roster.eligible_count if world.scenario.records.eligible else None
    cohort = world.selector.select(number, number, trial.ready) if trial.cohort is None else trial.cohort
    # A Bernoulli cohort has no fixed size: the round waits for all of it, and closes at once if it is empty.
    # A cohort that is too small because of a shortage never reaches the target: its round ends exhausted.
    target = server.cohort if server.fixed_size else len(cohort)
    row = world.recorder.select(number, cohort, world.clock.now, eligible)
    return world.start(number, cohort, row, target)


def _stay(world: Federation, number: int, sums: SecureAggregation) -> int:
    """Count the clients that reported in the open round and stay until the sum is unmasked."""
    clients, now = world.recorder.reporters(), world.clock.now
    draws = stream(world.scenario.own_seed, world.replicate, Purpose.UNMASKING)
    clients = clients[draws.uniforms(clients, number) >= sums.drop_out]
    clients = clients[world.availability.at(clients, now)]
    until = np.full(len(clients), now + to_ms(sums.unmasking))
    return int((world.availability.ends(clients, now, until) > until).sum())


def _record(world: Federation, outcome: str, *, passed: bool = True) -> None:
    """Complete the row of a round that is closed; its reports are discarded where too few came, or too few stayed."""
    least = world.scenario.sync_server.minimum_reports
    if world.recorder.discard_fewer(least if passed else FOREVER) and outcome != "stopped":
        outcome = "failed"
    world.recorder.close_round(world.clock.now, outcome)


class BufferedRun:
    """The versions of a buffered server, and the sessions that run across them.

    Notes
    -----
    FedBuff: Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek and Huba, *Federated Learning with Buffered Asynchronous
    Aggregation* (AISTATS 2022). A version of the model plays the part of a round: version v begins when `buffer`
    reports have been taken at version v - 1.
    """

    def __init__(self, world: Federation, server: BufferedServer, gate: Gate) -> None:
        self._gate = gate
        self._world, self._server, self._sessions = world, server, world.buffered_sessions()
        starts = to_ms(world.scenario.starts or 0.0)
        self._version, self._taken, self._began = 0, 0, starts
        self._last_at = starts  # the last selection
        self._selections = 0  # the key of the next selection's draws
        self._selected_at = -1  # the last version at which somebody was selected
        self._horizon, self._patience = world.scenario.stop.horizon, to_ms(server.patience)

    def serve(self) -> Steps:
        """Take reports and fill places until the scenario's stop.

        Raises
        ------
        StalledError
            If a version lasts longer than the server's patience, or no report can ever come again in a run without a
            duration.
        """
        clock, sessions = self._world.clock, self._sessions
        yield clock.at(self._began, Turn.SERVER)  # after the devices that are available from the start
        self._world.roster.open_round(0)
        while True:
            # 1. Take what has ended: every `buffer` reports make a step, and a version.
            # What ended without a report goes first: it ended before the server's turn, at the version of then.
            for session in sorted(sessions.take_ended(), key=lambda each: each.outcome == REPORTED):
                self._take(session)
            yield from self._gate.stop()
            if clock.now >= self._horizon or self._reached():
                break
            # 2. Fill the free places, all at once, as far as somebody is eligible.
            self._open_version()
            if free := self._server.concurrency - sessions.count:
                yield from self._world.wait_to_select(self._last_at, free)
                free -= self._fill(free)
            # 3. Wait until a session ends or, with places free, somebody becomes eligible.
            if self._horizon < FOREVER and not sessions.count and not self._world.roster.attainable():
                yield clock.event()  # never: the run's duration goes by
            self._check_progress()
            yield self._world.shared.or_news(sessions.wait(free=free > 0, until=self._began + self._patience))
            yield clock.at(clock.now, Turn.SERVER)  # after all devices and sessions of this instant
        # 4. Sessions that still run are no longer needed.
        if clock.now < self._horizon:
            self.stop_now()

    def stop_now(self) -> None:
        """Abort all sessions and close the version that is open: the run is over."""
        for session in self._sessions.abort():
            self._record(session, session.outcome)
        if self._world.recorder.open:
            self._world.recorder.close_round(self._world.clock.now, "stopped")

    def _take(self, session: EndedSession) -> None:
        world = self._world
        if session.outcome != REPORTED or self._reached():  # this instant's steps may have ended the run
            self._record(session, ABORTED if session.outcome == REPORTED else session.outcome)
            return
        self._open_version()
        staleness, limit = self._version - session.version, self._server.max_staleness
        is_stale = limit is not None and staleness > limit
        self._record(session, CODES["stale"] if is_stale else REPORTED, staleness)
        if is_stale:
            return
        if self._server.cooldown_from == "reported":
            world.cool_down(np.array([session.client]), self._version)
        self._taken += 1
        if self._taken == self._server.buffer:
            # Step to the next version: clients that have waited R_i versions are free again.
            world.recorder.close_round(world.clock.now, "target")
            self._version, self._taken, self._began = self._version + 1, 0, world.clock.now
            world.roster.open_round(self._version)

    def _reached(self) -> bool:
        return self._world.scenario.stop.reached(self._world.recorder.counts)

    def _open_version(self) -> None:
        """Begin the version's row, if that has not been done."""
        if not self._world.recorder.open:
            self._world.recorder.open_round(self._began)

    def _fill(self, places: int) -> int:
        """Select clients for the free places, as many as are eligible, and return their number."""
        world, version, key = self._world, self._version, self._selections
        counts = world.scenario.records.eligible and version > self._selected_at
        eligible = world.roster.eligible_count if counts else None
        trial = world.selector.try_select(key, version, places)
        if not trial.ready:
            return 0
        cohort = trial.cohort
        if cohort is None:
            everyone = np.flatnonzero(world.roster.all_eligible())
            cohort = world.selector.select(key, version, len(everyone), everyone)
        self._selected_at, self._last_at = version, world.clock.now
        self._selections += 1
        row = world.recorder.select(version, cohort, world.clock.now, eligible)
        self._sessions.start(version, session_key(world.scenario, key, world.clock.now), cohort, row)
        if self._server.cooldown_from == "selected":
            world.cool_down(cohort, version)
        return len(cohort)

    def _check_progress(self) -> None:
        clock, roster = self._world.clock, self._world.roster
        lasted = clock.now - self._began
        if clock.now >= self._began + self._patience:
            why = f"and has lasted {in_words(lasted)}, which is the server's patience"
            remedy = "lower the buffer or the separation, or raise server.patience"
        elif not self._sessions.count and not roster.attainable():
            why = "but no session runs and nobody can become eligible while it lasts, so it would last for ever"
            remedy = "lower the buffer or the separation"
            if self._server.cooldown_from == "selected":
                remedy += ", or let cool-downs start from reports (server.cooldown_from)"
        else:
            return
        if self._world.population.most is not None:
            remedy += ", or raise participations.most"
        raise StalledError(
            f"version {self._version:,} (begun at {in_words(self._began)}) has {self._taken:,} of the "
            f"{self._server.buffer:,} reports of its step, {why}; {roster.explain('version')}. What helps: {remedy}"
        )

    def _record(self, session: EndedSession, outcome: int, staleness: int | None = None) -> None:
        world = self._world
        world.recorder.end_one(self._version, session.row, world.clock.now, outcome, staleness)
