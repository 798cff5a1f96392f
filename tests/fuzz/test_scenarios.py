"""Scenarios drawn from the JSON Schema: most are valid, each command answers soon, and only `--out` changes.

Of those that are valid both engines write the same bytes, also where the run is interrupted and goes on.

``make fuzz CASES=100000`` is the long campaign; ``FEDSIM_SCENARIOS_FROM=NUMBER`` begins at a case, to run it again.
"""

import os
import random
import re
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from fedsim import pages
from fedsim.ci import replay as replays
from fedsim.common.errors import where
from fedsim.common.outcomes import ROUND_OUTCOMES, SESSION_OUTCOMES
from fedsim.log import journal
from fedsim.log.recorder import Recorder
from tests.command import Done, fedsim, limited
from tests.faults.server import measure_here
from tests.fuzz.scenarios import write_scenario, write_unequal_work

FIRST, CASES = (
    int(os.environ.get(f"FEDSIM_SCENARIOS_{name}", or_else)) for name, or_else in (("FROM", 0), ("CASES", 100))
)
MOST_S = 60.0
CRASHED = re.compile(r"Traceback|error: (?:\S+: )?[A-Z]\w*(?:Error|Exception): ")  # itself, or why it gave up a run
HERE = ("--executor", "concurrent.futures:ThreadPoolExecutor", "--workers", "1", "--no-report")
ASKED: list[tuple[tuple[object, ...], int]] = [
    (("run", "FILE", "--out", "OUT/run"), 12),
    (("run", "FILE", "--out", "OUT/run", "--engine", "process"), 4),
    (("run", "FILE", "--out", "OUT/run", "--engine", "vectorized"), 4),
    (("chain", "FILE"), 4),
    (("privacy", "FILE"), 3),
    (("metrics", "FILE"), 1),
    (("plan", "FILE", "--scale", "1/2", "--out", "OUT/small.fedsim.yaml"), 2),
    (("playground", "FILE", "--out", "OUT/play.html"), 2),
    (("sweep", "FILE", "--out", "OUT/sweep", *HERE), 4),
    (("replay", "FILE", "--workers", "1", "--out", "OUT/replay", "--summary", "OUT/summary.md"), 2),
    (("replay", "FILE", "--locked", "--workers", "1", "--out", "OUT/locked"), 2),
]
AFTER = [
    *(("report", "OUT/run", "--format", "md"), ("export", "OUT/run", "--perfetto", "OUT/trace.json")),
    *(("export", "schedule", "OUT/run", "--out", "OUT/cohorts.csv"), ("compare", "OUT/run", "OUT/run")),
]


def outside(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return all that is not in the folder that `--out` names."""
    found = (path for path in folder.rglob("*") if path.is_file() and folder / "out" not in path.parents)
    return {str(path.relative_to(folder)): (path.stat().st_mode, path.read_bytes()) for path in found}


def ask(draw: random.Random, folder: Path, file: Path, valid: Counter[str]) -> Iterator[Done]:
    """Validate a scenario; do something with one that is valid."""

    def call(arguments: tuple[object, ...]) -> Done:
        named = [str(each).replace("OUT", str(folder / "out")).replace("FILE", str(file)) for each in arguments]
        with limited(MOST_S), warnings.catch_warnings():
            warnings.simplefilter("error")
            return fedsim(*named, cwd=folder / "cwd")

    checked = call(("validate", "FILE"))
    yield checked
    assert checked.returncode in {0, 2}, checked
    if checked.returncode:
        return
    valid["valid"] += 1
    (asked,) = draw.choices([each for each, _ in ASKED], [weight for _, weight in ASKED])
    done = call(asked)
    valid[f"{asked[0]} {done.returncode}"] += 1
    yield done
    if asked[0] == "run":
        assert done.returncode in {0, 1, 3}, done  # what validates runs, or is given up
        if done.returncode < 3:
            yield call(draw.choice(AFTER))


def one(number: int, place: Path, patch: pytest.MonkeyPatch, counts: Counter[str]) -> list[str]:
    """Return what is wrong with a case."""
    wrong, draw, folder = [], random.Random(number), place / "case"
    for name in ("in", "out", "cwd", "home", "tmp"):
        (folder / name).mkdir(parents=True)
    patch.setenv("HOME", str(folder / "home"))
    patch.setenv("XDG_CACHE_HOME", str(place / "cache"))  # of mechanisms, which may stay
    patch.setattr(tempfile, "tempdir", str(folder / "tmp"))
    try:
        file = write_scenario(draw, folder / "in")
        before = outside(folder)
        for done in ask(draw, folder, file, counts):
            if done.returncode not in {0, 1, 2, 3, 4} or CRASHED.search(done.stdout + done.stderr):
                wrong.append(f"case {number}: {done}")  # noqa: PERF401
        if outside(folder) != before:
            wrong.append(f"case {number}: changed {sorted(outside(folder).items() ^ before.items())}"[:500])
    except Exception as error:  # noqa: BLE001  the campaign goes on, and tells all of them
        wrong.append(f"case {number}: {where(error)}"[:900])
    shutil.rmtree(folder)
    return wrong


@pytest.mark.long
@pytest.mark.timeout(0)  # a campaign takes as long as it takes; each command has a limit of its own
def test_each_command_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, counts = [], Counter[str]()
    for number in range(FIRST, FIRST + CASES):
        with monkeypatch.context() as patch:
            if number % 20:  # what takes longest, charts and the processes of replays, is there in one case of twenty
                patch.setattr(pages, "write_report", lambda _run, to, **_: to)
                patch.setattr(replays, "measure_all", measure_here)
            wrong += (found := one(number, tmp_path, patch, counts))
        print(*found, sep="\n", end="\n" * bool(found), flush=True)  # noqa: T201  at once, in a long campaign
    print(f"{CASES} cases:", dict(sorted(counts.items())))  # noqa: T201
    assert not wrong, "\n".join([f"{len(wrong)} of {CASES}", *wrong[:30]])
    assert counts["valid"] >= 0.4 * CASES or CASES < 100


def run_file(file: Path, out: Path, engine: str, *options: str) -> tuple[int, list[str], dict[str, bytes]]:
    """Return the exit code of a run, its errors, and all tables and figures, of each job too."""
    done = fedsim("run", file, "--engine", engine, "--out", out, *options, cwd=out.parent)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    found = [*out.rglob("*.parquet"), *out.rglob("metrics.json")]
    return done.returncode, errors, {str(path.relative_to(out)): path.read_bytes() for path in found}


def run_interrupted(file: Path, out: Path, engine: str, after: int) -> tuple[int, list[str], dict[str, bytes]]:
    """Run a scenario that is interrupted once, when so many rounds have closed; go on with it."""
    close, left = Recorder.close_round, after

    def closed(recorder: Recorder, instant: int, outcome: str) -> None:
        nonlocal left
        close(recorder, instant, outcome)
        left -= 1
        if not left:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "SOONEST_S", 0.0)  # a state at each opening
        patch.setattr(journal, "PATIENCE", 0.0)
        patch.setattr(Recorder, "close_round", closed)
        run = run_file(file, out, engine)
    return run if left > 0 else run_file(file, out, engine, "--resume")


def seen_in(file: Path, out: Path, errors: list[str]) -> Iterator[str]:
    """Name what a run meets: what ends it, outcomes of rounds and sessions, keys of its files and kinds in them."""
    if errors:
        yield "patience is over" if "which is the server's patience" in errors[0] else "stalls otherwise"
    for path in out.rglob("rounds.parquet"):
        yield from (f"round {each}" for each in pl.read_parquet(path)["outcome"].unique())
        yield from (f"session {each}" for each in pl.read_parquet(path.with_stem("participations"))["outcome"].unique())
    for path in file.parent.glob("*.yaml"):
        yield from re.findall(r'"(?:[a-z_]+|kind": "[a-z_]+)"(?=:|[,}])', path.read_text(encoding="utf-8"))


def compare_engines(cases: int, place: Path, write: Callable[..., Path] = write_scenario) -> Counter[str]:
    """Run so many valid scenarios with both engines, and one of them interrupted; return how many meet what."""
    met, wrong, number = Counter[str](), list[str](), FIRST
    while met["valid"] < cases:
        draw, folder = random.Random(number), place / "case"
        (out := folder / "out").mkdir(parents=True)
        try:
            file = write(draw, folder)
            run = run_file(file, out / "process", "process")
            if run[0] != 2:
                other, engine = run_file(file, out / "vectorized", "vectorized"), draw.choice(["process", "vectorized"])
                resumed = run_interrupted(file, out / "resumed", engine, draw.randint(1, 20))
                met.update({"valid", *seen_in(file, out / "process", run[1])})
                for name, found in (("vectorized", other), (f"{engine}, interrupted", resumed)):
                    apart = sorted(table for table, _ in run[2].items() ^ found[2].items())
                    wrong += [f"case {number}: {name}: {run[:2]} and {found[:2]}, {apart}"] * (found != run)
        except Exception as error:  # noqa: BLE001  the campaign goes on, and tells all of them
            wrong.append(f"case {number}: {where(error)}"[:900])
        number += 1
        shutil.rmtree(folder)
    print(f"{number - FIRST} cases:", dict(met.most_common()), *wrong, sep="\n")  # noqa: T201
    assert not wrong, "\n".join([f"{len(wrong)} of {cases}", *wrong[:30]])
    return met


@pytest.fixture
def log_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the page and theory, which is asked about the scenario alone: they take nearly all of the time."""
    monkeypatch.setattr(pages, "write_report", lambda _run, to, **_: to)
    monkeypatch.setattr("fedsim.run.federation.theory_or_why_not", lambda *_: "not asked")


@pytest.mark.usefixtures("log_alone")
@pytest.mark.parametrize("write", [write_scenario, write_unequal_work])
def test_both_engines_write_the_same_bytes(tmp_path: Path, write: Callable[..., Path]) -> None:
    compare_engines(5, tmp_path, write)


@pytest.mark.campaign
@pytest.mark.timeout(0)
@pytest.mark.usefixtures("log_alone")
@pytest.mark.parametrize(
    ("write", "wanted"),
    [
        (write_scenario, {*(f"round {each}" for each in ROUND_OUTCOMES), "patience is over"}),
        (write_unequal_work, {'"partial"'}),
    ],
)
def test_both_engines_write_the_same_bytes_many_times(
    tmp_path: Path, write: Callable[..., Path], wanted: set[str]
) -> None:
    """Every outcome is among them, so that the generators meet what ends sessions, and the first what ends rounds."""
    met = compare_engines(CASES, tmp_path, write)
    assert CASES < 300 or wanted | {f"session {each}" for each in SESSION_OUTCOMES} <= met.keys()
