"""The study ``which-separation``: the tuning of server steps and clip norms, and what the documentation says of it.

At each separation the participation of the tuning seed, which is none of the study's, is simulated once, and every
step and clip of the grid is trained over it, the noise of privacy included. What has the lowest loss above the optimum
is chosen. The grid is kept, values that are there are not computed again, and what belongs into the scenario's sweep is
printed. Takes ten minutes.
"""

import sys
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from fedsim import Scenario, simulate
from fedsim.learning.problems.quadratic import Quadratic
from fedsim.trials.contrasts import interval
from reports.make.kept import SCENARIOS, kept_sweep, read_store, write_store
from reports.make.words import signed, with_error

SCENARIO = SCENARIOS / "studies" / "which-separation.fedsim.yaml"
SEPARATIONS = (0, 100, 250, 450, 700, 900)
STEPS = (0.01, 0.03, 0.1)
CLIPS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
SEED = 101
KINDS = ("fedavg", "debiased_fedavg")
Variant = tuple[str, float, float]


def variant_name(variant: Variant) -> str:
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
    return {variant_name(variant): found[f"learning.v{k}.loss"] - least for k, variant in enumerate(variants)}


def chosen(grid: Mapping[str, float], kind: str) -> tuple[float, float]:
    """Return the step and clip with the lowest loss, among those that did not diverge."""
    finite = [pair for pair in product(STEPS, CLIPS) if np.isfinite(grid[variant_name((kind, *pair))])]
    return min(finite, key=lambda pair: grid[variant_name((kind, *pair))])


def swept(grids: Mapping[str, Mapping[str, float]]) -> dict[str, list[float]]:
    """Return the tuned values by the path that the scenario's sweep has for them."""
    return {
        f"learning.optimizers.{index}.{path}": [chosen(grids[str(r)], kind)[which] for r in SEPARATIONS]
        for index, kind in enumerate(KINDS)
        for which, path in enumerate(("server.step_size", "update_clip"))
    }


def tune() -> None:
    """Tune what is missing, keep the grid, and print the values."""
    grids = read_store("which-separation", {"grids": {}})["grids"]
    scenario = Scenario.load(SCENARIO, seed=SEED)
    for separation in SEPARATIONS:
        grid = grids.setdefault(str(separation), {})
        missing = [variant for variant in product(KINDS, STEPS, CLIPS) if variant_name(variant) not in grid]
        if missing:
            grid |= above_optimum(scenario, separation, missing)
            write_store("which-separation", {"seed": SEED, "steps": STEPS, "clips": CLIPS, "grids": grids})
            sys.stderr.write(f"R = {separation}: {len(missing)} trained\n")
    for path, values in swept(grids).items():
        sys.stdout.write(f"{path}: {values}\n")


def at(sweep: str, row: int, metric: str, digits: int, scale: float = 1.0) -> str:
    """Write the mean of a metric at a setting of a kept sweep."""
    return signed(scale * float(interval(kept_sweep(sweep).samples(metric)).mean[row]), digits)


def above_by_parts(row: int, kind: str) -> str:
    """Write the loss of an optimizer above the optimum at a setting, and its parts."""
    above = interval(kept_sweep("which-separation").samples(f"learning.{kind}.above_optimum"))
    parts = (f"learning.{kind}.{each}_loss" for each in ("bias", "participation_noise", "privacy_noise"))
    written = ", ".join(at("which-separation", row, part, 3) for part in parts)
    return f"{with_error((above.mean[row], above.half[row]), 3)} | {written}"
