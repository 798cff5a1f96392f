"""What trackers and other readers of a run or a sweep find: names, typed values, curves, and where it came from."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import polars as pl
import pytest

from fedsim import Scenario, simulate, sweep
from fedsim.bridges.trackers import tracked
from fedsim.trials.results import read_results
from fedsim.trials.trials import merge_results, plain_names
from tests.command import fedsim
from tests.conftest import SMALL

LEARNING = "learning: {problem: {kind: quadratic, dimension: 2}, optimizers: [fedavg, mifa], step_size: 0.1}\n"
SWEEP = "sweep: {grid: {population.*.separation: [0, 2], server.selection: [uniform, successive]}, seeds: 2}\n"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make the directories of a run and of a sweep."""
    folder = tmp_path_factory.mktemp("trackers")
    (folder / "case.fedsim.yaml").write_text(SMALL + LEARNING)
    (folder / "swept.fedsim.yaml").write_text(SMALL + SWEEP)
    simulate(Scenario.load(folder / "case.fedsim.yaml")).save(folder / "run")
    sweep(folder / "swept.fedsim.yaml", folder / "sweep", workers=1)
    return folder / "run", folder / "sweep"


def test_parameters_are_called_without_stars_and_groups_keep_their_names() -> None:
    groups = [{"name": name, "devices": 3} for name in "ab"]
    scenario = Scenario.model_validate({"stop": {"rounds": 1}, "population": groups, "server": {"cohort": 1}})
    assert plain_names(["population.*.separation", "server.cohort", "name"], scenario) == {
        "population.*.separation": "population.separation",
        "server.cohort": "server.cohort",
        "name": "name",
    }
    assert [*plain_names(["population.0.separation", "population[1].separation"], scenario).values()] == [
        "population.a.separation",
        "population.b.separation",
    ]
    assert plain_names(["population.0.devices", "learning.optimizers[1].mu"], scenario) == {
        "population.0.devices": "population.devices",
        "learning.optimizers[1].mu": "learning.optimizers.mu",
    }


def test_a_run_has_its_curves_last_values_and_tags(places: tuple[Path, Path]) -> None:
    (run,) = tracked(places[0])
    assert run.parameters["population.devices"] == 12
    assert run.parameters["server.cohort"] == 3
    assert "seed" not in run.parameters
    assert not any("*" in name or "[" in name for name in run.parameters)
    table = pl.read_parquet(places[0] / "learning.parquet")
    for optimizer in ("fedavg", "mifa"):
        own = table.filter(optimizer=optimizer)
        assert [(at, value) for at, _, value in run.curves[f"loss/{optimizer}"]] == [
            *own.select("round", "loss").iter_rows()
        ]
        assert run.metrics[f"learning.{optimizer}.final_loss"] == run.curves[f"loss/{optimizer}"][-1][2]
    assert sum(value for _, _, value in run.curves["participation/reported"]) == 60 * 3
    manifest = json.loads((places[0] / "manifest.json").read_text())
    assert run.tags["fedsim.fingerprint"] == manifest["fingerprints"]["participations"]
    assert run.tags["fedsim.version"] == manifest["versions"]["fedsim"]


def test_a_sweep_is_a_run_for_each_setting_and_seed(places: tuple[Path, Path]) -> None:
    found = [*tracked(places[1])]
    assert len(found) == 8
    assert {each.parameters["population.separation"] for each in found} == {0, 2}
    results = read_results(places[1]).filter(point=3, seed=1, metric="rounds.count")
    (own,) = (each for each in found if each.name == "setting 3, seed 1")
    assert own.metrics["rounds.count"] == results["value"].item() == 60
    assert own.tags["fedsim.seed"] == "1"


@pytest.mark.extras
@pytest.mark.parametrize("which", [0, 1])
def test_tensorboard_reads_what_is_exported(places: tuple[Path, Path], tmp_path: Path, which: int) -> None:
    pytest.importorskip("tensorboardX", reason="needs tensorboardX, extra 'tensorboard'")
    read = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="needs TensorBoard")
    done = fedsim("export", places[which], "--to", "tensorboard", "--out", tmp_path / "logs")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'logs'}\n")
    for each in tracked(places[which]):
        events = read.EventAccumulator(str(tmp_path / "logs" / each.name))
        events.Reload()
        for name, value in each.metrics.items():
            assert events.Scalars(name)[0].value == pytest.approx(value, rel=1e-6)
        for name, points in each.curves.items():
            assert [(e.step, e.wall_time) for e in events.Scalars(name)] == [(at, time_s) for at, time_s, _ in points]
    again = fedsim("export", places[which], "--to", "tensorboard", "--out", tmp_path / "logs")
    assert (again.returncode, "holds something" in again.stderr) == (2, True)
    (tmp_path / "file").write_text("")
    done = fedsim("export", places[which], "--to", "tensorboard", "--out", tmp_path / "file")
    assert (done.returncode, "file cannot be written" in done.stderr) == (2, True)


class Tracking(ModuleType):
    """Stands in for MLflow, with what its versions 1 to 3 have in common, and their limits for one call."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.runs: list[dict[str, Any]] = []
        self.uri = self.experiment = ""
        self.exceptions = SimpleNamespace(MlflowException=ConnectionError)
        self.entities = SimpleNamespace(Metric=lambda key, value, timestamp, step: (key, value, timestamp, step))
        self.tracking = SimpleNamespace(MlflowClient=lambda: SimpleNamespace(log_batch=self.log_batch))

    def set_tracking_uri(self, uri: str) -> None:
        self.uri = uri

    def set_experiment(self, name: str) -> None:
        self.experiment = name

    def start_run(self, run_name: str) -> "Tracking":
        self.runs.append({"name": run_name, "params": {}, "metrics": []})
        return self

    def __enter__(self) -> SimpleNamespace:
        return SimpleNamespace(info=SimpleNamespace(run_id=len(self.runs) - 1))

    def __exit__(self, *_: object) -> None:
        return None

    def set_tags(self, tags: dict[str, str]) -> None:
        self.runs[-1]["tags"] = tags

    def log_params(self, params: dict[str, object]) -> None:
        assert 0 < len(params) <= 100
        self.runs[-1]["params"] |= params

    def log_batch(self, run_id: int, metrics: list[tuple[str, float, int, int]]) -> None:
        assert 0 < len(metrics) <= 1000
        assert all(isinstance(value, float) and isinstance(step, int) for _, value, _, step in metrics)
        self.runs[run_id]["metrics"] += metrics


@pytest.mark.parametrize("which", [0, 1])
def test_mlflow_is_told_the_same(
    places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", mlflow := Tracking())
    done = fedsim("export", places[which], "--to", "mlflow", "--out", "http://127.0.0.1:5000")
    assert (done.returncode, mlflow.uri) == (0, "http://127.0.0.1:5000")
    for told, each in zip(mlflow.runs, tracked(places[which]), strict=True):
        assert (told["name"], told["params"], told["tags"]) == (each.name, each.parameters, each.tags)
        assert {key: value for key, value, _, _ in told["metrics"] if key in each.metrics} == each.metrics
        for name, points in each.curves.items():
            assert [(v, s) for key, v, _, s in told["metrics"] if key == name] == [
                (value, at) for at, _, value in points
            ]


def test_what_mlflow_refuses_is_told(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", mlflow := Tracking())

    def refuse(_name: str) -> None:
        raise ConnectionError("no server there\nat all")

    monkeypatch.setattr(mlflow, "set_experiment", refuse)
    done = fedsim("export", places[0], "--to", "mlflow")
    assert (done.returncode, done.stderr) == (2, "error: MLflow refuses: no server there\n")


@pytest.mark.parametrize(("to", "module"), [("tensorboard", "tensorboardX"), ("mlflow", "mlflow")])
def test_what_is_missing_is_told(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, to: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    done = fedsim("export", places[0], "--to", to)
    assert done.returncode == 2
    assert f"--to {to} needs {module} (" in done.stderr
    assert "pip install '" in done.stderr


def test_merged_results_read_alone(places: tuple[Path, Path], tmp_path: Path) -> None:
    before = read_results(places[1])
    file = merge_results(places[1])
    assert read_results(places[1]).equals(before)
    merged = pl.read_parquet(file)
    assert merged.columns == [
        "run_id", "seed", "metric", "value", "setting", "population.separation", "server.selection",
    ]  # fmt: skip
    assert merged.schema["population.separation"] == pl.Int64
    named = dict(merged.select("setting", "population.separation").iter_rows())
    assert len(named) == 4
    assert all(f"R\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{value}" in name for name, value in named.items())
    about = pl.read_parquet_metadata(file)
    assert about["fedsim.scenario"] == "swept"
    assert json.loads(about["fedsim.units"])["rounds.duration.p95"] == "s"
    assert about["fedsim.fingerprint"] == json.loads((places[1] / "sweep.json").read_text())["fingerprint"]


@pytest.mark.extras
@pytest.mark.parametrize("reader", ["duckdb", "pandas"])
def test_other_readers_do_as_the_page_says(
    places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    for module in ("pandas", *(("pyarrow",) if reader == "pandas" else ("duckdb",))):
        pytest.importorskip(module, reason=f"{module} is not installed")
    blocks = Path("docs/sweeps.md").read_text().split("```python\n")[1:]
    (code,) = (block.partition("```")[0] for block in blocks if block.startswith(f"import {reader}\n"))
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps/separation-sweep").symlink_to(places[1])
    merged = pl.read_parquet(merge_results(places[1]))
    monkeypatch.chdir(tmp_path)
    exec(code, names := dict[str, Any]())
    own = merged.filter(metric="participation.l1_uniform").group_by("setting").agg(pl.col("value").mean())
    found = names["means"] if reader == "pandas" else names["means"].set_index("setting")["mean"]
    assert found.to_dict() == pytest.approx(dict(own.iter_rows()))
