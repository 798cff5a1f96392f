"""A finished directory that is damaged is refused by every command that reads it: exit code 2, and the file's name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.command import Done, fedsim

RUN = """
stop: {rounds: 20}
population:
  - {devices: 12, weight: {kind: zipf, exponent: 1}, separation: 2}
server: {cohort: 3}
learning: {problem: quadratic, optimizers: [fedavg], step_size: 0.1}
"""
Damage = Callable[[Path], object]


def table(change: Callable[[pl.DataFrame], pl.DataFrame]) -> Damage:
    return lambda path: change(pl.read_parquet(path)).write_parquet(path)


def text(change: Callable[[str], str]) -> Damage:
    return lambda path: path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")


FIRST_NUMBER = pl.selectors.numeric()
TABLES: dict[str, Damage] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "zero": table(lambda frame: frame.with_columns(FIRST_NUMBER * 0)),
    "null": table(lambda frame: frame.with_columns(pl.lit(None, frame.dtypes[0]).alias(frame.columns[0]))),
    "nan": table(lambda frame: frame.with_columns(pl.selectors.float() * float("nan"), pl.selectors.integer() + 1)),
    "text": table(lambda frame: frame.with_columns(pl.all().cast(pl.String))),
    "no rows": table(lambda frame: frame.clear()),
    "no columns": table(lambda frame: frame.select(frame.columns[:1])),
    "twice": table(lambda frame: pl.concat([frame, frame])),
    "gone": Path.unlink,
}
OBJECTS: dict[str, Damage] = {
    "empty": TABLES["empty"],
    "cut": TABLES["cut"],
    "gone": Path.unlink,
    "list": lambda path: path.write_text("[]"),
    "no keys": lambda path: path.write_text("{}"),
    "digit": text(lambda written: written.replace("1", "2")),
    "null": text(lambda written: json.dumps(dict.fromkeys(json.loads(written)))),
    "nan": text(lambda written: written.replace("0.", "NaN, ", 1).replace(": 0,", ": NaN,").replace("1", "2", 1)),
    "not text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "deep": lambda path: path.write_text("[" * 100_000),
}
FILES = dict.fromkeys(("rounds", "participations", "clients", "gauges", "learning"), TABLES)
CASES = [(f"{name}.parquet", how, damage) for name, kinds in FILES.items() for how, damage in kinds.items()]
CASES += [(name, how, damage) for name in ("manifest.json", "metrics.json") for how, damage in OBJECTS.items()]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept")
    (folder / "case.fedsim.yaml").write_text(RUN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedsim.run.simulate.write_page", lambda _, page, **__: page)
        done = fedsim("run", folder / "case.fedsim.yaml", "--out", folder / "run")
    assert done.returncode == 0, done.stderr
    return folder


def commands(folder: Path, run: Path) -> list[Done]:
    other = folder / "run"
    asked: list[tuple[object, ...]] = [
        ("report", run, "--format", "md"),
        ("compare", run, other),
        ("compare", other, run),
        ("export", run, "--perfetto", run.with_name("trace.json")),
    ]
    if (run / "manifest.json").exists():  # without, the run is taken to be interrupted
        asked.append(("run", folder / "case.fedsim.yaml", "--out", run, "--resume"))
    return [fedsim(*each) for each in asked]


@pytest.mark.long
@pytest.mark.parametrize(("name", "how", "damage"), CASES, ids=[f"{name} {how}" for name, how, _ in CASES])
def test_damage_to_a_run_is_told(kept: Path, tmp_path: Path, name: str, how: str, damage: Damage) -> None:
    run = tmp_path / "run"
    shutil.copytree(kept / "run", run)
    before = (run / name).read_bytes()
    damage(run / name)
    assert not (run / name).exists() or (run / name).read_bytes() != before
    for done in commands(kept, run):
        assert done.returncode == 2, done.stdout + done.stderr
        assert name in done.stderr or "holds another run" in done.stderr, done.stderr


def test_a_table_that_the_run_did_not_write_is_told(kept: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(kept / "run", run)
    shutil.copy(run / "learning.parquet", run / "convergence.parquet")
    for done in commands(kept, run):
        assert done.returncode == 2
        assert "convergence.parquet is not a table that the run wrote" in done.stderr


def test_what_is_whole_is_read(kept: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(kept / "run", run)
    for done in commands(kept, run):
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def swept(kept: Path) -> Path:
    more = ["--set", "sweep={grid: {server.cohort: [2, 3]}, seeds: 2}", "--set", "learning=null", "--workers", "1"]
    done = fedsim("sweep", kept / "case.fedsim.yaml", *more, "--out", kept / "sweep")
    assert done.returncode == 0, done.stderr
    return kept


SWEEP_CASES = [("sweep.json", how, damage) for how, damage in OBJECTS.items()]
SWEEP_CASES += [("runs", how, damage) for how, damage in TABLES.items() if how != "gone"]
"""A run whose file is gone is one that has not been done."""


@pytest.mark.parametrize(("name", "how", "damage"), SWEEP_CASES, ids=[f"{name} {how}" for name, how, _ in SWEEP_CASES])
def test_damage_to_a_sweep_is_told(swept: Path, tmp_path: Path, name: str, how: str, damage: Damage) -> None:
    sweep = tmp_path / "sweep"
    shutil.copytree(swept / "sweep", sweep)
    damage(sweep / name if name == "sweep.json" else min((sweep / name).glob("*.parquet")))
    for asked in (("report", sweep, "--format", "md"), ("compare", sweep, swept / "sweep")):
        done = fedsim(*asked)
        assert done.returncode == 2, done.stdout + done.stderr
        assert name in done.stderr or (name == "sweep.json" and how == "gone"), done.stderr
