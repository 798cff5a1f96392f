"""The studies whose numbers the documentation quotes; each is kept in a store of `reports/`."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from math import isfinite

import polars as pl

from fedsim import Scenario, simulate
from reports.make import published, rates, regions, tournament, training, which_separation
from reports.make.kept import SCENARIOS, Record, read_store, write_store

# What-ifs: a seed draws everything anew, devices, participation and, where something is trained, the data.

PARTICIPATION = ("rounds.per_day", "rounds.shortage_share", "rounds.wait.mean", "participation.*", "group.*.ratio")
BIASES = ("learning.*.bias", "learning.*.bias_predicted", "participation.never_share", "learning.*.single_distance")
BUFFERED = (
    *("rounds.per_day", "group.*.ratio", "group.*.share", "group.*.share_theory", "learning.*.bias"),
    *("learning.*.time_to_target", "learning.*.device_hours_to_target", "learning.*.single_distance"),
)


@dataclass(frozen=True)
class WhatIf:
    """A scenario with changes, and the metrics that are kept of it, by patterns; with how many seeds."""

    scenario: str
    metrics: tuple[str, ...]
    overrides: tuple[str, ...] = ()
    seeds: int = 5

    def measure(self) -> Record:
        """Return what was measured, a list over seeds for each metric; None where a seed has no such number."""
        runs = list[dict[str, float]]()
        for seed in range(1, self.seeds + 1):
            overrides = [f"seed={seed}", "sweep=null", *self.overrides]
            result = simulate(Scenario.load(SCENARIOS / "studies" / f"{self.scenario}.fedsim.yaml", overrides))
            runs.append({**result.metrics, **single_distances(result.learning)})
        finite = [{name: value for name, value in run.items() if isfinite(value)} for run in runs]
        names = sorted({name for run in runs for name in run if any(fnmatch(name, wanted) for wanted in self.metrics)})
        return {"seeds": self.seeds, "metrics": {name: [run.get(name) for run in finite] for name in names}}


def single_distances(learning: pl.DataFrame | None) -> dict[str, float]:
    """Return how far single models are from the optimum, on average over the last half; nothing where none is known."""
    if learning is None or "distance" not in learning.columns:
        return {}
    late = learning.filter(2 * (pl.col("round") + 1) > pl.col("round").max() + 1)
    means = late.group_by("optimizer").agg(pl.col("distance").mean())
    return {f"learning.{name}.single_distance": float(mean) for name, mean in means.iter_rows()}


WHAT_IFS = {
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
    **{
        f"{name}-{wait}": WhatIf(scenario, BUFFERED, (f"population.*.cooldown={wait}", *server), seeds=3)
        for name, scenario, *server in (
            ("buffer-10", "sync-versus-buffered", "server.buffer=10"),
            ("buffer-100", "sync-versus-buffered", "server.buffer=100"),
            ("rounds-100", "sync-versus-buffered-rounds", "server.cohort=100", "server.over_select=1"),
            ("rounds-80", "sync-versus-buffered-rounds", "server.cohort=80", "server.over_select=1.25"),
        )
        for wait in ("0s", "30m")
    },
}


def _keep(store: str, name: str, measure: Callable[[], Record]) -> None:
    begin = time.perf_counter()
    write_store(store, read_store(store, {}) | {name: measure()}, sort_keys=True)
    sys.stderr.write(f"{name}: {time.perf_counter() - begin:.0f} s\n")


STUDIES: Mapping[str, Callable[[], None]] = {
    "rates": rates.measure_rates,
    "two-speeds": rates.measure_two_speeds,
    **{
        name: partial(_keep, store, name, study.measure)
        for store, studies in (("draws", training.DRAWS), ("networks", training.NETWORKS), ("what-ifs", WHAT_IFS))
        for name, study in studies.items()
    },
    "validation": published.measure_validation,
    "scaling": published.measure_scaling,
    "clipping": training.measure_clipping,
    "which-separation": which_separation.tune,
    "tournament": tournament.run,
}


def run_studies(names: Sequence[str]) -> None:
    """Run the studies of these names, or all, and write the pages anew."""
    unknown = [name for name in names if name not in STUDIES]
    if unknown:
        raise SystemExit(f"there is no study {', '.join(unknown)}; there are: {', '.join(STUDIES)}")
    for name in names or STUDIES:
        STUDIES[name]()
    regions.write_pages()
