"""A cohort's sessions as arrays: when and how each ends is known when it starts."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Ints
from fedsim.common.instants import FOREVER
from fedsim.log.recorder import CODES
from fedsim.simulation.clock import Clock, Turn


class Ends(NamedTuple):
    """How sessions end: arrays (n,) of instants and of outcome codes."""

    at: Ints
    outcome: NDArray[np.int8]


class ArrayRound:
    """One round whose sessions are arrays.

    Attributes
    ----------
    number
        Index of the round.
    may_close
        Happens when enough have reported or nobody is left; never, where the deadline comes first.
    ends
        How each session ends, if the run is not stopped before.

    Notes
    -----
    A session reports at its own end, or drops out at the end of its device's availability if that does not come later.
    The round may close at the instant of the report that reaches the target, or of the last end. What still runs when
    it closes is aborted; after a deadline it goes on and is late.
    """

    def __init__(
        self, clock: Clock, number: int, target: int, own_ends: Ints, device_ends: Ints, deadline: int
    ) -> None:
        now = clock.now
        dropped = device_ends <= own_ends
        if some_drop := bool(dropped.any()):
            ends = np.minimum(own_ends, device_ends)
            reports = np.sort(own_ends[~dropped])
        else:
            ends, reports = own_ends, np.sort(own_ends)
        enough = reports[target - 1] if len(reports) >= target > 0 else FOREVER
        close = min(int(enough), int(ends.max(initial=now)))
        until = now + deadline
        self.number, self.closed, self.stopped = number, False, False
        self._clock, self._target, self._all_ends = clock, target, ends
        self._reports = reports
        self.may_close = clock.at(close, Turn.SERVER) if close <= until else clock.event()
        outcome = np.full(len(ends), CODES["reported"], dtype=np.int8)
        if some_drop:
            outcome[dropped] = CODES["dropped"]
        if close <= until:
            if (cut := ends > close).any():
                outcome[cut] = CODES["aborted"]
                ends = np.where(cut, close, ends)
        else:
            outcome[(ends > until) & ~dropped] = CODES["late"]
        self.ends = Ends(ends, outcome)

    @property
    def running(self) -> bool:
        """Whether any session still runs."""
        return bool((self._all_ends > self._clock.now).any())

    @property
    def outcome(self) -> str:
        """How the round closes, if it closes now."""
        if self._reports.searchsorted(self._clock.now, side="right") >= self._target > 0:
            return "target"
        return "deadline" if self.running else "exhausted"

    def close(self, outcome: str) -> None:
        """Take no more reports; what follows for the sessions has been known from the start, but for a stop."""
        self.closed, self.stopped = True, outcome == "stopped"
