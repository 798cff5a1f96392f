"""How clipping undoes debiasing: the bias that each clip norm leaves, without and with the noise of epsilon = 8.

Run ``python reports/clipping.py`` (a minute). Ten seeds, each with participation and data of its own; the numbers
are kept in ``clipping.json`` beside this file and stand in docs/learning.md, where a test compares them.
"""

import json
import sys
from pathlib import Path

import numpy as np

from fedsim import Scenario, simulate
from fedsim.sweeps.decision import interval

HERE = Path(__file__).parent
KEPT = HERE / "clipping.json"
SCENARIO = HERE.parent / "scenarios" / "studies" / "clipping.fedsim.yaml"
SEEDS = range(10)
CLIPS = (1.6, 0.8, 0.4, 0.2)
KINDS = ("fedavg", "debiased_fedavg")
NOISES = ("clip", "noise")


def biases(seed: int) -> dict[str, float]:
    """Return the bias of each kind by clip and training; all clips are trained over one log."""
    found = {}
    for training in ("none", *NOISES):
        clips = (None,) if training == "none" else CLIPS
        optimizers = [
            {"kind": kind, "name": f"{kind}-{index}", "server": {"kind": "sgd", "step_size": 0.1}}
            | ({} if clip is None else {"update_clip": clip})
            for kind in KINDS
            for index, clip in enumerate(clips)
        ]
        changes = {"learning.optimizers": optimizers, "privacy.training": training}
        metrics = simulate(Scenario.load(SCENARIO, seed=seed).with_values(changes)).metrics
        for kind in KINDS:
            for index, clip in enumerate(clips):
                found[f"{kind} {training} {clip}"] = metrics[f"learning.{kind}-{index}.bias"]
    return found


def table(seeds: dict[str, dict[str, float]]) -> list[str]:
    """Return the lines of the table in Markdown: means over the seeds, and half of their 95 % intervals."""
    names = next(iter(seeds.values()))
    values = {name: np.array([[found[name] for found in seeds.values()]]) for name in names}

    def cell(name: str) -> str:
        if name not in values:
            return ""
        mean, half = interval(values[name])
        return f"{mean[0]:.3f} ± {half[0]:.3f}"

    lines = ["| clip | FedAvg | Debiased FedAvg | FedAvg, epsilon 8 | Debiased FedAvg, epsilon 8 |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for clip in (None, *CLIPS):
        plain = "none" if clip is None else "clip"
        cells = [cell(f"{kind} {training} {clip}") for training in (plain, "noise") for kind in KINDS]
        lines.append(f"| {'none' if clip is None else clip} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measure, keep the numbers, and print the table."""
    seeds = {str(seed): biases(seed) for seed in SEEDS}
    KEPT.write_text(json.dumps(seeds, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write("\n".join(table(seeds)) + "\n")


if __name__ == "__main__":
    main()
