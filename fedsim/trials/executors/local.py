"""Processes on this machine, each a pool of its own, so that one that dies takes only its own run along.

A `concurrent.futures.ProcessPoolExecutor` is lost as a whole when one of its processes is killed.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from types import TracebackType
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from fedsim.common.errors import SweepError
from fedsim.trials.executors import SweepExecutor

_P = ParamSpec("_P")
_T = TypeVar("_T")
_MOST_FAILED_STARTS = 3
# One run, one processor: threads of numerical libraries would only get in each other's way.
ONE_THREAD = {
    f"{library}_THREADS": "1"
    for library in ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "NUMEXPR_NUM", "VECLIB_MAXIMUM", "POLARS_MAX")
}

_SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Workers, and Python's own helper process, start as `python -c`, which would put the working folder first on the path:
a `signal.py` that lies there would run in them."""


class WorkerLostError(Exception):
    """The process that did this task died; the executor goes on."""


class LocalProcesses(SweepExecutor):
    """An executor over processes started afresh (``spawn``), one task at a time each.

    As a context it waits for its tasks, or ends them where the block raises or is interrupted. It is a `SweepError` if
    Python was started so that workers would import modules from the working folder.
    """

    def __init__(self, workers: int) -> None:
        if sys.flags.ignore_environment and not sys.flags.safe_path:
            raise SweepError(
                "with -E workers would import modules from the working folder; start Python with -P as well"
            )
        self._threads = ThreadPoolExecutor(workers, "fedsim-worker", initializer=_hold_interrupts)
        self._workers, self._idle = set[_Worker](), deque[_Worker]()
        self._at: WeakKeyDictionary[Future[Any], list[_Worker]] = WeakKeyDictionary()
        self._starting = threading.Lock()
        self._failed_starts = 0
        self._closing = False
        # Set before workers start: numerical libraries read these when they are loaded, Python at its start.
        wanted = {name: value for name, value in ONE_THREAD.items() if name not in os.environ} | _SAFE_PATH
        self._before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Do ``fn(*args, **kwargs)`` in a worker; the future raises `WorkerLostError` if that worker dies."""
        at: list[_Worker] = []
        future = self._threads.submit(self._on_a_worker, at, fn, args, kwargs)
        self._at[future] = at
        return future

    def end_task(self, future: "Future[Any]") -> str:
        """End the process that does a task; another one takes its place."""
        if future.cancel():
            return "it had not begun"
        for worker in self._at.get(future, []):
            worker.process.kill()
        return "its process was ended"

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """Let the workers go once they are done, or at once with `cancel_futures`; waits in either case."""
        with self._starting:
            self._closing |= cancel_futures
        for worker in [*self._workers] * cancel_futures:
            worker.process.kill()
        self._threads.shutdown(cancel_futures=cancel_futures)
        while self._workers:
            self._workers.pop().pool.shutdown()
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._before = {}

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        """Shut down; at once if the block raises."""
        self.shutdown(cancel_futures=kind is not None)

    def _on_a_worker(self, at: "list[_Worker]", fn: Callable[..., _T], args: Any, kwargs: Any) -> _T:
        worker = self._take()
        at.append(worker)
        try:
            result: _T = worker.do(fn, *args, **kwargs)
        except WorkerLostError:
            self._workers.discard(worker)
            raise
        finally:
            at.clear()  # the worker is another task's from here on
            self._idle.append(worker)
        return result

    def _take(self) -> "_Worker":
        while self._idle:
            worker = self._idle.pop()
            if worker.process.is_alive():
                return worker
            self._workers.discard(worker)
        while True:
            with self._starting:
                if self._closing:
                    raise WorkerLostError("the executor was closed")
                worker = _Worker()
                self._workers.add(worker)
            try:
                worker.do(_nothing)
            except WorkerLostError as error:
                self._workers.discard(worker)
                self._failed_starts += 1
                if self._failed_starts >= _MOST_FAILED_STARTS:
                    raise SweepError(
                        f"worker processes cannot start ({worker.exit}); a script that sweeps must do so "
                        "under `if __name__ == '__main__':`"
                    ) from error
            else:
                self._failed_starts = 0
                return worker


class _Worker:
    """A process, and the pool that it is alone in."""

    def __init__(self) -> None:
        self.pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)
        self.pool.submit(_nothing)  # which starts it
        (self.process,) = self.pool._processes.values()

    def do(self, fn: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        try:
            return self.pool.submit(fn, *args, **kwargs).result()
        except BrokenProcessPool:
            self.pool.shutdown()  # which knows how it ended
            raise WorkerLostError(f"its worker process died ({self.exit})") from None

    @property
    def exit(self) -> str:
        code = self.process.exitcode
        return signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"


def _nothing() -> None:
    """Do nothing, in a process that has begun."""


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the driver's to handle
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _hold_interrupts() -> None:
    # A process inherits this from the thread that starts it: Ctrl-C would otherwise hit it before it can say no.
    if hasattr(signal, "pthread_sigmask"):
        resource_tracker.ensure_running()  # which lets them through when it begins, as the first process makes it do
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
