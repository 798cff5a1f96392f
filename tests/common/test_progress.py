"""What a person is told while something takes time."""

import os
import pty
import re
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from fedsim.common.instants import readable_time
from fedsim.common.messages import PatientPipe
from fedsim.common.progress import on_stderr
from fedsim.run.simulate import simulate
from tests.conftest import LIMIT_S, SMALL, Load, Write


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still unless it is set."""
    now = [100.0]
    monkeypatch.setattr("fedsim.common.progress.time.monotonic", lambda: now[0])
    return now


def test_a_line_for_each_tenth_or_half_minute(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with on_stderr() as report:
        for percent in range(25):
            report("simulating", percent / 100, f"{percent} rounds")
        clock[0] += 31.0
        report("simulating", 0.25, "25 rounds")
        report("simulating", 0.25, "25 rounds")
        report("training", 0.99)
    assert capsys.readouterr().err.splitlines() == [
        "simulating: 0%, 0 rounds",
        "simulating: 10%, 10 rounds",
        "simulating: 20%, 20 rounds",
        "simulating: 25%, 25 rounds, 93 s left",
        "training: 99%",
    ]


@pytest.mark.parametrize(
    ("shares", "wait_s", "said"),
    [
        ((0.0, 0.01, 0.02), 6.0, ["0%", "1%, 9.9 min left"]),  # the first of 100 runs takes 6 s
        ((0.8, 0.9, 1.0), 20.0, ["80%", "90%, 20 s left", "100%"]),  # one that goes on, and does 10 % in 20 s
    ],
)
def test_the_time_that_is_left_goes_by_what_was_done_here(
    clock: list[float], capsys: pytest.CaptureFixture[str], shares: tuple[float, ...], wait_s: float, said: list[str]
) -> None:
    with on_stderr() as report:
        for share in shares:
            report("sweeping", share)
            clock[0] += wait_s
    assert capsys.readouterr().err.splitlines() == [f"sweeping: {each}" for each in said]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0.2 s"), (59.6, "59.6 s"), (90, "90 s"), (18_420, "5.12 h"), (273_600, "3.17 d"), (-5_400, "-90 min")],
)
def test_times_are_readable(seconds: float, words: str) -> None:
    assert readable_time(seconds) == words


def test_a_simulation_tells_rounds_time_and_pace(small: Load) -> None:
    told: list[tuple[str, float, str]] = []

    def report(what: str, share: float, beside: str = "", /) -> None:
        told.append((what, share, beside))

    simulate(small(), report=report)
    assert [share for _, share, _ in told[:10]] == pytest.approx([tenth / 10 for tenth in range(10)])
    assert told[0] == ("simulating", 0.0, "0 of 60 rounds, 0 s simulated")
    what, share, beside = told[-1]
    assert (what, share) == ("simulating", 1.0)
    assert re.fullmatch(r"60 of 60 rounds, 90 min simulated, [\d,.]+ rounds/s", beside)


def run_of(file: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "fedsim", "run", str(file), "--out", str(out)]


@pytest.mark.long
def test_on_a_terminal_there_is_a_bar(write: Write, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "140"}
    command = run_of(write(SMALL), tmp_path / "run")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment) as running:
        os.close(theirs)
        shown = b"".join(iter(lambda: _read(ours), b""))  # while it runs, as a terminal does
        os.close(ours)
        assert running.communicate(timeout=LIMIT_S)[0].decode() == f"{tmp_path / 'run'}\n"
    assert running.returncode == 0
    text = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown).decode()
    assert "simulating" in text
    assert "60 of 60 rounds, 90 min simulated" in text


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # nobody writes to it any more
        return b""


@pytest.mark.long
@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_a_run_ends_although_nobody_reads_its_stderr(write: Write, tmp_path: Path, terminal: bool) -> None:
    ours, theirs = pty.openpty() if terminal else os.pipe()
    os.set_blocking(theirs, False)
    with suppress(BlockingIOError):
        while True:  # until it is full
            os.write(theirs, b"x" * 256)
    os.set_blocking(theirs, True)
    done = subprocess.run(
        run_of(write(SMALL), tmp_path / "run"), stdout=subprocess.PIPE, stderr=theirs, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0
    assert done.stdout.decode() == f"{tmp_path / 'run'}\n"
    assert (tmp_path / "run" / "report.html").exists()
    os.close(theirs)
    os.close(ours)


def test_a_stream_that_is_read_late_gets_all_of_it_in_order() -> None:
    ours, theirs = os.pipe()
    pipe = PatientPipe(theirs)
    lines = [f"line {number}\n" for number in range(20_000)]  # more than a pipe holds
    for line in lines:
        pipe.write(line.encode())
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.extend(iter(lambda: os.read(ours, 1 << 16), b"")))
    reader.start()
    pipe.drain()
    os.close(theirs)
    reader.join(LIMIT_S)
    os.close(ours)
    assert b"".join(read).decode() == "".join(lines)


def test_a_stream_that_nobody_reads_holds_a_mebibyte_at_most() -> None:
    ours, theirs = os.pipe()
    pipe = PatientPipe(theirs)
    for _ in range(5_000):
        pipe.write(b"x" * 1024)
    assert pipe._waiting <= 1 << 20
    os.close(ours)  # the writing thread ends with an error of its own
    pipe.drain()
    os.close(theirs)


def test_a_stream_whose_reader_has_gone_is_soon_drained() -> None:
    ours, theirs = os.pipe()
    pipe = PatientPipe(theirs)
    os.close(ours)
    pipe.write(b"x" * 2048)
    pipe.drain()
    assert pipe._waiting == 0
    os.close(theirs)
