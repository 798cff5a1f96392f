"""How much the process engine costs beside bare SimPy.

Run ``python benchmarks/process_engine.py`` (some minutes; ``--devices`` and ``--repeat`` for less). A federation of so
many devices is simulated for a day, everything included: drawing the population, starting the processes, the rounds,
the log. Beside it as many bare SimPy processes, that alternate between two timeouts of known lengths and do nothing
else, handle the same number of events. Each runs in a process of its own, one after the other by turns, so that what
else the machine does meets both; printed are medians with the smallest and the largest, the ratio of each pair, and the
peak memory (``resource.getrusage``), interpreter and libraries included. Times are those of the processor, so that a
machine that is shared distorts them less. Targets: a day of 10^5 devices in 15 s; a ratio of 1.5.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Generator
from statistics import median
from typing import Any

DAY = 86_400.0
AVAILABILITIES: dict[str, Any] = {"renewal": {"kind": "renewal", "on": "1h", "off": "2h"}, "habits": "habits"}


def engine(devices: int, availability: str) -> tuple[float, int]:
    """Simulate a day and return the seconds it took and the events that were handled."""
    import fedsim.simulation.engine as simulation
    from fedsim.population import build_population
    from fedsim.scenario import Scenario
    from fedsim.simulation.clock import Clock

    handled = 0

    class Counting(Clock):
        def step(self) -> None:
            nonlocal handled
            handled += 1
            super().step()

    simulation.Clock = Counting  # type: ignore[misc]
    data = {
        "engine": "process",
        "stop": {"duration": "1d"},
        "population": [{"devices": devices, "availability": AVAILABILITIES[availability]}],
        "server": {"cohort": max(1, devices // 1000), "pause": "10m"},
    }
    scenario = Scenario.model_validate(data)
    begin = time.process_time()
    simulation.simulate_log(scenario, build_population(scenario))
    seconds = time.process_time() - begin
    return seconds, handled


def bare(devices: int, events: int) -> tuple[float, int]:
    """Let SimPy handle so many events of processes that only wait, and return the seconds and the events."""
    import simpy

    environment = simpy.Environment()
    spread = DAY * devices / max(1, events - devices)  # on average, between two events of one process

    def alternate(first: float) -> Generator[simpy.Event, None, None]:
        yield environment.timeout(2 * spread * first)
        while True:
            yield environment.timeout(0.7 * spread)
            yield environment.timeout(1.3 * spread)

    begin = time.process_time()
    for index in range(devices):
        environment.process(alternate(index * 0.6180339887498949 % 1.0))
    for _ in range(events):
        environment.step()
    return time.process_time() - begin, events


def apart(*arguments: str | int) -> dict[str, float]:
    """Run one of the two in a process of its own."""
    command = [sys.executable, __file__, "--one", *map(str, arguments)]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return figures


def compare(devices: int, availability: str, repeat: int) -> None:
    ours, theirs = [], []
    for _ in range(repeat):
        ours.append(apart("engine", devices, availability))
        theirs.append(apart("bare", devices, int(ours[-1]["events"])))
    ratios = [mine["seconds"] / other["seconds"] for mine, other in zip(ours, theirs, strict=True)]
    print(f"{availability}, {devices:,} devices, one day, {ours[0]['events']:,} events")
    for name, runs in (("process engine", ours), ("bare SimPy", theirs)):
        seconds, peak = [run["seconds"] for run in runs], max(run["peak_mb"] for run in runs)
        print(f"  {name:<16}{median(seconds):8.2f} s  [{min(seconds):.2f}, {max(seconds):.2f}]  peak {peak:,.0f} MB")
    print(f"  {'ratio':<16}{median(ratios):8.2f}    [{min(ratios):.2f}, {max(ratios):.2f}]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--availability", choices=AVAILABILITIES, action="append")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        what, devices, rest = chosen.one
        seconds, events = engine(int(devices), rest) if what == "engine" else bare(int(devices), int(rest))
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
        print(json.dumps({"seconds": seconds, "events": events, "peak_mb": peak_mb}))
        return
    for availability in chosen.availability or AVAILABILITIES:
        compare(chosen.devices, availability, chosen.repeat)


if __name__ == "__main__":
    main()
