"""Scenarios drawn from the JSON Schema: most are valid, each command answers soon, and only `--out` changes.

``make fuzz CASES=100000`` is the long campaign; ``FEDSIM_SCENARIOS_FROM=NUMBER`` begins at a case, to run it again.
"""

import os
import random
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedsim import report
from fedsim.ci import replay as replays
from fedsim.common.errors import where
from tests.command import Done, fedsim, limited
from tests.faults.server import measure_here
from tests.fuzz.scenarios import write_scenario

FIRST, CASES = (
    int(os.environ.get(f"FEDSIM_SCENARIOS_{name}", or_else)) for name, or_else in (("FROM", 0), ("CASES", 300))
)
MOST_S = 60.0
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
    (("solve", "FILE", "--until", "rounds.count >= 1", "--to", "2"), 1),
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
            if done.returncode not in {0, 1, 2, 3, 4} or "Traceback" in done.stdout + done.stderr:
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
                patch.setattr(report, "write_report", lambda directory, *_, **__: directory / "report.html")
                patch.setattr(replays, "_measure_all", measure_here)
            wrong += (found := one(number, tmp_path, patch, counts))
        print(*found, sep="\n", end="\n" * bool(found), flush=True)  # noqa: T201  at once, in a long campaign
    print(f"{CASES} cases:", dict(sorted(counts.items())))  # noqa: T201
    assert not wrong, "\n".join([f"{len(wrong)} of {CASES}", *wrong[:30]])
    assert counts["valid"] >= 0.4 * CASES or CASES < 100
