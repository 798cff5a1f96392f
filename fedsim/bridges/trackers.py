"""Runs and sweeps for experiment trackers: parameters, last values, curves over rounds, and where they come from."""

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import polars as pl

from fedsim.common.errors import RunError
from fedsim.log import fingerprint
from fedsim.run.files import changes
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario.sweep import WITHOUT_EFFECT
from fedsim.trials.store import SWEEP_FILE
from fedsim.trials.trials import Trials, plain_names

_MOST_PARAMETERS, _MOST_POINTS = 1_000, 1_000  # of a run; of a curve, evenly spread
_PARAMETERS_AT_ONCE, _METRICS_AT_ONCE = 100, 1_000  # that MLflow takes
_T = TypeVar("_T")
_Value = str | bool | int | float


class CurvePoint(NamedTuple):
    """A point of a curve."""

    round: int  # -1 before the first
    time_s: float  # simulated, since 1970
    value: float


@dataclass(frozen=True)
class TrackedRun:
    """A run, as trackers know one."""

    name: str
    parameters: Mapping[str, _Value]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]  # what it is of: scenario, seed, version of fedsim, fingerprint of its log or of the sweep
    curves: Mapping[str, Sequence[CurvePoint]] = field(default_factory=dict)  # by WHAT/WHOSE, such as loss/fedavg


def tracked(directory: Path) -> Iterator[TrackedRun]:
    """Yield the run of a run directory, with its curves, or each complete run of a sweep or decision, without any.

    Raises a `RunError` if the directory cannot be read.
    """
    if any((directory / place / SWEEP_FILE).exists() for place in (".", "final")):
        yield from _of_sweep(Trials.read(directory))
    else:
        yield _of_run(load_one(directory))


def _of_run(run: Run) -> TrackedRun:
    written = run.scenario.model_dump(mode="json", exclude={*WITHOUT_EFFECT, "seed"})
    leaves = {path: value for path, _, value in islice(changes({}, written), _MOST_PARAMETERS) if value is not None}
    names = plain_names(leaves, run.scenario)
    parameters = {
        names[path]: value if isinstance(value, _Value) else json.dumps(value) for path, value in leaves.items()
    }
    tags = _tags(
        run.scenario.name, run.scenario.seed, str(run.manifest["versions"]["fedsim"]), fingerprint(run.participations)
    )
    return TrackedRun(run.scenario.name, parameters, run.known, tags, dict(_curves(run)))


def _curves(run: Run) -> Iterator[tuple[str, Sequence[CurvePoint]]]:
    start_s = datetime.fromisoformat(str(run.scenario.model_dump(mode="json")["start"])).timestamp()

    def points(table: pl.DataFrame, column: str) -> list[CurvePoint]:
        own = table.select("round", pl.col("closed_s") + start_s, pl.col(column).cast(pl.Float64)).drop_nulls()
        own = own.filter(pl.col(column).is_finite())
        return [CurvePoint(*row) for row in own.gather_every(-(-max(1, len(own)) // _MOST_POINTS)).iter_rows()]

    yield from ((f"participation/{name}", points(run.rounds, name)) for name in ("selected", "reported"))
    if run.learning is not None:
        figures = [name for name in run.learning.columns if name not in {"round", "closed_s", "optimizer"}]
        for (optimizer,), table in run.learning.group_by("optimizer", maintain_order=True):
            yield from ((f"{name}/{optimizer}", points(table, name)) for name in figures)


def _of_sweep(trials: Trials) -> Iterator[TrackedRun]:
    names, known = (
        plain_names(trials.swept, trials.scenario),
        dict(zip(trials.settings["setting"], trials.names, strict=True)),
    )
    values = {row["setting"]: row for row in trials.settings.iter_rows(named=True)}
    version, mark = str(trials.meta["versions"]["fedsim"]), str(trials.meta.get("fingerprint"))
    complete = trials.facts.filter(variant="", status="complete").drop_nulls("value")
    for (setting, seed), own in complete.group_by("setting", "seed", maintain_order=True):
        parameters = {name: values[setting][path] for path, name in names.items() if values[setting][path] is not None}
        tags = _tags(trials.name, seed, version, mark) | {"fedsim.setting": known[setting]}
        metrics = dict(own.select("fact", "value").iter_rows())
        yield TrackedRun(f"setting {setting}, seed {seed}", parameters, metrics, tags)


def _tags(scenario: str, seed: object, version: str, mark: str) -> dict[str, str]:
    return {
        "fedsim.scenario": scenario, "fedsim.seed": str(seed), "fedsim.version": version, "fedsim.fingerprint": mark
    }  # fmt: skip


def export_tensorboard(directory: Path, out: Path) -> int:
    """Write event files that TensorBoard shows, a folder for each run; return how many runs there are.

    Steps are rounds, and times simulated ones. Raises a `RunError` if tensorboardX is missing, the run or sweep cannot
    be read, or the folder holds something.
    """
    writer_of = _imported("tensorboardX", "fedsim-participation[tensorboard]").SummaryWriter
    hparams, count = importlib.import_module("tensorboardX.summary").hparams, 0
    if out.exists() and any(out.iterdir()):
        raise RunError(f"{out} holds something; choose another folder with --out")
    for count, each in enumerate(tracked(directory), start=1):  # noqa: B007
        with writer_of(str(out / each.name.replace("/", "_"))) as writer:
            for part in hparams(dict(each.parameters), dict(each.metrics)):
                writer.file_writer.add_summary(part)
            writer.add_text("fedsim", json.dumps(each.tags))
            for name, value in each.metrics.items():
                writer.add_scalar(name, value, 0)
            for name, points in each.curves.items():
                for point in points:
                    writer.add_scalar(name, point.value, point.round, point.time_s)
    return count


def export_mlflow(directory: Path, out: str | None) -> int:
    """Log runs to MLflow, as an experiment called like the scenario; return how many there are.

    `out` is a tracking URI or folder; without it MLflow's own setting counts. Raises a `RunError` if MLflow cannot be
    imported or the run or sweep not be read.
    """
    mlflow, count = _imported("mlflow", "mlflow-skinny"), 0
    if out is not None:
        mlflow.set_tracking_uri(out)
    for count, each in enumerate(tracked(directory), start=1):  # noqa: B007
        mlflow.set_experiment(each.tags["fedsim.scenario"])
        with mlflow.start_run(run_name=each.name) as active:
            mlflow.set_tags(dict(each.tags))
            for part in _parts(list(each.parameters.items()), _PARAMETERS_AT_ONCE):
                mlflow.log_params(dict(part))
            values = [mlflow.entities.Metric(name, value, 0, 0) for name, value in each.metrics.items()]
            for name, points in each.curves.items():
                values += [mlflow.entities.Metric(name, p.value, int(1000 * p.time_s), p.round) for p in points]
            for batch in _parts(values, _METRICS_AT_ONCE):
                mlflow.tracking.MlflowClient().log_batch(active.info.run_id, metrics=batch)
    return count


def _parts(whole: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    yield from (whole[at : at + size] for at in range(0, len(whole), size))


def _imported(module: str, project: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise RunError(
            f"--to {module.lower().removesuffix('x')} needs {module} ({error}): pip install '{project}'"
        ) from None
