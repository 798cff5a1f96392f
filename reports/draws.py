"""Bias and speed over many draws of the data and of participation, where one figure shows one of each.

Run ``python reports/draws.py`` for all studies, or with the names of some; one to ten minutes each on one core. What
comes out is kept in ``draws.json`` beside this file, from which ``reports/claims.py`` writes the numbers of the
documentation.

A study trains FedAvg, Debiased FedAvg and FedVARP at several separations, and FedAvg under uniform choice of groups:
``-participations`` over ten participations and one draw of the data, ``-long-participations`` longer, ``-draws`` and
``-long-draws`` over ten draws of the data, each with a participation of its own; ``-step-0.05`` over ten
participations with that step size.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fedsim import Scenario
from fedsim.common.keyed import Purpose, stream
from fedsim.experiment.reference import unbiased
from fedsim.learning import Course, LocalWork, Trained, build_optimizer, build_problem, converged, replay_together
from fedsim.population import build_population
from fedsim.simulation import simulate_log

HERE = Path(__file__).parent
SCENARIOS = HERE.parent / "scenarios" / "paper"
STORE = HERE / "draws.json"

PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "digits": ("debiased-digits", {}),
    "synthetic": ("debiased-synthetic", {}),
    "synthetic-random-groups": ("debiased-synthetic", {"order": "shuffled"}),
}
OVER: dict[str, tuple[int, tuple[int, ...]]] = {
    "participations": (2000, (0, 4, 8, 12)),
    "long-participations": (8000, (0, 4, 8, 12)),
    "draws": (4000, (0, 4, 8, 12)),
    "long-draws": (12000, (0, 8)),
    "step-0.05": (1600, (0,)),
}
"""Rounds and separations. Digits settle in 4,000 rounds, the synthetic problem in some draws not even in 12,000."""
STUDIES = (
    ("digits", "participations"),
    ("digits", "draws"),
    ("digits", "step-0.05"),
    ("synthetic", "participations"),
    ("synthetic", "long-participations"),
    ("synthetic", "long-draws"),
    ("synthetic-random-groups", "participations"),
    ("synthetic-random-groups", "long-draws"),
)
LONG = 8000
"""Rounds of the uniform reference at least, whose descent is what the others are measured by."""
OPTIMIZERS = ("fedavg", "debiased_fedavg", "fedvarp")
SHARES = (0.05, 0.02, 0.01)
"""How near to the end of uniform participation's descent, as shares of that descent."""
COUNT = 10
EVALUATE_EVERY = 10

Record = dict[str, Any]


def courses(
    scenario: Scenario, replicates: Sequence[int], separations: Sequence[int]
) -> Iterator[tuple[tuple[int | None, int], Course]]:
    """Yield, by (separation, replicate), what is trained; the separation of the one uniform reference is None."""
    optimizers = {name: build_optimizer(name, {}) for name in OPTIMIZERS}
    population = build_population(scenario)
    longest = max(LONG, scenario.stop.rounds or 0)
    longer = scenario.model_copy(update={"stop": scenario.stop.model_copy(update={"rounds": longest})})
    for replicate in replicates:
        draws = stream(scenario.seed, replicate, Purpose.OPTIMIZER)
        for separation in separations:
            waiting = replace(population, separation=np.full_like(population.separation, separation))
            log = simulate_log(scenario, waiting, replicate)
            yield (separation, replicate), Course(log.rounds, log.participations, optimizers, draws)
    twin = unbiased(longer, population, log, replicates[0])
    yield (None, replicates[0]), Course(*twin, {"fedavg": optimizers["fedavg"]}, draws)


def trained(
    scenario: Scenario, options: dict[str, Any], replicates: Sequence[int], separations: Sequence[int]
) -> list[Record]:
    """Return one record for each participation, separation and optimizer, over one draw of the data."""
    learning = scenario.learning
    if learning is None:
        raise SystemExit(f"{scenario.name} trains nothing")
    devices = len(build_population(scenario))
    problem = build_problem(
        learning.problem.kind, learning.problem.options | options, clients=devices, seed=scenario.seed, folder=SCENARIOS
    )
    work = LocalWork.checked(problem, learning.local_steps, learning.step_size)
    asked = dict(courses(scenario, replicates, separations))
    uneven = {key: unevenness(course, devices) for key, course in asked.items()}
    found = dict(zip(asked, replay_together(list(asked.values()), work, evaluate_every=EVALUATE_EVERY), strict=True))
    uniform = record(problem, found.pop((None, replicates[0])), "fedavg", None)
    goal = (uniform["initial"], uniform["average_loss"])
    records = [{"separation": None, "participation": replicates[0], "optimizer": "fedavg_uniform"} | uniform]
    records += [
        {
            "separation": separation,
            "participation": replicate,
            "optimizer": name,
            "l1_uniform": uneven[separation, replicate],
        }
        | record(problem, run, name, goal)
        for (separation, replicate), run in found.items()
        for name in OPTIMIZERS
    ]
    return records


def unevenness(course: Course, devices: int) -> float:
    """Return the L1 distance of the frequencies of a course from uniform."""
    counts = np.bincount(course.participations.lazy().collect()["client"].to_numpy(), minlength=devices)
    return float(np.abs(counts / counts.sum() - 1.0 / devices).sum())


def record(problem: Any, run: Trained, name: str, goal: tuple[float, float] | None) -> Record:
    """Return the loss of the mean model, whether the run has settled, and the rounds until it was near the goal.

    Parameters
    ----------
    problem, run, name
        What was trained, the run, and the optimizer.
    goal
        Losses between which uniform participation descends; None for itself.
    """
    own = run.table.filter(pl.col("optimizer") == name)
    loss, steps = own["loss"].to_numpy(), own["round"].to_numpy() + 1
    third = loss[(2 * steps > steps[-1]) & (4 * steps <= 3 * steps[-1])].mean()
    fourth = loss[4 * steps > 3 * steps[-1]].mean()
    values: Record = {
        "initial": float(loss[0]),
        "average_loss": float(problem.evaluate(run.ends[name].average)["loss"]),
        "converged": bool(converged((third - fourth) / abs(third), (third - fourth) / (loss[0] - fourth))),
    }
    if goal is not None:
        values["rounds_within"] = {
            f"{share:g}": first(steps, loss <= goal[1] + share * (goal[0] - goal[1])) for share in SHARES
        }
    return values


def first(steps: np.ndarray, reached: np.ndarray) -> int | None:
    """Return the first evaluated number of rounds at which it was reached; None where it never was."""
    return int(steps[reached.argmax()]) if reached.any() else None


def study(problem: str, over: str, count: int = COUNT, overrides: Sequence[str] = ()) -> Record:
    """Return the records of a study, one of `STUDIES`, with what they are of."""
    file, options = PROBLEMS[problem]
    rounds, separations = OVER[over]
    asked = ["records.gauges=null", f"stop.rounds={rounds}", *overrides]
    if over.startswith("step-"):
        asked.append(f"learning.step_size={over.removeprefix('step-')}")
    scenario = Scenario.load(SCENARIOS / f"{file}.fedsim.yaml", asked)
    begin = time.perf_counter()
    if over.endswith("draws"):
        records = []
        for draw in range(1, count + 1):
            found = trained(scenario, options | {"data_seed": draw}, [draw], separations)
            records += [{"draw": draw} | each for each in found]
            sys.stderr.write(f"{problem}, draw {draw}: {time.perf_counter() - begin:.0f} s\n")
    else:
        records = trained(scenario, options, range(count), separations)
    seconds = round(time.perf_counter() - begin)
    sys.stderr.write(f"{problem}-{over}: {seconds} s\n")
    return {"scenario": file, "options": options, "records": records, "seconds": seconds, "rounds": rounds}


def main(names: Sequence[str]) -> None:
    """Make the studies of these names, or all, and keep what comes out."""
    for problem, over in STUDIES:
        name = f"{problem}-{over}"
        if names and name not in names:
            continue
        found = study(problem, over)
        kept = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
        STORE.write_text(json.dumps(kept | {name: found}, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
