"""Where runs are done: any `concurrent.futures.Executor`, which a word such as ``dask=tcp://127.0.0.1:8786`` names."""

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from fedsim.common.arguments import short_repr
from fedsim.common.errors import RunError, SweepError

_KNOWN = "process, dask=ADDRESS, ray=ADDRESS, or package.module:function of your own"
_CLUSTERS = {"dask": ("dask_cluster:connect_to_dask", "distributed"), "ray": ("ray_cluster:connect_to_ray", "ray")}
"""The function that connects to a cluster, and the package that it needs."""


class SweepExecutor(Executor):
    """An executor that knows its workers, and can end a task that has begun."""

    def worker_count(self) -> int | None:
        """Return how many tasks it does at once now; None where that is unknown."""
        return None

    def why_unreachable(self) -> str:
        """Return why it can no longer be reached; empty while it can."""
        return ""

    def end_task(self, future: "Future[Any]") -> str:
        """End a task wherever it is done, and say in a few words how."""
        raise NotImplementedError


@dataclass(frozen=True)
class Backend:
    """An executor to be opened, and opened again should it break; `workers` returns how many runs it does at once."""

    name: str
    open: Callable[[], Executor]
    workers: Callable[[Any], int]


def backend_of(name: str, workers: int | None = None) -> Backend:
    """Return the backend that a name stands for, by default with as many workers as there are processors.

    It is ``process``; ``dask=ADDRESS`` of a scheduler; ``ray=ADDRESS`` of a cluster (``ray=local`` starts one); or
    ``package.module:function``, called with the number of workers, which returns an executor. A `RunError` says that
    the name is unknown, or what it needs is not installed.
    """
    if not isinstance(name, str):
        raise TypeError(f"executor must be one of {_KNOWN}; not {short_repr(name)}")
    kind, equals, address = name.partition("=")
    here = workers or default_workers()
    if name == "process":
        from fedsim.sweeps.executors.local import LocalProcesses

        return Backend(name, lambda: LocalProcesses(here), lambda _: here)
    if kind in _CLUSTERS and equals and address:
        connect = _connector(kind)
        return Backend(
            name,
            lambda: _opened(name, lambda: connect(address, workers)),
            lambda executor: workers or executor.worker_count(),
        )
    if ":" in name and not equals:
        return Backend(name, _factory(name, here), lambda _: here)
    raise RunError(f"unknown executor {name!r}; known are {_KNOWN}")


def default_workers() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _connector(kind: str) -> Any:
    function, package = _CLUSTERS[kind]
    try:
        return resolve_name(f"fedsim.sweeps.executors.{function}")
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
