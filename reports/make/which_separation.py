"""The study ``which-separation``: the tuning of server steps and clip norms, and what the documentation says of it.

At each separation the participation of the tuning seed, which is none of the study's, is simulated once, and every
step and clip of the grid is trained over it, the noise of privacy included. What has the lowest loss is chosen, and
written into the scenario's sweep. Takes ten minutes.
"""

import sys
from collections.abc import Mapping
from itertools import product

import numpy as np

from fedsim import Scenario, simulate
from fedsim.learning.problems.quadratic import Quadratic
from fedsim.trials.contrasts import interval
from reports.make.kept import SCENARIOS, kept_sweep, write_store
from reports.make.words import signed, with_error

SEPARATIONS = (0, 100, 250, 450, 700, 900)
STEPS = (0.01, 0.03, 0.1)
CLIPS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
SEED = 101
KINDS = ("fedavg", "debiased_fedavg")


def measure() -> None:
    """Keep the loss above the optimum of every kind, step and clip, by separation."""
    variants = [*product(KINDS, STEPS, CLIPS)]
    optimizers = [
        {"kind": kind, "name": f"v{index}", "server": {"kind": "sgd", "step_size": step}, "update_clip": clip}
        for index, (kind, step, clip) in enumerate(variants)
    ]
    changes = {"sweep": None, "decide": None, "learning.optimizers": optimizers, "learning.loss_parts": False}
    scenario = Scenario.load(SCENARIOS / "studies" / "which-separation.fedsim.yaml", seed=SEED).with_values(changes)
    assert scenario.learning is not None
    problem = Quadratic(scenario.devices, SEED, **scenario.learning.problem.options)
    least, grids = problem.evaluate(problem.optimum)["loss"], dict[str, dict[str, float]]()
    for separation in SEPARATIONS:
        metrics = simulate(scenario.with_values({"population.*.separation": separation})).metrics
        grids[str(separation)] = {
            f"{kind} {step:g} {clip:g}": metrics[f"learning.v{index}.loss"] - least
            for index, (kind, step, clip) in enumerate(variants)
        }
        sys.stderr.write(f"R = {separation}\n")
    write_store("which-separation", {"seed": SEED, "steps": STEPS, "clips": CLIPS, "grids": grids})


def chosen(grid: Mapping[str, float], kind: str) -> tuple[float, float]:
    """Return the step and clip with the lowest loss, among those that did not diverge."""
    finite = {(s, c): loss for s, c in product(STEPS, CLIPS) if np.isfinite(loss := grid[f"{kind} {s:g} {c:g}"])}
    return min(finite, key=finite.__getitem__)


def at(sweep: str, row: int, metric: str, digits: int, scale: float = 1.0) -> str:
    """Write the mean of a metric at a setting of a kept sweep."""
    return signed(scale * float(interval(kept_sweep(sweep).samples(metric)).mean[row]), digits)


def above_by_parts(row: int, kind: str) -> str:
    """Write the loss of an optimizer above the optimum at a setting, and its parts."""
    above = interval(kept_sweep("which-separation").samples(f"learning.{kind}.above_optimum"))
    parts = (f"learning.{kind}.{each}_loss" for each in ("bias", "participation_noise", "privacy_noise"))
    written = ", ".join(at("which-separation", row, part, 3) for part in parts)
    return f"{with_error((above.mean[row], above.half[row]), 3)} | {written}"
