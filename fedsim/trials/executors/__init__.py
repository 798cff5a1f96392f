"""Where runs are done: any `concurrent.futures.Executor`, which a word such as ``dask=tcp://127.0.0.1:8786`` names."""

import os
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from fedsim._version import __version__
from fedsim.common.arguments import short_repr
from fedsim.common.errors import RunError, SweepError

if TYPE_CHECKING:
    from distributed import Client

_KNOWN = "process, dask=ADDRESS, ray=ADDRESS, or package.module:function of your own"
_CLUSTERS = {"dask": ("dask_cluster:connect_to_dask", "distributed"), "ray": ("ray_cluster:connect_to_ray", "ray")}
"""The function that connects to a cluster, and the package that it needs."""

ASKED = "fedsim.trials.worker:__version__"
"""What a worker is asked to import, with all that a run needs."""
_LOOK_EVERY_S = 1.0
_SHOWN = 3


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


class ClusterExecutor(SweepExecutor):
    """An executor whose workers are checked before they get tasks."""

    def __init__(self) -> None:
        self.good: dict[str, int] = {}  # the workers that get tasks, with how many they do at once
        self.wrong: dict[str, str] = {}  # what is wrong with each worker that was ever checked; empty if nothing is
        self._looked = 0.0

    @abstractmethod
    def look(self) -> tuple[dict[str, int], dict[str, Any]]:
        """Return how many tasks each worker does at once, and what those that are not in `wrong` import as `ASKED`.

        In its place may be what a worker raises: a `TimeoutError`, if it does not answer; a `SweepError` says why it
        gets no tasks any more. It is an `OSError` if the whole cluster does not answer.
        """

    def stranded(self) -> "list[Future[Any]]":
        """Return tasks that wait for workers that have left, while there are others."""
        return []

    def check(self) -> str:
        """Check workers that are new, at most once a second; return for a person what is wrong with them.

        It is a `SweepError` if something is wrong with all that were ever there.
        """
        if time.monotonic() - self._looked < _LOOK_EVERY_S:
            return ""
        try:
            there, answers = self.look()
        except OSError:
            if not self.good:
                raise
            there, answers = self.good, {}  # it may be busy; if it is lost, so are its tasks
        self._looked = time.monotonic()
        verdicts = {worker: why for worker, each in answers.items() if (why := _wrong(each)) is not None}
        self.wrong |= verdicts
        self.good = {worker: number for worker, number in there.items() if self.wrong.get(worker) == ""}
        if self.wrong and all(self.wrong.values()):
            raise SweepError(f"no worker can do the runs: {_listed(self.wrong)}")
        bad = {worker: why for worker, why in verdicts.items() if why}
        return f"{len(bad)} of {len(there)} workers get no runs: {_listed(bad)}" if bad else ""

    def worker_count(self) -> int:
        """Return how many tasks the workers that get some do at once."""
        return sum(self.good.values())


def _wrong(answer: Any) -> str | None:
    """Return what is wrong with a worker that answers this: nothing if it is too busy, None if it is gone."""
    if isinstance(answer, TimeoutError) or answer == __version__:
        return ""
    if isinstance(answer, BaseException):
        if isinstance(answer, SweepError):
            return str(answer)
        return None if isinstance(answer, OSError) else f"cannot import fedsim: {type(answer).__name__}: {answer}"
    return f"fedsim is {answer} there and {__version__} here; install the same version on both"


def _listed(wrong: Mapping[str, str]) -> str:
    reasons = {why: [worker for worker in wrong if wrong[worker] == why] for why in wrong.values()}
    lines = [f"{why} (on {len(workers)}: {', '.join(workers[:_SHOWN])})" for why, workers in reasons.items()]
    return "; ".join(lines[:_SHOWN])


@dataclass(frozen=True)
class Backend:
    """An executor to be opened, and opened again should it break; `workers` returns how many runs it does at once.

    One that is `lent` is left open.
    """

    name: str
    open: Callable[[], Executor]
    workers: Callable[[Any], int]
    lent: bool = False


def backend_of(executor: "str | Executor | Client", workers: int | None = None) -> Backend:
    """Return the backend that is meant, by default with as many workers as there are processors.

    It is an executor or a Dask client, which are left open; ``process``; ``dask=ADDRESS`` of a scheduler;
    ``ray=ADDRESS`` of a cluster (``ray=local`` starts one); or ``package.module:function``, called with the number of
    workers, which returns an executor. A `RunError` says that the name is unknown, or what it needs is not installed.
    """
    here, dask = workers or default_workers(), sys.modules.get("distributed")
    if isinstance(executor, Executor):
        return Backend(type(executor).__name__, lambda: executor, lambda _: here, lent=True)
    if dask is not None and isinstance(executor, dask.Client):
        from fedsim.trials.executors.dask_cluster import executor_of

        client, its_name = executor, f"dask={executor.scheduler.address}"
        return Backend(its_name, lambda: executor_of(client), lambda each: workers or each.worker_count(), lent=True)
    if not isinstance(executor, str):
        raise TypeError(f"executor must be an Executor, a Dask Client, or one of {_KNOWN}; not {short_repr(executor)}")
    name = executor
    kind, equals, address = name.partition("=")
    if name == "process":
        from fedsim.trials.executors.local import LocalProcesses

        return Backend(name, lambda: LocalProcesses(here), lambda _: here)
    if kind in _CLUSTERS and equals and address:
        function, package = _CLUSTERS[kind]
        try:
            connect = resolve_name(f"fedsim.trials.executors.{function}")
        except ImportError as error:
            raise RunError(
                f"{kind}=... needs {package}, which cannot be imported ({error}); install fedsim-participation[{kind}]"
            ) from None
        return Backend(name, lambda: connect(address, workers), lambda executor: workers or executor.worker_count())
    if ":" in name and not equals:
        return Backend(name, _factory(name, here), lambda _: here)
    raise RunError(f"unknown executor {name!r}; known are {_KNOWN}")


def default_workers() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _factory(name: str, workers: int) -> Callable[[], Executor]:
    try:
        function = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise RunError(f"executor {name!r} cannot be imported: {error}") from None
    if not callable(function):
        raise RunError(f"executor {name!r} is not a function")

    def opened() -> Executor:
        executor = function(workers)
        if not isinstance(executor, Executor):
            raise SweepError(f"{name!r} returned {executor!r}, which is no concurrent.futures.Executor")
        return executor

    return opened
