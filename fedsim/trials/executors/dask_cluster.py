"""Workers of a Dask cluster, behind `concurrent.futures.Executor`."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future
from pkgutil import resolve_name
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from distributed import Client, get_worker

from fedsim.common.errors import SweepError
from fedsim.trials.executors import ASKED, ClusterExecutor
from fedsim.trials.worker import AT

_P = ParamSpec("_P")
_T = TypeVar("_T")
_CONNECT_S = _ANSWER_S = 4
_SILENT_S = 60.0


class DaskExecutor(ClusterExecutor):
    """The executor of a Dask client, which it closes when it is shut down."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        # Dask sends a task whose worker died to another one by itself; `retries` would be for tasks that raise.
        self._inner = client.get_executor(pure=False, retries=0)
        self._sent: WeakKeyDictionary[Future[Any], tuple[str, set[str]]] = WeakKeyDictionary()  # key, and to which
        self._stopped, self._stuck = set[str](), set[str]()  # workers, and the keys of their tasks

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Do ``fn(*args, **kwargs)`` on a worker that has passed the check."""
        key = f"fedsim-{uuid4().hex}"
        future: Future[_T] = self._inner.submit(_call, fn, *args, **kwargs, key=key, workers=[*self.good])
        self._sent[future] = key, set(self.good)
        return future

    def stranded(self) -> "list[Future[Any]]":
        """Return tasks of workers that have left or are stopped, while there are others; Dask would wait for those."""
        lost = (each for each, (key, to) in self._sent.items() if key in self._stuck or to.isdisjoint(self.good))
        return [*lost] if self.good else []

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel or wait for what is left, and leave the cluster."""
        self._inner.shutdown(wait=wait and not cancel_futures)
        self._client.close()

    def look(self) -> tuple[dict[str, int], dict[str, Any]]:
        """Return the workers with their threads, and what new ones import; Python's own library is sent for that."""
        about = self._client.sync(self._client.scheduler.identity, n_workers=-1, callback_timeout=_CONNECT_S)
        there = {address: worker["nthreads"] for address, worker in about["workers"].items()}
        soonest = self._client.run_on_scheduler(time.time) - _SILENT_S
        silent = {each for each in there if about["workers"][each]["last_seen"] < soonest and not self.wrong.get(each)}
        self._stopped |= silent
        waiting = self._client.processing([*self._stopped]) if self._stopped else {}
        self._stuck = {key for keys in waiting.values() for key in keys}
        answers = self._client.sync(self._ask, [*(there.keys() - self.wrong.keys() - silent)])
        return there, answers | dict.fromkeys(silent, SweepError(f"nothing heard of it for {_SILENT_S:g} s"))

    async def _ask(self, workers: list[str]) -> dict[str, Any]:
        async def answer(worker: str) -> Any:
            asked = self._client._run(resolve_name, ASKED, workers=[worker], on_error="return")
            return (await asyncio.wait_for(asked, _ANSWER_S))[worker]

        return dict(zip(workers, await asyncio.gather(*map(answer, workers), return_exceptions=True), strict=True))

    def end_task(self, future: "Future[Any]") -> str:
        """End the worker process that does a task, since a thread in it cannot be ended; its nanny starts another."""
        (key, _), client = self._sent[future], self._client
        where = [address for address, keys in client.processing().items() if key in keys]
        future.cancel()
        if not where:
            return "it was cancelled"
        try:
            client.sync(client._run, _end_this_process, workers=where, on_error="ignore", callback_timeout=_CONNECT_S)
        except TimeoutError:
            return f"its Dask worker {', '.join(where)} does not answer"
        except OSError:
            pass  # it ends in the middle of its answer
        return f"its Dask worker {', '.join(where)} was ended"


def _call(fn: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    AT.set(get_worker().address)
    return fn(*args, **kwargs)


def _end_this_process() -> None:
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # on Windows either ends it


def connect_to_dask(address: str, _workers: int | None) -> DaskExecutor:
    """Connect to a scheduler; a wrong address raises an `OSError`, `TimeoutError` or `ValueError`."""
    # Sweeps report what happens to the connection; Dask and its event loop would show a traceback each time.
    for name in ("distributed", "distributed.client", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    client = Client(address, timeout=_CONNECT_S, set_as_default=False)
    try:
        return executor_of(client)
    except SweepError:
        client.close()
        raise


def executor_of(client: Client) -> DaskExecutor:
    """Return the executor of a client, once its scheduler has been found to have fedsim."""
    try:
        client.run_on_scheduler(resolve_name, ASKED)  # it reads what it passes on
    except (ImportError, AttributeError) as error:
        where = client.scheduler.address
        raise SweepError(f"the Dask scheduler at {where} cannot import fedsim ({error}); install it there") from None
    return DaskExecutor(client)
