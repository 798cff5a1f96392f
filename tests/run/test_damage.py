"""What is wrong in a run directory, or who else writes to it, is told with the name of the file; nothing is lost."""

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedsim import load, simulate
from fedsim.common.errors import RunError
from fedsim.common.files import read_checked, sole_writer, write_checked
from fedsim.log import journal
from fedsim.log.columns import Arrays
from fedsim.run.files import UNFINISHED
from fedsim.scenario import Scenario
from tests.command import fedsim, fedsim_process
from tests.conftest import LIMIT_S, SMALL, Load, Write
from tests.run.test_record import (
    RENEWAL,
    Killed,
    quick,  # noqa: F401  for every test here
    run,
)


def test_a_second_run_into_the_same_directory_is_refused(small: Load, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with sole_writer(out, "run"):
        for resume in (False, True):
            with pytest.raises(RunError, match=r"another run is writing to .*; wait for it, or choose another folder"):
                run(small(), out, resume=resume)
        with pytest.raises(RunError, match="another run is writing"):
            simulate(small()).save(out)
    assert not list(out.iterdir())
    run(small(), out)


@pytest.mark.long
def test_the_lock_goes_with_its_process(small: Load, tmp_path: Path) -> None:
    """... even where it is killed."""
    out = tmp_path / "out"
    hold = "import sys, time; from pathlib import Path; from fedsim.common.files import sole_writer\n"
    hold += "with sole_writer(Path(sys.argv[1]), 'run'):\n print('held', flush=True)\n time.sleep(1000)"
    with subprocess.Popen([sys.executable, "-c", hold, str(out)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        done = fedsim_process("run", "scenarios/paper/synthetic.fedsim.yaml", "--out", out)
        assert (done.returncode, "another run is writing to" in done.stderr) == (2, True)
        holder.kill()
        holder.wait(LIMIT_S)
    run(small(), out)


def interrupted(scenario: Scenario, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Leave a run that was interrupted after some states were kept, and return its folder."""
    keep, kept = journal.Journal.keep, [0]

    def keep_some(self: journal.Journal, state: Arrays) -> None:
        keep(self, state)
        kept[0] += 1
        if kept[0] == 30:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(journal.Journal, "keep", keep_some)
        with pytest.raises(Killed):
            run(scenario, directory)
    return directory / UNFINISHED


def spoilt(content: bytes, number: int) -> bytes:
    """Damage a file: cut, emptied, or with some bytes changed."""
    draws = np.random.default_rng(number)
    if number % 5 == 0:
        return content[: int(draws.integers(0, len(content)))]
    spoilt = bytearray(content)
    for at in draws.integers(0, len(spoilt), size=int(draws.integers(1, 20))):
        spoilt[at] ^= int(draws.integers(1, 256))
    return bytes(spoilt)


@pytest.mark.long
@pytest.mark.parametrize("name", ["state.npz", "run.json", "rounds-000000.parquet", "participations-000000.parquet"])
def test_damage_to_an_interrupted_run_is_told(
    small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whatever bytes change: it is refused with the file's name, or makes no difference."""
    scenario = small(f"engine={'process' if name[0] == 's' else 'vectorized'}", RENEWAL)
    folder = interrupted(scenario, tmp_path / "run", monkeypatch)
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    told = []
    for number in range(40):
        folder.mkdir(exist_ok=True)
        for each, content in kept.items():
            (folder / each).write_bytes(content)
        (folder / name).write_bytes(spoilt(kept[name], number) if number else b"")
        try:
            run(scenario, tmp_path / "run", resume=True)
            (tmp_path / "run" / "manifest.json").unlink()
        except RunError as error:
            told.append(str(error))
    assert len(told) > 30
    assert all(name in each or (name == "run.json" and "holds another run" in each) for each in told)
    assert name == "run.json" or all("leave out --resume" in each for each in told)


def test_a_part_that_is_gone_is_told(small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = interrupted(small(), tmp_path / "run", monkeypatch)
    (folder / "gauges-000000.parquet").unlink()
    with pytest.raises(RunError, match=r"gauges-000000\.parquet is damaged \(it is missing\); leave out --resume"):
        run(small(), tmp_path / "run", resume=True)


def test_a_state_that_is_another_s_is_told(small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = interrupted(small(), tmp_path / "run", monkeypatch)
    with np.load(folder / "state.npz") as state:
        arrays = {name: array for name, array in state.items() if not name.startswith("world.")}
    np.savez(folder / "state.npz", **arrays)
    with pytest.raises(RunError, match=r"state\.npz is damaged \(ValueError: its checksum is another\)"):
        run(small(), tmp_path / "run", resume=True)
    del arrays["checksum"]
    write_checked(folder / "state.npz", arrays, "\n" + (folder / "run.json").read_text())
    with pytest.raises(RunError, match=r"state\.npz is damaged \(KeyError"):
        run(small(), tmp_path / "run", resume=True)
    np.savez_compressed(folder / "state.npz", **arrays)
    with pytest.raises(RunError, match=r"state\.npz is damaged \(ValueError: it is compressed\)"):
        run(small(), tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("name", "made_up"),
    [
        *(("now", np.array("x")), ("number", np.array(np.nan)), ("log.running", np.full(7, np.nan))),
        *(("log.rows.client", np.zeros((0, 0, 0, 0))), ("log.rows.round", np.array(["x"]))),
    ],
)
def test_a_state_that_somebody_made_up_ends_in_an_error_and_no_traceback(
    small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, made_up: object
) -> None:
    scenario = small(RENEWAL)
    folder = interrupted(scenario, tmp_path / "run", monkeypatch)
    of = "\n" + (folder / "run.json").read_text()
    state = read_checked(folder / "state.npz", of)
    write_checked(folder / "state.npz", state | {name: np.asarray(made_up)}, of)
    with pytest.raises(RunError, match=r"state\.npz is damaged"):
        run(scenario, tmp_path / "run", resume=True)


def test_the_tables_of_a_simulation_that_is_over_are_checked(
    small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("fedsim.run.simulate.evaluate", fail)
        with pytest.raises(Killed):
            run(small(), tmp_path / "run")
    table = tmp_path / "run" / "participations.parquet"
    kept = table.read_bytes()
    table.write_bytes(spoilt(kept, 3))
    with pytest.raises(RunError, match=r"participations\.parquet is damaged"):
        run(small(), tmp_path / "run", resume=True)
    table.write_bytes(kept)
    run(small(), tmp_path / "run", resume=True)


def test_what_fails_after_the_simulation_leaves_it_and_says_how_to_go_on(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = write(SMALL), tmp_path / "out dir"

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("in a chart")

    with monkeypatch.context() as patch:
        patch.setattr("fedsim.run.simulate.write_page", fail)
        done = fedsim("run", file, "--out", out)
    assert done.returncode == 3
    assert "error: ZeroDivisionError: in a chart (" in done.stderr
    command = f"fedsim run {file} --out '{out}' --resume"
    assert f"the simulation is over and its tables are kept; to go on from there: {command}\n" in done.stderr
    assert load(out).metrics
    monkeypatch.setattr("fedsim.run.simulate.simulate_into", fail)  # it is not simulated again
    assert fedsim(*shlex.split(command)[1:]).returncode == 0
    assert (out / "report.html").exists()
