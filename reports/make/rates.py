"""Theorems 1 and 3, Lemma 2 and the two speeds of the paper, as rates; takes some minutes.

*Theorems*: quadratic objectives, so that FedAvg's floor is known, the gradient of F where sum_i pi_i f_i is least. The
step size is 1 / (K sqrt(T)), so every T is a training of its own; the error is the mean of |grad F(x)|^2 over the
iterates. All replicas are trained as one array; a test trains some by `fedsim.learning`.
*Lemma*: the counted frequencies lambda_i of clients and weights nu_i = 1 / (N lambda_i) after t rounds, and their
limits.
*Two speeds*: how fast the counts settle, where one round's cohort takes longer.
"""

from itertools import islice
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from fedsim import Scenario
from fedsim.common.arrays import Floats
from fedsim.learning.problems.quadratic import Quadratic
from fedsim.population import build_population
from fedsim.theory import convergence, running_frequencies, stationary
from fedsim.theory.monte_carlo import rounds_of
from fedsim.theory.question import ask, reduced
from reports.make.kept import ROOT, SCENARIOS, write_store
from reports.make.words import mean_and_half

mpl.use("Agg")
from matplotlib import pyplot as plt

GROUPS, COHORT, STEPS = 20, 5, 5
WEIGHTS = np.arange(1, GROUPS + 1) ** -1.5
SEPARATIONS = (0, 4, 8, 12, 19)
"""The last is M - 1, at which groups take turns and the theorems do not apply."""
OPTIMIZERS = ("fedavg", "debiased_fedavg")
HORIZONS = (500, 1000, 2000, 4000, 8000, 16000, 32000)
REPLICAS = 40
LEMMA = (100, 200, 400, 800, 1600, 3200, 6400)
NONE = 1e-9  # a floor below is none, but for rounding
COUNTED = 400  # replicas of the lemma

Groups = NDArray[np.intp]


def participations(separation: int, rounds: int, replicas: int) -> Groups:
    """Return which group takes part in each round of each replica, shape (rounds, replicas)."""
    play = rounds_of(reduced(ask(WEIGHTS, separation, 1, "midzuno")), range(replicas), seed=1)
    return np.array([each.chosen.argmax(axis=1) for each in islice(play, rounds)])


def problem(draw: int) -> Quadratic:
    """Return the objectives of one draw: groups differ, and within a group clients do."""
    clients = GROUPS * COHORT
    return Quadratic(clients, draw, clusters=GROUPS, spread=0.5, cluster_spread=1.0, curvature_spread=0.3)


def step_size(rounds: int) -> float:
    """Return alpha for a training of T rounds."""
    return float(1.0 / (STEPS * np.sqrt(rounds)))


def trained(problems: list[Quadratic], chosen: Groups, rounds: int) -> tuple[Floats, Floats, Floats]:
    """Return the mean of |grad F|^2 over the iterates, the last models and the mean models, of both optimizers.

    `problems` has one for each of S replicas, `chosen` the groups, shape (rounds or more, R, S), where R counts
    separations. What is returned has the shapes (R, 2, S), (R, 2, S, d) and (R, 2, S, d); the mean model is that of the
    last half of the rounds.
    """
    alpha = step_size(rounds)
    replicas = np.arange(len(problems))
    centres, curvatures = (
        np.array([getattr(each, what).reshape(GROUPS, COHORT, -1) for each in problems])
        for what in ("centres", "curvatures")
    )
    optimum, mean = np.array([each.optimum for each in problems]), curvatures.mean(axis=(1, 2))
    separations = np.arange(chosen.shape[1])[:, None]
    counts = np.zeros((chosen.shape[1], len(problems), GROUPS))
    models = np.zeros((chosen.shape[1], len(OPTIMIZERS), len(problems), centres.shape[-1]))
    total, scales, late = np.zeros(models.shape[:3]), np.ones(models.shape[:3]), np.zeros_like(models)
    for t, group in enumerate(chosen[:rounds]):
        total += ((mean * (models - optimum)) ** 2).sum(axis=-1)
        counts[separations, replicas, group] += 1.0
        scales[:, 1] = (t + 1.0) / (GROUPS * counts[separations, replicas, group])
        centre, slope = centres[replicas, group][:, None], curvatures[replicas, group][:, None]
        # K local steps bring a client from x to c + (1 - alpha nu h)^K (x - c).
        left = 1.0 - alpha * scales[..., None, None] * slope
        left_twice = left * left
        models -= ((1.0 - left_twice * left_twice * left) * (models[..., None, :] - centre)).mean(axis=-2)
        if 2 * (t + 1) > rounds:
            late += models
    return total / rounds, models, late / (rounds - rounds // 2)


def rest(problem: Quadratic, separation: int, alpha: float) -> Floats:
    """Return the model to which pi leads FedAvg, for steps of this length."""
    pi = np.repeat(stationary(WEIGHTS, separation).pi, COHORT)
    return problem.rest(pi, np.ones(len(pi)), local_steps=STEPS, step_size=alpha)


def floor(problem: Quadratic, separation: int) -> float:
    """Return |grad F|^2 where the objective that weighs clients by pi is least: where FedAvg ends for short steps."""
    return float(problem.evaluate(rest(problem, separation, 1e-9))["grad_norm"] ** 2)


def slope(errors: Floats, horizons: tuple[int, ...]) -> list[float]:
    """Return the exponent b of errors like T^b from the fourth T on, with its interval over replicas."""
    x = np.log(horizons[3:])
    return mean_and_half(np.array([np.polyfit(x, np.log(each[3:]), 1)[0] for each in errors.T]))


def theorems() -> dict[str, Any]:
    """Return, each with its interval, errors by optimizer, separation and T, their exponents, and FedAvg's floors.

    Beside them how far from the optimum FedAvg's mean model lies, as foreseen and as found.
    """
    chosen = np.stack([participations(r, max(HORIZONS), REPLICAS) for r in SEPARATIONS], axis=1)
    problems = [problem(draw) for draw in range(REPLICAS)]
    optimum = np.array([each.optimum for each in problems])
    runs = [trained(problems, chosen, rounds) for rounds in HORIZONS]
    errors = np.array([run[0] for run in runs])  # (T, R, optimizer, S)
    figures: dict[str, Any] = {"replicas": REPLICAS, "floor": {}, "exponent": {}, "predicted": {}}
    figures["error"] = {name: {} for name in OPTIMIZERS}
    for row, r in enumerate(SEPARATIONS):
        figures["floor"][str(r)] = mean_and_half(np.array([floor(each, r) for each in problems]))
        figures["exponent"][str(r)] = slope(errors[:, row, 1], HORIZONS)
        foreseen, end = np.array([rest(each, r, step_size(max(HORIZONS))) for each in problems]), runs[-1][2][row, 0]
        ways = {"computed": foreseen - optimum, "run": end - optimum, "apart": end - foreseen}
        figures["predicted"][str(r)] = {name: mean_and_half(np.linalg.norm(way, axis=1)) for name, way in ways.items()}
        for column, name in enumerate(OPTIMIZERS):
            by_rounds = zip(HORIZONS, errors[:, row, column], strict=True)
            figures["error"][name][str(r)] = {str(rounds): mean_and_half(each) for rounds, each in by_rounds}
    return figures


def counting(separation: int, rounds: tuple[int, ...] = LEMMA, replicas: int = COUNTED) -> dict[str, Any]:
    """Return, by t, E max_i (lambda_i - pi_i)^2, and E max_i (nu_i - 1/(N pi_i))^2 where everyone has been seen."""
    pi, counts = stationary(WEIGHTS, separation).pi, np.zeros((replicas, GROUPS))
    figures: dict[str, Any] = {"frequencies": {}, "weights": {}, "all_seen": {}}
    for t, group in enumerate(participations(separation, max(rounds), replicas), start=1):
        counts[np.arange(replicas), group] += 1.0
        if t in rounds:
            seen = counts.min(axis=1) > 0
            of_clients = (counts / t - pi) / COHORT  # a group's share is that of COHORT clients
            figures["frequencies"][str(t)] = mean_and_half((of_clients**2).max(axis=1))
            off = (t / counts[seen] - 1.0 / pi) / GROUPS
            figures["weights"][str(t)] = mean_and_half((off**2).max(axis=1)) if seen.sum() > 1 else None
            figures["all_seen"][str(t)] = float(seen.mean())
    return figures


def draw(rates: dict[str, Any]) -> None:
    """Draw the errors of FedAvg and of Debiased FedAvg by T, and that of the counted frequencies by t."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    colours = dict(zip(map(str, SEPARATIONS), mpl.colormaps["viridis"](np.linspace(0.0, 0.88, 5)), strict=True))
    counted = {r: figures["frequencies"] for r, figures in rates["lemma_2"].items()}
    error, panels = "E |∇F|² of an iterate", dict(zip((*OPTIMIZERS, "counts"), axes, strict=True))
    for name, errors, power in (*((name, rates["error"][name], 0.5) for name in OPTIMIZERS), ("counts", counted, 1.0)):
        for r, by_rounds in errors.items():
            middle, half = np.array([*by_rounds.values()]).T
            panels[name].errorbar([*map(int, by_rounds)], middle, half, color=colours[r], label=f"R = {r}", capsize=2)
        x, first = np.array([*map(int, errors["0"])]), next(iter(errors["0"].values()))[0]
        falling = {"color": "0.5", "linestyle": "--", "linewidth": 1.0, "label": f"slope \N{MINUS SIGN}{power:g}"}
        panels[name].plot(x, 1.2 * first * (x[0] / x) ** power, **falling)
        panels[name].set(xlabel="rounds", ylabel=error, xscale="log", yscale="log")
        panels[name].legend(fontsize=8)
        panels[name].grid(alpha=0.3)
        panels[name].spines[["top", "right"]].set_visible(False)
    for r, (level, _) in rates["floor"].items():
        if level > NONE:
            axes[0].axhline(level, color=colours[r], linestyle=":", linewidth=1.0)
    axes[0].set(title="FedAvg; dotted: its floor, computed")
    axes[1].set(title="Debiased FedAvg")
    axes[2].set(title="Counted frequencies", ylabel="E max |λ - π|²")
    figure.savefig(ROOT / "docs" / "images" / "rates.png", dpi=110, metadata={"Software": None})


def running() -> dict[str, list[float]]:
    """Return the L1 distance of running frequencies from their limit after 100 rounds, with half of its interval."""
    weights = build_population(Scenario.load(SCENARIOS / "paper" / "convergence.fedsim.yaml")).weight
    distances = {}
    for separation in (0, 5, 20, 50, 80, 95):
        limit = convergence(weights, separation, rounds=300).limit
        counts = running_frequencies(weights, separation, rounds=300, limit=limit)
        distances[str(separation)] = [float(counts.l1[99]), 1.96 * float(counts.standard_error[99])]
    return distances


def measure_rates() -> None:
    """Measure all, draw it, and keep what the pages quote."""
    rates = theorems() | {"lemma_2": {str(r): counting(r) for r in SEPARATIONS[:-1]}, "running": running()}
    write_store("rates", rates)
    draw(rates)
