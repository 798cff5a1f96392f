"""A PyTorch network trained by 1,000 clients a round: fedsim, a loop over clients, and pfl-research, on the same data.

Run ``python benchmarks/torch_round.py --pfl VENV/bin/python`` in fedsim's environment with the extra ``torch``; the
other one needs ``pip install "pfl[pytorch]==0.6.0"``. Each client takes five full-gradient steps over its 20 samples of
64 numbers; the network, two hidden layers of 32, is a module of one's own (``torch.func.vmap`` over all clients), and
once more the built-in ``mlp``. All must end at the same parameters, to single precision. Wall-clock seconds of a round,
from the difference between runs of two lengths, medians of ``--repeat`` turns, on one thread of PyTorch each.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

CLIENTS, SAMPLES, FEATURES, LABELS, HIDDEN, STEPS, STEP_SIZE = 1_000, 20, 64, 10, (32, 32), 5, 0.1
SHORT, LONG = 2, 8  # rounds


def layers() -> list[Any]:
    """Return the layers of the network."""
    import torch

    wide = [(before, after) for before, after in pairwise((FEATURES, *HIDDEN, LABELS))]
    stack = [each for before, after in wide for each in (torch.nn.Linear(before, after), torch.nn.ReLU())]
    return stack[:-1]


def net() -> Any:
    """Return the network, as a module of one's own."""
    import torch

    return torch.nn.Sequential(*layers())


def by_fedsim(folder: Path, rounds: int, module: str) -> list[float]:
    import polars as pl

    from fedsim.common.keyed import Purpose, stream
    from fedsim.learning import Course, FedAvg, LocalWork, build_problem, replay_together
    from fedsim.learning.cohorts import Cohorts

    model = {"module": "torch_round:net"} if module == "own" else {"module": "mlp", "arguments": {"hidden": [*HIDDEN]}}
    options = model | {"data": {"kind": "npz", "path": str(folder / "data.npz")}, "dtype": "float32", "threads": 1}
    problem = build_problem("torch", options, clients=CLIENTS, seed=0)
    numbers = np.arange(rounds)
    log = {"round": np.repeat(numbers, CLIENTS), "client": np.tile(np.arange(CLIENTS), rounds)}
    log |= {"position": log["client"], "outcome": ["reported"] * (rounds * CLIENTS)}
    table = pl.DataFrame({"round": numbers, "closed_s": numbers.astype(np.float64)})
    cohorts = Cohorts.read(table, pl.DataFrame(log), CLIENTS)
    start = np.load(folder / "start.npy").astype(np.float64)
    course = Course(cohorts, {"fedavg": FedAvg()}, stream(0, 0, Purpose.OPTIMIZER), {}, start)
    work = LocalWork.checked(problem, STEPS, STEP_SIZE)
    [trained] = replay_together([course], work, evaluate_every=10**9)
    return list(trained.ends["fedavg"].last)


def by_loop(folder: Path, rounds: int) -> list[float]:
    import torch

    torch.set_num_threads(1)
    data = np.load(folder / "data.npz")
    x = torch.from_numpy(data["x_train"].reshape(CLIENTS, SAMPLES, FEATURES).astype(np.float32))
    y = torch.from_numpy(data["y_train"].reshape(CLIENTS, SAMPLES))
    module, server = net(), torch.from_numpy(np.load(folder / "start.npy")).float()
    for _ in range(rounds):
        total = torch.zeros_like(server)
        for client in range(CLIENTS):
            torch.nn.utils.vector_to_parameters(server.clone(), module.parameters())  # which makes views
            descent = torch.optim.SGD(module.parameters(), STEP_SIZE)
            for _ in range(STEPS):
                descent.zero_grad()
                torch.nn.functional.cross_entropy(module(x[client]), y[client]).backward()
                descent.step()
            total += torch.nn.utils.parameters_to_vector(module.parameters()).detach() - server
        server = server + total / CLIENTS
    return server.double().tolist()


def by_pfl(folder: Path, rounds: int) -> list[float]:
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import MinimizeReuseUserSampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    class Module(torch.nn.Sequential):
        def loss(self, x: Any, y: Any, **_: Any) -> Any:
            return torch.nn.functional.cross_entropy(self(x), y)

        def metrics(self, *_: Any, **__: Any) -> dict[str, Any]:
            return {}

    torch.set_num_threads(1)
    data = np.load(folder / "data.npz")
    x = torch.from_numpy(data["x_train"].reshape(CLIENTS, SAMPLES, FEATURES).astype(np.float32))
    y = torch.from_numpy(data["y_train"].reshape(CLIENTS, SAMPLES))
    module = Module(*layers())
    torch.nn.utils.vector_to_parameters(torch.from_numpy(np.load(folder / "start.npy")).float(), module.parameters())
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), 1.0))
    users = FederatedDataset(
        lambda user: Dataset((x[user], y[user]), user_id=str(user)), MinimizeReuseUserSampler(list(range(CLIENTS)))
    )
    FederatedAveraging().run(
        NNAlgorithmParams(rounds, 10**6, CLIENTS, None),
        SimulatedBackend(users, users),
        model,
        NNTrainHyperParams(local_num_epochs=STEPS, local_learning_rate=STEP_SIZE, local_batch_size=None),
        send_metrics_to_platform=False,
    )
    parameters: list[float] = torch.nn.utils.parameters_to_vector(module.parameters()).detach().double().tolist()
    return parameters


WAYS = {
    "fedsim, a module of one's own": lambda folder, rounds: by_fedsim(folder, rounds, "own"),
    "fedsim, mlp": lambda folder, rounds: by_fedsim(folder, rounds, "mlp"),
    "loop over clients": by_loop,
    "pfl-research": by_pfl,
}


def measure(way: str, folder: Path) -> None:
    """Print the seconds of a round and the last parameters."""
    ends, seconds = list[float](), list[float]()
    for rounds in (SHORT, SHORT, LONG):
        begin = time.perf_counter()
        ends = WAYS[way](folder, rounds)
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"round_s": (seconds[2] - seconds[1]) / (LONG - SHORT), "ends": ends}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pfl", help="interpreter of an environment with pfl[pytorch]; else it is left out")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], Path(options.measure[1]))
        return
    with tempfile.TemporaryDirectory() as name:
        folder, rng = Path(name), np.random.default_rng(0)
        x, y = rng.normal(size=(CLIENTS * SAMPLES, FEATURES)), rng.integers(LABELS, size=CLIENTS * SAMPLES)
        owners = np.repeat(np.arange(CLIENTS), SAMPLES)
        test = {"x_test": x[:100].astype(np.float32), "y_test": y[:100]}
        np.savez(folder / "data.npz", x_train=x.astype(np.float32), y_train=y, client_train=owners, **test)
        widths = pairwise((FEATURES, *HIDDEN, LABELS))
        start = [rng.uniform(-1, 1, (before + 1) * after) / np.sqrt(before) for before, after in widths]
        np.save(folder / "start.npy", np.concatenate(start).astype(np.float32))
        by_way: dict[str, list[dict[str, Any]]] = {}
        for _ in range(options.repeat):
            for way in WAYS:
                python = options.pfl if way == "pfl-research" else sys.executable
                if python:
                    command = [python, __file__, "--measure", way, name]
                    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                    by_way.setdefault(way, []).append(json.loads(done.stdout.splitlines()[-1]))
        first = by_way["loop over clients"]
        for way, runs in by_way.items():
            seconds = [run["round_s"] for run in runs]
            apart = max(float(np.abs(np.subtract(run["ends"], first[0]["ends"])).max()) for run in runs)
            times = median(other["round_s"] / run["round_s"] for run, other in zip(runs, first, strict=True))
            spread = f"[{min(seconds):.3f}, {max(seconds):.3f}]"
            print(
                f"{way:<32}{median(seconds):.3f} s a round {spread}  {times:.2f} times the loop; ends {apart:.0e} apart"
            )


if __name__ == "__main__":
    main()
