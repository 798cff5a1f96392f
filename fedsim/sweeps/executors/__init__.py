"""Where runs are done: anything that is a `concurrent.futures.Executor`, by name."""

from fedsim.sweeps.executors.backend import Backend, backend_of, default_workers

__all__ = ["Backend", "backend_of", "default_workers"]
