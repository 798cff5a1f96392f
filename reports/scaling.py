"""Measures which figures a smaller federation keeps, and writes the table of ``docs/scaling.md``.

Run ``python reports/scaling.py``: it simulates ``scenarios/validation/scaling.yaml`` at several scales and seeds, keeps
the figures in ``scaling.json``, and writes the table between ``<!-- measured -->`` and ``<!-- end -->``; with
``--write`` it only writes. A test compares the page with what it would write.
"""

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import fedsim
from fedsim.experiment.scaled import scaled

HERE = Path(__file__).parent
SCENARIO = HERE.parent / "scenarios" / "validation" / "scaling.yaml"
STORE = HERE / "scaling.json"
PAGE = HERE.parent / "docs" / "scaling.md"
REGION = re.compile(r"(<!-- measured -->\n).*?(<!-- end -->)", re.DOTALL)
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


def measure() -> dict[str, dict[str, list[float]]]:
    """Simulate all scales and seeds."""
    large = fedsim.Scenario.load(SCENARIO)
    found: dict[str, dict[str, list[float]]] = {}
    for scale, seeds in SEEDS.items():
        factor = int(scale.partition(",")[0].partition("/")[2] or 1)
        own = large if factor == 1 else scaled(large, factor).scenario
        if "R" in scale:
            own = own.with_values({"population.*.separation": 0})
        runs = [fedsim.simulate(own.with_values({"seed": seed})).metrics for seed in range(seeds)]
        found[scale] = {name: [float(f"{run.get(name, 0.0):.6g}") for run in runs] for name in FIGURES}
        sys.stdout.write(f"{scale}\n")
    return found


def load() -> dict[str, dict[str, list[float]]]:
    """Return what was measured."""
    measured: dict[str, dict[str, list[float]]] = json.loads(STORE.read_text("utf-8"))
    return measured


def verdict(figure: str, scale: str, measured: Measured) -> str:
    """Say whether a figure is kept at a scale: yes, divided, or no."""
    large, small = (np.array(measured[each][figure]) for each in ("1", scale))
    factor = int(scale.partition(",")[0].partition("/")[2])
    error = math.sqrt(large.var(ddof=1) / len(large) + small.var(ddof=1) / len(small))
    apart = abs(small.mean() - large.mean())
    if apart <= max(CLOSE * abs(large.mean()), 3 * error):
        return "yes"
    scaled_up = abs(small.mean() * factor - large.mean())
    return "divided" if scaled_up <= max(CLOSE * abs(large.mean()), 3 * factor * error) else "**no**"


def table(measured: Measured) -> str:
    """Return the table in Markdown."""
    small = [scale for scale in SEEDS if scale != "1"]
    head = ["figure", "scale 1", *(f"{scale}: mean (spread of a run), kept" for scale in small)]
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for figure in FIGURES:
        cells = [f"`{figure}`", f"{np.mean(measured['1'][figure]):.4g}"]
        for scale in small:
            values = np.array(measured[scale][figure])
            cells.append(f"{values.mean():.4g} ({values.std(ddof=1):.2g}), {verdict(figure, scale, measured)}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n" + "\n".join(lines) + "\n\n"


def written(text: str, measured: Measured) -> str:
    """Return the page with the table."""
    return REGION.sub(lambda found: found[1] + table(measured) + found[2], text)


def main() -> None:
    """Measure, unless only writing is asked for, and write."""
    if "--write" not in sys.argv[1:]:
        STORE.write_text(json.dumps(measure(), indent=1) + "\n", "utf-8")
    PAGE.write_text(written(PAGE.read_text("utf-8"), load()), "utf-8")


if __name__ == "__main__":
    main()
