"""The studies whose numbers the documentation quotes; each is kept in a store of `reports/`."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from math import isfinite

import polars as pl

from fedsim import Scenario, simulate
from fedsim.run.scaled import scale_down
from reports.make import pages, rates, runs, training, which_r, which_separation
from reports.make.kept import SCENARIOS, Record, made_by, read_store, write_store

# What-ifs: a seed draws everything anew, devices, participation and, where something is trained, the data.

PARTICIPATION = ("rounds.per_day", "rounds.shortage_share", "rounds.wait.mean", "participation.*", "group.*.ratio")
BIASES = ("learning.*.bias", "learning.*.bias_predicted", "participation.never_share", "learning.*.single_distance")
CLIPPED = ("learning.fedavg.bias", "learning.debiased_fedavg.bias")
CHASING = ("participation.l1_uniform", "participation.l1_chance", "group.seldom.ratio", "learning.*.average_loss")
BUFFERED = (
    *("rounds.per_day", "group.*.ratio", "group.*.share", "group.*.share_theory", "learning.*.bias"),
    *("learning.*.time_to_target", "learning.*.device_hours_to_target", "learning.*.single_distance"),
)


PUBLISHED = (
    *("population.available_share*", "rounds.count", "rounds.target_share", "rounds.reported_mean"),
    *("rounds.duration.mean", "sessions.count", "sessions.*_share", "learning.*_to_target"),
)
SCALED = (
    *("population.available_share", "population.eligible_share", "group.tablets.share"),
    *("sessions.reported_share", "sessions.dropped_share", "sessions.wasted_share"),
    *("participation.l1_uniform", "participation.gini", "participation.never_share", "participation.by_speed.10"),
    *("participation.gap.mean", "participation.coverage.t50", "rounds.per_day", "rounds.duration.mean"),
    *("rounds.duration.p95", "rounds.target_share", "participation.most", "participation.gap.min"),
    *("sessions.count", "sessions.device_hours"),
)


@dataclass(frozen=True)
class WhatIf:
    """A scenario with changes, and the metrics that are kept of it, by patterns, for each seed."""

    scenario: str  # within scenarios/studies; without its suffix, where that is .fedsim.yaml
    metrics: tuple[str, ...]
    overrides: tuple[str, ...] = ()
    seeds: Sequence[int] = range(1, 6)
    factor: int = 1  # by which the federation is made smaller

    def loaded(self, seed: int) -> Scenario:
        """Return the scenario with its changes."""
        file = SCENARIOS / "studies" / self.scenario
        overrides = [f"seed={seed}", "sweep=null", *self.overrides]
        return Scenario.load(file if file.suffix else f"{file}.fedsim.yaml", overrides)

    def made(self) -> dict[str, str]:
        """Return what made the result."""
        return made_by(self.loaded(0))

    def measure(self) -> Record:
        """Return what was measured, a list over seeds for each metric; None where a seed has no such number."""
        runs = list[dict[str, float]]()
        for seed in self.seeds:
            scenario = self.loaded(seed)
            result = simulate(scale_down(scenario, self.factor).scenario if self.factor > 1 else scenario)
            runs.append({**result.metrics, **single_distances(result.learning)})
        finite = [{name: value for name, value in run.items() if isfinite(value)} for run in runs]
        names = sorted({name for run in runs for name in run if any(fnmatch(name, wanted) for wanted in self.metrics)})
        metrics = {name: [run.get(name) for run in finite] for name in names}
        return {"seeds": len(self.seeds), "metrics": metrics}


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
        "learning-time-zones", BIASES, ("learning.step_size=0.0005", "stop.rounds=12000"), range(1, 4)
    ),
    "per-client-separation": WhatIf("learning-per-client-separation", BIASES),
    **{
        f"chasing-{rule}-{r}": WhatIf(
            "chasing-loss", CHASING, (f"server.selection={rule}", f"population.*.separation={r}"), range(1, 9)
        )
        for rule in ("uniform", "oort", "power_of_choice", "loss_proportional", "refl")
        for r in (0, 20)
    },
    "drop-outs": WhatIf("learning-drop-outs", BIASES),
    **{
        f"{name}-{wait}": WhatIf(scenario, BUFFERED, (f"population.*.cooldown={wait}", *server), range(1, 4))
        for name, scenario, *server in (
            ("buffer-10", "sync-versus-buffered", "server.buffer=10"),
            ("buffer-100", "sync-versus-buffered", "server.buffer=100"),
            ("rounds-100", "sync-versus-buffered-rounds", "server.cohort=100", "server.over_select=1"),
            ("rounds-80", "sync-versus-buffered-rounds", "server.cohort=80", "server.over_select=1.25"),
        )
        for wait in ("0s", "30m")
    },
    "drifting-habits": WhatIf("drifting-habits", ("learning.*.last_bias",)),
    "lasting-habits": WhatIf("drifting-habits", ("learning.*.last_bias",), ("population.*.availability.drift=null",)),
    "clipping-none": WhatIf("clipping", CLIPPED, ("privacy.training=none",), range(10)),
    **{
        f"clipping-{training}-{clip}": WhatIf(
            "clipping", CLIPPED, (f"privacy.training={training}", f"privacy.clip={clip}"), range(10)
        )
        for training in ("clip", "noise")
        for clip in (1.6, 0.8, 0.4, 0.2)
    },
    # What published figures are compared with. CI replays the scenarios with their limits.
    **{
        f"validation-{name}": WhatIf(f"../validation/{name}", PUBLISHED, seeds=(1,))
        for name in ("one-zone", "papaya-buffer", "papaya-rounds", "us-phones", "us-phones-plugged")
    },
    # Which figures a smaller federation keeps: the smaller, the more chance there is, and the less a run costs.
    **{
        f"scaling-{scale}": WhatIf("../validation/scaling.yaml", SCALED, tuple(overrides), range(seeds), factor)
        for scale, factor, seeds, *overrides in (
            ("1", 1, 4),
            ("1/10", 10, 8),
            ("1/100", 100, 24),
            ("1/100, R too", 100, 24, "population.*.separation=0"),
        )
    },
}


KEPT: Mapping[str, Mapping[str, WhatIf | training.Draws | training.Network]] = {
    "draws": training.DRAWS,
    "networks": training.NETWORKS,
    "figure-3": training.FIGURE_3,
    "what-ifs": WHAT_IFS,
}
"""The studies of each store, whose results say what made them."""


def _keep(store: str, name: str) -> None:
    sys.stderr.write(f"{name}\n")
    study = KEPT[store][name]
    record = {"made": study.made(), **study.measure()}
    write_store(store, read_store(store) | {name: record}, sort_keys=True)


STUDIES: Mapping[str, Callable[[], None]] = {
    "rates": rates.measure_rates,
    **{name: partial(_keep, store, name) for store, studies in KEPT.items() for name in studies},
    "which-separation-tuning": which_separation.measure,
    "which-r": which_r.run,
    **{
        name: partial(runs.run_kept_sweep, f"studies/{name}")
        for name in ("which-separation", "which-cooldown", "tournament", "tournament-debiased")
    },
}


def run_studies(names: Sequence[str]) -> None:
    """Run the studies whose names begin with one of these, or all, and write the pages anew."""
    unknown = [name for name in names if not any(each.startswith(name) for each in STUDIES)]
    if unknown:
        raise SystemExit(f"there is no study {', '.join(unknown)}; there are: {', '.join(STUDIES)}")
    for name, run in STUDIES.items():
        if not names or name.startswith(tuple(names)):
            run()
    pages.write_regions()
