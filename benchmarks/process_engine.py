"""How much the process engine costs beside bare SimPy.

Run ``python benchmarks/process_engine.py``. A federation is simulated for a day, everything included. Beside it as many
bare SimPy processes, that alternate between two timeouts of known lengths and do nothing else, handle the same number
of events. Each runs in a process of its own, by turns; printed are medians of processor seconds. Target: 3 times.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Generator
from statistics import median
from typing import Any

DAY = 86_400.0
RENEWAL: dict[str, Any] = {"kind": "renewal", "on": "1h", "off": "2h"}


def engine(devices: int) -> tuple[float, int]:
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
        "population": [{"devices": devices, "availability": RENEWAL}],
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


def apart(*arguments: str | int) -> tuple[float, int]:
    """Run one of the two in a process of its own."""
    command = [sys.executable, __file__, "--one", *map(str, arguments)]
    seconds, events = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return seconds, events


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", nargs="+", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps((bare if len(chosen.one) > 1 else engine)(*chosen.one)))
        return
    pairs = list[tuple[float, float]]()
    for _ in range(chosen.repeat):
        ours, events = apart(chosen.devices)
        pairs.append((ours, apart(chosen.devices, events)[0]))
    ours, theirs = (median(each) for each in zip(*pairs, strict=True))
    times = median(mine / other for mine, other in pairs)
    print(f"{chosen.devices:,} devices, {events:,} events: {ours:.2f} s, bare SimPy {theirs:.2f} s, {times:.2f} times")


if __name__ == "__main__":
    main()
