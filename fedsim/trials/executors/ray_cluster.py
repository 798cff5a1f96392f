"""Workers of a Ray cluster, behind `concurrent.futures.Executor`."""

import atexit
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from pkgutil import resolve_name
from typing import Any, ParamSpec, TypeVar

os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # otherwise every start warns of what is to come

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedsim.trials.executors import ASKED, ClusterExecutor
from fedsim.trials.executors.local import ONE_THREAD, WorkerLostError
from fedsim.trials.worker import AT

_P = ParamSpec("_P")
_T = TypeVar("_T")
_CONNECT_S, _ANSWER_S = 10, 20
_EXIT_CODE = 3  # of a sweep that could not go on, which this one is
_GONE = "the head of the Ray cluster cannot be reached any more"


class RayExecutor(ClusterExecutor):
    """Tasks of a Ray cluster, one processor each; the future of a task whose worker died raises Ray's error."""

    def __init__(self) -> None:
        super().__init__()
        self._head = str(ray.get_runtime_context().gcs_address)
        # Ray's own retries would not be counted, and would go on after a run was given up.
        self._call = ray.remote(max_retries=0, num_cpus=1)(_call)
        self._running: dict[Future[Any], Any] = {}

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Do ``fn(*args, **kwargs)`` on a worker; the future raises `BrokenExecutor` if this machine's Ray died."""
        future: Future[_T] = Future()
        future.set_running_or_notify_cancel()
        bad = ",".join(worker for worker, why in self.wrong.items() if why)
        call = self._call.options(label_selector={"ray.io/node-id": f"!in({bad})"}) if bad else self._call
        self._running[future] = reference = call.remote(fn, args, kwargs)

        def pass_on(done: Future[_T]) -> None:
            self._running.pop(future, None)
            error = done.exception()
            if error is None:
                future.set_result(done.result())
            else:
                gone = isinstance(error, ray.exceptions.LocalRayletDiedError) or self.why_unreachable()
                future.set_exception(BrokenExecutor(_GONE) if gone else _worded(error))

        reference.future().add_done_callback(pass_on)
        return future

    def look(self) -> tuple[dict[str, int], dict[str, Any]]:
        """Return the machines (nodes) with their processors, and what new ones import, as in Dask."""
        if self.why_unreachable():
            raise OSError(_GONE)
        nodes = {each["NodeID"]: int(each["Resources"].get("CPU", 0)) for each in ray.nodes() if each["Alive"]}
        there = {node: processors for node, processors in nodes.items() if processors}
        on = {node: NodeAffinitySchedulingStrategy(node, soft=False) for node in there.keys() - self.wrong.keys()}
        load = ray.remote(max_retries=0, num_cpus=0)(resolve_name)
        asked = {load.options(scheduling_strategy=place).remote(ASKED): node for node, place in on.items()}
        over = ray.wait([*asked], num_returns=len(asked), timeout=_ANSWER_S)[0] if asked else []
        return there, dict.fromkeys(on, TimeoutError()) | {asked[each]: _answer(each) for each in over}

    def end_task(self, future: "Future[Any]") -> str:
        """End the worker process that does a task."""
        reference = self._running.get(future)
        if reference is None or self.why_unreachable():
            return "it is not there any more"
        ray.cancel(reference, force=True)
        return "its Ray worker was ended"

    def why_unreachable(self) -> str:
        """Try a connection to the head of the cluster: Ray itself would wait for it, and then end this process."""
        host, _, port = self._head.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
        except OSError:
            return _GONE
        return ""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel or wait for what is left, and leave the cluster."""
        if self.why_unreachable():
            # Every call would wait for the head, and then Ray ends this process; so does what it does at exit.
            atexit.unregister(ray.shutdown)
            atexit.register(_exit_without_ray)
            return
        running = list(self._running.values())
        if cancel_futures:
            for reference in running:
                ray.cancel(reference, force=True)
        elif wait and running:
            ray.wait(running, num_returns=len(running))
        ray.shutdown()


def _worded(error: BaseException) -> BaseException:
    """Replace Ray's error about a machine that is gone, which describes Ray's internals."""
    died = isinstance(error, ray.exceptions.NodeDiedError)
    return WorkerLostError("the machine that did it left the Ray cluster") if died else error


def _answer(reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return getattr(error, "cause", None) or OSError(str(error))


def _call(fn: Callable[..., _T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _T:
    AT.set(ray.get_runtime_context().get_node_id())
    return fn(*args, **kwargs)


def _exit_without_ray() -> None:
    """End the process when all else is done at exit, before Ray's compiled code fails there for want of its head."""
    atexit.unregister(_exit_without_ray)
    atexit._run_exitfuncs()
    os._exit(_EXIT_CODE)


def connect_to_ray(address: str, workers: int | None) -> RayExecutor:
    """Connect to a cluster; ``local`` starts one of this machine's own, for as long as it is used.

    It is an `OSError`, `ValueError` or `RuntimeError` if there is none at the address.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        # Ray itself would try for minutes.
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    here = {"num_cpus": workers, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    on_termination = signal.getsignal(signal.SIGTERM)
    ray.init(
        address=address,
        log_to_driver=False,
        logging_level=logging.ERROR,
        runtime_env={"env_vars": ONE_THREAD},
        **(here if address == "local" else {}),
    )
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, on_termination)  # Ray has put its own in place, which ends with exit code 15
    return RayExecutor()
