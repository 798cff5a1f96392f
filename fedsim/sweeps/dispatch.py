"""Runs handed to an executor and taken back, each once, whatever becomes of the workers.

A run whose worker died is tried again. Where the executor breaks as a whole, as a `ProcessPoolExecutor` does, nobody
can tell which run was to blame: those in flight become suspects, are done again one at a time in a new executor, and
only one that breaks it while alone is charged with an attempt.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from functools import partial

from fedsim.common.errors import FedsimError, SweepError
from fedsim.sweeps.executors import Backend
from fedsim.sweeps.executors.local import leaving_no_process
from fedsim.sweeps.plan import PlannedRun
from fedsim.sweeps.worker import RunOutcome, Task, work

_LOOK_EVERY_S = 1.0
_PATIENCE_S = 60.0
_MOST_BREAKS = 5


@dataclass(frozen=True)
class Settled:
    """A run that is over, or one that is tried again.

    Attributes
    ----------
    run
        Which one.
    outcome
        What became of it.
    attempts
        How many it took.
    again
        Whether there is going to be another attempt.
    """

    run: PlannedRun
    outcome: RunOutcome
    attempts: int
    again: bool = False


@dataclass(frozen=True)
class Watch:
    """What is known of runs that are under way.

    Attributes
    ----------
    begun
        Whether a run has begun wherever it is done.
    forget
        Takes that back; a run that is still at it ends by itself when it notices.
    limit_s
        Seconds that a run may take, None where there is no limit; asked once a run has taken `soonest_s`.
    soonest_s
        Before so many seconds no run is ended.
    tell
        Told what a person should know while nothing seems to happen.
    """

    begun: Callable[[PlannedRun], bool] = lambda _: False
    forget: Callable[[PlannedRun], None] = lambda _: None
    limit_s: Callable[[PlannedRun], float | None] = lambda _: None
    soonest_s: float = 0.0
    tell: Callable[[str], None] = lambda _: None


def dispatch(
    runs: Iterable[PlannedRun],
    backend: Backend,
    task_of: Callable[[PlannedRun], Task],
    retries: int = 2,
    job: Callable[[Task], RunOutcome] = work,
    watch: Watch | None = None,
) -> Generator[Settled, None, None]:
    """Do all runs, and yield each attempt that ends one or is repeated.

    Stopping early (an exception, an interrupt, closing the iterator) cancels what has not begun and ends the local
    processes that were started.

    Parameters
    ----------
    runs, backend, retries, job
        What is done, where, and as in `fedsim.sweeps.sweep.run_sweep`.
    task_of
        What travels to the worker for a run.
    watch
        Looks after runs that are under way.

    Raises
    ------
    SweepError
        If the executor cannot be opened, breaks again and again, or has no workers for a minute.
    """
    dispatcher = _Dispatcher(deque(runs), backend, task_of, retries, job, watch or Watch())
    with leaving_no_process(partial(dispatcher.close, at_once=True)):
        yield from dispatcher.work()
        dispatcher.close(at_once=dispatcher.left_behind)


@dataclass(eq=False)
class _Dispatcher:
    """What is waiting, in flight and suspected; the rest as in `dispatch`."""

    _waiting: deque[PlannedRun]
    _backend: Backend
    _task_of: Callable[[PlannedRun], Task]
    _retries: int
    _job: Callable[[Task], RunOutcome]
    _watch: Watch
    _suspects: deque[PlannedRun] = field(default_factory=deque)
    _in_flight: dict[Future[RunOutcome], PlannedRun] = field(default_factory=dict)
    _failed: Counter[str] = field(default_factory=Counter)
    _since: dict[Future[RunOutcome], float] = field(default_factory=dict)
    _executor: Executor | None = None
    _most = 1
    _breaks = 0
    _heard: float = field(default_factory=time.monotonic)
    _looked: float = field(default_factory=time.monotonic)
    _told: bool = False
    left_behind: bool = False
    """Whether a run was given up that may still be at it."""

    def work(self) -> Iterator[Settled]:
        while self._waiting or self._suspects or self._in_flight:
            self._hand_out()
            done, _ = wait(self._in_flight, timeout=_LOOK_EVERY_S, return_when=FIRST_COMPLETED)
            if done:
                self._heard, self._told = time.monotonic(), False
                yield from self._take_back(done)
            else:
                self._look_for_workers()
            yield from self._end_overdue()

    def close(self, *, at_once: bool = False) -> None:
        if at_once:
            for run in self._in_flight.values():
                self._watch.forget(run)
        if self._executor is not None:
            self._executor.shutdown(wait=not at_once, cancel_futures=at_once)
            self._executor = None

    def _hand_out(self) -> None:
        if self._executor is None:
            self._executor = self._backend.open()
            # Twice as many as are done at once, so that no worker waits for us.
            self._most = 2 * max(1, self._backend.workers(self._executor))
        source, most = (self._suspects, 1) if self._suspects else (self._waiting, self._most)
        while source and len(self._in_flight) < most:
            task = self._task_of(source[0])
            self._watch.forget(source[0])  # an attempt that was lost may have left its mark
            try:
                future = self._executor.submit(self._job, task)
            except BrokenExecutor:
                self._broken()
                return
            except RuntimeError as error:
                raise SweepError(f"the executor takes no more runs: {error}") from None
            self._in_flight[future] = source.popleft()

    def _take_back(self, done: Iterable[Future[RunOutcome]]) -> Iterator[Settled]:
        alone = len(self._in_flight) == 1
        broken = False
        for future in done:
            run = self._in_flight.pop(future)
            self._since.pop(future, None)
            error = CancelledError() if future.cancelled() else future.exception()
            if isinstance(error, FedsimError):
                raise error
            breaks = isinstance(error, BrokenExecutor | CancelledError)
            broken |= breaks
            if breaks and not alone:
                self._suspects.append(run)
            else:
                outcome = future.result() if error is None else RunOutcome(_told(error))
                yield self._settled(run, outcome, self._suspects if breaks else self._waiting)
        if broken:
            self._broken()

    def _settled(self, run: PlannedRun, outcome: RunOutcome, queue: deque[PlannedRun]) -> Settled:
        """Count the attempt, and put the run back in a queue if it deserves another."""
        attempts = self._failed[run.run_id] + 1
        again = bool(outcome.error) and not outcome.final and attempts <= self._retries
        if again:
            self._failed[run.run_id] = attempts
            queue.append(run)
        else:
            self._breaks = 0
        return Settled(run, outcome, attempts, again)

    def _broken(self) -> None:
        """Leave the broken executor; all that was in flight is done again, one at a time."""
        self._suspects.extend(self._in_flight.values())
        self._in_flight.clear()
        self._since.clear()
        self._breaks += 1
        if self._breaks > max(_MOST_BREAKS, self._retries + 1):
            raise SweepError(f"the executor {self._backend.name} broke {self._breaks} times in a row")
        self.close(at_once=True)

    def _look_for_workers(self) -> None:
        """Do not wait for ever for a cluster that has lost its workers, or that has none for us."""
        if self._executor is None:
            return
        if why := self._backend.lost(self._executor):
            raise SweepError(f"{self._backend.name}: {why}")
        if time.monotonic() - self._heard < _PATIENCE_S:
            return
        if self._backend.alive(self._executor) == 0:
            raise SweepError(f"{self._backend.name} has had no workers for {_PATIENCE_S:.0f} s")
        if self._in_flight and not self._since and not self._told:
            self._told = True
            silence = f"for {_PATIENCE_S:.0f} s no run has begun; are its workers busy with something else?"
            self._watch.tell(f"{self._backend.name}: {silence}")
        self._heard = time.monotonic()

    def _end_overdue(self) -> Iterator[Settled]:
        """Give up runs that take too long, and free their workers."""
        now = time.monotonic()
        if now - self._looked < _LOOK_EVERY_S or self._executor is None:
            return
        self._looked = now
        for future, run in list(self._in_flight.items()):
            if future not in self._since:
                if self._watch.begun(run):
                    self._since[future] = now
                continue
            took = now - self._since[future]
            limit = self._watch.limit_s(run) if took >= self._watch.soonest_s else None
            if limit is not None and took > limit and not future.done():
                del self._in_flight[future], self._since[future]
                self._watch.forget(run)
                how = self._backend.stop(self._executor, future)
                self.left_behind |= not future.done()
                why = f"took longer than {limit:g} s, its limit (--timeout), and was given up: {how}"
                yield self._settled(run, RunOutcome(why, final=True), self._waiting)


def _told(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
