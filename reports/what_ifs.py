"""The numbers of docs/studies.md, and of what lies beyond the paper in docs/paper-results.md, over several seeds.

Run ``python reports/what_ifs.py`` for all studies, or with the names of some; seconds for each seed, but for the
buffered servers. What comes out is kept in ``what-ifs.json`` beside this file, from which ``reports/claims.py``
writes the pages. A seed draws everything anew: devices, participation and, where something is trained, the data.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from math import isfinite
from pathlib import Path
from typing import Any

import polars as pl

from fedsim import Scenario, simulate

HERE = Path(__file__).parent
SCENARIOS = HERE.parent / "scenarios" / "studies"
STORE = HERE / "what-ifs.json"
PARTICIPATION = ("rounds.per_day", "rounds.shortage_share", "rounds.wait.mean", "participation.*", "group.*.ratio")
BIASES = ("learning.*.bias", "learning.*.bias_predicted", "participation.never_share")
BUFFERED = (
    *("rounds.per_day", "group.*.ratio", "group.*.share", "group.*.share_theory", "learning.*.bias"),
    *("learning.*.time_to_target", "learning.*.device_hours_to_target"),
)


@dataclass(frozen=True)
class WhatIf:
    """A scenario with changes, and the metrics that are kept of it, by patterns; with how many seeds."""

    scenario: str
    metrics: tuple[str, ...]
    overrides: tuple[str, ...] = ()
    seeds: int = 5


def _servers() -> dict[str, WhatIf]:
    """Return rounds and buffers, without and with a cool-down."""
    found = {}
    for cooldown in ("0s", "30m"):
        wait = f"population.*.cooldown={cooldown}"
        for buffer in (10, 100):
            asked = (wait, f"server.buffer={buffer}")
            found[f"buffer-{buffer}-{cooldown}"] = WhatIf("sync-versus-buffered", BUFFERED, asked, seeds=3)
        for cohort, over_select in ((100, 1), (80, 1.25)):
            asked = (wait, f"server.cohort={cohort}", f"server.over_select={over_select}")
            found[f"rounds-{cohort}-{cooldown}"] = WhatIf("sync-versus-buffered-rounds", BUFFERED, asked, seeds=3)
    return found


STUDIES = {
    "night-charging": WhatIf("night-charging", (*PARTICIPATION, "population.available_share.local.*")),
    "three-continents": WhatIf("three-continents", PARTICIPATION),
    "mixed-separation": WhatIf("mixed-separation", PARTICIPATION),
    **{
        f"separation-versus-speed-{r}": WhatIf(
            "separation-versus-speed", PARTICIPATION, (f"population.*.separation={r}",)
        )
        for r in (0, 10, 20, 40)
    },
    "time-zones": WhatIf("learning-time-zones", BIASES),
    "time-zones-small-steps": WhatIf(
        "learning-time-zones", BIASES, ("learning.step_size=0.0005", "stop.rounds=12000"), seeds=3
    ),
    "per-client-separation": WhatIf("learning-per-client-separation", BIASES),
    "drop-outs": WhatIf("learning-drop-outs", BIASES),
    **_servers(),
}


def study(asked: WhatIf) -> dict[str, Any]:
    """Return what was measured, a list over seeds for each metric; None where a seed has no such number."""
    runs = []
    for seed in range(1, asked.seeds + 1):
        overrides = [f"seed={seed}", "sweep=null", *asked.overrides]
        result = simulate(Scenario.load(SCENARIOS / f"{asked.scenario}.fedsim.yaml", overrides))
        runs.append({**result.metrics, **_distances(result.learning)})
    names = sorted({name for run in runs for name in run if any(fnmatch(name, wanted) for wanted in asked.metrics)})
    names += sorted({name for run in runs for name in run if name.endswith(".single_distance")})
    return {"seeds": asked.seeds, "metrics": {name: [_finite(run.get(name)) for run in runs] for name in names}}


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _distances(learning: pl.DataFrame | None) -> dict[str, float]:
    """Return how far single models are from the optimum, on average over the last half; nothing where none is known."""
    if learning is None or "distance" not in learning.columns:
        return {}
    late = learning.filter(2 * (pl.col("round") + 1) > pl.col("round").max() + 1)
    means = late.group_by("optimizer").agg(pl.col("distance").mean())
    return {f"learning.{name}.single_distance": float(mean) for name, mean in means.iter_rows()}


def main(names: Sequence[str]) -> None:
    """Make the studies of these names, or all, and keep what comes out."""
    for name, asked in STUDIES.items():
        if names and name not in names:
            continue
        begin = time.perf_counter()
        found = study(asked)
        kept = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
        STORE.write_text(json.dumps(kept | {name: found}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        sys.stderr.write(f"{name}: {time.perf_counter() - begin:.0f} s\n")


if __name__ == "__main__":
    main(sys.argv[1:])
