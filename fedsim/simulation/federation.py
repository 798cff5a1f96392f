"""What the server and the gauges need of a simulation, whichever engine keeps the devices."""

from typing import Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from fedsim.log.columns import Arrays
from fedsim.log.recorder import Recorder
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.simulation.clock import Clock
from fedsim.simulation.selection import Request


class Roster(Protocol):
    """Who is eligible now."""

    @property
    def eligible_count(self) -> int:
        """Eligible clients; may cost O(N)."""
        ...

    def open_round(self, number: int) -> None:
        """Let in those whose separation is over in this round."""
        ...

    def ready(self, most: int) -> int:
        """Clients that could be selected now, counted up to `most`: all eligible ones, or those in whole groups."""
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

    def explain(self) -> str:
        """Say in words what everyone is waiting for."""
        ...


class Round(Protocol):
    """One round's sessions."""

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


class Federation(Protocol):
    """A simulation as the server sees it.

    Attributes
    ----------
    block
        Clients that can be selected only together.
    least
        Fewest ready clients with which a round can start.
    last_selected
        The client selected last, -1 before the first.
    """

    scenario: Scenario
    population: Population
    clock: Clock
    recorder: Recorder
    block: int
    least: int
    last_selected: int

    @property
    def open_round(self) -> Round | None:
        """The round whose reports still count."""
        ...

    @property
    def roster(self) -> Roster:
        """Who is eligible."""
        ...

    def select(self, request: Request) -> NDArray[np.int64]:
        """Choose a cohort by the selection law."""
        ...

    def start(self, number: int, cohort: NDArray[np.int64], row: int, target: int) -> Round:
        """Start the sessions of a cohort; `row` is the recorder's of the first of them."""
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
