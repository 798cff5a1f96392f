"""Runs command lines under the shim, each in a fork of a process that has imported everything.

A line of JSON on stdin is a command and the fault or the signal that meets it; the answer, a line on stdout, is its
exit code (negative: the signal that ended it), what it said, how many calls it made, and how many seconds it took.
"""

import json
import mmap
import os
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

KINDS = ("nothing", "once", "from then on", "short", "crash", "crash of all")
_PLAN = struct.Struct("@qqqq4096s")
_LIMIT_S = 60
SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
DROPPED = 99
"""The exit code of a command that has heard a signal and ended as if there had been none."""


def measure_here(replicates: Any, _workers: int) -> Iterator[tuple[Any, Any]]:
    """Take the place of the processes of `fedsim replay`."""
    from fedsim.ci.replay import run_replicate

    return ((each, run_replicate(each)) for each in replicates)


def make_quick() -> None:
    """Let a run pass on rows and keep states often, draw no charts, and measure replays in this process."""
    import fedsim.ci.replay as replays
    import fedsim.pages
    from fedsim.common.files import write_text
    from fedsim.log import journal, recorder
    from fedsim.scenario import scenario_schema

    def page(_: object, to: Path, **__: object) -> Path:
        write_text(to, (to.parent / "metrics.json").read_text(encoding="utf-8"))
        return to

    fedsim.pages.write_report = page  # type: ignore[assignment]
    journal.SOONEST_S, journal.PATIENCE = 0.0, 0.0
    vars(recorder)["_SETTLE"] = 40
    replays.measure_all = measure_here  # type: ignore[assignment]
    scenario_schema()  # reads sources, which are kept


def unblock_when_heard() -> None:
    """Let signals that were blocked through as soon as this process has a handler for them."""
    handle = signal.signal

    def handled(number: int, handler: Any) -> Any:
        before = handle(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        return before

    vars(signal)["signal"] = handled


def run(arguments: list[str], said: int, imported: Path) -> None:
    """Run a command line in this process, and end the process with its exit code."""
    from fedsim.__main__ import main
    from fedsim.common.interrupts import EXIT_CODE, THIS_PROCESS

    code = 70
    try:
        os.setpgid(0, 0)
        os.dup2(said, 1)
        os.dup2(said, 2)
        signal.alarm(_LIMIT_S)
        sys.argv = ["fedsim", *arguments]
        main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 70
        if THIS_PROCESS.asked and code != EXIT_CODE:
            code = DROPPED
    except BaseException:  # noqa: BLE001  it is told
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        imported.write_text("\n".join(sys.modules))
        os._exit(code)


def import_all(names: list[str]) -> None:
    """Import what a command has imported, so that the next one finds it there."""
    for name in names:
        with suppress(Exception):
            import_module(name)


def serve(plan: mmap.mmap, imported: Path) -> None:
    """Answer until stdin ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        if imported.exists():
            import_all(imported.read_text().split("\n"))
            imported.unlink()
        with tempfile.TemporaryFile() as said:
            kind = KINDS.index(asked["kind"])
            plan[: _PLAN.size] = _PLAN.pack(0, asked["at"], kind, asked["errno"], asked["root"].encode())
            sys.stdout.flush()
            begun = time.monotonic()
            signal.pthread_sigmask(
                signal.SIG_BLOCK, SIGNALS
            )  # until the command has begun: before, all is Python's own
            child = os.fork()
            if child == 0:
                unblock_when_heard()
                run(asked["arguments"], said.fileno(), imported)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            if asked["signal"]:
                time.sleep(asked["after_s"])
                os.kill(child, asked["signal"])  # it may have ended, but is still there to be waited for
            _, status = os.waitpid(child, 0)
            took_s = time.monotonic() - begun
            count = _PLAN.unpack(plan[: _PLAN.size])[0]
            said.seek(0)
            text = said.read().decode(errors="replace")
        print(json.dumps([os.waitstatus_to_exitcode(status), text, count, took_s]), flush=True)  # noqa: T201


if __name__ == "__main__":
    make_quick()
    with Path(os.environ["FEDSIM_FAULTS"]).open("r+b") as opened:
        serve(mmap.mmap(opened.fileno(), 0), Path(os.environ["FEDSIM_FAULTS"] + ".imported"))
