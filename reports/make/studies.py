"""The studies whose numbers the documentation quotes; each is kept in a store of `reports/`."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from math import isfinite

import numpy as np
import polars as pl

from fedsim import Scenario, simulate
from reports.make import published, rates, regions, tournament, tournament_page, which_separation
from reports.make.kept import SCENARIOS, Kept, Record, add_to_store, write_store
from reports.make.runs import write_page
from reports.make.training import DRAWS, NETWORKS
from reports.make.words import table, with_interval

# What-ifs: a seed draws everything anew, devices, participation and, where something is trained, the data.

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

    def measure(self) -> Record:
        """Return what was measured, a list over seeds for each metric; None where a seed has no such number."""
        runs: list[Mapping[str, float]] = []
        for seed in range(1, self.seeds + 1):
            overrides = [f"seed={seed}", "sweep=null", *self.overrides]
            result = simulate(Scenario.load(SCENARIOS / "studies" / f"{self.scenario}.fedsim.yaml", overrides))
            runs.append({**result.metrics, **single_distances(result.learning)})
        names = sorted({name for run in runs for name in run if any(fnmatch(name, wanted) for wanted in self.metrics)})
        names += sorted({name for run in runs for name in run if name.endswith(".single_distance")})
        return {"seeds": self.seeds, "metrics": {name: [_finite(run.get(name)) for run in runs] for name in names}}


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def single_distances(learning: pl.DataFrame | None) -> dict[str, float]:
    """Return how far single models are from the optimum, on average over the last half; nothing where none is known."""
    if learning is None or "distance" not in learning.columns:
        return {}
    late = learning.filter(2 * (pl.col("round") + 1) > pl.col("round").max() + 1)
    means = late.group_by("optimizer").agg(pl.col("distance").mean())
    return {f"learning.{name}.single_distance": float(mean) for name, mean in means.iter_rows()}


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
    **_servers(),
}

# Clipping: the bias that each clip norm leaves, without and with the noise of epsilon = 8.

CLIPS = (1.6, 0.8, 0.4, 0.2)
KINDS = ("fedavg", "debiased_fedavg")


def clipped_biases(seed: int) -> dict[str, float]:
    """Return the bias of each kind by clip and training; all clips are trained over one log."""
    found = {}
    for training in ("none", "clip", "noise"):
        clips = (None,) if training == "none" else CLIPS
        optimizers = [
            {"kind": kind, "name": f"{kind}-{index}", "server": {"kind": "sgd", "step_size": 0.1}}
            | ({} if clip is None else {"update_clip": clip})
            for kind in KINDS
            for index, clip in enumerate(clips)
        ]
        changes = {"learning.optimizers": optimizers, "privacy.training": training}
        file = SCENARIOS / "studies" / "clipping.fedsim.yaml"
        metrics = simulate(Scenario.load(file, seed=seed).with_values(changes)).metrics
        for kind in KINDS:
            for index, clip in enumerate(clips):
                found[f"{kind} {training} {clip}"] = metrics[f"learning.{kind}-{index}.bias"]
    return found


def clipping_table(seeds: Kept) -> str:
    """Return the table of docs/learning.md: means over the seeds, and half of their 95 % intervals."""
    rows = []
    for clip in (None, *CLIPS):
        names = [f"{k} {t} {clip}" for t in ("none" if clip is None else "clip", "noise") for k in KINDS]
        values = [[found[name] for found in seeds.values() if name in found] for name in names]
        rows.append([str(clip or "none"), *(with_interval(np.array(each), 3) if each else "" for each in values)])
    head = ["clip", "FedAvg", "Debiased FedAvg", "FedAvg, epsilon 8", "Debiased FedAvg, epsilon 8"]
    return table(head, rows)


def _clipping() -> None:
    seeds = {str(seed): clipped_biases(seed) for seed in range(10)}
    write_store("clipping", seeds)
    sys.stdout.write(clipping_table(seeds))


def _keep(store: str, name: str, measure: Callable[[], Record]) -> None:
    begin = time.perf_counter()
    add_to_store(store, {name: measure()})
    sys.stderr.write(f"{name}: {time.perf_counter() - begin:.0f} s\n")


def _scaling() -> None:
    published.measure_scaling()
    published.write_scaling()


def _tournament() -> None:
    tournament.run()
    write_page(tournament_page.page())


STUDIES: Mapping[str, Callable[[], None]] = {
    "rates": rates.measure_rates,
    "two-speeds": rates.measure_two_speeds,
    **{
        name: partial(_keep, store, name, study.measure)
        for store, studies in (("draws", DRAWS), ("networks", NETWORKS), ("what-ifs", WHAT_IFS))
        for name, study in studies.items()
    },
    "scaling": _scaling,
    "clipping": _clipping,
    "which-separation": which_separation.tune,
    "tournament": _tournament,
}


def run_studies(names: Sequence[str]) -> None:
    """Run the studies of these names, or all, and write the pages anew."""
    unknown = [name for name in names if name not in STUDIES]
    if unknown:
        raise SystemExit(f"there is no study {', '.join(unknown)}; there are: {', '.join(STUDIES)}")
    for name in names or STUDIES:
        STUDIES[name]()
    regions.write_pages()
