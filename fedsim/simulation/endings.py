"""When and how sessions and rounds end, of both engines and of both servers."""

import math
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import FOREVER, each_to_ms, to_ms
from fedsim.common.outcomes import CODES
from fedsim.scenario.server import Server, SyncServer

REPORTED, DROPPED, LATE, ABORTED = (CODES[name] for name in ("reported", "dropped", "late", "aborted"))
_REPORTED_OR: Final = {each: np.array([REPORTED, CODES[each]], dtype=np.int8) for each in ("late", "aborted")}


def deadline_ms(server: Server) -> int:
    """Return the deadline of a server in milliseconds, `FOREVER` without one."""
    return to_ms(server.deadline or math.inf)


def whole_lengths(phases: Floats, speed: Floats) -> Ints:
    """Return how long sessions take if nothing ends them, (n,) milliseconds: (download + train + upload) / speed."""
    download, train, upload = phases
    return each_to_ms((download + train + upload) / speed)


class Endings(NamedTuple):
    """The instants (n,) at which sessions end, and the codes (n,) of how."""

    at: Ints
    outcomes: NDArray[np.int8]


class EndedSession(NamedTuple):
    """A session of a buffered server that has ended; in the order of rows, which is that of versions and positions.

    `version` is the server's when it began; `outcome` is a code, and a report may still turn out to be stale.
    """

    row: int
    client: int
    version: int
    outcome: int


class Limits(NamedTuple):
    """What may end sessions, as instants: the report of each (n,), its device's leave, and a failure of its own.

    Of what is not known ahead, or never happens, the instant is the number `FOREVER`. `failure` is the code of the
    outcome of those that fail, or of each (n,).
    """

    report: Ints
    device: Ints | int
    fails: Ints | int
    failure: NDArray[np.int8] | int = DROPPED

    def endings(
        self, limit: int = FOREVER, beyond: Literal["late", "aborted"] = "aborted", *, cuts: bool = True
    ) -> Endings:
        """Return how the sessions end where the server waits for them until `limit`.

        A session reports unless its device leaves, or it fails, before that or at the same instant. One that would
        report after the limit ends there, or goes on where that `cuts` none; either way its outcome is `beyond`.
        """
        outcomes = _REPORTED_OR[beyond].take(self.report > limit)  # in half the time of np.where
        ends = np.minimum(self.report, limit) if cuts else self.report
        for instants, outcome in ((self.fails, self.failure), (self.device, DROPPED)):
            if not isinstance(instants, int) and (first := instants <= ends).any():
                ends = np.where(first, instants, ends)
                np.copyto(outcomes, outcome, where=first)
        return Endings(ends, outcomes)


class Closing(NamedTuple):
    """When rounds close, as lengths of time in milliseconds; a deadline may be `FOREVER`.

    A round goes on for a `grace` after the report that reaches its target, and beyond its deadline for an `overtime` at
    most, until the `minimum` of reports has come; it ends with its last session.
    """

    deadline: int
    grace: int
    minimum: int
    overtime: int

    @classmethod
    def of(cls, server: SyncServer) -> "Closing":
        """Return when the rounds of a server close."""
        return cls(deadline_ms(server), to_ms(server.grace), server.minimum_reports, to_ms(server.overtime))

    def instants(self, opened: int, target: int, reports: Ints, last: int) -> tuple[int, int]:
        """Return when a round closes if it is in time, and when it is out of time.

        It selected at `opened`, the sorted `reports` (n,) come then, and its last session ends at `last`.
        """
        enough, least = (
            int(reports[number - 1]) if len(reports) >= number > 0 else FOREVER for number in (target, self.minimum)
        )
        until = opened + self.deadline
        until = max(until, min(least, until + self.overtime))
        return min(min(enough + self.grace, until) if enough <= until else FOREVER, last), until
