"""A gate at the close of each round, where a stepped simulation stops until it has been told what came of it."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.instants import each_to_seconds, to_seconds
from fedsim.log.columns import Arrays
from fedsim.log.recorder import CODES, RUNNING
from fedsim.selection import Feedback
from fedsim.simulation.world import Turn, World

_NAMES = np.array(["", *CODES])


@dataclass(frozen=True, eq=False)
class Closed:
    """A round that has closed, or a version of a buffered server; instants are seconds since the start of the run.

    `clients` are those whose sessions it settles: the cohort in the order of selection, of a buffered server all whose
    sessions have ended since the version before, in the order in which the server took them, perhaps one twice.
    """

    number: int  # of the round or version, from 0
    outcome: str  # how it closed, as in the log: target, deadline, exhausted, ...
    opened_s: float
    closed_s: float
    selected: Ints  # (m,) clients selected in it, in order
    clients: Ints  # (n,)
    versions: Ints  # (n,) from which each began; in rounds that of the round
    oldest: int  # reports that are still to be taken begin from this version or a later one
    # The rest in milliseconds and codes of outcomes; most who step a fleet ask for some of it alone.
    _until: Ints = field(repr=False)
    _began: Ints = field(repr=False)
    _ended: Ints = field(repr=False)
    _codes: NDArray[np.int8] = field(repr=False)

    @property
    def until_s(self) -> Floats:
        """(m,) until when their work takes those selected, if nothing cuts it."""
        return each_to_seconds(self._until)

    @property
    def began_s(self) -> Floats:
        """(n,) when each session began."""
        return each_to_seconds(self._began)

    @property
    def ended_s(self) -> Floats:
        """(n,) when each session ended; the close, for those who were still at work."""
        return each_to_seconds(self._ended)

    @property
    def outcomes(self) -> NDArray[np.str_]:
        """(n,) reported, dropped, ...; late, for those who were still at work at the close."""
        return _NAMES[self._codes]

    @property
    def reported(self) -> Bools:
        """(n,) whose report was taken."""
        return np.equal(self._codes, CODES["reported"])

    @cached_property
    def arrivals(self) -> NDArray[np.intp]:
        """The places (b,) in `clients` of those reports, in the order in which they came."""
        taken = self.reported.nonzero()[0]
        return taken[self._ended[taken].argsort(kind="stable")]

    @cached_property
    def reporters(self) -> Ints:
        """Clients (b,) whose report was taken, in the order in which the reports came."""
        return self.clients[self.arrivals]

    def feedback(self, losses: Floats, rms_losses: Floats, norms: Floats, samples: Floats) -> Feedback:
        """Return what came of it; the arrays (b,) are in the order of `reporters`."""
        told = [np.full(len(self.clients), np.nan) for _ in range(4)]
        for place, values in zip(told, (losses, rms_losses, norms, samples), strict=True):
            place[self.arrivals] = values
        took_s = self.ended_s - self.began_s
        return Feedback(self.number, self.closed_s - self.opened_s, self.clients, took_s, self.reported, *told)


class Learner(Protocol):
    """What trains while the simulation goes on."""

    def tell(self, closed: Closed, /) -> Feedback:
        """Train with the reports of a round, and say what came of it."""
        ...

    def state(self) -> Arrays | None:
        """Return all that is needed to go on; None where that cannot be kept."""
        ...

    def restore(self, state: Arrays, /) -> None:
        """Go on from what `state` returned."""
        ...


class Gate:
    """Notes what closes, in `closed`, and gives the server an event to wait for, once there is something."""

    def __init__(self, world: World) -> None:
        self._world, self.closed = world, list[Closed]()
        world.planned, world.recorder.closing = [], self._close

    def event(self) -> simpy.Event:
        """Return an event that happens now, before all else; whoever steps the clock stops before it."""
        return self._world.clock.at(self._world.clock.now, Turn.GATE)

    def _close(self, number: int, instant: int, outcome: str, rows: Ints) -> None:
        recorder, planned = self._world.recorder, self._world.planned
        rounds = self._world.scenario.server.selects_once
        if outcome == "stopped" and not rounds:
            return  # its buffer was never full
        assert planned is not None
        names = ("client", "round", "selected_at", "ended_at", "outcome")
        clients, versions, began, ended, codes = recorder.sessions(rows, *names)
        runs = (codes == RUNNING) | (ended > instant)
        codes[runs] = CODES["aborted" if outcome == "stopped" else "late"]
        selected, until = planned[0] if len(planned) == 1 else (_joined(planned, place) for place in range(2))
        ended = np.where(runs, instant, ended)
        times_s = to_seconds(recorder.opened_at(number)), to_seconds(instant)
        clients, versions = clients.astype(np.int64), versions.astype(np.int64)
        oldest = number + 1 if rounds else recorder.oldest
        self.closed.append(
            Closed(number, outcome, *times_s, selected, clients, versions, oldest, until, began, ended, codes)
        )
        planned.clear()


def _joined(planned: list[tuple[Ints, Ints]], place: int) -> Ints:
    return np.concatenate([np.empty(0, dtype=np.int64), *(each[place] for each in planned)])
