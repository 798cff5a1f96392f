"""Measures what published figures are compared with, and which figures a smaller federation keeps.

`validation` simulates every scenario of ``scenarios/validation``, and `scaling` one of them at several scales and
seeds. Each keeps its figures, of which the table of its page in docs/ is made. CI replays the scenarios with their
limits.
"""

import math
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from fedsim import Scenario, simulate
from fedsim.experiment.scaled import scale_down
from reports.make.kept import SCENARIOS, write_store

# Published figures.

KEPT = (
    *("population.available_share", "population.available_share.ratio", "sessions.dropped_share", "sessions.count"),
    *("rounds.count", "rounds.target_share", "rounds.reported_mean"),
    *(f"learning.{name}.{each}_to_target" for name in ("fedavg", "fedbuff") for each in ("time", "rounds")),
    *(f"population.available_share.local.{hour:02}" for hour in range(24)),
)

Figures = Mapping[str, Mapping[str, float]]
"""Metrics by the name of the scenario."""


def compared(value: float, form: str, low: float, high: float, within: str) -> str:
    """Write a measured figure, and whether it lies where it agrees with the published one."""
    return f"{form.format(value)} | {'yes' if low <= value <= high else f'**no** ({within} would)'}"


def faster(figures: Figures) -> float:
    """Return how many times sooner the buffered server reaches the loss."""
    rounds, buffer = figures["papaya-rounds"], figures["papaya-buffer"]
    return rounds["learning.fedavg.time_to_target"] / buffer["learning.fedbuff.time_to_target"]


def fewer(figures: Figures) -> float:
    """Return how many times fewer sessions the buffered server begins on the way to the loss."""
    begun = [
        own[f"learning.{name}.rounds_to_target"] * own["sessions.count"] / own["rounds.count"]
        for own, name in ((figures["papaya-rounds"], "fedavg"), (figures["papaya-buffer"], "fedbuff"))
    ]
    return begun[0] / begun[1]


def measure_validation() -> None:
    """Simulate every scenario of ``scenarios/validation``, and keep the figures."""
    found = {}
    for file in sorted((SCENARIOS / "validation").glob("*.fedsim.yaml")):
        metrics = simulate(Scenario.load(file)).metrics
        name = file.name.removesuffix(".fedsim.yaml")
        found[name] = {key: float(f"{metrics[key]:.6g}") for key in KEPT if key in metrics}
        sys.stdout.write(f"{name}\n")
    write_store("validation", found)


# Scales.

SEEDS = {"1": 4, "1/10": 8, "1/100": 24, "1/100, R too": 24}
"""Runs at each scale: the smaller, the more chance there is, and the less each costs."""
CLOSE = 0.02
"""Figures that differ by less than this share, or by less than three standard errors, are kept."""
FIGURES = (
    *("population.available_share", "population.eligible_share", "group.tablets.share"),
    *("sessions.reported_share", "sessions.dropped_share", "sessions.wasted_share"),
    *("participation.l1_uniform", "participation.gini", "participation.never_share", "participation.by_speed.10"),
    *("participation.gap.mean", "participation.coverage.t50", "rounds.per_day", "rounds.duration.mean"),
    *("rounds.duration.p95", "rounds.target_share", "participation.most", "participation.gap.min"),
    *("sessions.count", "sessions.device_hours"),
)

Measured = Mapping[str, Mapping[str, Sequence[float]]]
"""A value for each seed, by figure, by scale."""


def verdict(figure: str, scale: str, measured: Measured) -> str:
    """Say whether a figure is kept at a scale: yes, divided, or no."""
    large, small = (np.array(measured[each][figure]) for each in ("1", scale))
    factor = _factor(scale)
    error = math.sqrt(large.var(ddof=1) / len(large) + small.var(ddof=1) / len(small))
    apart = abs(small.mean() - large.mean())
    if apart <= max(CLOSE * abs(large.mean()), 3 * error):
        return "yes"
    scaled_up = abs(small.mean() * factor - large.mean())
    return "divided" if scaled_up <= max(CLOSE * abs(large.mean()), 3 * factor * error) else "**no**"


def at_scale(figure: str, scale: str, measured: Measured) -> str:
    """Write the mean of a figure at a scale, and, of a smaller one, the spread of a run and whether it is kept."""
    values = np.array(measured[scale][figure])
    spread = "" if scale == "1" else f" ({values.std(ddof=1):.2g}), {verdict(figure, scale, measured)}"
    return f"{values.mean():.4g}{spread}"


def _factor(scale: str) -> int:
    return int(scale.partition(",")[0].partition("/")[2] or 1)


def measure_scaling() -> None:
    """Simulate all scales and seeds, and keep the figures."""
    large = Scenario.load(SCENARIOS / "validation" / "scaling.yaml")
    found: dict[str, dict[str, list[float]]] = {}
    for scale, seeds in SEEDS.items():
        own = large if scale == "1" else scale_down(large, _factor(scale)).scenario
        if "R" in scale:
            own = own.with_values({"population.*.separation": 0})
        runs = [simulate(own.with_values({"seed": seed})).metrics for seed in range(seeds)]
        found[scale] = {name: [float(f"{run.get(name, 0.0):.6g}") for run in runs] for name in FIGURES}
        sys.stdout.write(f"{scale}\n")
    write_store("scaling", found)
