"""Tunes the study ``which-separation``: the server's step and the clip norm of each optimizer, at every separation.

Run ``python reports/which_separation.py`` (ten minutes). At each separation the participation of the tuning seed,
which is none of the study's, is simulated once, and every step and clip of the grid is trained over it, the noise of
privacy included. What has the lowest loss above the optimum is chosen. The grid is written to ``which-separation.json``
beside this file, whose values are not worked out again, and what belongs into the scenario's sweep is printed.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from fedsim import Scenario, simulate
from fedsim.learning import Quadratic

HERE = Path(__file__).parent
SCENARIO = HERE.parent / "scenarios" / "studies" / "which-separation.fedsim.yaml"
KEPT = HERE / "which-separation.json"
SEPARATIONS = (0, 100, 250, 450, 700, 900)
STEPS = (0.01, 0.03, 0.1)
CLIPS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
SEED = 101
KINDS = ("fedavg", "debiased_fedavg")
Variant = tuple[str, float, float]


def named(variant: Variant) -> str:
    """Name a kind, step and clip as the kept grid does."""
    kind, step, clip = variant
    return f"{kind} {step:g} {clip:g}"


def above_optimum(scenario: Scenario, separation: int, variants: Sequence[Variant]) -> dict[str, float]:
    """Return the loss above the optimum of each variant, all trained over one log."""
    optimizers = [
        {"kind": kind, "name": f"v{index}", "server": {"kind": "sgd", "step_size": step}, "update_clip": clip}
        for index, (kind, step, clip) in enumerate(variants)
    ]
    changes = {"population.*.separation": separation, "learning.optimizers": optimizers, "learning.loss_parts": False}
    changed = scenario.with_values({"sweep": None, "decide": None, **changes})
    found = simulate(changed).metrics
    assert changed.learning is not None
    problem = Quadratic(changed.devices, changed.seed, **changed.learning.problem.options)
    least = problem.evaluate(problem.optimum)["loss"]
    return {named(variant): found[f"learning.v{index}.loss"] - least for index, variant in enumerate(variants)}


def chosen(grid: Mapping[str, float], kind: str) -> tuple[float, float]:
    """Return the step and clip with the lowest loss; where runs diverged, it is none of theirs."""
    finite = [pair for pair in product(STEPS, CLIPS) if np.isfinite(grid[named((kind, *pair))])]
    return min(finite, key=lambda pair: grid[named((kind, *pair))])


def swept(grids: Mapping[str, Mapping[str, float]]) -> dict[str, list[float]]:
    """Return the tuned values by the path that the scenario's sweep has for them."""
    values = {}
    for index, kind in enumerate(KINDS):
        best = [chosen(grids[str(separation)], kind) for separation in SEPARATIONS]
        values[f"learning.optimizers.{index}.server.step_size"] = [step for step, _ in best]
        values[f"learning.optimizers.{index}.update_clip"] = [clip for _, clip in best]
    return values


def main() -> None:
    """Tune what is missing, keep the grid, and print the values."""
    grids = json.loads(KEPT.read_text(encoding="utf-8"))["grids"] if KEPT.exists() else {}
    scenario = Scenario.load(SCENARIO, seed=SEED)
    for separation in SEPARATIONS:
        grid = grids.setdefault(str(separation), {})
        missing = [variant for variant in product(KINDS, STEPS, CLIPS) if named(variant) not in grid]
        if missing:
            grid |= above_optimum(scenario, separation, missing)
            kept = {"seed": SEED, "steps": STEPS, "clips": CLIPS, "grids": grids}
            KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            sys.stderr.write(f"R = {separation}: {len(missing)} trained\n")
    for path, values in swept(grids).items():
        sys.stdout.write(f"{path}: {values}\n")


if __name__ == "__main__":
    main()
