"""Every command that reads a file gets 1,000 damaged ones: it answers with an exit code of ours, never a traceback.

``FEDSIM_FUZZ_CASES=100000 FEDSIM_FUZZ_FROM=1000 pytest tests/fuzz -s`` is the long campaign; a case is its number, so
that one that fails is run again with ``FEDSIM_FUZZ_CASES=1 FEDSIM_FUZZ_FROM=NUMBER``. All cases are in this process,
where what is imported stays; what takes longest in one is left out: charts, and most fits.
"""

import gzip
import os
import random
import resource
import shutil
import struct
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim.availability.trace import TraceError
from fedsim.ci.lock import LockError, read_lock
from fedsim.common.errors import where
from fedsim.log import journal
from fedsim.traces.logs import read_log
from tests.command import Done, fedsim, limited
from tests.fuzz.mutations import mutate

FIRST, CASES = int(os.environ.get("FEDSIM_FUZZ_FROM", "0")), int(os.environ.get("FEDSIM_FUZZ_CASES", "400"))
CODES = {0, 1, 2, 3, 4, 130}
MOST_CPU_S, MOST_KIB = 20.0, 3 * 2**19
SCENARIO = """
stop: {rounds: 12}
population:
  - {name: a, devices: 8, weight: {kind: column, file: p.csv, column: p}, separation: 1}
  - {name: b, devices: 4, availability: {kind: trace, file: t.csv, base: "2026-01-05T00:00:00Z", repeat: day}}
server: {cohort: 2}
learning: {problem: quadratic, optimizers: [fedavg], step_size: 0.1}
records: {transitions: [1]}
expect: [rounds.count == 12]
drift: {figures: [rounds.count], fingerprint: [rounds]}
"""
PRIVATE = "stop: {rounds: 6}\npopulation: [{devices: 6, separation: 1}]\nserver: {cohort: 2}\n"
PRIVATE += "privacy: {noise_multiplier: 1.0, delta: 1.0e-5}\n"
LEARNING = "stop: {rounds: 2}\npopulation: [{devices: 2}]\nserver: {cohort: 1}\nlearning: {problem: "
LEARNING += "{kind: softmax_regression, data: DATA}, optimizers: [fedavg], step_size: 0.1}\n"
SWEPT = "stop: {rounds: 6}\npopulation: [{devices: 6}]\nserver: {cohort: 2}\n"
SWEPT += "sweep: {grid: {server.cohort: [1, 2]}, seeds: 2}\n"
TRACE = "device,start_s,end_s\n" + "".join(f"d{d},{3600 * h},{3600 * h + 3000}\n" for d in range(4) for h in range(24))
EVENTS = "".join(
    f"2026-01-0{1 + hour % 5} {hour % 24:02}:00:00\tbattery_charged_o{'ff' if hour % 2 else 'n'}\n"
    for hour in range(30)
)
INTERVALS = '{"a": [[0, 3600], [7200, 9000]], "b": [[100, 200]]}'
SESSIONS = "client,selected_s,ended_s,outcome,class,weight,round\n" + "".join(
    f"c{k % 20},{600 * k},{600 * k + 100 + 7 * k % 50},{'reported' if k % 9 else 'late'},{k % 2},{1 + k % 4},{k // 5}\n"
    for k in range(250)
)
WEIGHED = "stop: {rounds: 9}\npopulation: [{devices: 4}, {devices: 4}]\nserver: {cohort: 2, selection: successive}\n"
CHOICE = "stop: {rounds: 6}\npopulation: [{devices: 6}]\nserver: {cohort: 2}\nchoose: {server.cohort: [1, 2]}\n"
CHOICE += "decide: {minimize: participation.tv_uniform, seeds: 2}\n"
IMAGES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte.gz")


class Killed(BaseException):
    """Ends a run wherever it is."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Whole files of every kind; charts are left out, since they take longest."""
    folder = tmp_path_factory.mktemp("kept")
    texts = {"case.fedsim.yaml": SCENARIO, "sweep.fedsim.yaml": SWEPT, "p.csv": "p\n" + "1.5\n" * 8}
    texts |= {"t.csv": TRACE, "t.tsv": EVENTS, "t.json": INTERVALS, "private.fedsim.yaml": PRIVATE}
    texts |= {"log.csv": SESSIONS, "target.csv": "target\n" + "1\n2\n" * 4, "weighed.fedsim.yaml": WEIGHED}
    texts["choice.fedsim.yaml"] = CHOICE
    texts["npz.fedsim.yaml"] = LEARNING.replace("DATA", "{kind: npz, path: d.npz}")
    texts["idx.fedsim.yaml"] = LEARNING.replace("DATA", "{kind: mnist, path: idx}")
    for name, text in texts.items():
        (folder / name).write_text(text)
    _data(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedsim.run.simulate.write_page", lambda _, page, **__: page)
        case = folder / "case.fedsim.yaml"
        for asked in (
            ("run", case, "--out", folder / "run"),
            ("sweep", folder / "sweep.fedsim.yaml", "--out", folder / "sweep", "--workers", "1"),
            ("replay", case, "--update", "--workers", "1"),
        ):
            done = fedsim(*asked)
            assert done.returncode == 0, done.stderr
        keep = journal.Journal.keep

        def keep_once(self: journal.Journal, state: object) -> None:
            keep(self, state)  # type: ignore[arg-type]
            raise Killed

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(journal.Journal, "due", lambda _: True)
            inner.setattr(journal.Journal, "keep", keep_once)
            assert "Killed" in fedsim("run", case, "--out", folder / "left").stderr
        assert not (folder / "left" / "manifest.json").exists()
        yield folder


def _data(folder: Path) -> None:
    """Write a trace in other forms, and samples as an archive and as IDX files."""
    for name in ("t", "log"):
        pl.read_csv(folder / f"{name}.csv").write_parquet(folder / f"{name}.parquet")
    inputs, targets = np.arange(24.0).reshape(8, 3), np.arange(8) % 2
    np.savez_compressed(folder / "d.npz", x_train=inputs, y_train=targets, x_test=inputs[:2], y_test=targets[:2])
    (folder / "idx").mkdir()
    for name in IMAGES:
        array = np.arange(8 * 4, dtype=np.uint8).reshape(8, 2, 2) if "images" in name else targets.astype(np.uint8)
        raw = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()
        (folder / "idx" / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)


def scenario(draw: random.Random, folder: Path) -> list[Done]:
    file = folder / "case.fedsim.yaml"
    mutate(draw, file if draw.random() < 0.7 else folder / draw.choice(["p.csv", "t.csv"]))
    return [fedsim(*draw.choice([("validate", file), ("validate", file), ("chain", file), ("metrics", file)]))]


def private(draw: random.Random, folder: Path) -> list[Done]:
    """A promise, or a log that is held against one."""
    file, run = folder / "private.fedsim.yaml", folder / "run"
    if draw.random() < 0.5:
        mutate(draw, file)
        return [fedsim("privacy", file)]
    mutate(draw, draw.choice([run / "manifest.json", run / "participations.parquet"]))
    return [fedsim("privacy", "--from-log", run, "--rounds", 12, "--min-separation", 2, "--most", 6)]


def data(draw: random.Random, folder: Path) -> list[Done]:
    """Samples that a scenario names, which are read when it runs."""
    if draw.random() < 0.5:
        mutate(draw, folder / "d.npz")
        return [fedsim("run", folder / "npz.fedsim.yaml", "--out", folder / "new")]
    mutate(draw, folder / "idx" / draw.choice(IMAGES))
    return [fedsim("run", folder / "idx.fedsim.yaml", "--out", folder / "new")]


def lock(draw: random.Random, folder: Path) -> list[Done]:
    path = folder / "case.fedsim.lock.json"
    mutate(draw, path)
    if draw.random() < 0.01:
        return [fedsim("replay", folder / "case.fedsim.yaml", "--workers", "1")]
    try:
        read_lock(path)
    except LockError:
        return [Done(2, "", "")]
    return [Done(0, "", "")]


def finished(draw: random.Random, folder: Path) -> list[Done]:
    run = folder / "run"
    changed = draw.choice(sorted(path for path in run.iterdir() if path.is_file()))
    mutate(draw, changed)
    asked = [
        ("report", run, "--format", "md"),
        ("compare", run, folder / "left"),
        ("compare", run, run),
        ("export", run, "--perfetto", folder / "trace.json"),
        ("export", "schedule", run, "--out", folder / "cohorts.json"),
        ("run", folder / "case.fedsim.yaml", "--out", run, "--resume"),
    ]
    return [fedsim(*draw.choice(asked))]


def interrupted(draw: random.Random, folder: Path) -> list[Done]:
    left = folder / "left"
    mutate(draw, draw.choice(sorted(path for path in left.rglob("*") if path.is_file())))
    return [fedsim("run", folder / "case.fedsim.yaml", "--out", left, "--resume")]


def sweep(draw: random.Random, folder: Path) -> list[Done]:
    store, file = folder / "sweep", folder / "sweep.fedsim.yaml"
    if draw.random() < 0.2:
        mutate(draw, file)
        return [fedsim("validate", file)]
    mutate(draw, draw.choice([store / "sweep.json", *sorted((store / "runs").glob("*.parquet"))]))
    here = ("--executor", "concurrent.futures:ThreadPoolExecutor", "--no-report")
    asked = [
        ("report", store, "--format", "md"),
        ("compare", store, store),
        ("compare", f"{store}@0", f"{store}@1"),
        ("sweep", file, "--out", store, *here, *draw.choice([(), ("--compact",)])),
    ]
    return [fedsim(*draw.choice(asked))]


def trace(draw: random.Random, folder: Path) -> list[Done]:
    form = draw.choice(["csv", "parquet", "tsv", "json"])
    file = folder / f"t.{form}"
    mutate(draw, file)
    base = ("--base", "2026-01-05T00:00:00Z")
    if form in {"csv", "parquet"} and draw.random() < 0.6:
        return [fedsim("trace", draw.choice(["show", "show", "show", "show", "fit"]), file, *base)]
    more = base if draw.random() < 0.3 else ()
    return [fedsim("trace", "import", file, "--out", folder / "new.csv", *more)]


def log(draw: random.Random, folder: Path) -> list[Done]:
    """The log of a federation; what fits laws to it takes longest, so that most are only read."""
    file = folder / draw.choice(["log.csv", "log.parquet"])
    mutate(draw, file)
    if draw.random() < 0.2:
        return [fedsim("calibrate", file, "--base", "2026-01-05T00:00:00Z", "--out", folder / "mine.fedsim.yaml")]
    try:
        read_log(file)
    except TraceError:
        return [Done(2, "", "")]
    return [Done(0, "", "")]


def chosen(draw: random.Random, folder: Path) -> list[Done]:
    """A wanted participation, and a choice."""
    if draw.random() < 0.5:
        mutate(draw, draw.choice([target := folder / "target.csv", file := folder / "weighed.fedsim.yaml"]))
        return [fedsim("design", file, "--target", target, "--out", folder / "new.fedsim.yaml")]
    mutate(draw, file := folder / "choice.fedsim.yaml")
    here = ("--executor", "concurrent.futures:ThreadPoolExecutor", "--workers", "1")
    return [fedsim(*draw.choice([("validate", file), ("decide", file, "--out", folder / "decision", *here)]))]


KINDS: list[tuple[Callable[[random.Random, Path], list[Done]], int]] = [
    *(
        (scenario, 6),
        (private, 1),
        (data, 2),
        (lock, 2),
        (finished, 5),
        (interrupted, 2),
        (sweep, 3),
        (trace, 3),
        (log, 2),
        (chosen, 1),
    )
]


@pytest.mark.long
@pytest.mark.timeout(0)  # a campaign takes as long as it takes; each case has a limit of its own
def test_every_case_has_an_answer(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsim.run.simulate.write_page", lambda _, page, **__: page)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wrong, answers = [], Counter[tuple[str, int]]()
    for number in range(FIRST, FIRST + CASES):
        draw = random.Random(number)
        (kind,) = draw.choices([each for each, _ in KINDS], [weight for _, weight in KINDS])
        folder = tmp_path / "case"
        shutil.copytree(kept, folder)
        try:
            with limited(MOST_CPU_S, processor_time=True), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what the mutations make numbers do is not this test's business
                for done in kind(draw, folder):
                    answers[kind.__name__, done.returncode] += 1
                    if done.returncode not in CODES or "Traceback" in done.stdout + done.stderr:
                        wrong.append(f"case {number}, {kind.__name__}: {done}")
        except Exception as error:  # noqa: BLE001  the campaign goes on, and tells all of them
            wrong.append(f"case {number}, {kind.__name__}: {where(error)}"[:500])
        shutil.rmtree(folder)
    assert not wrong, "\n".join([f"{len(wrong)} of {CASES}", *wrong[:30]])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak <= MOST_KIB
    print(f"{sum(answers.values())} cases:", dict(sorted(answers.items())))  # noqa: T201
