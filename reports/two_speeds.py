"""The two speeds of participation: how fast one round's cohort forgets the start, and how fast the counts settle.

Run ``python reports/two_speeds.py``. It draws ``docs/images/two-speeds.png`` at the scenario
of the paper's appendix figure, and keeps the numbers in ``two-speeds.json`` beside this file.
"""

import json
from pathlib import Path

import matplotlib as mpl
import numpy as np

from fedsim import Scenario
from fedsim.population import build_population
from fedsim.theory import convergence, mixing, running_frequencies

mpl.use("Agg")
from matplotlib import pyplot as plt

HERE = Path(__file__).parent
SCENARIO = HERE.parent / "scenarios" / "paper" / "convergence.fedsim.yaml"
IMAGE = HERE.parent / "docs" / "images" / "two-speeds.png"
SEPARATIONS = (0, 5, 20, 50, 80, 95)
ROUNDS = 300
SMALL = (6.0, 5.0, 4.0, 3.0, 2.0, 1.0)
"""Weights of a chain that is small enough for its exact mixing time."""


def main() -> None:
    """Compute both, draw them, and keep what the pages quote."""
    weights = build_population(Scenario.load(SCENARIO)).weight
    left = {r: convergence(weights, r, rounds=ROUNDS) for r in SEPARATIONS}
    right = {r: running_frequencies(weights, r, rounds=ROUNDS, limit=left[r].limit) for r in SEPARATIONS}
    figure, (one_round, counts) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    colours = mpl.colormaps["viridis"](np.linspace(0.0, 0.88, len(SEPARATIONS)))
    for r, colour in zip(SEPARATIONS, colours, strict=True):
        floor = left[r].noise_floor
        seen = left[r].tv if floor is None else np.where(left[r].tv > 2.0 * floor, left[r].tv, np.nan)
        one_round.plot(np.arange(ROUNDS), seen, color=colour, label=f"R = {r}")
        counts.plot(1 + np.arange(ROUNDS), right[r].l1, color=colour, label=f"R = {r}")
    one_round.set(title="One round's cohort", xlabel="round", ylabel="TV distance from π", ylim=(0.0, None))
    counts.set(title="Running frequencies", xlabel="rounds so far", ylabel="expected L1 distance from π", yscale="log")
    counts.legend(ncols=2)
    for axes in (one_round, counts):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGE, dpi=110, metadata={"Software": None})
    found = {
        "mixing_time": {str(r): mixing(SMALL, r).mixing_time for r in range(1, len(SMALL))},
        "running_l1": {str(r): {str(t): float(right[r].l1[t - 1]) for t in (100, 300)} for r in SEPARATIONS},
        "running_l1_error": {str(r): float(right[r].standard_error[99]) for r in SEPARATIONS},
        "one_round_tv": {str(r): {str(t): float(left[r].tv[t]) for t in (0, 100, 250)} for r in SEPARATIONS},
    }
    (HERE / "two-speeds.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
