"""Where runs are done: anything that is a `concurrent.futures.Executor`, by name."""

from fedsim.sweeps.executors.executor import Backend, backend_of, default_workers

__all__ = ["Backend", "backend_of", "default_workers"]
