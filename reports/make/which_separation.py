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
from fedsim.report.finished_sweep import FinishedSweep
from fedsim.report.formatting import listing
from reports.make.kept import SCENARIOS, kept_sweep, read_store, write_store
from reports.make.words import NAMES, signed, table, with_error

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
    values = {}
    for index, kind in enumerate(KINDS):
        steps, clips = zip(*(chosen(grids[str(separation)], kind) for separation in SEPARATIONS), strict=True)
        values[f"learning.optimizers.{index}.server.step_size"] = list(steps)
        values[f"learning.optimizers.{index}.update_clip"] = list(clips)
    return values


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


def edges_of_the_grid() -> str:
    """Say where the best of the grid lies at its edge."""
    grids = read_store("which-separation")["grids"]
    edges = []
    for kind, (which, name, values) in product(KINDS, ((0, "step", STEPS), (1, "clip", CLIPS))):
        for value, word in ((values[0], "smallest"), (values[-1], "largest")):
            at = [str(r) for r in SEPARATIONS if chosen(grids[str(r)], kind)[which] == value]
            edges += [f"{NAMES[kind]}'s {word} {name} (R = {listing(at)})"] if at else []
    return listing(edges)


def times_to_target() -> str:
    """Say how long each optimizer takes to its target, and in how many of the runs."""
    ways = []
    for kind in KINDS:
        told = []
        times = kept_sweep("which-separation").samples(f"learning.{kind}.time_to_target") / 3600
        for separation, hours in zip(SEPARATIONS, times, strict=True):
            known = hours[np.isfinite(hours)]
            if len(known):
                some = f" (in {len(known)} of {len(hours)} runs)" if len(known) < len(hours) else ""
                told.append(f"{known.mean():.0f} h at R = {separation}{some}")
        ways.append(f"{NAMES[kind]} after {listing(told)}")
    return "; by ".join(ways)


def _column(sweep: FinishedSweep, form: str, *metrics: str) -> list[str]:
    """Write the means of some metrics at every setting."""
    means = (sweep.estimates(metric).mean.tolist() for metric in metrics)
    return [form.format(*each) for each in zip(*means, strict=True)]


def separations_table() -> str:
    """Return the table of the loss above the optimum and its parts by separation, with what is promised."""
    sweep = kept_sweep("which-separation")
    head = ["R", "rounds a day", "b, k promised", "sensitivity"]
    columns = [
        [str(r) for r in SEPARATIONS],
        _column(sweep, "{:.0f}", "rounds.per_day"),
        _column(sweep, "{:.0f}, {:.0f}", "privacy.separation", "privacy.most"),
        _column(sweep, "{:.1f}", "privacy.sensitivity"),
    ]
    for kind in KINDS:
        above = sweep.estimates(f"learning.{kind}.above_optimum")
        columns.append([with_error(pair, 3) for pair in zip(above.mean, above.half, strict=True)])
        parts = (f"learning.{kind}.{each}_loss" for each in ("bias", "participation_noise", "privacy_noise"))
        means = zip(*(sweep.estimates(part).mean.tolist() for part in parts), strict=True)
        columns.append([", ".join(signed(value, 3) for value in row) for row in means])
        head += [NAMES[kind], "bias, participation, privacy"]
    return table(head, list(zip(*columns, strict=True)))


def cooldowns_table() -> str:
    """Return the table of what cool-downs by the clock achieve and promise."""
    sweep = kept_sweep("which-cooldown")
    head = ["cool-down", "rounds a day", "b achieved", "k achieved", "b, k promised", "sensitivity", "misplaced turns"]
    columns = [
        [f"{length[:-1]} {length[-1]}" for length in sweep.points[sweep.parameters[0]]],
        _column(sweep, "{:.0f}", "rounds.per_day"),
        _column(sweep, "{:.0f}", "participation.separation.least"),
        _column(sweep, "{:.0f}", "participation.most"),
        _column(sweep, "{:.0f}, {:.0f}", "privacy.separation", "privacy.most"),
        _column(sweep, "{:.1f}", "privacy.sensitivity"),
        [f"{50 * l1:.1f} %" for l1 in sweep.estimates("participation.l1_uniform").mean],
    ]
    return table(head, list(zip(*columns, strict=True)))
