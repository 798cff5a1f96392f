"""What a round of a fleet that is stepped costs beside a round of a run.

Run ``python benchmarks/live.py`` (``--pairs`` for more). Each scenario is simulated, and stepped to its end, by turns,
in one process; what is compared is processor time, and printed are the median ratio of the pairs, the smallest and the
largest. Every round is told a loss for each report. Target: 1.3.
"""

import argparse
import time
from statistics import median
from typing import Any

import numpy as np

from fedsim import live
from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log

GROUPS: dict[str, Any] = {
    "always": {"availability": "always"},
    "renewal": {"availability": {"kind": "renewal", "on": "2h", "off": "1h"}},
}
CASES = (("process", 100, 5), ("process", 100, 20), ("vectorized", 10_000, 5), ("vectorized", 10_000, 100))


def case(engine: str, devices: int, cohort: int, group: str, rounds: int) -> Scenario:
    """Return a scenario of so many rounds."""
    data = {
        "engine": engine,
        "stop": {"rounds": rounds},
        "population": [{"devices": devices, "separation": 2, **GROUPS[group]}],
        "server": {"cohort": cohort, "over_select": 1.2, "deadline": "10m", "pause": "5m", "selection": "uniform"},
        "records": {"gauges": None},
    }
    return Scenario.model_validate(data)


def seconds(scenario: Scenario, *, stepped: bool) -> float:
    """Return the processor time of a run, or of stepping it; what is made once for both is left out."""
    population, fleet = build_population(scenario), live(scenario)
    begin = time.process_time()
    if stepped:
        for each in fleet:
            each.report(np.ones(len(each.reporters)))
    else:
        simulate_log(scenario, population)
    return time.process_time() - begin


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=1_000)
    options = parser.parse_args()
    print(
        f"{'engine':<12}{'devices':>9}{'cohort':>8}{'available':>11}{'ms a round':>12}{'ratio':>8}{'from':>8}{'to':>8}"
    )
    for engine, devices, cohort in CASES:
        for group in GROUPS:
            scenario = case(engine, devices, cohort, group, options.rounds)
            seconds(scenario, stepped=True)  # imports and compiles
            pairs = [(seconds(scenario, stepped=False), seconds(scenario, stepped=True)) for _ in range(options.pairs)]
            ratios = [stepped / plain for plain, stepped in pairs]
            each_ms = 1e3 * median(plain for plain, _ in pairs) / options.rounds
            figures = f"{each_ms:>12.3f}{median(ratios):>8.2f}{min(ratios):>8.2f}{max(ratios):>8.2f}"
            print(f"{engine:<12}{devices:>9,}{cohort:>8}{group:>11}{figures}", flush=True)


if __name__ == "__main__":
    main()
