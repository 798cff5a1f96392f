"""A FIFO, a device, a folder or a link in place of any file: no command waits for it, and none replaces it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import fedsim, limited

EVERY = "FEDSIM_MANY" in os.environ  # kind of special file in place of each; else one of them
MOST_S = 10
CODES = {0, 1, 2, 3, 4}
RUN = """
stop: {rounds: 12}
population:
  - {name: a, devices: 8, weight: {kind: column, file: p.csv, column: p}, separation: 1}
  - {name: b, devices: 4, availability: {kind: trace, file: t.csv, base: "2026-01-05T00:00:00Z", repeat: day}}
server: {cohort: 2}
learning: {problem: quadratic, optimizers: [fedavg], step_size: 0.1}
drift: {figures: [rounds.count]}
"""
SWEEP = "stop: {rounds: 6}\npopulation: [{devices: 6}]\nserver: {cohort: 2}\n"
SWEEP += "sweep: {grid: {server.cohort: [1, 2]}, seeds: 2}\n"
WEIGHED = "stop: {rounds: 6}\npopulation: [{devices: 4}]\nserver: {cohort: 1, selection: successive}\n"
CHOICE = "stop: {rounds: 6}\npopulation: [{devices: 6}]\nserver: {cohort: 2}\nchoose: {server.cohort: [1, 2]}\n"
CHOICE += "decide: {minimize: participation.tv_uniform, seeds: 2}\n"
HERE = "--executor concurrent.futures:ThreadPoolExecutor --workers 1 --no-report"
TRACE = "device,start_s,end_s\n" + "".join(f"d{d},{3600 * h},{3600 * h + 3000}\n" for d in range(4) for h in range(24))
KINDS: dict[str, Callable[[Path], None]] = {
    "FIFO": os.mkfifo,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "link to itself": lambda path: path.symlink_to(path),
    "link elsewhere": lambda path: path.symlink_to("/nowhere/at/all"),
}
COMMANDS = {
    "validate a.fedsim.yaml": "a.fedsim.yaml p.csv t.csv",
    "schema --out s.json": "s.json",
    "run a.fedsim.yaml --out run": "run/* a.fedsim.yaml t.csv",
    "run a.fedsim.yaml --out run --resume": "run/*",
    "report run --out page.html": "run/*.* page.html",
    "report run --figures figures": "figures/*.png",
    "export schedule run --out schedule.json": "run/*.json run/participations.parquet schedule.json",
    "export perfetto run --out trace.json": "run/participations.parquet trace.json",
    "compare run run": "run/*",
    "compare sweep sweep": "sweep/* sweep/runs/*",
    "playground a.fedsim.yaml --out play.html": "a.fedsim.yaml play.html",
    "replay a.fedsim.yaml --update --junit junit.xml --summary summary.md": "a.fedsim.* junit.xml summary.md p.csv",
    "replay a.fedsim.yaml": "a.fedsim.lock.json",
    "trace show t.csv --base 2026-01-05T00:00:00Z": "t.csv",
    "trace import t.csv --out imported.parquet": "t.csv imported.parquet",
    "design w.fedsim.yaml --target target.csv --out new.fedsim.yaml": "w.fedsim.yaml target.csv new.*",
    "calibrate log.csv --base 2026-01-05T00:00:00Z --check-ins t.csv --out mine.yaml": "log.csv t.csv mine.yaml",
    f"decide c.fedsim.yaml --out d {HERE[:-12]}": "c.fedsim.yaml d/report.html d/*/sweep.json d/final/runs/*",
    "sweep s.fedsim.yaml --out sweep --workers 1": "s.fedsim.yaml sweep/* sweep/runs/*",
}
"""Each command, and the files that it reads or writes."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all commands read and write."""
    folder = tmp_path_factory.mktemp("kept")
    log = "client,selected_s,ended_s,outcome\n" + "".join(
        f"d{k % 4},{9 * k},{9 * k + 1 + k % 5},reported\n" for k in range(99)
    )
    texts = {"w.fedsim.yaml": WEIGHED, "target.csv": "target\n1\n1\n2\n3\n", "log.csv": log, "c.fedsim.yaml": CHOICE}
    texts |= {"a.fedsim.yaml": RUN, "s.fedsim.yaml": SWEEP, "p.csv": "p\n" + "1.5\n" * 8, "t.csv": TRACE}
    for name, text in texts.items():
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedsim.run.simulate.write_page", lambda _, page, **__: page)
        for command in ("sweep s.fedsim.yaml --out sweep --workers 1", *COMMANDS):
            done = fedsim(*command.split(), cwd=folder)
            assert done.returncode == 0, (command, done.stderr)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_no_special_file_is_waited_for_or_replaced(
    kept: Path, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsim.run.simulate.write_page", lambda _, page, **__: page)
    names = sorted(
        str(path.relative_to(kept)) for glob in COMMANDS[command].split() for path in kept.glob(glob) if path.is_file()
    )
    assert names
    kinds = list(KINDS.items())
    for number, name in enumerate(names):
        for kind, make in kinds if EVERY else kinds[number % len(kinds) :][:1]:
            folder = tmp_path / "case"
            shutil.copytree(kept, folder)
            (folder / name).unlink()
            make(folder / name)
            before = (folder / name).lstat()
            with limited(MOST_S):
                done = fedsim(*command.split(), cwd=folder)
            assert done.returncode in CODES, (name, kind, done.stderr)
            assert "Traceback" not in done.stderr, (name, kind, done.stderr)
            after = (folder / name).lstat()
            assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino), (name, kind)
            shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("command", "name", "content"),
    [
        ("run r.fedsim.yaml --out run", "run/figures", "one.png"),
        ("run r.fedsim.yaml --out run --resume", "run/log.partial", "rounds.parquet"),
        (f"sweep s.fedsim.yaml --out sweep {HERE}", "sweep/runs", "a.parquet"),
        (f"decide c.fedsim.yaml --out d {HERE[:-12]}", "d/final", "a.parquet"),
    ],
)
def test_nothing_is_removed_through_a_link_to_a_folder(tmp_path: Path, command: str, name: str, content: str) -> None:
    """It was: an earlier run's figures, and what a run that was interrupted had left."""
    (tmp_path / "r.fedsim.yaml").write_text(SWEEP.partition("sweep")[0])
    (tmp_path / "s.fedsim.yaml").write_text(SWEEP)
    (tmp_path / "c.fedsim.yaml").write_text(CHOICE)
    (mine := tmp_path / "mine").mkdir()
    (mine / content).write_text("mine")
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).symlink_to(mine)
    done = fedsim(*command.split(), cwd=tmp_path)
    assert (done.returncode, f"{name} cannot be written: it is a link" in done.stderr) == (2, True), done.stderr
    assert [file.name for file in mine.iterdir()] == [content]


def test_a_link_to_itself_among_the_files_of_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.fedsim.yaml").symlink_to("x.fedsim.yaml")
    done = fedsim("replay", ".", cwd=tmp_path)
    assert (done.returncode, "x.fedsim.yaml" in done.stderr, "Traceback" in done.stderr) == (2, True, False)


@pytest.mark.parametrize("kind", ["FIFO", "link"])
def test_nothing_is_written_through_what_lies_at_the_temporary_name(tmp_path: Path, kind: str) -> None:
    (mine := tmp_path / "mine").write_text("mine")
    there = tmp_path / f".s.json.{os.getpid()}.partial"
    os.mkfifo(there) if kind == "FIFO" else there.symlink_to(mine)
    with limited(MOST_S):
        done = fedsim("schema", "--out", "s.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (mine.read_text(), (tmp_path / "s.json").is_symlink(), there.exists()) == ("mine", False, False)
