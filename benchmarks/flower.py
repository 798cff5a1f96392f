"""A real Flower server with ten client processes beside fedsim's prediction: how long rounds take.

Run ``python benchmarks/flower.py --flower VENV/bin/python`` in fedsim's environment, with flwr in the other one. fedsim
simulates rounds of six out of ten clients first; then Flower's server sends each round to the same clients over gRPC,
and each client, a process of its own, sleeps for as long as its session took. What Flower adds is what the medians and
95 % quantiles of the rounds differ by; sleeps are seconds, so that what else the machine does hardly matters.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

CLIENTS, COHORT, AGREES = 10, 6, 0.05
"""Quantiles that differ by less than this share agree; written down before the first run."""


def predicted(rounds: int) -> tuple[list[dict[int, float]], list[float]]:
    """Return the seconds of each session by client, round by round, and how long fedsim says that rounds take."""
    from fedsim import Scenario, simulate

    train = {"kind": "lognormal", "median": "6s", "sigma": 0.5}
    scenario = Scenario.model_validate(
        {
            "stop": {"rounds": rounds},
            "population": [{"devices": CLIENTS, "session": {"download": "0s", "train": train, "upload": "0s"}}],
            "server": {"cohort": COHORT, "selection": "uniform"},
        }
    )
    run = simulate(scenario)
    lengths: list[dict[int, float]] = [{} for _ in range(rounds)]
    for number, client, begin, end in run.participations.select("round", "client", "selected_s", "ended_s").iter_rows():
        lengths[number][client] = end - begin
    return lengths, (run.rounds["closed_s"] - run.rounds["opened_s"]).to_list()


def serve(address: str, plan: Path, out: Path) -> None:
    """Run the rounds of a plan on a Flower server, and write how long each took."""
    from flwr.common import FitIns, GetPropertiesIns
    from flwr.server import ServerConfig, start_server
    from flwr.server.strategy import FedAvg

    lengths = json.loads(plan.read_text("utf-8"))
    begun, took = [], []

    class Replayed(FedAvg):
        def configure_fit(self, server_round, parameters, client_manager):
            client_manager.wait_for(CLIENTS)
            if server_round == 1:
                asked = GetPropertiesIns({})
                self.proxies = {
                    str(each.get_properties(asked, None, 0).properties["client"]): each
                    for each in client_manager.all().values()
                }
            begun.append(time.monotonic())
            cohort = lengths[server_round - 1].items()
            return [(self.proxies[client], FitIns(parameters, {"seconds": seconds})) for client, seconds in cohort]

        def aggregate_fit(self, server_round, results, failures):
            model = super().aggregate_fit(server_round, results, failures)
            took.append(time.monotonic() - begun[-1])
            if failures:
                raise RuntimeError(f"round {server_round}: {failures[0]}")
            return model

    strategy = Replayed(fraction_evaluate=0.0, min_available_clients=CLIENTS)
    start_server(server_address=address, config=ServerConfig(num_rounds=len(lengths)), strategy=strategy)
    out.write_text(json.dumps(took), "utf-8")


def take_part(address: str, number: int) -> None:
    """Be a client that sleeps where others train."""
    import numpy as np
    from flwr.client import NumPyClient
    from flwr.compat.client.app import start_client

    class Sleeper(NumPyClient):
        def get_properties(self, config):  # noqa: ARG002
            return {"client": number}

        def get_parameters(self, config):  # noqa: ARG002
            return [np.zeros(1000, dtype=np.float32)]

        def fit(self, parameters, config):
            time.sleep(config["seconds"])
            return parameters, 1, {}

    start_client(server_address=address, client=Sleeper().to_client(), insecure=True)


def quantile(values: list[float], share: float) -> float:
    """Return the smallest value that no smaller share of them exceeds."""
    return sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]


def main() -> None:
    """Predict, measure, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flower", type=Path, help="the Python of an environment that has flwr")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--address", default="127.0.0.1:18473")
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.role is not None:
        role, *rest = wanted.role
        if role == "server":
            serve(wanted.address, Path(rest[0]), Path(rest[1]))
        else:
            take_part(wanted.address, int(rest[0]))
        return
    if wanted.flower is None:
        parser.error("--flower says where flwr is")
    lengths, expected = predicted(wanted.rounds)
    quiet = os.environ | {"FLWR_TELEMETRY_ENABLED": "0", "GRPC_VERBOSITY": "ERROR"}
    quiet.pop("PYTHONPATH", None)
    with TemporaryDirectory() as folder:
        plan, out = Path(folder, "plan.json"), Path(folder, "took.json")
        plan.write_text(json.dumps(lengths), "utf-8")
        command = [str(wanted.flower), __file__, "--address", wanted.address, "--role"]
        with Path(folder, "log.txt").open("w") as log:
            roles = [["server", str(plan), str(out)], *(["client", str(number)] for number in range(CLIENTS))]
            running = [subprocess.Popen([*command, *role], env=quiet, stdout=log, stderr=log) for role in roles]
            try:
                code = running[0].wait(timeout=120 + 2 * sum(expected))
            finally:
                for each in running:
                    each.terminate()
                    each.wait()
        if code or not out.exists():
            sys.exit(Path(folder, "log.txt").read_text("utf-8")[-3000:])
        took = json.loads(out.read_text("utf-8"))
    for share in (0.5, 0.95):
        ours, theirs = quantile(expected, share), quantile(took, share)
        apart = theirs / ours - 1
        agrees = "agrees" if abs(apart) <= AGREES else "does not agree"
        sys.stdout.write(f"p{100 * share:.0f}: fedsim {ours:.2f} s, Flower {theirs:.2f} s, {apart:+.1%}: {agrees}\n")
    added = sorted(theirs - ours for ours, theirs in zip(expected, took, strict=True))
    added_s = f"{added[0]:.2f} to {added[-1]:.2f} s, {quantile(added, 0.5):.2f} s in the median"
    sys.stdout.write(f"{len(took)} rounds; Flower adds {added_s}\n")


if __name__ == "__main__":
    main()
