"""Where runs are done: any `concurrent.futures.Executor`, which a word such as ``dask=tcp://127.0.0.1:8786`` names."""

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from importlib import import_module
from pkgutil import resolve_name
from typing import Any

from fedsim.common.arguments import shown
from fedsim.common.errors import RunError, SweepError

KNOWN = "process, dask=ADDRESS, ray=ADDRESS, or package.module:function of your own"


@dataclass(frozen=True)
class Backend:
    """An executor to be opened, and opened again should it break.

    Attributes
    ----------
    name
        As given on the command line.
    open
        Returns a new executor.
    workers
        How many runs it does at once, given the opened executor.
    alive
        How many workers it has now; None where that cannot be known.
    lost
        Why it cannot be reached any more; empty while it can.
    stop
        Ends the task of a future wherever it is, and returns what that took, for a person.
    """

    name: str
    open: Callable[[], Executor]
    workers: Callable[[Executor], int]
    alive: Callable[[Executor], int | None] = lambda _: None
    lost: Callable[[Executor], str] = lambda _: ""
    stop: Callable[[Executor, Future[Any]], str] = lambda _executor, future: _asked(future)


def backend_of(name: str, workers: int | None = None) -> Backend:
    """Return the backend that a name means.

    Parameters
    ----------
    name
        ``process``; ``dask=ADDRESS`` of a scheduler; ``ray=ADDRESS`` of a cluster (``ray=local`` starts one);
        ``package.module:function``, called with the number of workers, which returns an executor.
    workers
        How many runs at once; by default as many as there are processors (here, or in the cluster).

    Raises
    ------
    RunError
        If the name means nothing, or what it needs is not installed.
    """
    if not isinstance(name, str):
        raise TypeError(f"executor must be one of {KNOWN}; not {shown(name)}")
    kind, equals, address = name.partition("=")
    here = workers or default_workers()
    if name == "process":
        from fedsim.sweeps.executors.local import LocalProcesses, stop_process

        return Backend(name, lambda: LocalProcesses(here), lambda _: here, stop=stop_process)
    if kind in {"dask", "ray"} and equals and address:
        adapter = _adapter(kind)
        return Backend(
            name,
            lambda: _opened(name, lambda: adapter.connect(address, workers)),
            lambda executor: workers or adapter.worker_count(executor),
            adapter.worker_count,
            adapter.lost,
            adapter.stop,
        )
    if ":" in name and not equals:
        return Backend(name, _factory(name, here), lambda _: here)
    raise RunError(f"unknown executor {name!r}; known are {KNOWN}")


def default_workers() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _asked(future: "Future[Any]") -> str:
    return "it had not begun" if future.cancel() else "it was asked to end"


def _adapter(kind: str) -> Any:
    module, package = {"dask": ("dask_cluster", "distributed"), "ray": ("ray_cluster", "ray")}[kind]
    try:
        return import_module(f"fedsim.sweeps.executors.{module}")
    except ImportError as error:
        raise RunError(
            f"{kind}=... needs {package}, which cannot be imported ({error}); install fedsim-participation[{kind}]"
        ) from None


def _opened(name: str, connect: Callable[[], Executor]) -> Executor:
    try:
        return connect()
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        raise SweepError(f"the executor cannot be opened ({name}): {error or type(error).__name__}") from None


def _factory(name: str, workers: int) -> Callable[[], Executor]:
    try:
        found = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise RunError(f"executor {name!r} cannot be imported: {error}") from None
    if not callable(found):
        raise RunError(f"executor {name!r} is not a function")

    def opened() -> Executor:
        executor = found(workers)
        if not isinstance(executor, Executor):
            raise SweepError(f"{name!r} returned {executor!r}, which is no concurrent.futures.Executor")
        return executor

    return opened
