"""A gate at the close of each round, where a stepped simulation stops until it has been told its outcome."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.errors import RunError
from fedsim.common.instants import each_to_seconds, to_seconds
from fedsim.common.outcomes import CODES, ROUND_OUTCOMES
from fedsim.log.columns import Arrays
from fedsim.log.recorder import RUNNING
from fedsim.selection import Feedback
from fedsim.simulation.clock import Turn
from fedsim.simulation.state import World

_NAMES = np.array(["", *CODES])


ANSWERS = ("losses", "rms_losses", "norms", "samples")
"""What can be told of a round, by columns, of each client that reported."""


@dataclass(eq=False)
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
    steps: Ints | None = field(default=None, repr=False)
    """(n,) local steps of each, where the server takes partial reports."""
    answers: list[Floats] | None = field(default=None, repr=False)
    """`ANSWERS` of the `reporters`, (b,) each; None before there are any."""
    over: bool = field(default=False, repr=False)
    """Whether it can no longer be told of, since the simulation has gone on."""

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

    def report(
        self,
        losses: ArrayLike | Mapping[int, float],
        *,
        rms_losses: ArrayLike | Mapping[int, float] | None = None,
        norms: ArrayLike | Mapping[int, float] | None = None,
        samples: ArrayLike | Mapping[int, float] | None = None,
    ) -> None:
        """Tell the outcome of the round, once, before the next one is asked for.

        Parameters
        ----------
        losses
            The mean loss of the samples of each of the `reporters`, in their order, shape (b,), or by client. What is
            told must be finite and at least 0.
        rms_losses
            The roots of the means of their squares, which Oort goes by; by default the losses.
        norms
            Euclidean norms of the updates.
        samples
            How many samples each client has; by default 1.

        Raises
        ------
        RunError
            If the round has been told already or is over, or the numbers do not fit the clients that reported.
        """
        mean = self._checked("losses", losses)
        defaults = [("rms_losses", rms_losses, mean), ("norms", norms, np.nan), ("samples", samples, 1.0)]
        others = [np.full(len(mean), default) if x is None else self._checked(name, x) for name, x, default in defaults]
        if self.over:
            raise RunError(f"round {self.number:,} is over: only the round that came last can be told of")
        if self.answers is not None:
            raise RunError(f"round {self.number:,} has been told already")
        self.answers = [mean, *others]

    def feedback(self) -> Feedback:
        """Return its outcome; where nothing has been told, nobody must have reported."""
        columns = np.full((len(ANSWERS), len(self.clients)), np.nan)
        if self.answers is not None:
            columns[:, self.arrivals] = self.answers
        took_s = self.ended_s - self.began_s
        return Feedback(self.number, self.closed_s - self.opened_s, self.clients, took_s, self.reported, *columns)

    def _checked(self, name: str, given: Any) -> Floats:
        reporters = self.reporters
        if isinstance(given, Mapping):
            if unknown := given.keys() - set(reporters.tolist()):
                raise RunError(f"{name}: client {min(unknown)} has no report in round {self.number:,}")
            if missing := set(reporters.tolist()) - given.keys():
                raise RunError(f"{name}: client {min(missing)} reported in round {self.number:,}, and has no number")
            given = [given[client] for client in reporters.tolist()]
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise RunError(f"{name} must be numbers, one for each of the reporters, not {given!r}") from None
        if values.shape != reporters.shape:
            raise RunError(
                f"{name} has the shape {values.shape}, and {len(reporters):,} reports came in round {self.number:,}: "
                "give one number for each, in the order of reporters"
            )
        if not (fits := (values >= 0) & (values < np.inf)).all():
            client, value = reporters[~fits][0], values[~fits][0]
            raise RunError(f"{name} of client {client} in round {self.number:,} is {value}; it must be at least 0")
        return values


class Learner(Protocol):
    """What trains while the simulation goes on."""

    def train(self, closed: Closed, /) -> Feedback:
        """Train with the reports of a round, and say its outcome."""
        ...

    def state(self) -> Arrays | None:
        """Return all that is needed to go on; None where that cannot be kept."""
        ...

    def restore(self, state: Arrays, /) -> None:
        """Go on from what `state` returned."""
        ...


class Gate:
    """Notes what closes, in `closed`, where somebody `steps` the clock, and has the server wait for them."""

    def __init__(self, world: World, *, steps: bool) -> None:
        self._world, self.closed, self._planned = world, list[Closed](), list[tuple[Ints, Ints]]()
        if steps:
            world.planned, world.recorder.closing = lambda *each: self._planned.append(each), self._close

    def stop(self) -> Generator[simpy.Event, None, None]:
        """Wait, if something has closed, for an event that happens now, before all else: the clock stops before it."""
        if self.closed:
            yield self._world.clock.at(self._world.clock.now, Turn.GATE)

    def _close(self, number: int, instant: int, outcome: str, rows: Ints) -> None:
        recorder, planned = self._world.recorder, self._planned
        rounds = self._world.scenario.server.selects_once
        if outcome == "stopped" and not rounds:
            return  # its buffer was never full
        names = ("client", "round", "selected_at", "ended_at", "outcome")
        clients, versions, began, ended, codes = recorder.sessions(rows, *names)
        runs = (codes == RUNNING) | (ended > instant)
        codes[runs] = CODES[ROUND_OUTCOMES[outcome].remaining]
        none = np.empty((2, 0), dtype=np.int64)
        selected, until = planned[0] if len(planned) == 1 else np.concatenate([none, *planned], axis=1)
        ended = np.where(runs, instant, ended)
        times_s = to_seconds(recorder.opened_at(number)), to_seconds(instant)
        clients, versions = clients.astype(np.int64), versions.astype(np.int64)
        oldest = number + 1 if rounds else recorder.oldest
        steps = recorder.sessions(rows, "steps")[0].astype(np.int64) if "steps" in recorder.noted else None
        self.closed.append(
            Closed(number, outcome, *times_s, selected, clients, versions, oldest, until, began, ended, codes, steps)
        )
        planned.clear()
