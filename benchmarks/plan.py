"""How good the estimates of ``fedsim plan`` are, beside the runs themselves: eleven kinds of scenarios in five sizes.

Run ``python benchmarks/plan.py`` (half an hour; ``--only 2 5`` takes some kinds, ``--sizes 1`` one number of devices).
Each estimate is made as `plan` does; then all runs of the sweep or the decision are done, in a process of its own on
one processor, after a first round that imports what is needed. Printed are the processor seconds that were estimated,
with their range, those that the runs took, how many times as many these are, and how long the estimate took. Targets:
90 % lie within the stated range, no range is wider than 3 times, and three points at least are tried within 60 s.
"""

import argparse
import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from fedsim.run.simulate import simulate
from fedsim.scenario import Scenario
from fedsim.trials.decide import decide, planned_decision
from fedsim.trials.executors import Backend
from fedsim.trials.executors.local import LocalProcesses
from fedsim.trials.pilot import warm_up
from fedsim.trials.plan import estimated_times, plan_sweep, total_time

SIZES = 1.0, 0.35, 0.5, 0.7, 1.4
STUDIES = Path("scenarios/studies").resolve()
KINDS = {
    "always available, by rounds": """\
stop: {rounds: 20000}
population: [{devices: 10000, weight: {kind: lognormal, sigma: 1}, separation: 10}]
server: {cohort: 50}
""",
    "renewal, ten days": """\
stop: {duration: 10d}
population: [{devices: 20000, availability: {kind: renewal, on: 30m, off: 4h}, separation: 3}]
server: {cohort: 100, pause: 60s}
""",
    "habits, 30 days": """\
stop: {duration: 30d}
population: [{devices: 50000, availability: habits}]
server: {cohort: 100, pause: 300s}
""",
    "successive, heavy weights, habits": """\
stop: {duration: 6d}
population: [{devices: 50000, availability: habits, weight: {kind: lognormal, sigma: 1}, separation: 100}]
server: {cohort: 300, selection: successive, pause: 160s}
""",
    "few that wait for the night": """\
stop: {duration: 10d}
population: [{devices: 3000, availability: habits, cooldown: 1d}]
server: {cohort: 30, shortage: wait}
""",
    "process engine": """\
stop: {duration: 5d}
population: [{devices: 2000, availability: {kind: renewal, on: 20m, off: 40m}}]
server: {cohort: 40, pause: 30s}
engine: process
""",
    "buffered": """\
stop: {rounds: 60000}
population: [{devices: 5000, weight: {kind: zipf, exponent: 1}}]
server: {mode: buffered, concurrency: 100, buffer: 10}
""",
    "learning, three optimizers and a twin": """\
stop: {rounds: 4000}
population: [{devices: 100, weight: {kind: zipf, exponent: 1.5, per_rank: 5}, separation: 4}]
server: {cohort: 5}
learning:
  problem: robust_regression
  optimizers: [fedavg, fedvarp, debiased_fedavg]
  step_size: 0.1
  local_steps: 5
  reference: uniform
  evaluate_every: 20
""",
    "a trace, ten days": """\
stop: {duration: 10d}
population:
  - devices: 2000
    separation: 3
    availability:
      kind: trace
      file: phones.parquet
      base: 2020-02-03T00:00:00Z
      repeat: week
      require: [charging, network]
      assign: with_replacement
      without_intervals: keep
server: {cohort: 20}
""",
    "a sweep over separation and cohort": """\
stop: {duration: 10d}
population: [{devices: 8000, availability: habits}]
server: {cohort: 20, pause: 300s}
sweep: {grid: {"population.*.separation": [0, 20, 60], server.cohort: [20, 60]}}
""",
    "a decision": """\
stop: {rounds: 300, duration: 10d}
population: [{devices: 1500, availability: habits, weight: {kind: lognormal, sigma: 1}}]
server: {cohort: 20, pause: 900s}
privacy: {mechanism: independent, epsilon: 8, delta: 1.0e-6, clip: 1, training: noise}
learning:
  problem: {kind: quadratic, dimension: 10, clusters: 6}
  optimizers: [{kind: fedavg, server: {kind: sgd, step_size: 0.3}}]
  step_size: 0.02
  evaluate_every: 100
  loss_parts: true
choose: {"population.*.separation": [0, 5, 10, 20]}
decide: {minimize: learning.fedavg.above_optimum, tuning_seeds: 2, seeds: 6}
""",
}


def taken(scenario: Scenario, folder: str) -> float:
    """Processor seconds of all runs of a sweep, without what they hold in the end, or of a decision."""
    began = time.process_time()
    if scenario.choose:
        decide(scenario, folder, Backend("threads", lambda: ThreadPoolExecutor(1), lambda _: 1))
    else:
        plan = plan_sweep(scenario)
        for run in plan.runs:
            simulate(plan.scenario_of(run))
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="which of the kinds, from 1")
    parser.add_argument("--sizes", type=int, default=5, metavar="N", help="how many numbers of devices, up to five")
    parser.add_argument("--seed", type=int, help="of all scenarios, instead of the usual one")
    asked = parser.parse_args()
    only = list(product(asked.only or range(1, len(KINDS) + 1), SIZES[: asked.sizes]))
    print(f"{'':<42}{'estimated s':>12}{'range':>20}{'runs s':>10}{'times':>8}{'plan s':>9}{'load':>7}")
    inside, widest = 0, 1.0
    for number, size in only:
        kind, text = list(KINDS.items())[number - 1]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "kind.fedsim.yaml")
            file.write_text(text, encoding="utf-8")
            shutil.copy(STUDIES / "phones.parquet", folder)
            scenario = Scenario.load(file, seed=asked.seed)
            scenario = scenario.with_values({"population.0.devices": round(scenario.devices * size)})
            began = time.monotonic()
            plan = planned_decision(scenario) if scenario.choose else plan_sweep(scenario)
            points = estimated_times(plan)
            estimate = total_time(plan, points, plan.runs)
            planned = time.monotonic() - began
            assert estimate is not None, kind
            with LocalProcesses(1) as process:
                process.submit(warm_up, plan.points[0].scenario).result()
                seconds = process.submit(taken, scenario, f"{folder}/out").result()
        inside, widest = inside + (estimate.low <= seconds <= estimate.high), max(widest, estimate.high / estimate.low)
        about = f"{estimate.seconds:>12.2f}{f'{estimate.low:.1f} to {estimate.high:.1f}':>20}"
        beside = f"{seconds:>10.2f}{seconds / estimate.seconds:>8.2f}{planned:>9.1f}{os.getloadavg()[0]:>7.1f}"
        print(f"{kind:<42}{about}{beside}", flush=True)
    print(f"within the stated range: {inside} of {len(only)}; the widest range: {widest:.2f} times")


if __name__ == "__main__":
    main()
