"""How fast and how exact the theory of participation is, beside what else could be used.

Run ``python benchmarks/chain.py`` (about a minute). Each figure is the median of several runs in this process, with its
smallest and largest; those of large populations come from a process of their own, so that the peak memory printed
(``resource.getrusage``) is theirs, interpreter and libraries included. Printed side by side:

1. One R at N = 10^6 and 10^7: time and peak memory. Target at 10^6: 2 s and 500 MB.
2. Every separation R = 0..499 at N = 500, B = 1: `distances`, which is `closed_form` 500 times; the textbook
   recurrence c_i(n) = p_i (1 - c_i(n-1)) / rho_n of Chen, Dempster and Liu (1994), O(N) per R, which loses all
   digits on the way; and its error. Target: 0.5 s.
3. One R: `closed_form` beside `scipy.stats.poisson_binom` (one call per client, by leaving that client out), beside the
   recurrence up to R, and beside brute force over windows where these can be enumerated.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
from numpy.typing import NDArray
from scipy.stats import poisson_binom

from fedsim.selection.poisson_sampling import tilt
from fedsim.theory import closed_form, distances, exact

Timing = tuple[float, float, float]


def timed(work: Callable[[], object], repeat: int) -> Timing:
    """Median, smallest and largest wall time of `repeat` runs after one to warm up, in seconds."""
    work()
    seconds = []
    for _ in range(repeat):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return median(seconds), min(seconds), max(seconds)


def textbook(p: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Inclusion probabilities of sample size `most` by going up from 0."""
    c = np.zeros_like(p)
    for n in range(1, most + 1):
        odds = p * (1.0 - c)
        c = n * odds / odds.sum()
    return c


def textbook_distances(p: NDArray[np.float64]) -> NDArray[np.float64]:
    c, l1 = np.zeros_like(p), []
    for n in range(1, p.size + 1):
        odds = p * (1.0 - c)
        c = n * odds / odds.sum()
        l1.append(float(np.abs(c / n - 1.0 / p.size).sum()))
    return np.array(l1)


def by_scipy(p: NDArray[np.float64], separation: int) -> NDArray[np.float64]:
    """pi_R from scipy's Poisson-binomial distribution at the same tilt."""
    n = separation + 1
    scale, _ = tilt(p, n)
    odds = p * scale
    q = odds / (1.0 + odds)
    whole = poisson_binom.pmf(n, q)
    return np.array([q[i] * poisson_binom.pmf(n - 1, np.delete(q, i)) / whole for i in range(p.size)]) / n


def line(what: str, timing: Timing, note: str = "", against: float | None = None) -> None:
    ratio = "" if against is None else f"  x{timing[0] / against:<8.3g}"
    print(f"  {what:<46}{timing[0]:>10.4f} s  [{timing[1]:.4f}, {timing[2]:.4f}]{ratio}  {note}".rstrip())


def every_separation() -> None:
    print("\n2. every R = 0..499, N = 500, B = 1 (target 0.5 s)")
    every = range(500)
    for name, p in weights_of(500).items():
        truth = distances(p, every)
        best = timed(partial(distances, p, every), 5)
        line(f"distances, {name}", best)
        with np.errstate(all="ignore"):
            up = timed(partial(textbook_distances, p), 5)
            error = np.abs(textbook_distances(p) - truth).max()
        line("textbook O(N R) recurrence", up, f"wrong by up to {error:.1e} in L1", best[0])


def one_separation() -> None:
    print("\n3. one R")
    for clients, separation in ((500, 50), (500, 400), (2_000, 100)):
        p = weights_of(clients)["random"]
        truth = closed_form(p, separation).pi
        best = timed(partial(closed_form, p, separation), 9)
        line(f"closed_form, N = {clients}, R = {separation}", best)
        up = timed(partial(textbook, p, separation + 1), 5)
        with np.errstate(all="ignore"):
            error = np.abs(textbook(p, separation + 1) / (separation + 1) / truth - 1.0).max()
        line("textbook O(N R) recurrence", up, f"relative error up to {error:.1e}", best[0])
        pi = by_scipy(p, separation)
        scipy_time = timed(partial(by_scipy, p, separation), 1)
        line("scipy.stats.poisson_binom", scipy_time, f"differs by {np.abs(pi / truth - 1.0).max():.1e}", best[0])
    for clients, cohort, separation in ((8, 1, 4), (8, 1, 6), (10, 2, 2), (60, 1, 2)):
        p = weights_of(clients)["random"]
        brute = exact(p, separation, cohort)
        best = timed(partial(closed_form, p, separation, cohort), 9)
        line(f"closed_form, N = {clients}, B = {cohort}, R = {separation}", best)
        force = timed(partial(exact, p, separation, cohort), 3)
        gap = np.abs(brute.pi / closed_form(p, separation, cohort).pi - 1.0).max()
        line(f"brute force, {brute.states} states", force, f"differs by {gap:.1e}", best[0])


def large_populations() -> None:
    print("1. one R, large populations, each in its own process (target at 10^6: 2 s, 500 MB)")
    for clients, repeat in ((1_000_000, 5), (10_000_000, 1)):
        for separation in (8, clients // 2, clients - 2):
            command = [sys.executable, __file__, "--one", str(clients), str(separation), str(repeat)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            figures = json.loads(done.stdout)
            note = f"peak {figures['peak_mb']:.0f} MB ({figures['before_mb']:.0f} before), bound {figures['bound']:.1e}"
            line(f"closed_form, N = {clients:,}, R = {separation:,}", tuple(figures["seconds"]), note)


def weights_of(clients: int) -> dict[str, NDArray[np.float64]]:
    rng = np.random.default_rng(2410_01209)
    kinds = {"random": rng.random(clients), "12 orders": 10.0 ** rng.uniform(-12.0, 0.0, clients)}
    return {name: p / p.sum() for name, p in kinds.items()}


def one(clients: int, separation: int, repeat: int) -> None:
    """Measure one large population and print it as JSON; meant for a process of its own."""
    p = np.random.default_rng(1).random(clients)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    seconds = timed(partial(closed_form, p, separation), repeat)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    bound = closed_form(p, separation).error_bound
    print(json.dumps({"seconds": seconds, "peak_mb": peak, "before_mb": before, "bound": bound}))


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmark the theory of participation.")
    parser.add_argument("--one", nargs=3, type=int, metavar=("N", "R", "REPEAT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one(*arguments.one)
        return
    large_populations()  # first: a child's peak starts from what its parent used
    every_separation()
    one_separation()


if __name__ == "__main__":
    main()
