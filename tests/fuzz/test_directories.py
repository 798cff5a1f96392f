"""Something happens to one file of a run, sweep or decision directory: it is told, or makes no difference.

``make fuzz-directories CASES=2000 FROM=100``; a case is its number. Most are in this process, where charts are left
out, since they take longest; one in ten is a process of its own, as a person calls it. Nothing waits, no signal ends a
command, nothing that a file holds is run, and no other figures come of it without a word.
"""

import json
import os
import pickle
import random
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedsim import load
from fedsim.common.errors import RunError
from fedsim.learning.checkpoint import Checkpoint
from fedsim.log import fingerprint
from fedsim.log.journal import Journal
from fedsim.trials.store import RUNS, write_crash, write_sweep
from tests.command import Done, fedsim, fedsim_process, limited
from tests.fuzz.mutations import mutate, of_bytes

CASES, FIRST = int(os.environ.get("FEDSIM_DIRECTORIES", "100")), int(os.environ.get("FEDSIM_DIRECTORIES_FROM", "0"))
MOST_S = 100.0  # of a command, on a machine that does other things too
CASE = """
stop: {rounds: 14}
population:
  - {devices: 9, separation: 1, availability: {kind: renewal, on: 30m, off: 10m}}
server: {cohort: 2}
learning: {problem: {kind: quadratic, dimension: 2}, optimizers: [fedavg, SECOND], step_size: 0.1}
records: {transitions: [1]}
drift: {figures: [rounds.count], fingerprint: [rounds]}
"""
PRIVATE = "privacy: {mechanism: banded, noise_multiplier: 1.0, delta: 1.0e-6, clip: 1, training: noise}\n"
SWEPT = """
stop: {rounds: 6}
population: [{devices: 6}]
server: {cohort: 2}
"""
TEXTS = {
    "case.fedsim.yaml": CASE.replace("SECOND", "{kind: fedavg, name: adam, server: adam}, scaffold"),
    "private.fedsim.yaml": CASE.replace("SECOND", "debiased_fedavg").replace("rounds: 14", "rounds: 8") + PRIVATE,
    "sweep.fedsim.yaml": SWEPT + "sweep: {grid: {server.cohort: [1, 2]}, seeds: 2}\n",
    "choice.fedsim.yaml": SWEPT.replace("6}", "7}")
    + "choose: {server.cohort: [1, 2]}\ndecide: {minimize: participation.tv_uniform, seeds: 2}\n",
}
HERE = ("--executor", "concurrent.futures:ThreadPoolExecutor", "--workers", "1")
SWEEP = ("sweep", "sweep.fedsim.yaml", *HERE, "--no-report", "--out")
ASKED: dict[str, list[tuple[str, ...]]] = {
    "run": [
        *(("report", "run", "--format", form) for form in ("md", "json")),
        *(("compare", "run", "whole"), ("compare", "whole", "run"), ("load", "run")),
        ("export", "run", "--perfetto", "new.json"),
        ("export", "schedule", "run", "--out", "new.json"),
        ("run", "case.fedsim.yaml", "--out", "run", "--resume"),
    ],
    "private": [("privacy", "--from-log", "private", "--json"), ("privacy", "--audit", "private"), ("load", "private")],
    "left": [("run", "case.fedsim.yaml", "--out", "left", "--resume")],
    "trained": [("run", "case.fedsim.yaml", "--out", "trained", "--resume")],
    "sweep": [
        *(("report", "sweep", "--format", "md"), ("compare", "sweep", "sweep"), ("compare", "sweep@0", "sweep@1")),
        *((*SWEEP, "sweep"), (*SWEEP, "sweep", "--compact")),
    ],
    "begun": [(*SWEEP, "begun"), ("report", "begun", "--format", "md")],
    "merged": [(*SWEEP, "merged"), ("report", "merged", "--format", "md")],
    "decision": [("decide", "choice.fedsim.yaml", *HERE, "--out", "decision")],
    ".": [("replay", "case.fedsim.yaml", "--workers", "1", "--json")],
}
"""Commands by the directory that they read, of which a file is changed."""
WEIGHTS = {"run": 5, "private": 2, "left": 5, "trained": 6, "sweep": 4, "begun": 3, "merged": 2, "decision": 3, ".": 1}
UNREAD = {"report.html", ".lock"}


class Killed(BaseException):
    """Ends a run wherever it is."""


class Trap:
    """Runs something where it is read."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("trapped",)


def _page(directory: Path, page: Path | None = None, **_: object) -> Path:
    return page or directory / "report.html"


@contextmanager
def interrupted(of: type[Any], after: int) -> Iterator[None]:
    """End what the block runs when a state has been kept so many times."""
    keep, times = of.keep, Counter[str]()

    def keep_some(self: Any, *state: object) -> None:
        keep(self, *state)
        times[""] += 1
        if times[""] == after:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of, "keep", keep_some)
        yield  # a command that runs in this process tells of it, as of any other end
        assert times[""] == after


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Let states be kept and rows be passed on often, and leave out charts."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            *(("log.journal.SOONEST_S", 0.0), ("log.journal.PATIENCE", 0.0), ("log.recorder._SETTLE", 8)),
            *(("learning.checkpoint._SECONDS", 0.0), ("learning.checkpoint._SHARE", 1e9)),
            ("pages.write_report", _page),
        ):
            patch.setattr(f"fedsim.{name}", value)
        yield


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Whole directories of every kind, and some whose run, training, sweep or decision was interrupted."""
    folder = tmp_path_factory.mktemp("kept")
    for name, text in TEXTS.items():
        (folder / name).write_text(text)

    def done(*asked: object) -> None:
        answer = fedsim(*asked, cwd=folder)
        assert answer.returncode == 0, answer.stderr

    for name, more in {"run": [], "whole": [], "other": ["--seed", "7"]}.items():
        done("run", "case.fedsim.yaml", "--out", name, *more)
    done("run", "private.fedsim.yaml", "--out", "private")
    done("replay", "case.fedsim.yaml", "--update", "--workers", "1")
    for name, of, after in (("left", Journal, 9), ("trained", Checkpoint, 9)):
        for out, more in ((name, []), (f"other-{name}", ["--seed", "7"])):
            with interrupted(of, after):
                fedsim("run", "case.fedsim.yaml", "--out", out, *more, cwd=folder)
    done(*SWEEP, "sweep")
    shutil.copytree(folder / "sweep", folder / "merged")
    done(*SWEEP, "merged", "--compact")
    done("decide", "choice.fedsim.yaml", *HERE, "--out", "decision")
    shutil.copytree(folder / "sweep", folder / "begun")
    for sweep in (folder / "begun", folder / "decision" / "final"):
        lost = min((sweep / RUNS).glob("*.parquet"))
        lost.unlink()
        about = json.loads((sweep / "sweep.json").read_text())
        del about["fingerprint"], about["checksum"]
        write_sweep(sweep, about | {"status": "interrupted"})
    write_crash(folder / "begun", min((folder / "begun" / RUNS).glob("*.parquet")).stem, 1, "it crashed")
    return folder


def files_of(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in UNREAD]


def runs_of(sweep: Path) -> object:
    return json.loads(sweep.read_text())["runs"]


def changed(draw: random.Random, path: Path, kept: Path) -> str:
    """Let an accident happen to a file, and return its name; `kept` is where the file and all others are whole."""
    name: str = draw.choice(ACCIDENTS)
    if name in REPLACED:
        path.unlink()
        REPLACED[name](path)
    elif name == "swapped":  # for the same file of another directory, or for another one beside it
        alike = [each for each in kept.rglob(path.name) if each.is_file() and each.read_bytes() != path.read_bytes()]
        if path.name == "sweep.json":  # that of the same runs is no other one
            alike = [each for each in alike if runs_of(each) != runs_of(path)]
        beside = [each for each in path.parent.iterdir() if each.is_file() and each != path]
        if others := sorted(alike if alike and draw.random() < 0.7 else beside):
            shutil.copy(draw.choice(others), path)
    else:
        with suppress(FileNotFoundError):
            (mutate if name == "changed" else of_bytes)(draw, path)
    return name


def _packed(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, tree=np.array([Trap()], dtype=object), checksum=np.array(Trap(), dtype=object))


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


REPLACED: dict[str, Callable[[Path], object]] = {
    "pickle": lambda path: path.write_bytes(pickle.dumps((3, Trap()))),
    "packed pickle": _packed,
    "huge": _huge,
    "FIFO": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link to itself": lambda path: path.symlink_to(path),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "folder": Path.mkdir,
    "deep": lambda path: path.write_text('{"scenario": ' + "[" * 900 + "]" * 900 + "}"),
    "NaN": lambda path: path.write_text('{"a": NaN, "b": 1e999}'),
}
ACCIDENTS = [*REPLACED, *["changed", "bytes", "swapped"] * 4]


def ask(asked: tuple[str, ...], folder: Path, *, apart: bool) -> Done:
    """Ask for something in a folder, also for what `fedsim.load` gives."""
    if asked[0] == "load":
        try:
            found = load(folder / asked[1])
        except RunError as error:
            return Done(2, "", str(error))
        models = {name: model.tobytes() for name, model in found.models.items()}
        return Done(0, repr((found, found.metrics, [*map(repr, found.tables.values())], models)), "")
    if not apart:
        return fedsim(*asked, cwd=folder)
    done = fedsim_process(*asked, cwd=folder)
    return Done(done.returncode, done.stdout, done.stderr)


def left(folder: Path) -> dict[str, Any]:
    """Return what a command must leave: all files, without wall times and how often it was asked."""
    found: dict[str, Any] = {}
    for path in files_of(folder):
        content: Any = fingerprint(pl.read_parquet(path)) if path.suffix == ".parquet" else path.read_bytes()
        if path.name in {"manifest.json", "sweep.json"}:
            content = {key: value for key, value in json.loads(content).items() if key not in TIMED}
        found[str(path.relative_to(folder))] = content
    return found


WALL_TIME = re.compile(r'"wall_s": [0-9.e-]+|, [0-9.]+ s')
TIMED = {"wall_time_s", "checksums", "checksum", "status"}


def what_is_wrong(done: Done, made: dict[str, Any], whole: Done, wanted: dict[str, Any], named: str) -> str:
    """Say what is wrong with an answer, and what was made, where a file of this name was changed, or none was."""
    if done.returncode not in {0, 1, 2, 3, 4} or "Traceback" in done.stderr:
        return f"exit code {done.returncode}: {done.stderr[-700:]}"
    if done.returncode and not (done.stdout + done.stderr).strip():
        return "nothing was said"
    if done.returncode == 0 and not (named and named in done.stderr):
        if other := [name for name in made | wanted if made.get(name) != wanted.get(name)]:
            return f"others: {other}"
        if WALL_TIME.sub("", done.stdout) != WALL_TIME.sub("", whole.stdout):
            return f"says {done.stdout[:300]!r} instead of {whole.stdout[:300]!r}"
    return ""


def check(numbers: range, kept: Path, place: Path, apart: int = 0) -> None:
    """Let accidents happen, and compare what is answered with what is answered without them."""
    wrong, counts, known = list[str](), Counter[str](), dict[object, tuple[Done, dict[str, Any]]]()
    folder = place / "case"

    def answer(of: str, asked: tuple[str, ...], separate: bool) -> tuple[Done, dict[str, Any]]:
        with limited(MOST_S), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = ask(asked, folder, apart=separate)
        new, goes_on = folder / "new.json", of in {"left", "trained", "sweep", "begun", "merged", "decision"}
        made = {"new.json": new.read_bytes()} if new.is_file() else {}
        if goes_on and asked[0] in {"run", "sweep", "decide"} and done.returncode == 0:
            return Done(0, "", done.stderr), left(folder / of)
        return done, made

    def lay_out(of: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for each in kept.iterdir():
            if each.is_file() or each.name in {of, "whole"}:
                (shutil.copy if each.is_file() else shutil.copytree)(each, folder / each.name)

    for number in numbers:
        draw, separate = random.Random(number), bool(apart) and number % apart == 0
        (of,) = draw.choices([*WEIGHTS], [*WEIGHTS.values()])
        asked = draw.choice(ASKED[of])
        if (asked, separate) not in known:
            lay_out(of)
            known[asked, separate] = answer(of, asked, separate)
        lay_out(of)
        files = [each for each in files_of(folder / of) if of != "." or each.name.endswith(".lock.json")]
        path = draw.choice([*files, *[each for each in files if each.suffix == ".npz"] * 3])
        before = path.read_bytes()
        accident = changed(draw, path, kept)
        same = path.is_file() and path.stat().st_size == len(before) and path.read_bytes() == before
        case = f"case {number}: {' '.join(asked)}; {path.relative_to(folder)}, {accident}"
        found = ""
        try:
            done, made = answer(of, asked, separate)
        except BaseException as error:  # noqa: BLE001  the campaign goes on
            found = f"{type(error).__name__}: {error}"
        else:
            counts[f"exit code {done.returncode}"] += 1
            found = what_is_wrong(done, made, *known[asked, separate], named="" if same else path.name)
        if (folder / "trapped").exists() or Path("trapped").exists():
            found += "; something was run"
        if found:
            wrong.append(f"{case}: {found}")
            print(wrong[-1][:1500], flush=True)  # noqa: T201
        if number % 50 == 0:
            print(number, dict(sorted(counts.items())), len(wrong), "wrong", flush=True)  # noqa: T201
    print(len(numbers), "cases:", dict(sorted(counts.items())))  # noqa: T201
    assert not wrong, "\n".join([f"{len(wrong)} of {len(numbers)}", *wrong[:40]])


def test_what_happens_to_a_file_is_told_or_makes_no_difference(kept: Path, tmp_path: Path) -> None:
    check(range(12), kept, tmp_path)


@pytest.mark.campaign
@pytest.mark.timeout(0)  # a campaign takes as long as it takes; each case has a limit of its own
def test_many_accidents(kept: Path, tmp_path: Path) -> None:
    check(range(FIRST, FIRST + CASES), kept, tmp_path, 10)
