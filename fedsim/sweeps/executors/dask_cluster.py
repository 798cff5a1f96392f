"""Workers of a Dask cluster, behind `concurrent.futures.Executor`."""

import logging
import os
import signal
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from distributed import Client

from fedsim.common.errors import SweepError
from fedsim.sweeps.executors import SweepExecutor

_P = ParamSpec("_P")
_T = TypeVar("_T")
_CONNECT_S, _PATIENCE_S = 10, 30


class DaskExecutor(SweepExecutor):
    """The executor of a Dask client, which it closes when it is shut down."""

    def __init__(self, client: Client) -> None:
        self._client = client
        # Dask sends a task whose worker died to another one by itself; `retries` would be for tasks that raise.
        self._inner = client.get_executor(pure=False, retries=0)
        self._keys: WeakKeyDictionary[Future[Any], str] = WeakKeyDictionary()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Do ``fn(*args, **kwargs)`` on a worker."""
        key = f"fedsim-{uuid4().hex}"
        future: Future[_T] = self._inner.submit(fn, *args, **kwargs, key=key)
        self._keys[future] = key
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel or wait for what is left, and leave the cluster."""
        self._inner.shutdown(wait=wait and not cancel_futures)
        self._client.close()

    def worker_count(self) -> int:
        """Return how many tasks the cluster does at once now."""
        return sum(worker["nthreads"] for worker in self._client.scheduler_info(n_workers=-1)["workers"].values())

    def end_task(self, future: "Future[Any]") -> str:
        """End the worker process that does a task, since a thread in it cannot be ended; its nanny starts another."""
        key, client = self._keys.get(future), self._client
        where = [address for address, keys in client.processing().items() if key in keys]
        future.cancel()
        if not where:
            return "it was cancelled"
        with suppress(OSError, TimeoutError):  # it ends in the middle of its answer
            client.sync(client._run, _end_this_process, workers=where, on_error="ignore", callback_timeout=_CONNECT_S)
        return f"its Dask worker {', '.join(where)} was ended"


def _end_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def connect_to_dask(address: str, _workers: int | None) -> DaskExecutor:
    """Connect to a scheduler and wait until it has a worker; it is a `SweepError` if it has none within 30 s.

    A wrong address raises an `OSError`, `TimeoutError` or `ValueError`.
    """
    # Sweeps report what happens to the connection; Dask and its event loop would show a traceback each time.
    for name in ("distributed", "distributed.client", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    client = Client(address, timeout=_CONNECT_S, set_as_default=False)
    try:
        client.wait_for_workers(1, timeout=_PATIENCE_S)
    except TimeoutError:
        client.close()
        raise SweepError(f"the Dask scheduler at {address} has no workers") from None
    return DaskExecutor(client)
