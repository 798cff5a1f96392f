"""Bias and speed of training over many draws of the data and of participation, where one figure shows one of each.

Every study trains several optimizers over the same participations, and FedAvg under uniform choice of groups; one to
ten minutes each on one core.

*Draws* of digits and the synthetic problem: ``-participations`` over ten participations and one draw of the data,
``-long-participations`` longer, ``-draws`` and ``-long-draws`` over ten draws of the data, each with a participation of
its own; ``-step-0.05`` over ten participations with that step size.

*Networks*: the paper's network over ten participations, how biased each method is, and what tames the first weights.
Without regularisation such a network can fit every image: its loss falls for ever, under any participation, and
leaves no bias to be seen. With some it comes to rest. It needs the extra ``torch``.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from fedsim import Scenario
from fedsim.common.keyed import Purpose, stream
from fedsim.experiment.reference import unbiased_twin
from fedsim.learning import (
    Course,
    LocalWork,
    Optimizer,
    Problem,
    Trained,
    build_optimizer,
    build_problem,
    has_converged,
    replay_together,
    summarise,
)
from fedsim.population import build_population
from fedsim.simulation import simulate_log
from fedsim.theory import stationary
from reports.make.kept import SCENARIOS, UNIFORM, Record
from reports.make.words import NAMES

COUNT = 10
"""Participations, or draws of the data."""
LONG = 8000
"""Rounds of the uniform reference at least, whose descent is what the others are measured by."""
SHARES = (0.05, 0.02, 0.01)
"""How near to the end of uniform participation's descent, as shares of that descent."""

Run = tuple[Course, Trained]
StepSize = float | Callable[[int], float]


def train(
    scenario: Scenario,
    optimizers: Mapping[str, Optimizer],
    replicates: Sequence[int],
    separations: Sequence[int],
    *,
    options: Mapping[str, Any],
    step_size: StepSize | None = None,
    long: int | None = None,
    evaluate_every: int,
) -> tuple[Problem, dict[tuple[int | None, int], Run]]:
    """Train over every participation at every separation, and FedAvg over uniform participation.

    Parameters
    ----------
    options
        Of the problem, in the place of the scenario's.
    step_size
        That of the scenario, if it is not given.
    long
        With one separation at a time uniform participation is trained for each replicate. Where this is given, it is
        trained once, for so many rounds at least.

    Returns
    -------
    The problem, and what was trained by separation and replicate; the separation of uniform participation is None.
    """
    learning, population = scenario.learning, build_population(scenario)
    assert learning is not None
    problem = build_problem(
        learning.problem.kind,
        {**learning.problem.options, **options},
        clients=len(population),
        seed=scenario.seed,
        folder=scenario.folder,
    )
    uniform = {UNIFORM: build_optimizer("fedavg", {})}
    courses: dict[tuple[int | None, int], Course] = {}
    for replicate in replicates:
        draws = stream(scenario.seed, replicate, Purpose.OPTIMIZER)
        for separation in separations:
            waiting = replace(population, separation=np.full_like(population.separation, separation))
            log = simulate_log(scenario, waiting, replicate)
            courses[separation, replicate] = Course(log.rounds, log.participations, optimizers, draws)
        if long is None:
            courses[None, replicate] = Course(*unbiased_twin(scenario, population, log, replicate), uniform, draws)
    if long is not None:
        rounds = max(long, scenario.stop.rounds or 0)
        longer = scenario.model_copy(update={"stop": scenario.stop.model_copy(update={"rounds": rounds})})
        twin = unbiased_twin(longer, population, log, replicates[0])
        courses[None, replicates[0]] = Course(*twin, uniform, draws)
    work = LocalWork.checked(problem, learning.local_steps, step_size or learning.step_size)
    runs = replay_together(list(courses.values()), work, evaluate_every=evaluate_every)
    return problem, {key: (course, run) for (key, course), run in zip(courses.items(), runs, strict=True)}


# Draws.


@dataclass(frozen=True)
class Draws:
    """A study of FedAvg, Debiased FedAvg and FedVARP at several separations."""

    scenario: str
    rounds: int
    separations: tuple[int, ...] = (0, 4, 8, 12)
    options: tuple[tuple[str, Any], ...] = ()  # of the problem
    over_draws: bool = False  # of the data, each with a participation of its own; else over participations
    step_size: float | None = None

    def measure(self, count: int = COUNT, overrides: Sequence[str] = ()) -> Record:
        """Return the records of the study, with what they are of."""
        asked = ["records.gauges=null", f"stop.rounds={self.rounds}", *overrides]
        if self.step_size is not None:
            asked.append(f"learning.step_size={self.step_size}")
        scenario = Scenario.load(SCENARIOS / "paper" / f"{self.scenario}.fedsim.yaml", asked)
        begin, options = time.perf_counter(), dict(self.options)
        records = []
        if self.over_draws:
            for draw in range(1, count + 1):
                found = self._records(scenario, options | {"data_seed": draw}, [draw])
                records += [{"draw": draw} | each for each in found]
                sys.stderr.write(f"{self.scenario}, draw {draw}: {time.perf_counter() - begin:.0f} s\n")
        else:
            records = self._records(scenario, options, range(count))
        seconds = round(time.perf_counter() - begin)
        return {
            "scenario": self.scenario,
            "options": options,
            "records": records,
            "seconds": seconds,
            "rounds": self.rounds,
        }

    def _records(self, scenario: Scenario, options: Mapping[str, Any], replicates: Sequence[int]) -> list[Record]:
        """Return one record for each participation, separation and optimizer, over one draw of the data."""
        optimizers = {name: build_optimizer(name, {}) for name in NAMES}
        problem, runs = train(
            scenario, optimizers, replicates, self.separations, options=options, long=LONG, evaluate_every=10
        )
        _, reference = runs.pop((None, replicates[0]))
        uniform = loss_record(problem, reference, UNIFORM, None)
        goal = (uniform["initial"], uniform["average_loss"])
        records = [{"separation": None, "participation": replicates[0], "optimizer": UNIFORM} | uniform]
        for (separation, replicate), (course, run) in runs.items():
            about = {"separation": separation, "participation": replicate, "l1_uniform": l1_uniform(course, problem)}
            records += [about | {"optimizer": name} | loss_record(problem, run, name, goal) for name in NAMES]
        return records


SHUFFLED = (("order", "shuffled"),)
DRAWS = {
    "digits-participations": Draws("debiased-digits", 2000),
    "digits-draws": Draws("debiased-digits", 4000, over_draws=True),
    "digits-step-0.05": Draws("debiased-digits", 1600, (0,), step_size=0.05),
    "synthetic-participations": Draws("debiased-synthetic", 2000),
    "synthetic-long-participations": Draws("debiased-synthetic", 8000),
    "synthetic-long-draws": Draws("debiased-synthetic", 12000, (0, 8), over_draws=True),
    "synthetic-random-groups-participations": Draws("debiased-synthetic", 2000, options=SHUFFLED),
    "synthetic-random-groups-long-draws": Draws("debiased-synthetic", 12000, (0, 8), options=SHUFFLED, over_draws=True),
}
"""Digits settle in 4,000 rounds, the synthetic problem in some draws not even in 12,000."""


def l1_uniform(course: Course, problem: Problem) -> float:
    """Return the L1 distance of the frequencies of a course from uniform."""
    devices = problem.clients
    counts = np.bincount(course.participations.lazy().collect()["client"].to_numpy(), minlength=devices)
    return float(np.abs(counts / counts.sum() - 1.0 / devices).sum())


def loss_record(problem: Problem, run: Trained, name: str, goal: tuple[float, float] | None) -> Record:
    """Return the loss of the mean model, whether the run has settled, and the rounds until it was near the goal.

    The goal are the losses between which uniform participation descends; None for itself.
    """
    own = run.table.filter(pl.col("optimizer") == name)
    loss, steps = own["loss"].to_numpy(), own["round"].to_numpy() + 1
    third = loss[(2 * steps > steps[-1]) & (4 * steps <= 3 * steps[-1])].mean()
    fourth = loss[4 * steps > 3 * steps[-1]].mean()
    values: Record = {
        "initial": float(loss[0]),
        "average_loss": float(problem.evaluate(run.ends[name].average)["loss"]),
        "converged": bool(has_converged((third - fourth) / abs(third), (third - fourth) / (loss[0] - fourth))),
    }
    if goal is not None:
        values["rounds_within"] = {
            f"{share:g}": first(steps, loss <= goal[1] + share * (goal[0] - goal[1])) for share in SHARES
        }
    return values


def first(steps: np.ndarray, reached: np.ndarray) -> int | None:
    """Return the first evaluated number of rounds at which it was reached; None where it never was."""
    return int(steps[reached.argmax()]) if reached.any() else None


# Networks.


@dataclass(frozen=True)
class Network:
    """A study of the network at one separation: by which optimizers it is trained, and how strongly it is regularised.

    Where it comes to rest, the second half of the rounds has a quarter of the step size: less noise of training.
    """

    separation: int
    rounds: int
    optimizers: Mapping[str, tuple[str, dict[str, Any]]]
    l2: float = 0.0
    rests: bool = False
    step_size: float = 0.02

    def alpha(self, t: int) -> float:
        """Return the step size of round t."""
        return self.step_size / 4.0 if self.rests and 2 * t >= self.rounds else self.step_size

    def measure(self, count: int = COUNT) -> Record:
        """Return the losses of each participation and optimizer, and the largest weights."""
        begin = time.perf_counter()
        overrides = [f"stop.rounds={self.rounds}", f"learning.step_size={self.step_size}", "records.gauges=null"]
        scenario = Scenario.load(SCENARIOS / "paper" / "network-digits.fedsim.yaml", overrides)
        weight = build_population(scenario).weight
        pi = stationary(weight, self.separation, scenario.server.wanted, "groups").pi
        optimizers = {
            name: build_optimizer(kind, options, pi=pi, frequency=None)
            for name, (kind, options) in self.optimizers.items()
        }
        problem, runs = train(
            scenario,
            optimizers,
            range(count),
            [self.separation],
            options={"l2": self.l2},
            step_size=self.alpha,
            evaluate_every=50,
        )
        records = []
        for (_, replicate), (_, run) in runs.items():
            figures = summarise(run.table)
            for name, end in run.ends.items():
                loss = run.table.filter(pl.col("optimizer") == name)["loss"].to_numpy()
                records.append(
                    {
                        "participation": replicate,
                        "optimizer": name,
                        "loss": figures[f"learning.{name}.loss"],
                        "average_loss": float(problem.evaluate(end.average)["loss"]),
                        "highest_late": float(np.nanmax(loss[len(loss) // 4 :])),
                        "converged": bool(figures[f"learning.{name}.converged"]),
                        "drift": figures[f"learning.{name}.drift"],
                        "diverged": bool(figures[f"learning.{name}.diverged"]),
                    }
                )
        own = [course for (separation, _), (course, _) in runs.items() if separation is not None]
        return {
            "separation": self.separation,
            "step_size": self.step_size,
            "rounds": self.rounds,
            "l2": self.l2,
            "records": records,
            "largest_weights": [largest_weight(course.participations.lazy().collect(), len(pi)) for course in own],
            "largest_weight_in_the_long_run": float((1.0 / (len(pi) * pi)).max()),
            "seconds": round(time.perf_counter() - begin),
        }


METHODS: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in ("fedavg", "fedvarp", "debiased_fedavg")}
WEIGHTS: dict[str, tuple[str, dict[str, Any]]] = {
    "debiased_fedavg": ("debiased_fedavg", {}),
    "clip": ("debiased_fedavg", {"clip": 10.0}),
    "warm_up": ("debiased_fedavg", {"warm_up": 300}),
    "prior": ("debiased_fedavg", {"prior": 5.0}),
    "prior_from_theory": ("debiased_fedavg", {"prior": 5.0, "prior_from": "theory"}),
    "oracle": ("oracle_weighted", {}),
}
NETWORKS = {
    "weights-r0": Network(0, 1000, WEIGHTS),
    "methods-r8": Network(8, 1000, METHODS),
    "regularised-r8": Network(8, 6000, METHODS, l2=0.03, rests=True),
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
