"""How good the estimates of ``fedsim plan`` are: beside the runs themselves, for ten scenarios of different kinds.

Run ``python benchmarks/plan.py`` (some minutes; ``--only 2 5`` takes some of them). Each estimate and each run is made
as `plan` and `sweep` do, in a process of its own on one processor, after a first round that imports what is needed.
Printed are the processor seconds that were estimated, with their range, those that the run took, and how many times as
many these are. Targets: within a factor of 1.5; of 50 scenarios
(``--sizes 5``: each kind with five numbers of devices), 90 % within the stated range, and no range wider than 3 times.
"""

import argparse
import os
import shutil
import tempfile
import time
from itertools import product
from pathlib import Path

from fedsim.experiment.run import simulate
from fedsim.scenario import Scenario
from fedsim.sweeps.executors.local import LocalProcesses
from fedsim.sweeps.pilot import warm_up
from fedsim.sweeps.plan import estimated_times, plan_sweep

TARGET, SIZES = 1.5, (1.0, 0.5, 0.7, 1.4, 2.0)
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
    "habits, 30 days of 10^5": """\
stop: {duration: 30d}
population: [{devices: 100000, availability: habits}]
server: {cohort: 100, pause: 300s}
""",
    "habits, 2,000 rounds of 10^6": """\
stop: {rounds: 2000}
population: [{devices: 1000000, availability: habits}]
server: {cohort: 300, pause: 160s}
""",
    "successive, heavy weights, habits": """\
stop: {duration: 6d}
population: [{devices: 200000, availability: habits, weight: {kind: lognormal, sigma: 1}, separation: 100}]
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
    "a trace, thirty days": """\
stop: {duration: 30d}
population:
  - devices: 4000
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
}


def taken(scenario: Scenario) -> float:
    """Processor seconds of a run, without what it holds in the end."""
    began = time.process_time()
    simulate(scenario)
    return time.process_time() - began


def measured(scenario: Scenario) -> float:
    with LocalProcesses(1) as process:
        process.submit(warm_up, scenario).result()
        return process.submit(taken, scenario).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="which of the ten, from 1")
    parser.add_argument("--sizes", type=int, default=1, metavar="N", help="how many numbers of devices, up to five")
    asked = parser.parse_args()
    only = list(product(asked.only or range(1, len(KINDS) + 1), SIZES[: asked.sizes]))
    print(f"{'':<42}{'estimated s':>12}{'range':>20}{'run s':>10}{'times':>8}{'plan s':>9}")
    worst, within, inside, widest = 1.0, 0, 0, 1.0
    for number, size in only:
        kind, text = list(KINDS.items())[number - 1]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "kind.fedsim.yaml")
            file.write_text(text, encoding="utf-8")
            shutil.copy(STUDIES / "phones.parquet", folder)
            scenario = Scenario.load(file)
            scenario = scenario.with_values({"population.0.devices": round(scenario.devices * size)})
            began = time.monotonic()
            [estimate] = estimated_times(plan_sweep(scenario))
            planned = time.monotonic() - began
            assert estimate is not None, kind
            seconds = measured(scenario)
        times = seconds / estimate.seconds
        worst, within = max(worst, times, 1 / times), within + (1 / TARGET <= times <= TARGET)
        inside, widest = inside + (estimate.low <= seconds <= estimate.high), max(widest, estimate.high / estimate.low)
        about = f"{estimate.seconds:>12.2f}{f'{estimate.low:.1f} to {estimate.high:.1f}':>20}"
        print(f"{kind:<42}{about}{seconds:>10.2f}{times:>8.2f}{planned:>9.1f}", flush=True)
    load = os.getloadavg()[0]
    print(f"within the stated range: {inside} of {len(only)}; the widest range: {widest:.2f} times")
    print(f"within a factor of {TARGET}: {within} of {len(only)}; the worst: {worst:.2f}; load {load:.1f}")


if __name__ == "__main__":
    main()
