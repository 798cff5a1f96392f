"""The n-th call that writes fails, is cut short, or is the last; or a signal comes: a restart ends in the same bytes.

``FEDSIM_FAULTS_CASES=1000 pytest tests/faults -s`` is the long campaign of both, over every command that writes;
without it, a few of the same list. With another ``FEDSIM_FAULTS_SEED`` other faults are drawn.
"""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.command import variables
from tests.conftest import LIMIT_S
from tests.whole import check_whole

CASES, SEED = int(os.environ.get("FEDSIM_FAULTS_CASES", "30")), int(os.environ.get("FEDSIM_FAULTS_SEED", "17"))
COMPILER = shutil.which("cc")
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(0),  # a campaign takes as long as it takes
    pytest.mark.skipif(not (COMPILER and sys.platform == "linux"), reason="needs Linux and a C compiler"),
]
FAULTS = [
    *(("once", each) for each in (errno.ENOSPC, errno.EIO, errno.EACCES)),
    *(("from then on", each) for each in (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS)),
    *(("short", 0), ("crash", 0), ("crash of all", 0)),
]
RUN = """\
stop: {rounds: 16}
population:
  - {devices: 12, weight: {kind: zipf, exponent: 1}, availability: {kind: renewal, on: 30m, off: 10m}}
server: {cohort: 3}
learning: {problem: quadratic, optimizers: [fedavg], step_size: 0.1}
records: {transitions: [1]}
drift: {figures: [rounds.count], fingerprint: [rounds]}
"""
SWEPT = """\
stop: {rounds: 6}
population: [{devices: 6}]
server: {cohort: 2}
sweep: {grid: {server.cohort: [1, 2]}, seeds: 2}
"""
P = "stop: {rounds: 6}\npopulation: [{devices: 6, separation: 1}]\nserver: {cohort: 2}\n"
P += "privacy: {noise_multiplier: 1.0, delta: 1.0e-5, mechanism: sqrt}\n"
EVENTS = "".join(f"2026-01-05 {hour:02}:00:00\tbattery_charged_o{'ff' if hour % 2 else 'n'}\n" for hour in range(20))
CHOICE = """\
stop: {rounds: 6}
population: [{devices: 8, weight: {kind: zipf, exponent: 1}}]
server: {cohort: 2}
learning: {problem: {kind: quadratic, dimension: 2}, optimizers: [fedavg], step_size: 0.1, loss_parts: true}
choose: {server.cohort: [2, 3]}
decide: {minimize: learning.fedavg.above_optimum, tune: {local_step_size: [0.1, 0.2]}, seeds: 4, tuning_seeds: 1}
"""
WEIGHED = "stop: {rounds: 20}\npopulation: [{devices: 5, separation: 1}, {devices: 3, separation: 1}]\n"
WEIGHED += "server: {cohort: 2, selection: successive}\n"
SESSIONS = "client,selected_s,ended_s,outcome\n" + "".join(
    f"c{n % 40},{600 * n},{600 * n + 100 + 7 * n % 50},reported\n" for n in range(200)
)


@dataclass(frozen=True)
class Answer:
    """What a command answered, how many calls that write it made, and how long it took."""

    code: int
    said: str
    calls: int
    took_s: float


class Server:
    """Asks `tests.faults.server`."""

    def __init__(self, folder: Path) -> None:
        shim, plan = folder / "shim.so", folder / "plan"
        source = Path(__file__).with_name("shim.c")
        build = [str(COMPILER), "-shared", "-fPIC", "-O1", "-o", str(shim), str(source), "-ldl"]
        subprocess.run(build, check=True, timeout=LIMIT_S)
        plan.write_bytes(bytes(8192))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=variables({"LD_PRELOAD": str(shim), "FEDSIM_FAULTS": str(plan), "POLARS_MAX_THREADS": "1"}),
        )

    def ask(self, root: Path, arguments: list[str], kind: str = "nothing", at: int = 0, error: int = 0) -> Answer:
        return self._ask(root=str(root), arguments=arguments, kind=kind, at=at, errno=error, signal=0)

    def signal(self, root: Path, arguments: list[str], name: signal.Signals, after_s: float) -> Answer:
        asked = {"kind": "nothing", "at": 0, "errno": 0, "signal": name, "after_s": after_s}
        return self._ask(root=str(root), arguments=arguments, **asked)

    def _ask(self, **asked: object) -> Answer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return Answer(*json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate(timeout=LIMIT_S)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("shim"))
    yield server
    server.close()


def content(folder: Path) -> dict[str, bytes]:
    """Return what must be the same: all files, without the time that was taken in those that say it."""
    found = {}
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        kept = path.read_bytes()
        if path.name in {"manifest.json", "sweep.json"}:
            kept = json.dumps(json.loads(kept) | {"wall_time_s": None}).encode()
        found[str(path.relative_to(folder))] = kept
    return found


@dataclass(frozen=True)
class Subject:
    """A command, those that may restart it, and what lies in its folder before."""

    name: str
    arguments: list[str]
    again: Sequence[list[str]] = ([],)
    before: Mapping[str, str] = field(default_factory=dict)
    needs: Sequence[str] = ()


THREADS = ["--executor", "concurrent.futures:ThreadPoolExecutor", "--workers", "1", "--no-report"]
_CASE, _RUN = {"case.fedsim.yaml": RUN}, ("run",)
SUBJECTS = [
    Subject("run", ["run", "IN/case.fedsim.yaml", "--out", "OUT/run"], [["--resume"], ["--resume"], []], _CASE),
    *(
        Subject(name, ["sweep", "IN/case.fedsim.yaml", "--out", "OUT/sweep", *more, *THREADS], [[]], before)
        for before in ({"case.fedsim.yaml": SWEPT},)
        for name, more in (("sweep", []), ("sweep --compact", ["--compact"]))
    ),
    Subject("replay --update", ["replay", "OUT/case.fedsim.yaml", "--update"], [[]], _CASE),
    Subject("replay --out", ["replay", "OUT/case.fedsim.yaml", "--out", "OUT/kept"], before=_CASE),
    Subject("plugin new", ["plugin", "new", "law", "--out", "OUT/mine/my_law.py"]),
    Subject("init", ["init", "OUT/new/a.fedsim.yaml", "--template", "trace"]),
    Subject("schema", ["schema", "--out", "OUT/schema.json"]),
    Subject("playground", ["playground", "IN/case.fedsim.yaml", "--out", "OUT/play.html"], before=_CASE),
    Subject("privacy --export", ["privacy", "IN/p.fedsim.yaml", "--export", "OUT/m.json"], before={"p.fedsim.yaml": P}),
    Subject(
        "plan --scale", ["plan", "IN/case.fedsim.yaml", "--scale", "1/2", "--out", "OUT/s.fedsim.yaml"], before=_CASE
    ),
    *(
        Subject(
            f"trace import {form}", ["trace", "import", "IN/t.tsv", "--out", f"OUT/t.{form}"], before={"t.tsv": EVENTS}
        )
        for form in ("csv", "parquet")
    ),
    Subject(
        "design",
        ["design", "OUT/case.fedsim.yaml", "--out", "OUT/new.fedsim.yaml"],
        before={"case.fedsim.yaml": WEIGHED},
    ),
    Subject(
        "calibrate",
        ["calibrate", "IN/log.csv", "--base", "2026-01-05T00:00:00Z", "--out", "OUT/mine.fedsim.yaml"],
        before={"log.csv": SESSIONS},
    ),
    Subject(
        "decide",
        ["decide", "IN/case.fedsim.yaml", "--out", "OUT/d", *THREADS[:-1]],
        before={"case.fedsim.yaml": CHOICE},
    ),
    Subject("export --perfetto", ["export", "OUT/run", "--perfetto", "OUT/p.json"], needs=_RUN),
    *(
        Subject(f"export {form}", ["export", "schedule", "OUT/run", "--out", f"OUT/s.{form}"], needs=_RUN)
        for form in ("csv", "parquet", "json")
    ),
    Subject("report", ["report", "OUT/run"], needs=_RUN),
    Subject("report --format md", ["report", "OUT/run", "--format", "md", "--out", "OUT/a/r.md"], needs=_RUN),
    Subject("report --figures", ["report", "OUT/run", "--figures", "OUT/figures", "--dpi", "50"], needs=_RUN),
    Subject("compare --report", ["compare", "OUT/run", "OUT/run", "--report", "--out", "OUT/b"], needs=_RUN),
]
_ENDS = 40, 100
WEIGHTS = {"run": 0.4, "sweep": 0.15, "sweep --compact": 0.1, "replay --update": 0.05}
_OF_OTHERS = 0.3 / (len(SUBJECTS) - len(WEIGHTS))
SIGNALS = [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def set_up(subject: Subject, place: Path, kept: Path) -> list[str]:
    """Lay out the folder of a case, with what it needs of those that are kept; return the command."""
    outside, inside = place / "in", place / "out"
    shutil.rmtree(place, ignore_errors=True)
    outside.mkdir(parents=True)
    inside.mkdir()
    for name, text in subject.before.items():
        (outside / name).write_text(text)
        if subject.name.startswith(("replay", "design")):
            (inside / name).write_text(text)
    for name in subject.needs:
        shutil.copytree(kept / name, inside / name)
    return [each.replace("IN/", f"{outside}/").replace("OUT/", f"{inside}/") for each in subject.arguments]


@pytest.fixture(scope="module")
def kept(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "case.fedsim.yaml").write_text(RUN)
    done = server.ask(folder, ["run", str(folder / "case.fedsim.yaml"), "--out", str(folder / "run")])
    assert done.code == 0, done.said
    return folder


def reference_of(server: Server, subject: Subject, place: Path, kept: Path) -> tuple[Answer, dict[str, bytes]]:
    """Return what a command answers and leaves that nothing disturbs."""
    whole = server.ask(place / "out", set_up(subject, place, kept), "once", at=10**9)
    assert whole.code == 0, whole.said
    assert whole.calls > 3
    return whole, content(place / "out")


def restarted(server: Server, place: Path, command: list[str], reference: dict[str, bytes], case: str) -> list[str]:
    """Run a command again, and return what is wrong with what it leaves."""
    again, there = server.ask(place / "out", command), content(place / "out")
    other = [name for name in there | reference if there.get(name) != reference.get(name)]
    return [f"{case}: restarted with exit code {again.code}, other {other}: {again.said}"] * bool(again.code or other)


def test_a_restart_ends_in_the_same_bytes(server: Server, kept: Path, tmp_path: Path) -> None:
    draw, wrong, counts = random.Random(SEED), [], Counter[str]()
    place = tmp_path / "case"
    for subject in SUBJECTS:
        whole, reference = reference_of(server, subject, place, kept)
        everything = [(at, *fault) for at in range(whole.calls) for fault in FAULTS]
        wanted = max(1, round(WEIGHTS.get(subject.name, _OF_OTHERS) * CASES))
        # Half of them at the beginning and the end, where the most different things are done.
        ends = [each for each in everything if not _ENDS[0] <= each[0] < whole.calls - _ENDS[1]]
        chosen = draw.sample(ends, min(wanted // 2, len(ends)))
        others = sorted(set(everything) - set(chosen))
        chosen += draw.sample(others, min(wanted - len(chosen), len(others)))
        counts[f"{subject.name}: {whole.calls} calls, of {len(everything)} faults"] = len(chosen)
        for number, (at, kind, error) in enumerate(chosen):
            command = set_up(subject, place, kept)
            case = f"{subject.name}, call {at} of {whole.calls}: {kind} {errno.errorcode.get(error, '')}"
            hit = server.ask(place / "out", command, kind, at, error)
            crash = kind.startswith("crash")
            if crash != (hit.code == -9) or not (crash or hit.code in {0, 2, 3}) or "Traceback" in hit.said:
                wrong.append(f"{case}: exit code {hit.code}: {hit.said}")
            counts[f"exit code {hit.code}"] += 1
            for left in (place / "out").iterdir():
                check_whole(left)
            if hit.code in {2, 3} and "rror" not in hit.said and "given up" not in hit.said:
                wrong.append(f"{case}: says nothing of it: {hit.said}")
            if hit.code == 0 and kind == "short" and content(place / "out") != reference:
                wrong.append(f"{case}: other bytes at once")
            wrong += restarted(server, place, [*command, *subject.again[number % len(subject.again)]], reference, case)
        print(subject.name, dict(counts), f"{len(wrong)} wrong", flush=True)  # noqa: T201  so far
    assert not wrong, "\n".join([f"{len(wrong)}", *wrong[:20]])


def test_a_signal_at_any_moment(server: Server, kept: Path, tmp_path: Path) -> None:
    """It ends a command with 130, nothing is torn, and the next call ends in the same bytes and leaves nothing else."""
    draw, wrong, counts = random.Random(SEED), [], Counter[str]()
    place = tmp_path / "case"
    for subject in SUBJECTS:
        _, reference = reference_of(server, subject, place, kept)
        whole = server.ask(place / "out", set_up(subject, place, kept))  # once more, since all is imported now
        for number in range(max(2, round(CASES / len(SUBJECTS)))):
            kind, after_s = draw.choice(SIGNALS), 1.1 * whole.took_s * draw.random()
            command = set_up(subject, place, kept)
            hit = server.signal(place / "out", command, kind, after_s)
            case = f"{subject.name}, {kind.name} after {after_s:.3f} s: exit code {hit.code}"
            counts[f"exit code {hit.code}"] += 1
            done = content(place / "out") == reference
            if hit.code not in ({-9} if kind == signal.SIGKILL else {130}) and not (hit.code == 0 and done):
                wrong.append(f"{case}: {hit.said}")
            for left in (place / "out").iterdir():
                check_whole(left)
            wrong += restarted(server, place, [*command, *subject.again[number % len(subject.again)]], reference, case)
        print(subject.name, dict(counts), f"{len(wrong)} wrong", flush=True)  # noqa: T201  so far
    assert not wrong, "\n".join([f"{len(wrong)}", *wrong[:20]])
