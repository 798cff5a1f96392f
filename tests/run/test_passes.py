"""How often a run reads what it wrote, and makes what its scenario names."""

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fedsim.availability import kinds as models
from fedsim.common import files
from fedsim.measure.metrics import METRICS
from fedsim.run.files import Provenance
from fedsim.run.simulate import record
from tests.conftest import Load

BUFFERED = "server={mode: buffered, buffer: 2, concurrency: 4}"
TRAINING = (
    "learning={problem: {kind: quadratic, dimension: 2}, optimizers: [fedavg, debiased_fedavg], step_size: 0.1, "
    "reference: uniform, target_above_optimum: 1.0, loss_parts: true}"
)
ON_BUFFERS = TRAINING.replace("fedavg, debiased_fedavg", "fedbuff, debiased_fedbuff").replace(", loss_parts: true", "")
PRIVATE = "privacy={epsilon: 6, delta: 0.001}"
WEIGHTS = "population.0.weight={kind: zipf, exponent: 1}"
RENEWAL = "population.0.availability={kind: renewal, on: 8h, off: 4h}"
GROUPS = "population=[{name: a, devices: 9}, {name: b, devices: 9}]"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List what polars reads of the participations of a run directory; training reads in a thread ahead."""
    found: list[str] = []
    collect, collect_all, read = pl.LazyFrame.collect, pl.collect_all, pl.read_parquet

    def collected(frame: pl.LazyFrame, *args: Any, **kwargs: Any) -> Any:
        found.extend(["piece"] * ("/participations.parquet" in frame.explain()))
        return collect(frame, *args, **kwargs)

    def all_collected(frames: Any, *args: Any, **kwargs: Any) -> Any:
        found.extend("piece" for each in frames if "/participations.parquet" in each.explain())
        return collect_all(frames, *args, **kwargs)

    def whole(source: Any, *args: Any, **kwargs: Any) -> pl.DataFrame:
        found.extend(["whole"] * (Path(source).name == "participations.parquet"))
        return read(source, *args, **kwargs)

    monkeypatch.setattr(pl.LazyFrame, "collect", collected)
    monkeypatch.setattr(pl, "collect_all", all_collected)
    monkeypatch.setattr(pl, "read_parquet", whole)
    return found


@pytest.mark.parametrize(
    ("overrides", "passes"),
    [
        ((), 1),
        ((WEIGHTS, PRIVATE, "records.transitions=[1, 2]"), 1),
        ((BUFFERED,), 1),
        ((GROUPS,), 2),  # which rounds selected anyone of a group has to be known before
        ((TRAINING, WEIGHTS), 2),
        ((BUFFERED, ON_BUFFERS), 2),
    ],
    ids=["rounds", "all the page asks", "versions", "groups", "training", "training on buffers"],
)
def test_the_participations_are_read_as_seldom_as_can_be(
    small: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reads: list[str],
    overrides: tuple[str, ...],
    passes: int,
) -> None:
    """Once for figures, fingerprint and page, and once more for training, however much is trained and shown."""
    scenario = small("stop.rounds=60", *overrides)
    monkeypatch.setattr(files, "ROWS", 50)
    record(scenario, tmp_path / "run", Provenance())
    pieces = -(-pl.scan_parquet(tmp_path / "run" / "participations.parquet").select(pl.len()).collect().item() // 50)
    assert "whole" not in reads
    assert reads.count("piece") - 1 == passes * (pieces + 1)  # of which the last is empty; that one was this test's own


def test_metrics_and_availability_models_are_built_once(
    small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own metrics, and its availability models: a trace is a file to be read."""
    made = Counter[str]()

    def count(module: Any, name: str) -> None:
        make = getattr(module, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            made[name] += 1
            return make(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)

    count(METRICS, "build")
    count(models, "build_model")
    expected = "expect=[participation.l1_uniform <= 2, rounds.count >= 1]"
    scenario = small("stop.rounds=60", "metrics=[unevenness]", "records.transitions=[1]", expected, RENEWAL)
    record(scenario, tmp_path / "run", Provenance())
    assert made == {"build": 1, "build_model": 1}
