"""Runs in run directories: the same bytes as from memory, however often they are interrupted, in bounded memory."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim import __version__, load, simulate
from fedsim.common.errors import RunError
from fedsim.common.keyed import Purpose, stream
from fedsim.log import journal
from fedsim.run.files import UNFINISHED, Provenance
from fedsim.run.run import Run
from fedsim.run.simulate import record
from fedsim.scenario import Scenario
from tests.conftest import LIMIT_S, SMALL, Load, Write
from tests.whole import check_whole

LEARNING = "learning={problem: {kind: robust_regression, samples: 5}, optimizers: [fedavg], step_size: 0.1}"
RENEWAL = "population.0.availability={kind: renewal, on: 30m, off: 10m}"


class Killed(BaseException):
    """Ends a run wherever it is."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, no_charts: None) -> None:
    """Pass on rows and keep states very often; draw no charts."""
    monkeypatch.setattr(journal, "SOONEST_S", 0.0)
    monkeypatch.setattr(journal, "PATIENCE", 0.0)
    monkeypatch.setattr("fedsim.log.recorder._SETTLE", 40)
    monkeypatch.setattr("fedsim.common.files.ROWS", 40)


def files(directory: Path) -> dict[str, bytes]:
    """Return what is in a run directory, without what a clock or the caller has told the manifest."""
    found = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    manifest = json.loads(found["manifest.json"])
    found["manifest.json"] = json.dumps({**manifest, "wall_time_s": None}).encode()
    return found


def run(scenario: Scenario, directory: Path, *, resume: bool = False) -> Run:
    return record(scenario, directory, Provenance("case.fedsim.yaml"), resume=resume)


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_a_run_directory_is_the_same_from_memory_and_as_it_goes(small: Load, tmp_path: Path, engine: str) -> None:
    scenario = small(LEARNING, RENEWAL, f"engine={engine}", "records.transitions=[1, 5]")
    done = run(scenario, tmp_path / "recorded")
    result = simulate(scenario)
    result.save(tmp_path / "saved", Provenance("case.fedsim.yaml"))
    recorded = files(tmp_path / "recorded")
    assert recorded.pop("report.html")
    assert recorded == files(tmp_path / "saved")
    assert done.metrics == result.metrics


@pytest.mark.parametrize("engine", ["process", "vectorized"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_killed_again_and_again_at_the_writing_of_a_file(
    small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, seed: int
) -> None:
    """Rows, states, tables, the manifest, the report: whatever is being written, the bytes are the same in the end."""
    scenario = small(
        LEARNING, RENEWAL, f"engine={engine}", "server.deadline=85s", "population.0.cooldown=7m", "stop.rounds=25"
    )
    run(scenario, tmp_path / "whole")
    left, fsync = 0, os.fsync

    def counted(file: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed
        fsync(file)

    monkeypatch.setattr("os.fsync", counted)
    kills = 0
    for draw in stream(seed, 0, Purpose.CHAIN).uniforms(0, range(40)):
        left = 1 + int(30 * draw**2)
        try:
            run(scenario, tmp_path / "killed", resume=True)
        except Killed:
            kills += 1
        else:
            break
    left = 0
    run(scenario, tmp_path / "killed", resume=True)
    assert kills > 2
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


def interrupted(scenario: Scenario, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a run that was killed after its simulation."""

    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("fedsim.run.simulate.evaluate", kill)
        with pytest.raises(Killed):
            run(scenario, directory)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize(
    ("override", "difference"),
    [
        ("seed=9", "seed is 0 there and 9 here"),
        ("stop.rounds=61", "stop.rounds is 60 there and 61 here"),
        ("population.0.cooldown=1h", r"population\[0\]\.cooldown"),
    ],
)
def test_another_run_is_not_resumed(
    small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complete: bool, override: str, difference: str
) -> None:
    if complete:
        run(small(), tmp_path / "run")
    else:
        interrupted(small(), tmp_path / "run", monkeypatch)
    with pytest.raises(RunError, match=f"holds another run.*{difference}"):
        run(small(override), tmp_path / "run", resume=True)
    monkeypatch.setattr("fedsim.run.files.__version__", "0.0.1")
    with pytest.raises(RunError, match=r'versions\.fedsim is "[^"]+" there and "0\.0\.1" here'):
        run(small(), tmp_path / "run", resume=True)


def test_a_file_that_has_changed_makes_another_run(write: Write, tmp_path: Path) -> None:
    weights = "p\n" + "1\n" * 12
    (tmp_path / "weights.csv").write_text(weights)
    path = write(SMALL.replace("{kind: zipf, exponent: 1}", "{kind: column, file: weights.csv, column: p}"))
    run(Scenario.load(path), tmp_path / "run")
    run(Scenario.load(path), tmp_path / "run", resume=True)
    (tmp_path / "weights.csv").write_text(weights.replace("1", "2", 1))
    with pytest.raises(RunError, match=r"inputs\.weights\.csv is"):
        run(Scenario.load(path), tmp_path / "run", resume=True)


def test_resume_starts_where_nothing_has_begun_and_ends_where_all_is_done(small: Load, tmp_path: Path) -> None:
    first = run(small(), tmp_path / "run", resume=True)
    before = files(tmp_path / "run")
    told: list[str] = []
    again = record(small(), tmp_path / "run", Provenance(), resume=True, tell=told.append)
    assert told == [f"{tmp_path / 'run'} is complete: there is nothing left to do"]
    assert (again.manifest, again.metrics) == (first.manifest, first.metrics)
    assert all(each.equals(first.tables[name]) for name, each in again.tables.items())
    assert files(tmp_path / "run") == before


def test_without_resume_a_run_begins_anew(small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(small(LEARNING), tmp_path / "run", monkeypatch)
    assert (tmp_path / "run" / UNFINISHED).is_dir()
    run(small("stop.rounds=7"), tmp_path / "run")
    run(small("stop.rounds=7"), tmp_path / "new")
    assert files(tmp_path / "run") == files(tmp_path / "new")


def test_what_a_journal_says_must_be_readable(small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(small(), tmp_path / "run", monkeypatch)
    (tmp_path / "run" / UNFINISHED / "run.json").write_text("{")
    with pytest.raises(RunError, match=r"run\.json cannot be read"):
        run(small(), tmp_path / "run", resume=True)


def test_a_run_that_stalls_keeps_its_log_and_says_so_again(write: Write, tmp_path: Path) -> None:
    stuck = "stop: {rounds: 9}\npopulation: [{devices: 6, separation: [1, 1, 1, 4, 4, 4]}]\n"
    scenario = Scenario.load(write(stuck + "server: {cohort: 2, selection: cyclic}\n"))
    done = record(scenario, tmp_path / "run", Provenance())
    assert done.failure.startswith("round 4 (opened at 6m) wants 2 eligible clients")
    kept = load(tmp_path / "run")
    assert kept.rounds["outcome"].to_list() == ["target"] * 4 + ["stopped"]
    before = files(tmp_path / "run")
    assert record(scenario, tmp_path / "run", Provenance(), resume=True).failure == done.failure
    assert files(tmp_path / "run") == before


LONG = """\
stop: {rounds: 4000}
population:
  - {devices: 400, separation: 2, availability: {kind: renewal, on: 30m, off: 10m}}
server: {cohort: 20, over_select: 1.2, deadline: 2m}
learning:
  problem: {kind: robust_regression, samples: 5}
  optimizers: [fedavg]
  step_size: 0.1
"""
OFTEN = "from fedsim.log import journal; journal.SOONEST_S = 0.05; from fedsim.cli import run_app; run_app()"


@pytest.mark.long
@pytest.mark.parametrize("engine", [pytest.param("process", marks=pytest.mark.campaign), "vectorized"])
def test_killed_by_the_operating_system_at_random(write: Write, tmp_path: Path, engine: str) -> None:
    """SIGKILL several times in a row, in the simulation, in training, while the report is drawn; files are whole."""
    command = [sys.executable, "-c", OFTEN, "run", str(write(LONG)), "--engine", engine, "--out"]
    began = time.monotonic()
    assert (
        subprocess.run([*command, tmp_path / "whole"], capture_output=True, check=False, timeout=LIMIT_S).returncode
        == 0
    )
    took_s = time.monotonic() - began
    command = [*command, str(tmp_path / "killed"), "--resume"]
    kills, draws = 0, stream(5, 0, Purpose.CHAIN).uniforms(0, range(12))
    # In parts of what a whole run takes here, from soon after the start on; later and later, since what follows the
    # simulation begins anew each time.
    for wait in (took_s * (0.15 + 0.2 * draws) * 1.1 ** np.arange(12)).tolist():
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=wait)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(LIMIT_S)
            kills += 1
            check_whole(tmp_path / "killed")
        else:
            break
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert kills > 1
    whole, killed = files(tmp_path / "whole"), files(tmp_path / "killed")
    # The report shows the wall time and the command, which names the directory.
    assert {**killed, "report.html": b""} == {**whole, "report.html": b""}


@pytest.mark.long
def test_ctrl_c_says_how_to_go_on(write: Write, tmp_path: Path) -> None:
    scenario = write(LONG.replace("4000", "100000"))
    process = subprocess.Popen(
        [sys.executable, "-c", OFTEN, "run", str(scenario), "--out", str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "run" / UNFINISHED / "state.npz").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out) == (130, "")
    (line,) = [line for line in said.splitlines() if line.startswith("To go on: ")]
    assert shlex.split(line.removeprefix("To go on: "))[-3:] == ["--out", str(tmp_path / "run"), "--resume"]
    assert "Traceback" not in said


MEASURED = """
import sys
from pathlib import Path
import fedsim.run.simulate
from fedsim.run.run import Run
from fedsim.run.simulate import record
from fedsim.run.files import Provenance
from fedsim.scenario import Scenario
fedsim.run.simulate.write_page = lambda _, page, **__: page
server = {"cohort": 500, "pause": "5m"}
data = {"stop": {"rounds": int(sys.argv[1])}, "population": [{"devices": 20_000, "separation": 1}], "server": server}
record(Scenario.model_validate(data), Path(sys.argv[2]), Provenance())
# Not ru_maxrss, which begins with that of the process that started this one.
print(int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024)
"""


@pytest.mark.long
def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """One million sessions and six: in memory, the difference of five would take 400 MB; here, less than 60."""
    peaks = []
    for rounds in (2000, 12_000):
        command = [sys.executable, "-c", MEASURED, str(rounds), str(tmp_path / str(rounds))]
        peaks.append(float(subprocess.run(command, capture_output=True, check=True, text=True, timeout=LIMIT_S).stdout))
    assert peaks[1] < peaks[0] + 60


def test_tables_say_what_they_are(small: Load, tmp_path: Path) -> None:
    """Start, units, version and name stand in the metadata, which DuckDB and pyarrow show."""
    record(small(), tmp_path / "run", Provenance())
    for path in (tmp_path / "run").rglob("*.parquet"):
        said = pl.read_parquet_metadata(path)
        about = json.loads(said["fedsim"])
        assert (about["name"], about["fedsim"]) == (small().name, __version__)
        assert about["start"] == small().model_dump(mode="json")["start"]
        columns = pl.read_parquet(path).columns
        assert about["units"] == {name: "s" for name in columns if name.endswith("_s")}
