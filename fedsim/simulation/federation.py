"""What the server and the gauges need of a simulation, whichever engine keeps the devices."""

from typing import NamedTuple, Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from fedsim.log.columns import Arrays
from fedsim.log.recorder import Recorder
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.simulation.clock import Clock
from fedsim.simulation.selector import Countable, Selector


class Roster(Countable, Protocol):
    """Who is eligible now, and what the others wait for."""

    @property
    def eligible_count(self) -> int:
        """Eligible clients; may cost O(N)."""
        ...

    def open_round(self, number: int) -> None:
        """Let in those whose separation is over in this round."""
        ...

    def attainable(self) -> int:
        """Clients that could be ready together while the round number stands still."""
        ...

    def wait_for(self, wanted: int, until_s: float) -> simpy.Event:
        """Return an event in the server's turn of the first instant with `wanted` clients ready; there are fewer now.

        It happens at `until_s` at the latest, and before if fewer have become attainable.
        """
        ...

    def counts(self, among: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Count (3, cells) available and eligible clients among some or all, and everyone in a session, by cell."""
        ...

    def explain(self, turn: str = "round") -> str:
        """Say in words what everyone is waiting for; `turn` is what the server counts by."""
        ...


class OpenRound(Protocol):
    """The sessions of a round whose reports still count."""

    @property
    def may_close(self) -> simpy.Event:
        """Happens when enough have reported or nobody is left."""
        ...

    @property
    def running(self) -> bool:
        """Whether any session still runs."""
        ...

    @property
    def outcome(self) -> str:
        """How the round closes, if it closes now."""
        ...

    def close(self, outcome: str) -> None:
        """Take no more reports; after a deadline the others may go on, otherwise they are aborted."""
        ...


class EndedSession(NamedTuple):
    """A session of a buffered server that has ended; in the order of rows, which is that of versions and positions.

    Attributes
    ----------
    row
        The recorder's.
    client
        Whose it was.
    version
        Of the server, when it began.
    outcome
        ``reported``, which is still for the server to judge, ``dropped``, ``late`` or ``aborted``.
    """

    row: int
    client: int
    version: int
    outcome: str


class BufferedSessions(Protocol):
    """The running sessions of a buffered server."""

    @property
    def count(self) -> int:
        """Sessions that run."""
        ...

    def start(self, version: int, key: int, cohort: NDArray[np.int64], row: int) -> None:
        """Start sessions; `key` is that of their lengths, `row` the recorder's of the first."""
        ...

    def take_ended(self) -> list[EndedSession]:
        """Hand over the sessions that have ended since the last call, in the order of their rows."""
        ...

    def wait(self, *, free: bool, until_s: float) -> simpy.Event:
        """Return an event in the server's turn of the next end or, with places `free`, of somebody's eligibility.

        It happens at `until_s` at the latest, and may happen before either.
        """
        ...

    def abort(self) -> list[EndedSession]:
        """Cut all sessions short and hand them over: the run is over."""
        ...


class Federation(Protocol):
    """A simulation as the server sees it."""

    scenario: Scenario
    population: Population
    clock: Clock
    recorder: Recorder
    selector: Selector

    @property
    def open_round(self) -> OpenRound | None:
        """The round whose reports still count."""
        ...

    @property
    def roster(self) -> Roster:
        """Who is eligible."""
        ...

    def buffered_sessions(self) -> BufferedSessions:
        """Return what a buffered server needs of its sessions."""
        ...

    def start(self, number: int, cohort: NDArray[np.int64], row: int, target: int) -> OpenRound:
        """Start the sessions of a cohort; `row` is the recorder's of the first of them."""
        ...

    def cool_down(self, clients: NDArray[np.int64], number: int) -> None:
        """Begin the cool-down of clients now, in a round or at a version."""
        ...

    def state(self) -> Arrays:
        """Return all that is needed to go on at the opening of a round, beside the clock and the log."""
        ...

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned; the clock has been set."""
        ...

    def stop(self) -> None:
        """Cut all sessions short: the run is over."""
        ...

    def finish(self) -> None:
        """Let the clock run until no session is left."""
        ...
