"""What a second job costs: processor time of one and of two jobs over a million phones, each job the same."""

import sys
import time

from fedsim.log.recorder import InMemoryLog
from fedsim.run.preflight import checked
from fedsim.scenario import Scenario
from fedsim.scenario.document import Document
from fedsim.simulation import simulate_log
from fedsim.simulation.jobs import simulate_jobs

PHONES, ROUNDS = 1_000_000, 300
JOB = {"server": {"cohort": 1_000, "over_select": 1.3, "deadline": "10m", "pause": "1m"}, "separation": 5}


def seconds(jobs: int) -> float:
    """Return the processor time of a simulation, without what is made beforehand."""
    population = [{"devices": PHONES, "availability": "habits"}]
    data = {"stop": {"rounds": ROUNDS}, "population": population, "jobs": {f"job{k}": JOB for k in range(jobs)}}
    scenario = Scenario.of_document(Document(data))
    views = {name: (each.scenario, each.population, each.devices) for name, each in checked(scenario).items()}
    began = time.process_time()
    if scenario.jobs:
        sinks = {name: InMemoryLog() for name in views}
        simulate_jobs(sinks, scenario, views)
    else:
        view, population_, devices = views[""]
        simulate_log(view, population_, devices=devices)
    return time.process_time() - began


if __name__ == "__main__":
    seconds(1)  # imports and compiles
    pairs = [(seconds(1), seconds(2)) for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3)]
    for one, two in pairs:
        sys.stdout.write(f"one job {one:.1f} s, two jobs {two:.1f} s: {two / one:.2f} times\n")
