"""Processes on this machine, each on a pipe of its own, so that one that dies takes only its own run along.

`concurrent.futures.ProcessPoolExecutor` shares its queues between workers: when one is killed, all are lost.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
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


@contextmanager
def leaving_no_process(stop: Callable[[], None]) -> Iterator[None]:
    """If the block raises or is interrupted, call `stop` and end the processes that were started in it."""
    before = set(multiprocessing.active_children())
    try:
        yield
    except BaseException:
        stop()
        for child in set(multiprocessing.active_children()) - before:
            child.kill()
            child.join()
        raise


class LocalProcesses(SweepExecutor):
    """An executor over processes started afresh (``spawn``), one task at a time each.

    It is a `SweepError` if Python was started so that workers would import modules from the working folder.
    """

    def __init__(self, workers: int) -> None:
        if sys.flags.ignore_environment and not sys.flags.safe_path:
            raise SweepError(
                "with -E workers would import modules from the working folder; start Python with -P as well"
            )
        self._threads = ThreadPoolExecutor(workers, "fedsim-worker", initializer=_hold_interrupts)
        self._idle: deque[_Worker] = deque()
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

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the workers go once they are done."""
        self._closing = self._closing or cancel_futures
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        self._closing = True
        while self._idle:
            self._idle.pop().let_go(wait)
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._before = {}

    def _on_a_worker(self, at: "list[_Worker]", fn: Callable[..., _T], args: Any, kwargs: Any) -> _T:
        payload = pickle.dumps((fn, args, kwargs))
        worker = self._take()
        at.append(worker)
        if self._closing:
            worker.let_go()
            raise WorkerLostError("the executor was closed")
        try:
            succeeded, answer = worker.ask(payload)
        except (EOFError, OSError):
            worker.process.kill()
            worker.let_go()
            raise WorkerLostError(f"its worker process died ({worker.exit})") from None
        at.clear()  # the worker is another task's from here on
        if self._closing:
            worker.let_go()
        else:
            self._idle.append(worker)
        if not succeeded:
            raise answer
        result: _T = answer
        return result

    def _take(self) -> "_Worker":
        while True:
            try:
                worker = self._idle.pop()
            except IndexError:
                return self._start()
            if worker.process.is_alive():
                return worker
            worker.let_go()

    def _start(self) -> "_Worker":
        while not self._closing:
            with self._starting:
                worker = _Worker()
            try:
                worker.wait_until_ready()
            except (EOFError, OSError):
                worker.process.kill()
                worker.let_go()
                self._failed_starts += 1
                if self._failed_starts >= _MOST_FAILED_STARTS:
                    raise SweepError(
                        f"worker processes cannot start ({worker.exit}); a script that sweeps must do so "
                        "under `if __name__ == '__main__':`"
                    ) from None
            else:
                self._failed_starts = 0
                return worker
        raise WorkerLostError("the executor was closed")


class _Worker:
    """A process and the driver's end of its pipe."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def wait_until_ready(self) -> None:
        self._pipe.recv_bytes()

    def ask(self, payload: bytes) -> tuple[bool, Any]:
        self._pipe.send_bytes(payload)
        answer: tuple[bool, Any] = pickle.loads(self._pipe.recv_bytes())
        return answer

    def let_go(self, wait: bool = True) -> None:
        self._pipe.close()
        if wait:
            self.process.join()

    @property
    def exit(self) -> str:
        code = self.process.exitcode
        return signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"


def _serve(pipe: Connection) -> None:
    """Do one task after the other until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the driver's to handle
    threading.Thread(target=_die_with_parent, daemon=True).start()
    pipe.send_bytes(b"ready")
    while True:
        try:
            payload = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            fn, args, kwargs = pickle.loads(payload)
            answer = pickle.dumps((True, fn(*args, **kwargs)))
        except BaseException as error:  # noqa: BLE001  it is raised again in the driver
            interrupt = isinstance(error, KeyboardInterrupt)
            told = KeyboardInterrupt() if interrupt else RuntimeError(f"{type(error).__name__}: {error}")
            answer = pickle.dumps((False, told))
        pipe.send_bytes(answer)


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
