"""fedsim: the default habits, sessions of 90 s, a separation, and the log, in as many rounds as fit into a day."""

import argparse
import time
from collections.abc import Iterator

from common import DAY, measure

from fedsim import Scenario
from fedsim.population import build_population
from fedsim.simulation import simulate_log

OPENINGS: list[float] = []


def rounds(wanted: argparse.Namespace) -> Iterator[int]:
    data = {
        "engine": "vectorized",
        "stop": {"rounds": wanted.rounds},
        "population": [{"devices": wanted.clients, "separation": wanted.separation, "availability": "habits"}],
        "server": {"cohort": wanted.cohort, "pause": f"{DAY / wanted.rounds - 90.0}s"},
        "records": {"gauges": None},
    }
    scenario = Scenario.model_validate(data)
    population = build_population(scenario)

    def note(number: int, _now_s: float) -> None:
        if number == len(OPENINGS):
            OPENINGS.append(time.perf_counter())

    log = simulate_log(scenario, population, progress=note)
    return iter(log.rounds["selected"].to_list())


if __name__ == "__main__":
    measure("fedsim-participation", rounds, OPENINGS)
