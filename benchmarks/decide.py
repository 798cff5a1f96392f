"""How often ``fedsim decide`` finds the setting that is known to be the best, in synthetic cases.

Run ``python benchmarks/decide.py`` (100 cases, a minute; ``--cases N`` takes fewer, ``--first N`` others). In each case
3 to 8 settings have losses that are known for every step size: a best step of their own, and a loss above it that grows
with the distance from it. Seeds add noise that all settings share, and noise of their own. What is done is all that the
command does, but for the runs themselves, whose losses are computed. Counted are the cases in which the best setting is
chosen, or ties with the one that is (target: 95 of 100), and how good that one is: of those that tie and are as good,
the one that costs least. ``--coarse`` asks the answer of the second stage, which few variants and seeds give (target:
85); with ``--null`` all settings are the same, and none should be named alone.
"""

import argparse
import tempfile
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsim.common.errors import TimeIsOverError
from fedsim.scenario import Scenario
from fedsim.trials.decide import decide
from fedsim.trials.decision import MATTERS, UNDECIDED, judge_settings
from fedsim.trials.executors import Backend
from fedsim.trials.store import write_run_results
from fedsim.trials.trials import Trials
from fedsim.trials.worker import RunOutcome, Task

SCENARIO = """\
stop: {{rounds: 5}}
population: [{{devices: 40, separation: 0}}]
server: {{cohort: 2}}
learning: {{problem: {{kind: quadratic, dimension: 2}}, optimizers: [fedavg], step_size: 0.1}}
choose: {{"population.*.separation": {settings}}}
decide: {{minimize: learning.fedavg.loss}}
"""
STEPS = (0.01, 0.03, 0.1, 0.3, 1.0)


@dataclass(frozen=True)
class Case:
    """A synthetic case."""

    least: np.ndarray  # the loss of each setting at its best step
    step: np.ndarray  # that step
    noise: float  # of a setting and seed
    shared: float  # of a seed

    def loss(self, setting: int, step: float, seed: int) -> float:
        """Return the loss of a setting with a step and a seed."""
        draws = np.random.default_rng([seed, 1])
        common = self.shared * draws.standard_normal()
        noise = self.noise * np.random.default_rng([seed, 2, setting]).standard_normal()
        return float(self.least[setting] + 0.3 * np.log10(step / self.step[setting]) ** 2 + common + noise)


def case_of(number: int, *, null: bool = False) -> Case:
    """Draw a case; every tenth has two best settings, and of a `null` case all are the same."""
    draws = np.random.default_rng([number, 7])
    count = int(draws.integers(3, 9))
    least = 1.0 + np.cumsum(draws.exponential(0.1, count))
    if number % 10 == 0:
        least[1] = least[0]
    draws.shuffle(least)
    steps = draws.choice(STEPS, count)
    if null:
        least[:], steps[:] = 1.0, 0.1
    return Case(least, steps, float(draws.uniform(0.01, 0.2)), float(draws.uniform(0, 1)))


def found_in(
    number: int, folder: Path, executor: Executor | None = None, *, coarse: bool = False, null: bool = False
) -> tuple[bool, int, float]:
    """Say whether a best setting is in the tie, how many settings are, and by what share the chosen one is worse.

    That of the second stage, if `coarse`: then there are so many rounds that a decision has one.
    """
    case = case_of(number, null=null)

    def job(task: Task) -> RunOutcome:
        learning, group = task.scenario.learning, task.scenario.population[0]
        if learning is None:  # the first stage
            facts = {"rounds.count": 5.0, "rounds.per_day": 9.0}
            write_run_results(Path(task.folder), task.run_id, task.scenario.seed, facts)
            return RunOutcome()
        setting = int(group.separation.value)
        seed = task.scenario.seed
        losses = {
            f"learning.{each.label}.loss": case.loss(
                setting, 0.1 if each.local_step_size is None else each.local_step_size(0), seed
            )
            for each in learning.optimizers
        }
        write_run_results(Path(task.folder), task.run_id, seed, losses)
        return RunOutcome()

    file = folder / f"case-{number}.fedsim.yaml"
    text = SCENARIO.replace("rounds: 5", "rounds: 30000") if coarse else SCENARIO
    file.write_text(text.format(settings=list(range(len(case.least)))), encoding="utf-8")
    scenario = Scenario.load(file, seed=1000 * number)
    backend = Backend("threads", lambda: executor or ThreadPoolExecutor(1), lambda _: 1)
    answers = dict[str, Trials]()

    def answered(trials: Trials) -> None:
        answers[trials.stage] = trials
        if coarse and trials.stage == "coarse":
            raise TimeIsOverError("no more is asked")

    decide(scenario, folder / f"case-{number}", backend, do=job, answered=answered)
    judged = judge_settings(answers["coarse" if coarse else "full"])
    comparison, choice = judged.contrast, judged.choice
    open_ = [comparison.best, *comparison.rows(*UNDECIDED)]
    best = np.flatnonzero(case.least == case.least.min()).tolist()
    worse = np.inf if choice is None else case.least[choice] / case.least.min() - 1.0
    return any(row in open_ for row in best), len(open_), float(worse)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--coarse", action="store_true", help="of the second stage")
    parser.add_argument("--null", action="store_true", help="of settings that are all the same")
    asked = parser.parse_args()
    numbers, count = range(asked.first, asked.first + asked.cases), asked.cases
    with tempfile.TemporaryDirectory() as folder:
        outcomes = [found_in(number, Path(folder), coarse=asked.coarse, null=asked.null) for number in numbers]
    right, sizes, worse = zip(*outcomes, strict=True)
    print(f"{sum(right)} of {count} cases have a best setting in the answer")
    print(f"{sizes.count(1)} answers name one setting; an answer names {np.mean(sizes):.2f} on average")
    best, near = worse.count(0.0), sum(each <= MATTERS for each in worse)
    print(f"{best} choices are a best setting, {near} within {MATTERS:.0%} of it, all within {max(worse):.1%}")
    print(f"missed: {[number for number, each in zip(numbers, right, strict=True) if not each]}")


if __name__ == "__main__":
    main()
