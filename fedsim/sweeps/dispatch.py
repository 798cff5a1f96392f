"""Runs handed to an executor and taken back, each once, whatever becomes of the workers.

A run whose worker died is tried again. Where the executor breaks as a whole, as a `ProcessPoolExecutor` does, nobody
can tell which run was to blame: those in flight become suspects, are done again one at a time in a new executor, and
only one that breaks it while alone is charged with an attempt.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass
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


def dispatch(
    runs: Iterable[PlannedRun],
    backend: Backend,
    task_of: Callable[[PlannedRun], Task],
    retries: int = 2,
    job: Callable[[Task], RunOutcome] = work,
) -> Generator[Settled, None, None]:
    """Do all runs, and yield each attempt that ends one or is repeated.

    Stopping early (an exception, an interrupt, closing the iterator) cancels what has not begun and ends the local
    processes that were started.

    Parameters
    ----------
    runs, backend
        What is done, and where.
    task_of
        What travels to the worker for a run.
    retries
        Further attempts for a run that fails for no reason of its own.
    job
        What a worker does with a task.

    Raises
    ------
    SweepError
        If the executor cannot be opened, breaks again and again, or has no workers for a minute.
    """
    dispatcher = _Dispatcher(runs, backend, task_of, retries, job)
    with leaving_no_process(partial(dispatcher.close, at_once=True)):
        yield from dispatcher.work()
        dispatcher.close()


class _Dispatcher:
    """What is waiting, in flight and suspected."""

    def __init__(
        self,
        runs: Iterable[PlannedRun],
        backend: Backend,
        task_of: Callable[[PlannedRun], Task],
        retries: int,
        job: Callable[[Task], RunOutcome],
    ) -> None:
        self._waiting = deque(runs)
        self._backend, self._task_of, self._retries, self._job = backend, task_of, retries, job
        self._suspects: deque[PlannedRun] = deque()
        self._in_flight: dict[Future[RunOutcome], PlannedRun] = {}
        self._failed: Counter[str] = Counter()
        self._executor: Executor | None = None
        self._most = 1
        self._breaks = 0
        self._heard = time.monotonic()

    def work(self) -> Iterator[Settled]:
        while self._waiting or self._suspects or self._in_flight:
            self._hand_out()
            done, _ = wait(self._in_flight, timeout=_LOOK_EVERY_S, return_when=FIRST_COMPLETED)
            if done:
                self._heard = time.monotonic()
                yield from self._take_back(done)
            else:
                self._look_for_workers()

    def close(self, *, at_once: bool = False) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=not at_once, cancel_futures=at_once)
            self._executor = None

    def _hand_out(self) -> None:
        if self._executor is None:
            self._executor = self._backend.open()
            # Twice as many as are done at once, so that no worker waits for us.
            self._most = 2 * max(1, self._backend.workers(self._executor))
        source, most = (self._suspects, 1) if self._suspects else (self._waiting, self._most)
        if self._suspects and len(self._in_flight) > 0:
            return
        while source and len(self._in_flight) < most:
            run = source[0]
            task = self._task_of(run)
            try:
                future = self._executor.submit(self._job, task)
            except BrokenExecutor:
                self._broken()
                return
            except RuntimeError as error:
                raise SweepError(f"the executor takes no more runs: {error}") from None
            source.popleft()
            self._in_flight[future] = run

    def _take_back(self, done: Iterable[Future[RunOutcome]]) -> Iterator[Settled]:
        alone = len(self._in_flight) == 1
        broken = False
        for future in done:
            run = self._in_flight.pop(future)
            error = CancelledError() if future.cancelled() else future.exception()
            if isinstance(error, FedsimError):
                raise error
            if error is None:
                yield self._settled(run, future.result())
            elif isinstance(error, BrokenExecutor | CancelledError):
                broken = True
                if alone:
                    yield self._settled(run, RunOutcome(_told(error)), self._suspects)
                else:
                    self._suspects.append(run)
            else:
                yield self._settled(run, RunOutcome(_told(error)))
        if broken:
            self._broken()

    def _settled(self, run: PlannedRun, outcome: RunOutcome, queue: deque[PlannedRun] | None = None) -> Settled:
        """Count the attempt, and put the run back in a queue if it deserves another."""
        failed = bool(outcome.error)
        attempts = self._failed[run.run_id] + 1
        again = failed and not outcome.final and attempts <= self._retries
        if again:
            self._failed[run.run_id] = attempts
            (self._waiting if queue is None else queue).append(run)
        else:
            self._breaks = 0
        return Settled(run, outcome, attempts, again)

    def _broken(self) -> None:
        """Leave the broken executor; all that was in flight is done again, one at a time."""
        self._suspects.extend(self._in_flight.values())
        self._in_flight.clear()
        self._breaks += 1
        if self._breaks > max(_MOST_BREAKS, self._retries + 1):
            raise SweepError(f"the executor {self._backend.name} broke {self._breaks} times in a row")
        self.close(at_once=True)

    def _look_for_workers(self) -> None:
        """Do not wait for ever for a cluster that has lost its workers."""
        if time.monotonic() - self._heard < _PATIENCE_S or self._executor is None:
            return
        if self._backend.alive(self._executor) == 0:
            raise SweepError(f"{self._backend.name} has had no workers for {_PATIENCE_S:.0f} s")
        self._heard = time.monotonic()


def _told(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
