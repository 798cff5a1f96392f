"""Bias and speed of training over many draws of the data and of participation, where one figure shows one of each.

Every study trains several optimizers over the same participations, and FedAvg under uniform choice of groups.

*Draws* of digits and of the synthetic problem: over ten participations and one draw of the data, or over ten draws.
*Networks*: the paper's network, how biased each method is, and what tames the first weights. Without regularisation its
loss falls for ever, under any participation; with some it comes to rest. It needs the extra ``torch``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from fedsim import Result, Scenario, simulate
from reports.make.kept import SCENARIOS, UNIFORM, Record, made_by
from reports.make.words import NAMES

COUNT = 10  # participations, or draws of the data
LONG = 8000  # rounds of the uniform reference at least, whose descent is what the others are measured by
SHARES = (0.05, 0.02, 0.01)  # of uniform participation's descent: how near to its end


def losses_of(result: Result, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the evaluated losses of an optimizer, and the rounds that were over then."""
    assert result.learning is not None
    rows = result.learning.filter(optimizer=name)
    return rows["loss"].to_numpy(), rows["round"].to_numpy() + 1


def loss_record(result: Result, name: str) -> Record:
    """Return the first loss of an optimizer, that of its mean model, and whether its run has settled."""
    return {
        "optimizer": name,
        "initial": float(losses_of(result, name)[0][0]),
        "average_loss": result.metrics[f"learning.{name}.average_loss"],
        "converged": bool(result.metrics[f"learning.{name}.converged"]),
    }


def paper(name: str, changes: Mapping[str, Any]) -> Scenario:
    """Return one of the paper's scenarios with changes."""
    scenario = Scenario.load(SCENARIOS / "paper" / f"{name}.fedsim.yaml")
    return scenario.with_values({"expect": [], "drift": None, "headline": "", "records.gauges": None, **changes})


@dataclass(frozen=True)
class Draws:
    """A study of FedAvg, Debiased FedAvg and FedVARP at several separations."""

    scenario: str
    rounds: int
    separations: tuple[int, ...] = (0, 4, 8, 12)
    changes: Mapping[str, Any] = field(default_factory=dict)
    over_draws: bool = False  # of the data, each with a participation of its own; else over participations

    def loaded(self) -> Scenario:
        """Return the scenario with the changes of the study."""
        return paper(self.scenario, {"learning.evaluate_every": 10, "stop.rounds": self.rounds, **self.changes})

    def made(self) -> dict[str, str]:
        """Return what made the result."""
        return made_by(self.loaded().with_values({"learning.optimizers": list(NAMES)}))

    def measure(self, count: int = COUNT) -> Record:
        """Return the records of the study, with what they are of."""
        scenario, records = self.loaded(), list[Record]()
        if self.over_draws:
            for draw in range(1, count + 1):
                of_draw = self._records(scenario.with_values({"learning.problem.data_seed": draw}), [draw])
                records += [{"draw": draw} | each for each in of_draw]
        else:
            records += self._records(scenario, range(count))
        return {"scenario": self.scenario, "rounds": self.rounds, "records": records}

    def _records(self, scenario: Scenario, replicates: Sequence[int]) -> Iterator[Record]:
        """Yield one record for each participation, separation and optimizer, over one draw of the data."""
        longer = {"stop.rounds": max(LONG, self.rounds), "learning.optimizers": ["fedavg"]}
        uniform = loss_record(simulate(scenario.with_values(longer), replicate=replicates[0]), UNIFORM)
        yield {"separation": None, "participation": replicates[0]} | uniform
        end, descent = uniform["average_loss"], uniform["initial"] - uniform["average_loss"]
        changes = {"learning.reference": "none", "learning.optimizers": list(NAMES)}
        for replicate, separation in product(replicates, self.separations):
            result = simulate(
                scenario.with_values({**changes, "population.*.separation": separation}), replicate=replicate
            )
            about: Record = {"separation": separation, "participation": replicate}
            about["l1_uniform"] = result.metrics["participation.l1_uniform"]
            for name in NAMES:
                loss, rounds = losses_of(result, name)
                near = {share: rounds[loss <= end + share * descent].tolist() for share in SHARES}
                within = {f"{share:g}": reached[0] if reached else None for share, reached in near.items()}
                yield about | loss_record(result, name) | {"rounds_within": within}


SHUFFLED = {"learning.problem.order": "shuffled"}
DRAWS = {
    "digits-participations": Draws("debiased-digits", 2000),
    "digits-draws": Draws("debiased-digits", 4000, over_draws=True),
    "digits-step-0.05": Draws("debiased-digits", 1600, (0,), {"learning.step_size": 0.05}),
    "synthetic-participations": Draws("debiased-synthetic", 2000),
    "synthetic-long-participations": Draws("debiased-synthetic", 8000),
    "synthetic-long-draws": Draws("debiased-synthetic", 12000, (0, 8), over_draws=True),
    "synthetic-random-groups-participations": Draws("debiased-synthetic", 2000, changes=SHUFFLED),
    "synthetic-random-groups-long-draws": Draws("debiased-synthetic", 12000, (0, 8), SHUFFLED, over_draws=True),
}
"""Digits settle in 4,000 rounds, the synthetic problem in some draws not even in 12,000."""


@dataclass(frozen=True)
class Network:
    """A study of a network: a scenario with changes, over some participations."""

    scenario: str
    changes: Mapping[str, Any]
    marks: tuple[int, ...] = ()  # rounds; the mean loss over the second half of those until each is kept
    count: int = COUNT  # participations

    def made(self) -> dict[str, str]:
        """Return what made the result."""
        return made_by(paper(self.scenario, self.changes))

    def measure(self) -> Record:
        """Return the losses of each participation and optimizer."""
        scenario = paper(self.scenario, self.changes)
        runs = [simulate(scenario, replicate=replicate) for replicate in range(self.count)]
        return {
            "rounds": scenario.stop.rounds,
            "l2": self.changes.get("learning.problem.l2", 0.0),
            "marks": self.marks,
            "records": [each for run in runs for each in self._records(run)],
        }

    def _records(self, run: Result) -> Iterator[Record]:
        """Yield a record for each optimizer."""
        assert run.learning is not None
        for name in run.learning["optimizer"].unique(maintain_order=True):
            loss, rounds = losses_of(run, name)
            halves = [(2 * rounds > mark) & (rounds <= mark) for mark in self.marks]
            figures: Record = {what: run.metrics.get(f"learning.{name}.{what}") for what in ("loss", "drift")}
            figures |= {"losses": [float(loss[half].mean()) for half in halves]}
            figures |= {"highest_late": float(np.nanmax(loss[len(loss) // 4 :])), "participation": run.replicate}
            separation = None if name == UNIFORM else self.changes["population.*.separation"]
            yield loss_record(run, name) | figures | {"separation": separation}


WEIGHTS = (
    *("fedavg", "debiased_fedavg", {"kind": "oracle_weighted", "name": "oracle"}),
    {"kind": "debiased_fedavg", "name": "clip", "clip": 10.0},
    {"kind": "debiased_fedavg", "name": "warm_up", "warm_up": 300},
    {"kind": "debiased_fedavg", "name": "prior", "prior": 5.0},
    {"kind": "debiased_fedavg", "name": "prior_from_theory", "prior": 5.0, "prior_from": "theory"},
)
METHODS = ("fedavg", "fedvarp", "debiased_fedavg")


def on_digits(separation: int, rounds: int, optimizers: Sequence[Any] = METHODS, l2: float = 0.0) -> Network:
    """Return a study on digits; where a network comes to rest, late steps have a quarter of their length."""
    shorter = {"kind": "stages", "initial": 0.02, "milestones": [rounds // 2], "factor": 0.25}
    changes = {"population.*.separation": separation, "stop.rounds": rounds, "learning.optimizers": [*optimizers]}
    steps = {"learning.problem.l2": l2, "learning.step_size": shorter if l2 else 0.02, "learning.evaluate_every": 50}
    return Network("network-digits", changes | steps)


def on_images(
    separation: int,
    optimizers: Sequence[str] = ("fedavg", "debiased_fedavg"),
    reference: str = "none",
    marks: tuple[int, ...] = (5_000, 10_000, 20_000, 40_000),
    count: int = COUNT,
) -> Network:
    """Return the paper's Figure 3: three layers, no regularisation, step size 0.001, 5,000 images of MNIST.

    The reference, and what is compared with it at one separation only, are trained there.
    """
    changes: Record = {"population.*.separation": separation, "stop.rounds": marks[-1]}
    changes |= {"learning.optimizers": [*optimizers], "learning.reference": reference}
    return Network("mnist-network", changes, marks, count)


NETWORKS = {
    "weights-r0": on_digits(0, 1000, WEIGHTS),
    "methods-r8": on_digits(8, 1000),
    "regularised-r8": on_digits(8, 6000, l2=0.03),
}
FIGURE_3 = {f"figure-3-r{r}": on_images(r, METHODS, "uniform") if r == 8 else on_images(r) for r in (0, 4, 8, 12)} | {
    "figure-3-long": on_images(0, reference="uniform", marks=(40_000, 80_000, 160_000), count=3)
}
