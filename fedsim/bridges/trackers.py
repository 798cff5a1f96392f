"""Runs and sweeps for experiment trackers: parameters, last values, curves over rounds, and where they come from."""

import importlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from fedsim.common.errors import RunError
from fedsim.common.files import name_of_file
from fedsim.log import fingerprint
from fedsim.run.files import changes
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario.sweep import WITHOUT_EFFECT
from fedsim.trials.store import SWEEP_FILE
from fedsim.trials.trials import FINAL, Trials, plain_names

_MOST_PARAMETERS, _MOST_POINTS = 1_000, 1_000  # of a run; of a curve, evenly spread
_PARAMETERS_AT_ONCE, _METRICS_AT_ONCE, _LONGEST = 100, 1_000, 500  # that MLflow takes, and how long a value may be
_Value = str | bool | int | float
_Curve = list[tuple[int, float, float]]
"""The round, -1 before the first; simulated seconds since 1970; the value."""


@dataclass(frozen=True)
class TrackedRun:
    """A run, as trackers know one."""

    name: str  # that of a file
    parameters: Mapping[str, _Value]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]  # what it is of: scenario, seed, version of fedsim, fingerprint of its log or of the sweep
    curves: Mapping[str, _Curve] = field(default_factory=dict)  # by WHAT/WHOSE, such as loss/fedavg


def tracked(directory: Path) -> Iterator[TrackedRun]:
    """Yield the run of a run directory, with its curves, or each complete run of a sweep or decision, without any."""
    if any((directory / place / SWEEP_FILE).exists() for place in (".", FINAL)):
        yield from _of_sweep(Trials.read(directory))
    else:
        yield _of_run(load_one(directory))


def _of_run(run: Run) -> TrackedRun:
    scenario = run.scenario
    written = changes({}, scenario.model_dump(mode="json", exclude={*WITHOUT_EFFECT, "seed"}))
    leaves = {path: value for path, _, value in islice(written, _MOST_PARAMETERS) if value is not None}
    plain = {path: value if isinstance(value, _Value) else json.dumps(value) for path, value in leaves.items()}
    parameters = {name: plain[path] for path, name in plain_names(leaves, scenario).items()}
    tags = _tags(scenario.name, scenario.seed, run.manifest, fingerprint(run.participations))
    return TrackedRun(name_of_file(scenario.name, "run"), parameters, run.known, tags, dict(_curves(run)))


def _curves(run: Run) -> Iterator[tuple[str, _Curve]]:
    start_s = run.scenario.start.timestamp()

    def points(table: pl.DataFrame, column: str) -> _Curve:
        rows = table.select("round", pl.col("closed_s") + start_s, pl.col(column).cast(pl.Float64)).drop_nulls()
        rows = rows.filter(pl.col(column).is_finite())
        return list(rows.gather_every(-(-max(1, len(rows)) // _MOST_POINTS)).iter_rows())

    yield from ((f"participation/{name}", points(run.rounds, name)) for name in ("selected", "reported"))
    if run.learning is not None:
        figures = [name for name in run.learning.columns if name not in {"round", "closed_s", "optimizer"}]
        for (optimizer,), table in run.learning.group_by("optimizer", maintain_order=True):
            yield from ((f"{name}/{optimizer}", points(table, name)) for name in figures)


def _of_sweep(trials: Trials) -> Iterator[TrackedRun]:
    names = plain_names(trials.swept, trials.scenario)
    settings = dict(zip(trials.settings["setting"], trials.settings.iter_rows(named=True), strict=True))
    labels = dict(zip(settings, trials.names, strict=True))
    complete = trials.facts.filter(variant="", status="complete").drop_nulls("value")
    for (setting, seed), facts in complete.group_by("setting", "seed", maintain_order=True):
        values = {name: value for path, name in names.items() if (value := settings[setting][path]) is not None}
        tags = _tags(trials.name, seed, trials.meta, str(trials.meta.get("fingerprint")))
        tags["fedsim.setting"], metrics = labels[setting], dict(facts.select("fact", "value").iter_rows())
        yield TrackedRun(f"setting {setting}, seed {seed}", values, metrics, tags)


def _tags(scenario: str, seed: object, meta: Mapping[str, Any], mark: str) -> dict[str, str]:
    tags = {"scenario": scenario, "seed": seed, "version": meta["versions"]["fedsim"], "fingerprint": mark}
    return {f"fedsim.{name}": str(value) for name, value in tags.items()}


def export_tensorboard(directory: Path, out: Path) -> None:
    """Write event files that TensorBoard shows, a folder for each run; steps are rounds, and times simulated ones.

    Raises a `RunError` if tensorboardX is missing, the run or sweep cannot be read, or the folder not be written or is
    not empty.
    """
    writer_of = _imported("tensorboardX", "fedsim-participation[tensorboard]").SummaryWriter
    hparams = importlib.import_module("tensorboardX.summary").hparams
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise RunError(f"{out} holds something; choose another folder with --out")
        for each in tracked(directory):
            with writer_of(str(out / each.name)) as writer:
                for part in hparams(dict(each.parameters), dict(each.metrics)):
                    writer.file_writer.add_summary(part)
                writer.add_text("fedsim", json.dumps(each.tags))
                for name, value in each.metrics.items():
                    writer.add_scalar(name, value, 0)
                for name, points in each.curves.items():
                    for number, time_s, value in points:
                        writer.add_scalar(name, value, number, time_s)
    except OSError as error:
        raise RunError(f"{out} cannot be written: {error.strerror or error}") from None


def export_mlflow(directory: Path, out: str | None) -> int:
    """Log runs to MLflow, at a tracking URI or in a folder if one is given; return how many there are.

    Raises a `RunError` if MLflow cannot be imported or refuses, or the run or sweep cannot be read.
    """
    mlflow, runs = _imported("mlflow", "mlflow-skinny"), list(tracked(directory))
    try:
        if out is not None:
            mlflow.set_tracking_uri(out)
        mlflow.set_experiment(runs[0].tags["fedsim.scenario"] if runs else "fedsim")
        for each in runs:
            with mlflow.start_run(run_name=each.name) as active:
                _log(mlflow, active.info.run_id, each)
    except mlflow.exceptions.MlflowException as error:
        raise RunError(f"MLflow refuses: {str(error).partition(chr(10))[0]}") from None
    return len(runs)


def _log(mlflow: Any, run_id: str, run: TrackedRun) -> None:
    def named(name: str) -> str:
        return re.sub(r"[^\w/.\- ]", "_", name)

    mlflow.set_tags(dict(run.tags))
    parameters = [
        (named(key), each[:_LONGEST] if isinstance(each, str) else each) for key, each in run.parameters.items()
    ]
    for at in range(0, len(parameters), _PARAMETERS_AT_ONCE):
        mlflow.log_params(dict(parameters[at : at + _PARAMETERS_AT_ONCE]))
    values = [mlflow.entities.Metric(named(name), value, 0, 0) for name, value in run.metrics.items()]
    for name, points in run.curves.items():
        values += [mlflow.entities.Metric(named(name), value, int(1e3 * time_s), k) for k, time_s, value in points]
    for at in range(0, len(values), _METRICS_AT_ONCE):
        mlflow.tracking.MlflowClient().log_batch(run_id, metrics=values[at : at + _METRICS_AT_ONCE])


def _imported(module: str, project: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        what = module.lower().removesuffix("x")
        raise RunError(f"--to {what} needs {module} ({error}): pip install '{project}'") from None
