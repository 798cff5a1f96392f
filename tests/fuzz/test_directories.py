"""Something happens to one file of a run, sweep or decision directory: it is told, or makes no difference.

``make fuzz-directories CASES=2000 FROM=100``; a case is its number. Most are in this process, where charts are left
out, since they take longest; one in ten is a process of its own, as a person calls it. Nothing waits, no signal ends a
command, nothing that a file holds is run, and no other figures come of it without a word.
"""

import json
import os
import pickle
import random
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim import load
from fedsim.common.errors import RunError
from fedsim.learning.checkpoint import Checkpoint
from fedsim.log.journal import Journal
from fedsim.sweeps.store import RUNS, write_crash, write_sweep
from tests.command import Done, fedsim, fedsim_process, limited
from tests.fuzz.mutations import mutate, of_bytes

CASES, FIRST = int(os.environ.get("FEDSIM_DIRECTORIES", "0")), int(os.environ.get("FEDSIM_DIRECTORIES_FROM", "0"))
MOST_S = 60.0  # of a command, on a machine that does other things too
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
    "choice.fedsim.yaml": SWEPT
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
    ".": [("replay", "case.fedsim.yaml", "--workers", "1"), ("metrics", "case.fedsim.yaml", "--json")],
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
        with pytest.raises(Killed):
            yield


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Let states be kept and rows be passed on often, and leave out charts."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            *(("log.journal.SOONEST_S", 0.0), ("log.journal.PATIENCE", 0.0), ("log.recorder._SETTLE", 8)),
            *(("learning.checkpoint._SECONDS", 0.0), ("learning.checkpoint._SHARE", 1e9)),
            ("report.write_report", _page),
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
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in UNREAD]
    return [path for path in found if path.parent == folder] if folder.name.startswith("case-") else found


def _replaced(make: Callable[[Path], object]) -> Callable[[random.Random, Path], None]:
    def change(_: random.Random, path: Path) -> None:
        path.unlink()
        make(path)

    return change


def _huge(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(2**40)


def _swapped(draw: random.Random, path: Path) -> None:
    """Put another file of the directory there, or the same of another run."""
    top = path.parents[-1 - len(FOLDER[0].parts)]
    alike = [each for each in FOLDER[0].rglob(path.name) if each != path and each.is_file()]
    near = [each for each in files_of(top if top.is_dir() else path.parent) if each != path]
    others = alike if alike and draw.random() < 0.6 else near
    if others:
        content = draw.choice(others).read_bytes()
        path.write_bytes(content)


def _pickled(_: random.Random, path: Path) -> None:
    if path.suffix == ".npz":
        np.savez(path, allow_pickle=True, tree=np.array([Trap()], dtype=object), state=np.array(Trap(), dtype=object))
    else:
        path.write_bytes(pickle.dumps((3, Trap())))


FOLDER: list[Path] = []
"""Where the case is."""
DEEP = '{"scenario": ' + "[" * 5_000 + "]" * 5_000 + "}"
ACCIDENTS: list[tuple[Callable[[random.Random, Path], None], int]] = [
    *((mutate, 8), (of_bytes, 8), (_swapped, 4), (_pickled, 2)),
    (lambda _, path: _huge(path), 1),
    (_replaced(os.mkfifo), 2),
    (_replaced(lambda path: path.symlink_to("/dev/zero")), 1),
    (_replaced(lambda path: path.symlink_to(path)), 1),
    (_replaced(lambda path: path.symlink_to("nowhere")), 1),
    (_replaced(Path.mkdir), 1),
    (_replaced(lambda path: path.write_text(DEEP)), 1),
    (_replaced(lambda path: path.write_text('{"a": NaN, "b": 1e999}')), 1),
]


def ask(asked: tuple[str, ...], folder: Path, *, apart: bool = False) -> Done:
    """Ask for something in a folder, also for what `fedsim.load` gives."""
    if asked[0] == "load":
        try:
            found = load(folder / asked[1])
        except RunError as error:
            return Done(2, "", str(error))
        models = {name: model.tobytes() for name, model in found.models.items()}
        return Done(0, repr((found, found.metrics, [*map(repr, found.tables.values())], models)), "")
    if apart:
        done = fedsim_process(*asked, cwd=folder)
        return Done(done.returncode, done.stdout, done.stderr)
    return fedsim(*asked, cwd=folder)


def content(folder: Path, of: str) -> dict[str, Any]:
    """Return what must be the same after a command that resumes: results, and the tables; no wall times."""
    found: dict[str, Any] = {}
    for path in files_of(folder / of):
        kept: Any = path.read_bytes()
        if path.name in {"manifest.json", "sweep.json"}:
            kept = {key: value for key, value in json.loads(kept).items() if key not in TIMED}
        found[str(path.relative_to(folder))] = kept
    return found


TIMED = {"wall_time_s", "checksums", "checksum", "status"}


def check(numbers: range, kept: Path, place: Path, apart: int) -> Counter[str]:
    """Let accidents happen, and compare what is answered with what is answered without them."""
    wrong, counts, known = list[str](), Counter[str](), dict[tuple[str, ...], tuple[Done, dict[str, Any]]]()
    folder = place / "case"
    FOLDER[:] = [folder]
    for number in numbers:
        draw = random.Random(number)
        (of,) = draw.choices([*WEIGHTS], [*WEIGHTS.values()])
        asked = draw.choice(ASKED[of])
        goes_on = of not in {"run", "private", "."} and asked[0] in {"run", "sweep", "decide"}

        def answer(*, apart: bool = False) -> tuple[Done, dict[str, Any]]:
            with limited(MOST_S), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                done = ask(asked, folder, apart=apart)  # noqa: B023
            new = folder / "new.json"
            made = {"new.json": new.read_bytes()} if new.exists() else {}
            return done, made | (content(folder, of) if goes_on and done.returncode == 0 else {})  # noqa: B023

        separate = bool(apart and number % apart == 0)
        key = (*asked, str(separate))
        if key not in known:
            shutil.copytree(kept, folder)
            known[key] = answer(apart=separate)
            shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        files = [path for path in files_of(folder / of) if of != "." or path.parent == folder]
        path = draw.choice(files)
        (accident,) = draw.choices([each for each, _ in ACCIDENTS], [weight for _, weight in ACCIDENTS])
        before = path.read_bytes()
        with suppress(FileNotFoundError):
            accident(draw, path)
        same = path.is_file() and not path.is_symlink() and path.stat().st_size < 2**30 and path.read_bytes() == before
        case = (
            f"case {number}: {' '.join(asked)}, {path.relative_to(folder)}, {getattr(accident, '__name__', accident)}"
        )
        try:
            done, made = answer(apart=separate)
        except BaseException as error:  # noqa: BLE001  the campaign goes on
            wrong.append(f"{case}: {type(error).__name__}: {error}"[:900])
        else:
            counts[f"exit code {done.returncode}"] += 1
            whole, wanted = known[key]
            if done.returncode not in {0, 1, 2, 3} or "Traceback" in done.stderr:
                wrong.append(f"{case}: {done.returncode} {done.stderr[-600:]}")
            elif done.returncode == 0 and not same and path.name not in done.stderr:
                other = [name for name in made | wanted if made.get(name) != wanted.get(name)]
                said = done.stdout != whole.stdout and not goes_on
                if said or [name for name in other if name != str(path.relative_to(folder)) or goes_on]:
                    wrong.append(f"{case}: others: {other} {said * done.stdout[:300]}")
                counts["exit code 0, the same figures"] += 1
        if (folder / "trapped").exists() or Path("trapped").exists():
            wrong.append(f"{case}: was run")
        shutil.rmtree(folder)
    assert not wrong, "\n".join([f"{len(wrong)} of {len(numbers)}", *wrong[:40]])
    return counts


def test_what_happens_to_a_file_is_told_or_makes_no_difference(kept: Path, tmp_path: Path) -> None:
    check(range(12), kept, tmp_path, 0)


@pytest.mark.long
@pytest.mark.timeout(0)  # a campaign takes as long as it takes; each case has a limit of its own
def test_many_accidents(kept: Path, tmp_path: Path) -> None:
    cases = CASES or 100
    print(dict(sorted(check(range(FIRST, FIRST + cases), kept, tmp_path, 10).items())))  # noqa: T201
