"""The first instruction of the command line: from here on Ctrl-C and SIGTERM are answers, not ends."""

import os
import signal
import sys
from types import FrameType

_INTERRUPTED = 130


def main() -> None:
    """Run the command line. While its modules are imported, which is nothing to clean up after, Ctrl-C ends at once."""
    before = signal.signal(signal.SIGINT, _end)
    from fedsim.cli import run_app

    signal.signal(signal.SIGINT, before)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # as a batch system or a container ends a job
        signal.signal(signal.SIGTERM, _interrupt)
    run_app()


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.stderr.write("interrupted\n")
    sys.stderr.flush()
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
