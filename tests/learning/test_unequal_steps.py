"""Clients that take unequal numbers of local steps: against a loop over them, and where each method comes to rest."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.learning import Course, LocalWork, Optimizer, build_optimizer, build_problem, pulls, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.problems.problem import Sampled
from fedsim.learning.problems.quadratic import Quadratic
from fedsim.learning.problems.robust_regression import RobustRegression
from fedsim.learning.trajectory import End

from .cases import drawn_cohorts, tables

Vector = np.ndarray
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedavg": ("fedavg", {}),
    "fedprox": ("fedprox", {"mu": 0.7}),
    "fednova": ("fednova", {}),
    "fixed": ("fednova", {"effective": 3.0}),
    "feddyn": ("feddyn", {"mu": 2.0}),
    "scaffold": ("scaffold", {}),
    "pulls": ("debiased_fedavg", {}),
    "steps": ("debiased_fedavg", {"counts": "steps"}),
    "forgets": ("debiased_fedavg", {"forgetting": 0.3}),
    "forgets steps": ("debiased_fedavg", {"counts": "steps", "forgetting": 0.9}),
}


def trained(
    optimizers: Mapping[str, Optimizer], work: LocalWork, cohorts: Sequence[Sequence[int]], draws: Stream
) -> Mapping[str, End]:
    log = Cohorts.read(*tables(cohorts), work.problem.clients)
    return replay_together([Course(log, optimizers, draws)], work, evaluate_every=10**9)[0].ends


def by_hand(name: str, work: LocalWork, cohorts: Sequence[Sequence[int]], steps: Vector, draws: Stream) -> Vector:
    """Train client by client and step by step."""
    (kind, options), problem, alpha = METHODS[name], work.problem, work.step_size(0)
    clients, x = problem.clients, np.zeros(problem.dimension)
    own, counted, sizes = np.zeros((clients, len(x))), np.zeros(clients), 0.0
    mu, keeps = options.get("mu", 0.0), 1.0 - options.get("forgetting", 0.0)
    for number, cohort in enumerate(cohorts):
        if not cohort:
            continue
        counted, sizes, changes = keeps * counted, keeps * sizes, []
        each = [steps[i] if options.get("counts") == "steps" else 1.0 for i in cohort]
        counted[cohort] += np.array(each) / len(cohort)
        sizes += sum(each) / len(cohort)
        mean = own.mean(axis=0)
        for i in cohort:
            nu = sizes / (clients * counted[i]) if kind == "debiased_fedavg" else 1.0
            batches, y = work.minibatches(draws, number, np.array([i])), x.copy()
            for k in range(steps[i]):
                assert isinstance(problem, Sampled)
                slope = problem.select(np.array([i]), None if batches is None else batches[k])(y[None])[0]
                slope = slope + mu * (y - x) + {"feddyn": -own[i], "scaffold": mean - own[i]}.get(kind, 0.0)
                y = y - alpha * nu * slope
            changes.append(y - x)
        for i, change in zip(cohort, changes, strict=True):
            if kind == "feddyn":
                own[i] = own[i] - mu * change
            elif kind == "scaffold":
                own[i] = own[i] - mean - change / (steps[i] * alpha)
        if kind == "fednova":
            tau = options.get("effective", np.mean([steps[i] for i in cohort]))
            x = x + tau * np.mean([change / steps[i] for i, change in zip(cohort, changes, strict=True)], axis=0)
        else:
            x = x + np.mean(changes, axis=0) - (own.mean(axis=0) / mu if kind == "feddyn" else 0.0)
    return x


@pytest.mark.parametrize("batch_size", [None, 2])
def test_each_method_is_a_loop_over_clients(batch_size: int | None) -> None:
    """All side by side, to 1e-12; in a round nobody reports, and cohorts have several sizes."""
    problem = RobustRegression(clients=7, seed=3, dimension=3, samples=6)
    steps, draws = np.array([1, 4, 2, 4, 7, 1, 3]), stream(5, 0, Purpose.OPTIMIZER)
    cohorts = [each[: 1 + t % 4] if t != 6 else [] for t, each in enumerate(drawn_cohorts(25, 7, 4))]
    work = LocalWork.checked(problem, steps, 0.03, batch_size)
    ends = trained({name: build_optimizer(*each) for name, each in METHODS.items()}, work, cohorts, draws)
    for name in METHODS:
        expected = by_hand(name, work, cohorts, steps, draws)
        np.testing.assert_allclose(ends[name].last, expected, rtol=1e-12, atol=1e-12, err_msg=name)


def test_equal_numbers_of_steps_are_one_number() -> None:
    """To the last bit, whether one number is given or one for each client."""
    problem, draws = (
        build_problem("sampled_quadratic", {"samples": 6}, clients=7, seed=1),
        stream(1, 0, Purpose.OPTIMIZER),
    )
    made = {name: build_optimizer(*each) for name, each in METHODS.items()}
    one, each = (
        trained(made, LocalWork.checked(problem, steps, 0.1, 2), drawn_cohorts(9, 7, 3), draws)
        for steps in (3, np.full(7, 3))
    )
    for name in made:
        np.testing.assert_allclose(one[name].last, each[name].last, rtol=1e-13, atol=1e-13)


def test_without_any_report_it_rests_with_plain_steps() -> None:
    limit = build_optimizer("debiased_fedavg", {"counts": "steps"}, local_steps=np.array([1, 4])).long_run(np.zeros(2))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(limit.scales, [1.0, 1.0])


def rests(seed: int, cycles: int = 30) -> dict[str, tuple[float, float, float]]:
    """Return how far from the optimum each method rests, by the formula, and measured, and how far these are apart.

    Twelve clients with drawn weights, curvatures and numbers of steps, in 100 drawn cohorts of 1 to 4 again and again:
    means over whole cycles have no noise.
    """
    draws, clients = np.random.default_rng(seed), 12
    problem = Quadratic(clients=clients, seed=seed, dimension=2, curvature_spread=0.3, spread=2.0)
    steps, weights, alpha, mu = draws.integers(1, 13, clients), 0.3 + draws.exponential(1.0, clients), 0.005, 5.0
    keys = draws.exponential(1.0, (100, clients)) / weights
    sizes = draws.integers(1, 5, 100)
    cohorts = [np.argsort(key)[:size].tolist() for key, size in zip(keys, sizes, strict=True)] * cycles
    w = pulls(tables(cohorts)[1], clients)
    nova = np.zeros(clients)
    for cohort in cohorts:
        nova[cohort] += steps[cohort].mean() / len(cohort) / len(cohorts) / steps[cohort]
    h, column = problem.curvatures, steps[:, None]
    pulled = {
        "fedavg": w[:, None] * (1 - (1 - alpha * h) ** column),
        "fedprox": w[:, None] * h / (h + mu) * (1 - (1 - alpha * (h + mu)) ** column),
        "fednova": nova[:, None] * (1 - (1 - alpha * h) ** column),
        "fixed": w[:, None] / column * (1 - (1 - alpha * h) ** column),
        "pulls": w[:, None] * (1 - (1 - alpha * h / (clients * w[:, None])) ** column),
        "steps": w[:, None] * (1 - (1 - alpha * h * (w @ steps) / (clients * (w * steps)[:, None])) ** column),
        "feddyn": h,
        "scaffold": h,
    }
    options = {**METHODS, "fedprox": ("fedprox", {"mu": mu}), "fixed": ("fednova", {"effective": float(w @ steps)})}
    options["feddyn"] = ("feddyn", {"mu": 20.0})  # with a small one, clients that come rarely take long to settle
    made = {name: build_optimizer(*options[name], local_steps=steps) for name in pulled}
    ends = trained(made, LocalWork.checked(problem, steps, alpha), cohorts, stream(0, 0, Purpose.OPTIMIZER))
    models = {}
    for name, each in pulled.items():
        rest = (each * problem.centres).sum(axis=0) / each.sum(axis=0)
        if getattr(made[name], "long_run", lambda _: None)(w) is not None and name not in {"feddyn", "scaffold"}:
            limit = made[name].long_run(w)  # type: ignore[attr-defined]
            predicted = problem.rest(limit.weights, limit.scales, local_steps=steps, step_size=alpha)
            np.testing.assert_allclose(predicted, rest, rtol=1e-9, atol=1e-12)
        away = [float(np.linalg.norm(each - problem.optimum)) for each in (rest, ends[name].average)]
        models[name] = (away[0], away[1], float(np.linalg.norm(ends[name].average - rest)))
    return models


def test_where_each_method_rests() -> None:
    """Debiasing by pulls leaves the bias of unequal steps; counting steps, FedDyn and SCAFFOLD leave next to none."""
    models = rests(3, 20)
    assert models["pulls"][0] > 5 * models["steps"][0]
    for name, (foreseen, measured, apart) in models.items():
        assert apart < 0.1 * max(foreseen, models["fedavg"][0]), (name, foreseen, measured)


def test_counting_steps_rests_near_the_optimum_under_partial_reports() -> None:
    """Clients report drawn numbers of steps, some of them few and often: FedAvg rests where E[K/|S|; i in S] pulls."""
    draws, clients, alpha = np.random.default_rng(5), 12, 0.005
    problem = Quadratic(clients=clients, seed=5, dimension=2, spread=2.0)
    most, weights = draws.integers(1, 13, clients), 0.3 + draws.exponential(1.0, clients)
    order, sizes = np.argsort(draws.exponential(1.0, (100, clients)) / weights), draws.integers(1, 5, 100)
    cohorts = [each[:size].tolist() for each, size in zip(order, sizes, strict=True)] * 20
    rounds, participations = tables(cohorts)
    first = participations["client"].to_numpy()[: sizes.sum()]  # of a cycle
    steps = np.resize(1 + (draws.random(len(first)) * most[first]).astype(np.int64), len(participations))
    log = Cohorts.read(rounds, participations.with_columns(steps=pl.Series(steps)), clients)
    made = {name: build_optimizer(*METHODS[name]) for name in ("fedavg", "pulls", "steps", "feddyn")}
    work = LocalWork.checked(problem, most, alpha)
    ends = replay_together([Course(log, made, stream(0, 0, Purpose.OPTIMIZER))], work, evaluate_every=10**9)[0].ends
    pulled = np.zeros(clients)
    size = np.repeat([len(each) for each in cohorts], [len(each) for each in cohorts])
    np.add.at(pulled, participations["client"].to_numpy(), steps / size)
    away = {name: float(np.linalg.norm(end.average - problem.optimum)) for name, end in ends.items()}
    rest = (pulled[:, None] * problem.centres).sum(axis=0) / pulled.sum()
    foreseen = float(np.linalg.norm(rest - problem.optimum))
    assert float(np.linalg.norm(ends["fedavg"].average - rest)) < 0.1 * foreseen
    assert away["steps"] < 0.1 * foreseen < away["pulls"]


@pytest.mark.campaign
@pytest.mark.timeout(0)
def test_where_each_method_rests_in_twenty_worlds() -> None:
    """Each within 10 % of the bias of FedAvg there, or of its own."""
    worlds = [rests(seed) for seed in range(20)]
    for name in worlds[0]:
        foreseen, measured, apart = np.array([each[name] for each in worlds]).T
        scale = np.maximum(foreseen, [each["fedavg"][0] for each in worlds])
        print(  # noqa: T201
            f"{name}: foreseen {np.median(foreseen):.3f}, measured {np.median(measured):.3f}, "
            f"apart {np.median(apart / scale):.3f}, at most {np.max(apart / scale):.3f}"
        )
        assert np.max(apart / scale) < 0.1, name
