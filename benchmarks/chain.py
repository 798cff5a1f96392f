"""How long the exact theory of participation takes: one R at N = 10^6 (2 s, 500 MB), every R at N = 500 (0.5 s)."""

import resource
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from fedsim.theory import closed_form, distances


def seconds(work: Callable[[], object]) -> float:
    """Return the median time of five runs after one to warm up."""
    work()
    times = []
    for _ in range(5):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return median(times)


def main() -> None:
    few, many = (np.random.default_rng(1).random(clients) for clients in (500, 1_000_000))
    print(f"every R, N = 500: {seconds(lambda: distances(few / few.sum(), range(500))):.4f} s")
    for separation in (8, len(many) // 2, len(many) - 2):
        took = seconds(lambda separation=separation: closed_form(many, separation))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"one R = {separation:,}, N = {len(many):,}: {took:.3f} s, peak {peak:.0f} MB")


if __name__ == "__main__":
    main()
