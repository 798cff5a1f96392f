"""Run directories to report on: a small honest one, and ways to spoil it."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fedsim.log import GAUGES, fingerprint
from fedsim.measure.facts import facts_of
from fedsim.measure.series import series_of
from fedsim.measure.shares import judge_shares
from fedsim.pages.answer import Answer
from fedsim.pages.comparison import comparison_answer, side_of
from fedsim.pages.page import page_in, write_answer
from fedsim.run.files import checksums
from fedsim.run.run import Run
from fedsim.theory import distances, stationary
from fedsim.trials.compare import compare

GROUPS, SIZE = 20, 5
SEPARATION = 8
SCENARIO: dict[str, Any] = {
    "name": "paper-synthetic",
    "description": "The paper's synthetic experiment.",
    "seed": 1,
    "stop": {"rounds": 400},
    "population": [{"name": f"group {g}", "devices": SIZE} for g in range(GROUPS)],
    "server": {"cohort": SIZE, "over_select": 1.0, "selection": {"kind": "groups"}, "shortage": "wait"},
    "learning": {"problem": {"kind": "robust_regression"}, "optimizers": ["fedavg"], "step_size": 0.1},
}


def changed(
    run: Run,
    metrics: Mapping[str, float] | None = None,
    *,
    recounted: bool = False,
    without: Collection[str] = (),
    **changes: Any,
) -> Run:
    """Return a run with other tables or metrics, judged anew; all its participations are reports.

    It is `recounted` where its participations are, for other clients, and `without` some series.
    """
    if "clients" in changes:
        changes["clients"] = changes["clients"].with_columns(reported="participations")
    run, known = replace(run, **changes), run.metrics if metrics is None else metrics
    series = {name: table for name, table in run.series.items() if name not in without}
    if recounted:
        series |= series_of(run.log, run.clients, run.scenario, run.rounds, run.simulated_s)
    series |= judge_shares(run.scenario, run.clients, run.rounds, known, series)
    return replace(run, series=series, facts=facts_of(known, series))


def comparison_of(a: Path, b: Path) -> Answer:
    """Return the report of a comparison of two directories, or points of sweeps."""
    return comparison_answer(compare(a, b), (side_of(a), side_of(b)))


def report_comparison(a: Path, b: Path, out: Path) -> Path:
    return write_answer(comparison_of(a, b), page_in(out))


def write_manifest(directory: Path, **changes: object) -> None:
    manifest = {
        "name": "paper-synthetic",
        "scenario_file": "scenarios/paper/synthetic.fedsim.yaml",
        "scenario": SCENARIO,
        "overrides": ["population.*.separation=8"],
        "seed": 1,
        "replicate": 0,
        "status": "complete",
        "versions": {"fedsim": "0.1.0", "python": "3.11.2", "numpy": "2.4.6"},
        "platform": "Linux x86_64",
        "fingerprints": {},
        "command": "fedsim run synthetic.fedsim.yaml --set 'population.*.separation=8' --seed 1",
        "wall_time_s": 12.3,
        "simulated_s": 36_000.0,
    } | changes
    (directory / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    seal(directory)


def write_metrics(directory: Path, metrics: Mapping[str, float | None]) -> None:
    (directory / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    if (directory / "manifest.json").exists():
        seal(directory)


def chosen_groups(rounds: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """One group a round by weight among those that have waited."""
    generator = np.random.default_rng(5)
    weight = np.arange(1, GROUPS + 1) ** -1.5
    chosen: list[int] = []
    for _ in range(rounds):
        free = weight.copy()
        free[chosen[-SEPARATION:]] = 0
        chosen.append(int(generator.choice(GROUPS, p=free / free.sum())))
    return np.array(chosen)


def write_log(directory: Path, rounds: int) -> None:
    chosen = chosen_groups(rounds)
    opened = 90.0 * np.arange(rounds)
    length = 80 + 10 * np.random.default_rng(6).random(rounds)
    pl.DataFrame(
        {
            "round": np.arange(rounds),
            "opened_s": opened,
            "selected_s": opened,
            "closed_s": opened + length,
            "selected": np.full(rounds, SIZE),
            "reported": np.full(rounds, SIZE),
            "dropped": np.zeros(rounds, dtype=np.int64),
            "late": np.zeros(rounds, dtype=np.int64),
            "outcome": ["target"] * rounds,
            "eligible": pl.Series([None] * rounds, dtype=pl.Int64),
        }
    ).write_parquet(directory / "rounds.parquet")
    clients = (SIZE * chosen[:, None] + np.arange(SIZE)).ravel()
    pl.DataFrame(
        {
            "round": np.repeat(np.arange(rounds), SIZE),
            "client": clients,
            "selected_s": np.repeat(opened, SIZE),
            "ended_s": np.repeat(opened + length, SIZE),
            "outcome": ["reported"] * len(clients),
            "gap": pl.Series(gaps(chosen), dtype=pl.Int64),
            "position": np.tile(np.arange(SIZE), rounds),
            "version": np.repeat(np.arange(rounds), SIZE),
            "staleness": 0,
        },
        schema_overrides={"staleness": pl.Int64},
    ).write_parquet(directory / "participations.parquet")
    write_gauges(directory, rounds)
    write_transitions(directory)
    counts = np.bincount(clients, minlength=GROUPS * SIZE)
    write_clients(directory, np.repeat(np.arange(1, GROUPS + 1) ** -1.5, SIZE), counts)
    frequency = counts / counts.sum()
    write_metrics(directory, metrics_of(frequency, rounds))


def gaps(chosen: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int | None]:
    """Rounds since the last participation, of every client of each round's group."""
    last: dict[int, int] = {}
    found: list[int | None] = []
    for round_, group in enumerate(chosen.tolist()):
        found += [round_ - last[group] if group in last else None] * SIZE
        last[group] = round_
    return found


def write_gauges(directory: Path, rounds: int) -> None:
    """All but one client of each group are there in the even hours, all in the odd ones."""
    hours = np.arange(90 * rounds // 3600 + 1)
    available = np.where(hours % 2, SIZE, SIZE - 1)
    pl.DataFrame(
        {
            "time_s": np.repeat(3600.0 * hours, GROUPS),
            "group": [f"group {g}" for g in range(GROUPS)] * len(hours),
            "time_zone": "UTC",
            "available": np.repeat(available, GROUPS),
            "eligible": np.repeat(available - 1, GROUPS),
            "in_session": np.zeros(GROUPS * len(hours), dtype=np.int64),
            **{name: np.zeros(GROUPS * len(hours), dtype=np.int64) for name in list(GAUGES)[6:]},  # reasons
        }
    ).write_parquet(directory / "gauges.parquet")


def write_transitions(directory: Path) -> None:
    """Client 0 charges in the first half hour and again after an hour; client 7 is always idle."""
    pl.DataFrame(
        {
            "time_s": [0.0, 0.0, 1800.0, 3600.0],
            "client": [0, 7, 0, 0],
            "condition": ["charging", "idle", "charging", "charging"],
            "on": [True, True, False, True],
        }
    ).write_parquet(directory / "transitions.parquet")


def write_clients(
    directory: Path,
    weight: np.ndarray[tuple[int], np.dtype[np.float64]],
    counts: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> None:
    pi = stationary(weight, SEPARATION, SIZE, "groups").pi
    pl.DataFrame(
        {
            "client": np.arange(len(weight)),
            "group": [f"group {client // SIZE}" for client in range(len(weight))],
            "weight": weight / weight.sum(),
            "separation": np.full(len(weight), SEPARATION),
            "participations": counts,
            "frequency": counts / counts.sum(),
            "pi": pi,
            "pi_method": ["closed-form"] * len(weight),
            "cooldown_s": 0.0,
            "speed": 1.0,
            "time_zone": "UTC",
        }
    ).write_parquet(directory / "clients.parquet")


def metrics_of(frequency: np.ndarray[tuple[int], np.dtype[np.float64]], rounds: int) -> dict[str, float | None]:
    weight = np.repeat(np.arange(1, GROUPS + 1) ** -1.5, SIZE)
    l1 = float(np.abs(frequency - 1 / len(frequency)).sum())
    theory = float(distances(weight, [SEPARATION], SIZE, "groups")[0])
    return {
        "rounds.count": float(rounds),
        "rounds.duration.mean": 85.0,
        "rounds.duration.p50": 85.1,
        "rounds.duration.p95": 89.5,
        "rounds.shortage_share": 0.0,
        "participation.l1_uniform": l1,
        "participation.l1_uniform_se": 0.01,
        "participation.l1_uniform_theory": theory,
        "participation.l1_chain": 0.07,
        "participation.l1_noise": 0.08,
        "participation.coverage": 1.0,
        "sessions.reported_share": 1.0,
        "learning.fedavg.loss": 5.3123,
        "learning.fedavg.grad_norm": 0.12,
        "learning.fedavg.drift": 0.0004,
        "learning.fedavg.converged": 1.0,
        "learning.debiased_fedavg.loss": 5.2871,
        "learning.debiased_fedavg.grad_norm": 0.02,
        "learning.debiased_fedavg.drift": 0.0003,
        "learning.debiased_fedavg.converged": 1.0,
        "learning.fedavg_uniform.loss": 5.287,
        "learning.fedavg_uniform.grad_norm": 0.02,
        "learning.fedavg_uniform.drift": None,
        "learning.fedavg_uniform.converged": 1.0,
    }


def write_learning(directory: Path, rounds: int) -> None:
    """Losses that fall to where the metrics say that they end; evaluated every tenth round."""
    generator = np.random.default_rng(8)
    evaluated = np.append(-1, np.arange(9, rounds, 10))
    parts = []
    for name, end, norm in (
        ("fedavg", 5.3123, 0.12),
        ("debiased_fedavg", 5.2871, 0.02),
        ("fedavg_uniform", 5.287, 0.02),
    ):
        fall = np.exp(-6 * (evaluated + 1) / rounds)
        noise = 1 + 0.3 * generator.standard_normal(len(evaluated)) * (evaluated >= 0)
        parts.append(
            pl.DataFrame(
                {
                    "round": evaluated,
                    "closed_s": 90.0 * (evaluated + 1),
                    "optimizer": [name] * len(evaluated),
                    "loss": end + 4 * fall + 0.004 * (noise - 1),
                    "grad_norm": np.abs(norm * noise) + 2 * fall,
                }
            )
        )
    pl.concat(parts).sort("round", maintain_order=True).write_parquet(directory / "learning.parquet")


def write_run(directory: Path, rounds: int = 400) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    write_manifest(directory)
    write_log(directory, rounds)
    write_learning(directory, rounds)
    write_convergence(directory)
    seal(directory)
    return directory


def write_convergence(directory: Path) -> None:
    """A convergence study of two separations over thirty rounds."""
    rounds = np.arange(30)
    parts = [
        pl.DataFrame(
            {"separation": r, "round": rounds, "tv": 0.3 * np.exp(-rounds / (r + 1)), "noise_floor": 0.01},
            schema_overrides={"separation": pl.Int64},
        )
        for r in (2, 8)
    ]
    pl.concat(parts).write_parquet(directory / "convergence.parquet")


def rewrite(path: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """Replace a table by what `change` makes of it."""
    change(pl.read_parquet(path)).write_parquet(path)
    seal(path.parent)


def seal(directory: Path) -> None:
    """Let the manifest hold fingerprints and checksums of the files that there are, as if a run had written them so."""
    path, metrics = directory / "manifest.json", directory / "metrics.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["fingerprints"] = {each.stem: fingerprint(pl.read_parquet(each)) for each in directory.glob("*.parquet")}
    manifest["checksums"] = checksums(manifest, metrics.read_text(encoding="utf-8") if metrics.exists() else "")
    path.write_text(json.dumps(manifest), encoding="utf-8")


def one_client(directory: Path) -> None:
    """One client, one round, no learning, and a scenario that says little."""
    little = {"stop": {"rounds": 1}, "population": [{"devices": 1}], "server": {"cohort": 1}}
    write_manifest(directory, scenario=little, overrides=[])
    rewrite(directory / "rounds.parquet", lambda rounds: rounds.head(1))
    only = pl.lit(0, pl.Int32).alias("client")
    rewrite(directory / "participations.parquet", lambda taken: taken.head(1).with_columns(only))
    rewrite(
        directory / "clients.parquet",
        lambda clients: clients.head(1).with_columns(
            pl.lit(1.0).alias("weight"),
            pl.lit(0, pl.Int64).alias("separation"),
            pl.lit(1, pl.Int64).alias("participations"),
            pl.lit(1.0).alias("frequency"),
            pl.lit(1.0).alias("pi"),
        ),
    )
    write_metrics(directory, {"rounds.count": 1.0, "participation.l1_uniform": 0.0, "rounds.duration.p50": 85.0})
    for table in ("learning", "convergence", "transitions"):
        (directory / f"{table}.parquet").unlink()
    rewrite(directory / "gauges.parquet", lambda gauges: gauges.clear())


def zero_reports(directory: Path) -> None:
    """Every session was dropped: nobody took part, the model stayed where it was."""
    rewrite(
        directory / "rounds.parquet",
        lambda rounds: rounds.with_columns(
            pl.lit(0, pl.Int64).alias("reported"),
            pl.lit(SIZE, pl.Int64).alias("dropped"),
            pl.lit("exhausted").alias("outcome"),
        ),
    )
    rewrite(directory / "participations.parquet", lambda taken: taken.with_columns(pl.lit("dropped").alias("outcome")))
    rewrite(
        directory / "clients.parquet",
        lambda clients: clients.with_columns(
            pl.lit(0, pl.Int64).alias("participations"), pl.lit(float("nan")).alias("frequency")
        ),
    )
    rewrite(directory / "learning.parquet", lambda learning: learning.filter(pl.col("round") == -1))
    dropped = {
        "rounds.count": 10.0,
        "sessions.count": 20.0,
        "sessions.reported_share": 0.0,
        "sessions.dropped_share": 1.0,
    }
    write_metrics(directory, {"participation.l1_uniform": None, **dropped})


def no_rounds(directory: Path) -> None:
    """The run was stopped before its first round closed."""
    zero_reports(directory)
    for table in ("rounds", "participations"):
        rewrite(directory / f"{table}.parquet", lambda frame: frame.clear())
    write_manifest(directory, status="stopped")


def diverged(directory: Path) -> None:
    """Of two optimizers one has diverged after half of the run, and the theory has no answer."""
    lost = (pl.col("optimizer") == "fedavg") & (pl.col("round") > 20)
    rewrite(
        directory / "learning.parquet",
        lambda learning: learning.filter(~lost | (pl.col("round") == 29)).with_columns(
            pl.when(lost).then(float("nan")).otherwise(pl.col("loss")).alias("loss")
        ),
    )
    rewrite(
        directory / "clients.parquet",
        lambda clients: clients.with_columns(
            (pl.col("client") % 3).alias("separation"),
            pl.lit(None, dtype=pl.Float64).alias("pi"),
            pl.lit(None, dtype=pl.String).alias("pi_method"),
        ),
    )
    metrics = json.loads((directory / "metrics.json").read_text(encoding="utf-8"))
    gone = {name: None for name in metrics if name.startswith("learning.fedavg.") or "_theory" in name}
    write_metrics(directory, metrics | gone | {"learning.debiased_fedavg.converged": 0.0})


DEGENERATE: dict[str, Callable[[Path], None]] = {
    change.__name__: change for change in (one_client, zero_reports, no_rounds, diverged)
}
