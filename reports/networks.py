"""The paper's network over ten participations: how biased each method is, and what tames the first weights.

Without regularisation such a network can fit every image: its loss falls for ever, under any participation, and
leaves no bias to be seen. With some it comes to rest.

Run ``python reports/networks.py`` for all studies, or with the names of some; about two minutes each on one idle
core. What comes out is kept in ``networks.json`` beside this file, from which ``reports/claims.py`` writes the
numbers of the documentation. It needs the extras ``data`` and ``torch``.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fedsim import Scenario
from fedsim.common.keyed import Purpose, stream
from fedsim.experiment.reference import unbiased
from fedsim.learning import Course, LocalWork, build_optimizer, build_problem, replay_together, summarise
from fedsim.population import build_population
from fedsim.simulation import simulate_log
from fedsim.theory import stationary

HERE = Path(__file__).parent
SCENARIO = HERE.parent / "scenarios" / "paper" / "network-digits.fedsim.yaml"
STORE = HERE / "networks.json"
PARTICIPATIONS = 10
UNIFORM = "fedavg_uniform"
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedavg": ("fedavg", {}),
    "fedvarp": ("fedvarp", {}),
    "debiased_fedavg": ("debiased_fedavg", {}),
}
WEIGHTS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "debiased_fedavg": ("debiased_fedavg", {}),
    "clip": ("debiased_fedavg", {"clip": 10.0}),
    "warm_up": ("debiased_fedavg", {"warm_up": 300}),
    "prior": ("debiased_fedavg", {"prior": 5.0}),
    "prior_from_theory": ("debiased_fedavg", {"prior": 5.0, "prior_from": "theory"}),
    "oracle": ("oracle_weighted", {}),
}


@dataclass(frozen=True)
class Study:
    """What is trained at one separation, by which optimizers, and how strongly it is regularised.

    Where it comes to rest, the second half of the rounds has a quarter of the step size: less noise of training.
    """

    separation: int
    step_size: float
    rounds: int
    optimizers: Mapping[str, tuple[str, dict[str, Any]]]
    l2: float = 0.0
    rests: bool = False

    def alpha(self, t: int) -> float:
        """Return the step size of round t."""
        return self.step_size / 4.0 if self.rests and 2 * t >= self.rounds else self.step_size


STUDIES = {
    "weights-r0": Study(0, 0.02, 1000, WEIGHTS),
    "methods-r8": Study(8, 0.02, 1000, METHODS),
    "regularised-r8": Study(8, 0.02, 6000, METHODS, l2=0.03, rests=True),
}


def study(asked: Study, participations: int = PARTICIPATIONS) -> dict[str, Any]:
    """Return the records of a study: the losses of each participation and optimizer, and the largest weights."""
    begin = time.perf_counter()
    overrides = [f"stop.rounds={asked.rounds}", f"learning.step_size={asked.step_size}", "records.gauges=null"]
    scenario = Scenario.load(SCENARIO, overrides)
    learning, whole = scenario.learning, build_population(scenario)
    if learning is None:
        raise SystemExit(f"{scenario.name} trains nothing")
    population = replace(whole, separation=np.full_like(whole.separation, asked.separation))
    pi = stationary(population.weight, asked.separation, scenario.server.wanted, "groups").pi
    optimizers = {
        name: build_optimizer(kind, options, pi=pi, frequency=None)
        for name, (kind, options) in asked.optimizers.items()
    }
    options = learning.problem.options | {"l2": asked.l2}
    problem = build_problem(learning.problem.kind, options, clients=len(pi), seed=scenario.seed, folder=scenario.folder)
    courses, largest = [], []
    for replicate in range(participations):
        draws = stream(scenario.seed, replicate, Purpose.OPTIMIZER)
        log = simulate_log(scenario, population, replicate)
        courses.append(Course(log.rounds, log.participations, optimizers, draws))
        twin = unbiased(scenario, population, log, replicate)
        courses.append(Course(*twin, {UNIFORM: build_optimizer("fedavg", {})}, draws))
        largest.append(largest_weight(log.participations.lazy().collect(), len(pi)))
    work = LocalWork.checked(problem, learning.local_steps, asked.alpha)
    records = []
    for number, run in enumerate(replay_together(courses, work, evaluate_every=50)):
        figures = summarise(run.table)
        for name, end in run.ends.items():
            loss = run.table.filter(pl.col("optimizer") == name)["loss"].to_numpy()
            records.append(
                {
                    "participation": number // 2,
                    "optimizer": name,
                    "loss": figures[f"learning.{name}.loss"],
                    "average_loss": float(problem.evaluate(end.average)["loss"]),
                    "highest_late": float(np.nanmax(loss[len(loss) // 4 :])),
                    "converged": bool(figures[f"learning.{name}.converged"]),
                    "drift": figures[f"learning.{name}.drift"],
                    "diverged": bool(figures[f"learning.{name}.diverged"]),
                }
            )
    return {
        "separation": asked.separation,
        "step_size": asked.step_size,
        "rounds": asked.rounds,
        "l2": asked.l2,
        "records": records,
        "largest_weights": largest,
        "largest_weight_in_the_long_run": float((1.0 / (len(pi) * pi)).max()),
        "seconds": round(time.perf_counter() - begin),
    }


def largest_weight(participations: pl.DataFrame, clients: int) -> float:
    """Return the largest nu_i that counting alone gives any client at any time."""
    counts, total, most = np.zeros(clients), 0, 0.0
    for cohort in participations.sort("round").partition_by("round", maintain_order=True):
        who = cohort["client"].to_numpy()
        counts[who] += 1
        total += len(who)
        most = max(most, float(total / (clients * counts[who].min())))
    return most


def main(names: Sequence[str]) -> None:
    """Make the studies of these names, or all, and keep what comes out."""
    for name, asked in STUDIES.items():
        if names and name not in names:
            continue
        found = study(asked)
        kept = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
        STORE.write_text(json.dumps(kept | {name: found}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        sys.stderr.write(f"{name}: {found['seconds']} s\n")


if __name__ == "__main__":
    main(sys.argv[1:])
