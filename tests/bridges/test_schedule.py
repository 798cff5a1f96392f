"""Export as a schedule: every session, in order, readable without fedsim."""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fedsim.bridges.exports import export_schedule
from fedsim.bridges.schedule_format import COLUMNS
from fedsim.common.errors import RunError
from fedsim.log import fingerprint
from fedsim.run.load import load
from fedsim.run.run import Result
from fedsim.run.simulate import simulate
from tests.command import fedsim
from tests.conftest import Load

SETTINGS = {
    "rounds": ("population.0.availability={kind: renewal, on: 5m, off: 5m}",),
    "skipped": ("population.0.availability={kind: renewal, on: 1m, off: 20m}", "server.shortage=skip"),
}


def reader() -> Any:
    """Return the function that the documentation shows."""
    shown: dict[str, Any] = {}
    found = re.search(r"`cohorts.py`:\n\n```python\n(.*?)```", Path("docs/schedules.md").read_text("utf-8"), re.DOTALL)
    assert found is not None
    assert len(found[1].splitlines()) <= 25
    exec(found[1], shown)
    return shown["cohorts"]


def expected(result: Result) -> list[list[tuple[int, bool]]]:
    """Return the cohorts of a result, from its tables."""
    table = result.participations.sort("round", "position")
    rows: list[list[tuple[int, bool]]] = [[] for _ in range(len(result.rounds))]
    for number, client, outcome in table.select("round", "client", "outcome").iter_rows():
        rows[number].append((client, outcome == "reported"))
    return rows


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_the_reader_of_the_documentation_finds_every_cohort(
    small: Load, tmp_path: Path, kind: str, suffix: str
) -> None:
    result = simulate(small(*SETTINGS[kind]))
    out = tmp_path / f"schedule.{suffix}"
    assert export_schedule(result.save(tmp_path / "run"), out) == len(result.rounds)
    about, cohorts = reader()(str(out))
    assert cohorts == expected(result)
    assert ([] in cohorts) == (kind == "skipped")
    assert (about["format"], about["version"], about["clients"]) == ("fedsim-schedule", 1, len(result.clients))
    assert about["fingerprint"] == fingerprint(result.participations)


def test_parquet_holds_the_same_rows_and_says_what_it_was_made_from(small: Load, tmp_path: Path) -> None:
    result = simulate(small(*SETTINGS["rounds"]))
    run = result.save(tmp_path / "run")
    for suffix in ("parquet", "csv"):
        export_schedule(run, tmp_path / f"schedule.{suffix}")
    table = pl.read_parquet(tmp_path / "schedule.parquet")
    about = json.loads(pl.read_parquet_metadata(tmp_path / "schedule.parquet")["fedsim-schedule"])
    assert table.columns == list(COLUMNS)
    plain = pl.read_csv(tmp_path / "schedule.csv", schema={**table.schema, "about": pl.String})
    assert table.equals(plain.drop("about"))
    assert plain["about"].to_list() == [json.dumps(about), *[None] * (len(plain) - 1)]
    sessions = result.participations.sort("round", "position")
    assert table["duration_s"].to_list() == (sessions["ended_s"] - sessions["selected_s"]).to_list()
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(tmp_path / "schedule.csv")
    assert frame[list(COLUMNS)].astype({"client": int})["client"].tolist() == table["client"].to_list()
    first = (tmp_path / "schedule.parquet").read_bytes()
    export_schedule(run, tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == first


def test_what_cannot_be_exported(small: Load, tmp_path: Path) -> None:
    run = simulate(small()).save(tmp_path / "run")
    with pytest.raises(RunError, match=r"schedule\.txt: the name of a schedule ends in \.parquet, \.json or \.csv"):
        export_schedule(run, tmp_path / "schedule.txt")
    with pytest.raises(RunError, match="no such run directory"):
        export_schedule(tmp_path / "none", tmp_path / "schedule.json")


def test_the_command_line(small: Load, tmp_path: Path) -> None:
    run = simulate(small()).save(tmp_path / "run")
    done = fedsim("export", "schedule", str(run), "--out", str(tmp_path / "s.json"))
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 's.json'}\n")
    for words in (["perfetto", str(run), "--out"], [str(run), "--perfetto"]):
        trace = tmp_path / f"{len(words)}.json"
        assert fedsim("export", *words, str(trace)).stdout == f"{trace}\n"
    done = fedsim("export", "shedule", str(run), "--out", str(tmp_path / "s.json"))
    assert done.returncode == 2
    assert "Did you mean 'schedule'?" in done.stderr


def test_no_export_replaces_a_file_of_the_run(small: Load, tmp_path: Path) -> None:
    """``export schedule RUN --out RUN/rounds.parquet`` made the run unreadable; other names in it are fine, twice."""
    run = simulate(small()).save(tmp_path / "run")
    for form, name in (("schedule", "rounds.parquet"), ("schedule", "metrics.json"), ("perfetto", "manifest.json")):
        done = fedsim("export", form, run, "--out", run / name)
        assert (done.returncode, "is read, so that it would be lost" in done.stderr) == (2, True)
    for _ in range(2):
        assert fedsim("export", "schedule", run, "--out", run / "schedule.parquet").returncode == 0
    load(run)
