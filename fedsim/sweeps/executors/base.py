"""What a sweep asks of executors beyond `concurrent.futures.Executor`."""

from concurrent.futures import Executor, Future
from typing import Any


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
