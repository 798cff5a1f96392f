"""Hands runs to an executor and takes each back once, even if workers die.

A run whose worker died is tried again. If the executor breaks as a whole, as a `ProcessPoolExecutor` does, the run that
caused it is unknown: all runs in flight are suspects and are done again one at a time in a new executor. Only a run
that breaks the executor while it is alone in it is charged with an attempt.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from multiprocessing import active_children

from fedsim.common.errors import FedsimError, RunError, SweepError, TimeIsOverError, told
from fedsim.trials.executors import Backend, ClusterExecutor, SweepExecutor
from fedsim.trials.plan import PlannedRun
from fedsim.trials.worker import RunOutcome, Task, check_inputs, work

_LOOK_EVERY_S = 1.0
_PATIENCE_S = 60.0
_MOST_BREAKS = 5
_MOST_FAULTS = 2


@dataclass(frozen=True)
class Settled:
    """An attempt at a run that is over; `attempts` counts those so far, `again` says whether another one follows."""

    run: PlannedRun
    outcome: RunOutcome
    attempts: int
    again: bool = False


@dataclass(eq=False)
class Dispatcher:
    """Does the runs that wait; `task_of` makes what is sent to the worker for a run, and `do` is what it does."""

    waiting: deque[PlannedRun]
    backend: Backend
    task_of: Callable[[PlannedRun], Task]
    retries: int = 2
    do: Callable[[Task], RunOutcome] = work
    begun: Callable[[PlannedRun], bool] = lambda _: False  # whether a worker has begun a run
    forget: Callable[[PlannedRun], None] = lambda _: None  # takes that note back, which ends a run under way
    limit_s: Callable[[PlannedRun], float | None] = lambda _: None  # seconds that a run may take, if limited
    soonest_s: float = 0.0  # before so many seconds the limit is not asked for
    tell: Callable[[str], None] = lambda _: None  # gets messages for a person
    until: float = math.inf  # when it ends, on the clock of `time.monotonic`
    look: Callable[[int], None] = lambda _: None  # each second in which no run ends: how many are done at once
    _suspects: deque[PlannedRun] = field(default_factory=deque)
    _in_flight: dict[Future[RunOutcome], PlannedRun] = field(default_factory=dict)
    _failed: Counter[str] = field(default_factory=Counter)
    _faults: Counter[str] = field(default_factory=Counter)  # how often each worker was not fit for a run
    _since: dict[Future[RunOutcome], float] = field(default_factory=dict)
    _executor: Executor | None = None
    _opened: bool = False  # at some time
    _most = 1
    _breaks = 0
    _heard: float = field(default_factory=time.monotonic)
    _looked: float = field(default_factory=time.monotonic)
    _warned: bool = False
    _left_behind: bool = False  # whether a run was given up whose worker may still be busy with it

    def settled(self) -> Generator[Settled, None, None]:
        """Do all runs, and yield each attempt that is over.

        Stopping early (an exception, an interrupt, closing the iterator) cancels what has not begun and ends the local
        processes that were started. It is a `SweepError` if the executor cannot be opened, breaks again and again, or
        has no workers for a minute.
        """
        before = set(active_children())
        try:
            while self.waiting or self._suspects or self._in_flight:
                if time.monotonic() >= self.until:
                    raise TimeIsOverError("the time is over; the same command does the rest")  # noqa: TRY301
                self._hand_out()
                done, _ = wait(self._in_flight, timeout=_LOOK_EVERY_S, return_when=FIRST_COMPLETED)
                if done:
                    self._heard, self._warned = time.monotonic(), False
                    yield from self._take_back(done)
                else:
                    self._look_for_workers()
                    self.look(self._most // 2)
                yield from self._end_overdue()
            self._close(at_once=self._left_behind)
        except BaseException:
            self._close(at_once=True)
            for child in set(active_children()) - before:
                child.kill()
                child.join()
            raise

    def _close(self, *, at_once: bool = False) -> None:
        if at_once:
            for future, run in self._in_flight.items():
                future.cancel()
                self.forget(run)
        executor, self._executor = self._executor, None
        if executor is None or self.backend.lent:
            return
        # Of others no more is asked than of every executor: not all know how to cancel, and all futures are here.
        more = {"cancel_futures": at_once} if isinstance(executor, SweepExecutor) else {}
        try:
            executor.shutdown(wait=not at_once, **more)
        except Exception as error:  # noqa: BLE001  what runs have given is here
            self.tell(f"warning: {self.backend.name} was not closed: {told(error)}")

    def _hand_out(self) -> None:
        if self._executor is None:
            try:
                self._executor = self.backend.open()
            except FedsimError:
                raise
            except Exception as error:
                raise self._lost(str(error) if isinstance(error, OSError) else told(error)) from error
            self._opened = True
        if isinstance(self._executor, ClusterExecutor) and not self._has_workers(self._executor):
            return
        # Twice as many as are done at once, so that no worker has to wait.
        self._most = 2 * max(1, self.backend.workers(self._executor))
        source, most = (self._suspects, 1) if self._suspects else (self.waiting, self._most)
        while source and len(self._in_flight) < most:
            task = self.task_of(source[0])
            self.forget(source[0])  # an attempt that was lost may have left its mark
            try:
                future = self._executor.submit(self.do, task)
            except BrokenExecutor:
                self._broken()
                return
            except RuntimeError as error:
                raise SweepError(f"the executor takes no more runs: {error}") from None
            if not isinstance(future, Future):
                raise SweepError(f"{self.backend.name!r} submitted a {type(future).__name__}, which is no Future")
            self._in_flight[future] = source.popleft()

    def _has_workers(self, cluster: ClusterExecutor) -> bool:
        """Check workers that are new, take back what waits for those that have left, and say whether there are any."""
        try:
            wrong = cluster.check()
        except OSError as error:
            raise self._lost(str(error)) from None
        for future in cluster.stranded():
            if (run := self._in_flight.pop(future, None)) is not None:
                self._since.pop(future, None)
                future.cancel()
                self.waiting.append(run)
        if not cluster.good and not self._in_flight:
            wrong = wrong or ("" if self._warned else f"no workers; waiting {_PATIENCE_S:.0f} s for one")
            self._warned = True
            time.sleep(_LOOK_EVERY_S)
        if wrong:
            self.tell(f"{self.backend.name}: {wrong}")
        return bool(cluster.good)

    def _lost(self, why: str) -> SweepError:
        what = "was lost; the same command does the rest" if self._opened else "cannot be opened"
        return SweepError(f"the executor {what} ({self.backend.name}): {why}")

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
                outcome = future.result() if error is None else RunOutcome(_first_line(error))
                if not self._unfit(run, outcome):
                    yield self._settled(run, outcome, self._suspects if breaks else self.waiting)
                elif (times := self._faults[outcome.worker]) <= _MOST_FAULTS:  # later ones were on their way
                    last = "; that worker gets no more runs" if times == _MOST_FAULTS else ""
                    yield Settled(run, RunOutcome(outcome.error + last), self._failed[run.run_id], again=True)
        if broken:
            self._broken()

    def _unfit(self, run: PlannedRun, outcome: RunOutcome) -> bool:
        """Put a run back, which is no attempt, if it met a worker that fails a check of its inputs that passes here.

        After two such failures the worker gets no more runs.
        """
        worker, cluster = outcome.worker, self._executor
        if not worker or not isinstance(cluster, ClusterExecutor) or self._faults[worker] > 2 * self._most:
            return False
        try:
            check_inputs(self.task_of(run).inputs)
        except RunError:
            return False
        self.waiting.append(run)
        self._faults[worker] += 1
        if self._faults[worker] >= _MOST_FAULTS:
            cluster.wrong[worker] = outcome.error
            cluster.good.pop(worker, None)
        return True

    def _settled(self, run: PlannedRun, outcome: RunOutcome, queue: deque[PlannedRun]) -> Settled:
        """Count the attempt, and put the run back in a queue if it is to be tried again."""
        attempts = self._failed[run.run_id] + 1
        again = bool(outcome.error) and not outcome.final and attempts <= self.retries
        if again:
            self._failed[run.run_id] = attempts
            queue.append(run)
        else:
            self._breaks = 0
        return Settled(run, outcome, attempts, again)

    def _broken(self) -> None:
        """Leave the broken executor; all that was in flight is done again, one at a time."""
        self._suspects.extend(self._in_flight.values())
        self._close(at_once=True)
        self._in_flight.clear()
        self._since.clear()
        self._breaks += 1
        if self._breaks > max(_MOST_BREAKS, self.retries + 1):
            raise SweepError(f"the executor {self.backend.name} broke {self._breaks} times in a row")

    def _look_for_workers(self) -> None:
        """Raise if the cluster is gone or has no workers; warn if it does not begin any run."""
        cluster = self._executor if isinstance(self._executor, SweepExecutor) else None
        if cluster is not None and (why := cluster.why_unreachable()):
            raise self._lost(why)
        if self._executor is None or time.monotonic() - self._heard < _PATIENCE_S:
            return
        if cluster is not None and cluster.worker_count() == 0:
            lacks = f"{self.backend.name} has had no workers that can do the runs for {_PATIENCE_S:.0f} s"
            raise SweepError(f"{lacks}; the same command does the rest")
        if self._in_flight and not self._since and not self._warned:
            self._warned = True
            silence = f"for {_PATIENCE_S:.0f} s no run has begun; are its workers busy with something else?"
            self.tell(f"{self.backend.name}: {silence}")
        self._heard = time.monotonic()

    def _end_overdue(self) -> Iterator[Settled]:
        """Give up runs that take too long, and end their tasks."""
        now = time.monotonic()
        if now - self._looked < _LOOK_EVERY_S or self._executor is None:
            return
        self._looked = now
        for future, run in list(self._in_flight.items()):
            if future not in self._since:
                if self.begun(run):
                    self._since[future] = now
                continue
            took = now - self._since[future]
            limit = self.limit_s(run) if took >= self.soonest_s else None
            if limit is not None and took > limit and not future.done():
                del self._in_flight[future], self._since[future]
                self.forget(run)
                if isinstance(self._executor, SweepExecutor):
                    how = self._executor.end_task(future)
                else:
                    how = "it had not begun" if future.cancel() else "it was asked to end"
                self._left_behind |= not future.done()
                why = f"took longer than {limit:g} s, its limit (--timeout), and was given up: {how}"
                yield self._settled(run, RunOutcome(why, final=True), self.waiting)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
