"""Theorems 1 and 2 and Lemma 3 of the paper, as rates: errors by the number of rounds.

*Theorems.* The objectives are quadratic, so that the floor of FedAvg is known: the gradient of F where sum_i pi_i
f_i is least. The step size is alpha = 1 / (K sqrt(T)), as the theorems take it up to a constant, so every T is a
training of its own. The error is E |grad F(x)|^2 of an iterate x drawn uniformly from x_0, ..., x_{T-1}, that is,
the mean over all of them. Every replica has a draw of the data and a participation of its own.

*Where FedAvg ends.* Theory foresees it for steps of any length; the mean of the models over the last half of the
longest training is compared with that.

*Lemma.* The counted frequencies lambda_i and weights nu_i = 1 / (N lambda_i) after t rounds, against pi_i and 1 / (N
pi_i).

All replicas, separations and both optimizers are trained as one array; a test trains some of them by
`fedsim.learning`.

Run ``python reports/rates.py`` (a minute). It draws ``docs/images/rates.png`` and keeps the numbers in
``rates.json``.
"""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from measurements import half_width
from numpy.typing import NDArray

from fedsim.learning.problems.quadratic import Quadratic
from fedsim.theory import stationary
from fedsim.theory.question import ask, reduced
from fedsim.theory.replicas import rounds_of

mpl.use("Agg")
from matplotlib import pyplot as plt

HERE = Path(__file__).parent
IMAGE = HERE.parent / "docs" / "images" / "rates.png"
GROUPS, COHORT, STEPS = 20, 5, 5
WEIGHTS = np.arange(1, GROUPS + 1) ** -1.5
SEPARATIONS = (0, 4, 8, 12, 19)
"""The last is M - 1, at which groups take turns and the theorems do not apply."""
OPTIMIZERS = ("fedavg", "debiased_fedavg")
HORIZONS = (500, 1000, 2000, 4000, 8000, 16000, 32000)
REPLICAS = 40
LEMMA = (100, 200, 400, 800, 1600, 3200, 6400)
NONE = 1e-9
"""A floor below is none, but for rounding."""
COUNTED = 400
"""Replicas of the lemma."""

Floats = NDArray[np.float64]
Groups = NDArray[np.intp]


def participations(separation: int, rounds: int, replicas: int) -> Groups:
    """Return which group takes part in each round of each replica, shape (rounds, replicas)."""
    play = rounds_of(reduced(ask(WEIGHTS, separation, 1, "midzuno")), range(replicas), seed=1)
    return np.array([each.chosen.argmax(axis=1) for each in islice(play, rounds)])


def problem(draw: int) -> Quadratic:
    """Return the objectives of one draw: groups differ, and within a group clients do."""
    spreads = {"spread": 0.5, "cluster_spread": 1.0, "curvature_spread": 0.3}
    return Quadratic(GROUPS * COHORT, seed=draw, clusters=GROUPS, **spreads)


def step_size(rounds: int) -> float:
    """Return alpha for a training of T rounds."""
    return float(1.0 / (STEPS * np.sqrt(rounds)))


def trained(problems: list[Quadratic], chosen: Groups, rounds: int) -> tuple[Floats, Floats, Floats]:
    """Return the mean of |grad F|^2 over the iterates, the last models and the mean models, of both optimizers.

    Parameters
    ----------
    problems
        One for each of S replicas.
    chosen
        The groups, shape (rounds or more, R, S), where R counts separations.
    rounds
        T.

    Returns
    -------
    Shapes (R, 2, S), (R, 2, S, d) and (R, 2, S, d); the mean model is that of the last half of the rounds.
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
        own, slope = centres[replicas, group][:, None], curvatures[replicas, group][:, None]
        # K local steps bring a client from x to c + (1 - alpha nu h)^K (x - c).
        left = 1.0 - alpha * scales[..., None, None] * slope
        left_twice = left * left
        models -= ((1.0 - left_twice * left_twice * left) * (models[..., None, :] - own)).mean(axis=-2)
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


def spread(values: Floats) -> list[float]:
    """Return mean and half width of its 95 % interval, over the last axis."""
    return [float(values.mean()), half_width(values)]


def slope(errors: Floats, horizons: tuple[int, ...]) -> list[float]:
    """Return the exponent b of errors like T^b from the fourth T on, with its interval over replicas."""
    late = slice(3, None)
    x = np.log(horizons[late])
    return spread(np.array([np.polyfit(x, np.log(each[late]), 1)[0] for each in errors.T]))


def theorems(horizons: tuple[int, ...] = HORIZONS, replicas: int = REPLICAS) -> dict[str, Any]:
    """Return, each with its interval, errors by optimizer, separation and T, their exponents, and FedAvg's floors.

    Beside them how far from the optimum FedAvg's mean model lies, as foreseen and as found.
    """
    chosen = np.stack([participations(r, max(horizons), replicas) for r in SEPARATIONS], axis=1)
    problems = [problem(draw) for draw in range(replicas)]
    runs = [trained(problems, chosen, rounds) for rounds in horizons]
    errors = np.array([run[0] for run in runs])  # (T, R, optimizer, S)
    found: dict[str, Any] = {"replicas": replicas, "floor": {}, "exponent": {}, "predicted": {}, "error": {}}
    for row, r in enumerate(SEPARATIONS):
        found["floor"][str(r)] = spread(np.array([floor(each, r) for each in problems]))
        found["exponent"][str(r)] = slope(errors[:, row, 1], horizons)
        foreseen = np.array([rest(each, r, step_size(max(horizons))) for each in problems])
        optimum = np.array([each.optimum for each in problems])
        ends, far = runs[-1][2][row, 0], np.linalg.norm(foreseen - optimum, axis=1)
        found["predicted"][str(r)] = {
            "computed": spread(far),
            "run": spread(np.linalg.norm(ends - optimum, axis=1)),
            "apart": spread(np.linalg.norm(ends - foreseen, axis=1)),
        }
        for column, name in enumerate(OPTIMIZERS):
            by_rounds = {str(rounds): spread(errors[k, row, column]) for k, rounds in enumerate(horizons)}
            found["error"].setdefault(name, {})[str(r)] = by_rounds
    return found


def counting(separation: int, rounds: tuple[int, ...] = LEMMA, replicas: int = COUNTED) -> dict[str, Any]:
    """Return, by t, E max_i (lambda_i - pi_i)^2, and E max_i (nu_i - 1/(N pi_i))^2 where everyone has been seen."""
    pi, counts = stationary(WEIGHTS, separation).pi, np.zeros((replicas, GROUPS))
    found: dict[str, Any] = {"frequencies": {}, "weights": {}, "all_seen": {}}
    for t, group in enumerate(participations(separation, max(rounds), replicas), start=1):
        counts[np.arange(replicas), group] += 1.0
        if t in rounds:
            seen = counts.min(axis=1) > 0
            found["frequencies"][str(t)] = spread(((counts / t - pi) ** 2).max(axis=1))
            off = (t / counts[seen] - 1.0 / pi) / GROUPS
            found["weights"][str(t)] = spread((off**2).max(axis=1)) if seen.sum() > 1 else None
            found["all_seen"][str(t)] = float(seen.mean())
    return found


def draw(found: dict[str, Any]) -> None:
    """Draw the errors of FedAvg and of Debiased FedAvg by T, and that of the counted frequencies by t."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    colours = mpl.colormaps["viridis"](np.linspace(0.0, 0.88, len(SEPARATIONS)))
    for r, colour in zip(map(str, SEPARATIONS), colours, strict=True):
        shown = [found["error"][name][r] for name in OPTIMIZERS]
        shown += [found["lemma_3"][r]["frequencies"]] if r in found["lemma_3"] else []
        for panel, errors in zip(axes, shown, strict=False):
            middle, half = np.array(list(errors.values())).T
            panel.errorbar([int(t) for t in errors], middle, half, color=colour, label=f"R = {r}", capsize=2)
        if found["floor"][r][0] > NONE:
            axes[0].axhline(found["floor"][r][0], color=colour, linestyle=":", linewidth=1.0)
    x = np.array(HORIZONS, dtype=float)
    for panel, name in zip(axes, OPTIMIZERS, strict=False):
        y = 1.2 * found["error"][name]["0"][str(HORIZONS[0])][0] * np.sqrt(x[0] / x)
        panel.plot(x, y, color="0.5", linestyle="--", linewidth=1.0, label="T$^{-1/2}$")
    x = np.array(LEMMA, dtype=float)
    first = found["lemma_3"]["0"]["frequencies"][str(LEMMA[0])][0]
    axes[2].plot(x, 1.3 * first * x[0] / x, color="0.5", linestyle="--", linewidth=1.0, label="t$^{-1}$")
    axes[0].set(title="FedAvg; dotted: its floor, computed", xlabel="rounds T", ylabel="E |∇F|² of an iterate")
    axes[1].set(title="Debiased FedAvg", xlabel="rounds T", ylabel="E |∇F|² of an iterate")
    axes[2].set(title="Counted frequencies", xlabel="rounds t", ylabel="E max |λ - π|²")
    for panel in axes:
        panel.set(xscale="log", yscale="log")
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(fontsize=8)
    figure.savefig(IMAGE, dpi=110, metadata={"Software": None})


def main() -> None:
    """Measure all, draw it, and keep what the pages quote."""
    found = theorems() | {"lemma_3": {str(r): counting(r) for r in SEPARATIONS[:-1]}}
    (HERE / "rates.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    draw(found)


if __name__ == "__main__":
    main()
