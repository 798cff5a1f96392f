"""How fast training is: several trainings together beside one by one, and 10,000 rounds of the synthetic problem.

Run ``python benchmarks/learning.py`` (under a minute). The paper's synthetic problem has N = 100, B = 5, K = 5 and full
local gradients; evaluation is left out. Figures are processor time, medians of several runs in turn (A B A B ...), with
the smallest and the largest.

1. Six optimizers and four replicates of the log: trained together and one after the other, to the same losses.
2. 10,000 rounds with two optimizers. Target: 0.5 s.
"""

import time
from collections.abc import Callable, Mapping
from itertools import chain
from statistics import median
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Course, FedAvg, LocalWork, Optimizer, Trained, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg, OracleWeighted
from fedsim.learning.optimizers.fedau import FedAu
from fedsim.learning.optimizers.mifa import FedVarp, Mifa
from fedsim.learning.problems.robust_regression import RobustRegression

LOCAL_STEPS, STEP_SIZE, COHORT = 5, 0.1, 5
NEVER = 10**9


def cohorts(rounds: int, clients: int, replicate: int = 0) -> NDArray[np.int64]:
    """Draw cohorts of consecutive clients, low indices more often, shape (rounds, B)."""
    uniforms = stream(1, replicate, Purpose.SELECTION).uniforms(0, np.arange(rounds))
    first = (clients // COHORT * uniforms**3).astype(np.int64) * COHORT
    return first[:, None] + np.arange(COHORT)


def course(chosen: NDArray[np.int64], optimizers: Mapping[str, Optimizer]) -> Course:
    """Write cohorts as a log."""
    count, size = chosen.shape
    rounds = pl.DataFrame({"round": np.arange(count), "closed_s": np.arange(count, dtype=np.float64)})
    participations = pl.DataFrame(
        {
            "round": np.repeat(np.arange(count), size),
            "client": chosen.ravel(),
            "position": np.tile(np.arange(size), count),
            "outcome": ["reported"] * chosen.size,
        }
    )
    return Course(
        Cohorts.read(rounds, participations, int(chosen.max()) + 1), optimizers, stream(0, 0, Purpose.OPTIMIZER)
    )


def by_fedsim(problem: Any, courses: list[Course]) -> list[Trained]:
    return replay_together(courses, LocalWork.checked(problem, LOCAL_STEPS, STEP_SIZE), evaluate_every=NEVER)


def in_turn(repeat: int, *works: Callable[[], object]) -> list[tuple[float, float, float]]:
    """Time the works in turn, after each has run once; median, smallest and largest processor seconds of each."""
    seconds: list[list[float]] = [[] for _ in works]
    for turn in range(repeat + 1):
        for work, each in zip(works, seconds, strict=True):
            begin = time.process_time()
            work()
            if turn:
                each.append(time.process_time() - begin)
    return [(median(each), min(each), max(each)) for each in seconds]


def line(what: str, rounds: int, timing: tuple[float, float, float], note: str = "") -> None:
    rates = [rounds / seconds for seconds in timing]
    print(f"  {what:<52}{rates[0]:>10,.0f} rounds/s  [{rates[2]:,.0f}, {rates[1]:,.0f}]  {note}".rstrip())


def together() -> None:
    print("\n1. six optimizers and four replicates of the log, in one go and one by one")
    problem = RobustRegression(clients=100, seed=0, data_seed=2)
    even = np.full(100, 0.01)
    optimizers = {
        "fedavg": FedAvg(),
        "debiased": DebiasedFedAvg(),
        "oracle": OracleWeighted(even),
        "fedvarp": FedVarp(),
        "fedau": FedAu(),
        "mifa": Mifa(),
    }
    rounds = 300
    logs = [cohorts(rounds, 100, replicate) for replicate in range(4)]
    all_at_once = [course(chosen, optimizers) for chosen in logs]
    one_by_one = [[course(chosen, {name: optimizer})] for chosen in logs for name, optimizer in optimizers.items()]
    losses = [part.table["loss"][-6:].to_list() for part in by_fedsim(problem, all_at_once)]
    alone = [by_fedsim(problem, courses)[0].table["loss"][-1] for courses in one_by_one]
    same = "the same losses to the last bit" if list(chain.from_iterable(losses)) == alone else "LOSSES DIFFER"
    once, each = in_turn(
        3, lambda: by_fedsim(problem, all_at_once), lambda: [by_fedsim(problem, courses) for courses in one_by_one]
    )
    line("24 trainings together", rounds, once, f"{each[0] / once[0]:.1f} times one by one; {same}")
    line("24 trainings one by one", rounds, each)


def ten_thousand() -> None:
    print("\n2. 10,000 rounds of the synthetic problem, two optimizers (target: 0.5 s)")
    problem = RobustRegression(clients=100, seed=0, data_seed=2)
    ours = [course(cohorts(10_000, 100), {"fedavg": FedAvg(), "debiased": DebiasedFedAvg()})]
    [timing] = in_turn(3, lambda: by_fedsim(problem, ours))
    line("fedsim", 10_000, timing, f"{timing[0]:.2f} s [{timing[1]:.2f}, {timing[2]:.2f}]")


def main() -> None:
    together()
    ten_thousand()


if __name__ == "__main__":
    main()
