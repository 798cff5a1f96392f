"""How fast training is: the same rounds by fedsim and by a per-client Python loop over PyTorch, in one process.

Run ``python benchmarks/learning.py`` (under two minutes; the comparison needs the extra ``torch``). Side by side:

1. Rounds per second of the paper's synthetic problem (N = 100, B = 5, K = 5, full local gradients, FedAvg and Debiased
   FedAvg), evaluation left out on both sides. The loop does what federated learning code in PyTorch usually does: for
   each optimizer and client, load the server's model, take K steps of autograd and an in-place update, subtract. It
   runs in float64 on one thread, on the same data and cohorts, and must end at the same model. Target: 5 times.
2. Several optimizers and replicates: time of training them together and one after the other, same numbers.
3. Digits (softmax regression, full gradients and minibatches) beside the same mathematics written by hand in numpy:
   optimizers and cohort in one array expression, without checks, tables, or anything that could be another problem. It
   must end at the same model. Reading the log and evaluating the first and the last models, some 6 ms, is counted for
   fedsim alone. Target: as fast.
4. 10,000 rounds of the synthetic problem with two optimizers. Target: 0.5 s.

Figures are processor time, medians of several runs in turn (A B A B ...), with the smallest and the largest.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from itertools import chain
from statistics import median
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Course, FedAvg, LocalWork, Optimizer, Trained, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg, OracleWeighted
from fedsim.learning.optimizers.fedau import FedAu
from fedsim.learning.optimizers.mifa import FedVarp, Mifa
from fedsim.learning.problems.robust_regression import RobustRegression
from fedsim.learning.problems.softmax_regression import SoftmaxRegression

LOCAL_STEPS, STEP_SIZE, COHORT = 5, 0.1, 5
NEVER = 10**9


def cohorts(rounds: int, clients: int, replicate: int = 0) -> NDArray[np.int64]:
    """Draw cohorts of consecutive clients, low indices more often, shape (rounds, B)."""
    uniforms = stream(1, replicate, Purpose.SELECTION).uniforms(0, np.arange(rounds))
    first = (clients // COHORT * uniforms**3).astype(np.int64) * COHORT
    return first[:, None] + np.arange(COHORT)


def course(chosen: NDArray[np.int64], optimizers: Mapping[str, Optimizer]) -> Course:
    """Write cohorts as a log."""
    count, size = chosen.shape
    rounds = pl.DataFrame({"round": np.arange(count), "closed_s": np.arange(count, dtype=np.float64)})
    participations = pl.DataFrame(
        {
            "round": np.repeat(np.arange(count), size),
            "client": chosen.ravel(),
            "position": np.tile(np.arange(size), count),
            "outcome": ["reported"] * chosen.size,
        }
    )
    return Course(
        Cohorts.read(rounds, participations, int(chosen.max()) + 1), optimizers, stream(0, 0, Purpose.OPTIMIZER)
    )


def by_fedsim(problem: Any, courses: list[Course]) -> list[Trained]:
    return replay_together(courses, LocalWork.checked(problem, LOCAL_STEPS, STEP_SIZE), evaluate_every=NEVER)


def by_loop(problem: RobustRegression, chosen: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """Train FedAvg and Debiased FedAvg in PyTorch, one client at a time."""
    import torch

    features, targets = torch.from_numpy(problem.features), torch.from_numpy(problem.targets)
    ends = {}
    for name in ("fedavg", "debiased"):
        server = torch.zeros(problem.dimension, dtype=torch.float64)
        counts = np.zeros(problem.clients)
        for clients in chosen:
            counts[clients] += 1
            deltas = []
            for client in clients:
                scale = counts.sum() / (problem.clients * counts[client]) if name == "debiased" else 1.0
                model = server.clone().requires_grad_()
                for _ in range(LOCAL_STEPS):
                    residuals = features[client] @ model + targets[client]
                    loss = torch.log1p(0.5 * residuals * residuals).mean()
                    (gradient,) = torch.autograd.grad(loss, model)
                    with torch.no_grad():
                        model -= STEP_SIZE * scale * gradient
                deltas.append(model.detach() - server)
            server = server + torch.stack(deltas).mean(dim=0)
        ends[name] = server.numpy()
    return ends


def in_turn(repeat: int, *works: Callable[[], object]) -> list[tuple[float, float, float]]:
    """Time the works in turn, after each has run once; median, smallest and largest processor seconds of each."""
    seconds: list[list[float]] = [[] for _ in works]
    for turn in range(repeat + 1):
        for work, each in zip(works, seconds, strict=True):
            begin = time.process_time()
            work()
            if turn:
                each.append(time.process_time() - begin)
    return [(median(each), min(each), max(each)) for each in seconds]


def line(what: str, rounds: int, timing: tuple[float, float, float], note: str = "") -> None:
    rates = [rounds / seconds for seconds in timing]
    print(f"  {what:<52}{rates[0]:>10,.0f} rounds/s  [{rates[2]:,.0f}, {rates[1]:,.0f}]  {note}".rstrip())


def against_a_loop() -> None:
    print("\n1. synthetic problem, N = 100, d = 20, n = 100, B = 5, K = 5, two optimizers (target: 5 times)")
    problem = RobustRegression(clients=100, seed=0, data_seed=2)
    optimizers = {"fedavg": FedAvg(), "debiased": DebiasedFedAvg()}
    rounds = 400
    chosen = cohorts(rounds, problem.clients)
    ours = [course(chosen, optimizers)]
    if find_spec("torch") is None:
        [timing] = in_turn(5, lambda: by_fedsim(problem, ours))
        line("fedsim", rounds, timing, "PyTorch is not installed: nothing to compare with")
        return
    import torch

    torch.set_num_threads(1)
    ends = by_loop(problem, chosen)
    [trained] = by_fedsim(problem, ours)
    apart = max(float(np.abs(trained.ends[name].last - ends[name]).max()) for name in ends)
    fast, slow = in_turn(5, lambda: by_fedsim(problem, ours), lambda: by_loop(problem, chosen))
    line("fedsim", rounds, fast, f"{slow[0] / fast[0]:.1f} times the loop")
    line("per-client loop over PyTorch", rounds, slow, f"models differ by at most {apart:.1e}")


def together() -> None:
    print("\n2. six optimizers and four replicates of the log, in one go and one by one")
    problem = RobustRegression(clients=100, seed=0, data_seed=2)
    even = np.full(100, 0.01)
    optimizers = {
        "fedavg": FedAvg(),
        "debiased": DebiasedFedAvg(),
        "oracle": OracleWeighted(even),
        "fedvarp": FedVarp(),
        "fedau": FedAu(),
        "mifa": Mifa(),
    }
    rounds = 300
    logs = [cohorts(rounds, 100, replicate) for replicate in range(4)]
    all_at_once = [course(chosen, optimizers) for chosen in logs]
    one_by_one = [[course(chosen, {name: optimizer})] for chosen in logs for name, optimizer in optimizers.items()]
    losses = [part.table["loss"][-6:].to_list() for part in by_fedsim(problem, all_at_once)]
    alone = [by_fedsim(problem, courses)[0].table["loss"][-1] for courses in one_by_one]
    same = "the same losses to the last bit" if list(chain.from_iterable(losses)) == alone else "LOSSES DIFFER"
    once, each = in_turn(
        3, lambda: by_fedsim(problem, all_at_once), lambda: [by_fedsim(problem, courses) for courses in one_by_one]
    )
    line("24 trainings together", rounds, once, f"{each[0] / once[0]:.1f} times one by one; {same}")
    line("24 trainings one by one", rounds, each)


def by_hand(problem: Any, chosen: NDArray[np.int64], batch_size: int | None) -> dict[str, NDArray[np.float64]]:
    """Train FedAvg and Debiased FedAvg on softmax regression as a script would that knows what it trains."""
    inputs, targets, members = problem._inputs, problem._targets, problem._members
    features, classes = inputs.shape[1], problem.classes
    models, counts = np.zeros((2, features, classes)), np.zeros(problem.clients)
    draws = stream(0, 0, Purpose.OPTIMIZER)
    samples, l2 = members.shape[1], problem.l2
    for number, clients in enumerate(chosen):
        counts[clients] += 1
        step_sizes = np.full((2, len(clients), 1, 1), STEP_SIZE)
        step_sizes[1, :, 0, 0] *= counts.sum() / (problem.clients * counts[clients])
        local = np.repeat(models[:, None], len(clients), axis=1)
        samples_of = members[clients]
        if batch_size is None:
            batches = [samples_of] * LOCAL_STEPS
        else:
            places = (number * LOCAL_STEPS + np.arange(LOCAL_STEPS)[:, None]) * batch_size + np.arange(batch_size)
            bits = draws.bits(clients[:, None], places[:, None]) % np.uint64(samples)
            batches = [np.take_along_axis(samples_of, each.astype(np.int64), axis=1) for each in bits]
        for step, batch in enumerate(batches):
            if step == 0 or batch_size is not None:
                x, y = inputs[batch], targets[batch]
                transposed = x.swapaxes(-1, -2) / x.shape[-2]
            z = x @ local
            z -= z.max(axis=-1, keepdims=True)
            np.exp(z, out=z)
            z /= z.sum(axis=-1, keepdims=True)
            z -= y
            gradients = transposed @ z
            gradients += l2 * local
            local -= step_sizes * gradients
        models += (local - models[:, None]).mean(axis=1)
    return {"fedavg": models[0].ravel(), "debiased": models[1].ravel()}


def digits_by_hand() -> None:
    print("\n3. digits, N = 100, B = 5, K = 5, two optimizers (target: as fast as by hand)")
    problem = SoftmaxRegression(clients=100, seed=0)
    optimizers = {"fedavg": FedAvg(), "debiased": DebiasedFedAvg()}
    rounds = 1500
    for batch_size in (None, 10):
        chosen = cohorts(rounds, problem.clients)
        ours = [course(chosen, optimizers)]
        work = LocalWork.checked(problem, LOCAL_STEPS, STEP_SIZE, batch_size)
        ends = by_hand(problem, chosen, batch_size)
        [trained] = replay_together(ours, work, evaluate_every=NEVER)
        apart = max(float(np.abs(trained.ends[name].last - ends[name]).max()) for name in ends)
        fast, hand = in_turn(
            5, partial(replay_together, ours, work, evaluate_every=NEVER), partial(by_hand, problem, chosen, batch_size)
        )
        kind = "full gradients" if batch_size is None else f"minibatches of {batch_size}"
        line(f"fedsim, {kind}", rounds, fast, f"{hand[0] / fast[0]:.2f} times by hand")
        line(f"by hand, {kind}", rounds, hand, f"models differ by at most {apart:.1e}")


def ten_thousand() -> None:
    print("\n4. 10,000 rounds of the synthetic problem, two optimizers (target: 0.5 s)")
    problem = RobustRegression(clients=100, seed=0, data_seed=2)
    ours = [course(cohorts(10_000, 100), {"fedavg": FedAvg(), "debiased": DebiasedFedAvg()})]
    [timing] = in_turn(3, lambda: by_fedsim(problem, ours))
    line("fedsim", 10_000, timing, f"{timing[0]:.2f} s [{timing[1]:.2f}, {timing[2]:.2f}]")


def main() -> None:
    against_a_loop()
    together()
    digits_by_hand()
    ten_thousand()


if __name__ == "__main__":
    main()
