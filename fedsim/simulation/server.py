"""The server: a process that runs the rounds one after the other."""

from collections.abc import Callable, Generator
from typing import TypeAlias

import simpy

from fedsim.common.errors import StalledError
from fedsim.common.instants import to_ms
from fedsim.simulation.arrays.world import ArrayRound, ArrayWorld
from fedsim.simulation.clock import Turn, in_words
from fedsim.simulation.processes.world import ProcessRound, ProcessWorld
from fedsim.simulation.world import Trial

Federation: TypeAlias = ProcessWorld | ArrayWorld
"""A simulation as the server and the gauges see it; both engines have the same public methods and attributes."""
OpenRound: TypeAlias = ProcessRound | ArrayRound
"""The sessions of a round whose reports still count."""
Steps: TypeAlias = Generator[simpy.Event, None, None]


def serve(world: Federation, opening: Callable[[int], None], number: int = 0) -> Steps:
    """Run rounds from `number` on until the scenario's stop; `opening` is called with each number before it is opened.

    Raises
    ------
    StalledError
        If a round waits for clients that can never be eligible, or longer than the server's patience.
    """
    clock, recorder, server, stop = world.clock, world.recorder, world.scenario.sync_server, world.scenario.stop
    wanted, least, pause, horizon = server.wanted, server.least, to_ms(server.pause), stop.horizon
    yield clock.at(clock.now, Turn.SERVER)  # after the devices that are available from the start
    while clock.now < horizon and not stop.reached(recorder.counts):
        # 0. A server that is down opens no round.
        if (up := world.outages.up(clock.now)) > clock.now:
            yield clock.at(up, Turn.SERVER)
            continue
        opening(number)
        # 1. Open the round: clients that have waited R_i rounds are free again.
        world.roster.open_round(number)
        recorder.open_round(clock.now)
        # 2. Gather: enough eligible clients, or what the scenario says of a shortage.
        trial = world.selector.try_select(number, number, wanted)
        if trial.ready < least and server.shortage != "skip":
            trial = yield from _gather(world, number)
        if trial.ready < least:
            recorder.close_round(clock.now, "skipped")
        else:
            # 3. Select a cohort and start its sessions.
            round_ = _start(world, number, trial)
            # 4. Wait for reports until the target, the deadline, or until nobody is left.
            if server.deadline is not None and round_.any_running:
                yield round_.may_close | clock.at(clock.now + to_ms(server.deadline), Turn.SERVER)
            else:
                yield round_.may_close
            yield clock.at(clock.now, Turn.SERVER)  # after all devices and sessions of this instant
            # 5. Close the round; at the target those still at work are no longer needed.
            _close(world, round_, round_.outcome)
        # 6. Pause.
        if pause:
            yield clock.at(clock.now + pause, Turn.SERVER)
        number += 1


def stop_now(world: Federation) -> None:
    """Close the open round, if there is one, because the run's duration is over."""
    if world.current_round is not None:
        _close(world, world.current_round, "stopped")
    elif world.recorder.open:
        world.recorder.close_round(world.clock.now, "stopped")
    world.stop()


def _gather(world: Federation, number: int) -> Generator[simpy.Event, None, Trial]:
    """Wait until enough clients are ready."""
    clock, roster, server = world.clock, world.roster, world.scenario.sync_server
    opened, until = clock.now, clock.now + to_ms(server.patience)
    while True:
        attainable = roster.attainable()
        if attainable < server.least or clock.now >= until:
            raise StalledError(_stalled(world, number, attainable, opened))
        yield roster.wait_for(server.least, until)
        yield clock.at(clock.now, Turn.SERVER)
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


def _close(world: Federation, round_: OpenRound, outcome: str) -> None:
    round_.close(outcome)
    world.recorder.close_round(world.clock.now, outcome)
