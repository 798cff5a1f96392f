"""APPFL's simulator in virtual time beside fedsim: the same clients in both, the times of rounds and of updates.

Run ``python benchmarks/appfl.py --appfl VENV/bin/python`` in fedsim's environment; the other one needs ``pip install
--no-deps appfl==1.12.0 colorama``. The profile is that of APPFL's example of a synchronous server that counts:
lognormal speeds, uniform bandwidths, eight reports of ten. Its drivers run as they are, with clients that do not train.
"""

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

CLIENTS, STEPS, STEP_S, MODEL = 40, 20, 0.1, 2_330_000
SELECTED, REPORTS, IN_FLIGHT, ROUNDS, UPDATES = 10, 8, 10, 2_000, 20_000
AGREES = 0.05
"""Figures that differ by less than this share agree; written down before the first run."""


def profiles() -> list[tuple[float, float]]:
    """Return the slowdown and the bandwidth (Mbps) of each client."""
    draws = random.Random(42)
    return [(draws.lognormvariate(0.0, 0.5), draws.uniform(150.0, 600.0)) for _ in range(CLIENTS)]


def durations() -> list[float]:
    """Return how long each client takes by APPFL's documentation, in seconds."""
    return [STEP_S * STEPS * slow + 2 * 8 * MODEL / (mbps * 1e6) for slow, mbps in profiles()]


def of_appfl() -> dict[str, list[float]]:
    """Run APPFL's drivers: the seconds of each round, and the instants of updates."""
    from appfl.vsim import AsyncSimDriver, ClientProfile, SyncSimDriver

    class Client:
        def __init__(self, name: str) -> None:
            self.name = name

        def get_id(self) -> str:
            return self.name

        def load_parameters(self, *_: Any) -> None: ...
        def train(self) -> None: ...
        def get_parameters(self) -> Any:
            return {}, {"current_local_steps": STEPS}

    class Server:
        def __init__(self, updates: int) -> None:
            self.updates, self.done = updates, 0
            self.scheduler = SimpleNamespace(num_clients=CLIENTS, get_num_global_epochs=lambda: self.done)
            self.scheduler.set_num_clients = lambda _: None
            weights = SimpleNamespace(numel=lambda: MODEL, element_size=lambda: 1)
            self.model = {"weights": weights}

        def get_parameters(self, **_: Any) -> Any:
            return self.model

        def global_update(self, **_: Any) -> Any:
            self.done += 1
            return self.model

        def training_finished(self) -> bool:
            return self.done >= self.updates

    class Quiet:
        def __getattr__(self, _: str) -> Any:
            return lambda *_, **__: None

    clients = [Client(str(number)) for number in range(CLIENTS)]
    by_client = {str(number): ClientProfile(*each) for number, each in enumerate(profiles())}
    common = {"logger": Quiet(), "base_step_time": STEP_S}
    rounds = SyncSimDriver(
        Server(10**9), clients, by_client, SELECTED, min_responses=REPORTS, target_rounds=ROUNDS, **common
    )
    rounds.run()
    updates = AsyncSimDriver(Server(UPDATES), clients, by_client, IN_FLIGHT, **common)
    updates.run()
    return {
        "rounds": [each["duration"] for each in rounds.history],
        "updates": [each["vtime"] for each in updates.history],
        "staleness": [each["staleness"] for each in updates.history],
    }


def of_fedsim() -> dict[str, list[float]]:
    """Run the same in fedsim."""
    from fedsim import Scenario, simulate

    session = {"download": "0s", "train": "1s", "upload": "0s", "speed": [1 / each for each in durations()]}
    population = [{"devices": CLIENTS, "session": session}]
    counting = {"cohort": REPORTS, "over_select": SELECTED / REPORTS, "selection": "uniform"}
    buffered = {"mode": "buffered", "concurrency": IN_FLIGHT, "buffer": 1, "selection": "uniform"}
    runs = [
        simulate(Scenario.model_validate({"population": population, "server": server, "stop": {"rounds": stop}}))
        for server, stop in ((counting, ROUNDS), (buffered, UPDATES))
    ]
    staleness = runs[1].participations.drop_nulls("staleness")["staleness"]
    return {
        "rounds": (runs[0].rounds["closed_s"] - runs[0].rounds["opened_s"]).to_list(),
        "updates": runs[1].rounds["closed_s"].to_list(),
        "staleness": staleness.to_list(),
    }


def figures(run: dict[str, list[float]]) -> dict[str, float]:
    """Return what is compared."""
    rounds, updates = sorted(run["rounds"]), run["updates"]
    return {
        "rounds, p50 (s)": rounds[len(rounds) // 2],
        "rounds, p95 (s)": rounds[95 * len(rounds) // 100],
        "asynchronous updates a second": len(updates) / updates[-1],
        "their staleness, mean": sum(run["staleness"]) / len(run["staleness"]),
    }


def main() -> None:
    """Run both, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--appfl", type=Path, help="the Python of an environment that has appfl")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.inside:
        sys.path.pop(0)  # this folder, where a file of that name is
        sys.stdout.write(json.dumps(of_appfl()))
        return
    if wanted.appfl is None:
        parser.error("--appfl says where appfl is")
    output = subprocess.run(
        [str(wanted.appfl), __file__, "--inside"], check=True, capture_output=True, text=True, env={}
    ).stdout
    theirs, ours = figures(json.loads(output)), figures(of_fedsim())
    for name, value in ours.items():
        apart = value / theirs[name] - 1
        agrees = "agrees" if abs(apart) <= AGREES else "does not agree"
        sys.stdout.write(f"{name}: APPFL {theirs[name]:.4g}, fedsim {value:.4g}, {apart:+.1%}: {agrees}\n")


if __name__ == "__main__":
    main()
