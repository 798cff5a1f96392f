"""What every workload has in common: its arguments, and what it prints.

Standard library only: each workload runs in its own environment.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from itertools import pairwise

DAY = 86_400.0


def measure(
    package: str, prepare: Callable[[argparse.Namespace], Iterator[int]], openings: Sequence[float] | None = None
) -> None:
    """Time a workload and print the result as JSON.

    Parameters
    ----------
    package
        Distribution whose version is printed.
    prepare
        Sets the federation up and returns an iterator that runs one round at each step and yields the size of its
        cohort. Imports are done before this is called.
    openings
        Where the iterator runs all rounds at its first step: filled by it with the instants at which rounds opened, and
        the last one closed.
    """
    parser = argparse.ArgumentParser()
    for name in ("clients", "cohort", "rounds", "separation"):
        parser.add_argument(f"--{name}", type=int, required=True)
    began = time.perf_counter()
    instants, sizes = [], []
    for size in prepare(parser.parse_args()):
        instants.append(time.perf_counter())
        sizes.append(size)
    instants = instants if openings is None else list(openings)[1:]
    seconds = [after - before for before, after in pairwise(instants)]  # the first round may still be setting up
    figures = {
        "version": metadata.version(package),
        "setup_s": instants[0] - began,
        "round_s": sum(seconds) / len(seconds),
        "cohort": sum(sizes) / len(sizes),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 2**20),
    }
    print(json.dumps(figures))
