"""The first instruction of the command line: from here on Ctrl-C, SIGTERM and SIGHUP are answers, not ends."""

import atexit
import os
import signal
import sys
from types import FrameType

_ORDINARY = (signal.SIG_DFL, signal.default_int_handler)
_SIGNALS = [each for name in ("SIGINT", "SIGTERM", "SIGHUP") if (each := getattr(signal, name, None))]


def main() -> None:
    """Run the command line. While its modules are imported, a signal ends at once: nothing is to be cleaned up."""
    heard = [each for each in _SIGNALS if signal.getsignal(each) in _ORDINARY]  # not what nohup lets a process ignore
    for each in heard:
        signal.signal(each, _end)
    atexit.register(_ignore, heard)  # the first that is registered is the last that is called
    from fedsim.common.memory import too_narrow

    if (words := too_narrow()) is not None:
        sys.stderr.write(f"error: {words}\n")
        sys.exit(2)
    from fedsim.cli import run_app
    from fedsim.common.interrupts import EXIT_CODE, interrupt

    for each in heard:
        signal.signal(each, interrupt)
    try:
        run_app()
    except KeyboardInterrupt:  # between two instructions of its end
        os._exit(EXIT_CODE)
    finally:
        for each in heard:
            signal.signal(each, lambda *_: os._exit(EXIT_CODE))
        eval("0")  # forgets an interrupt in an earlier eval or exec, of which Python would die instead of its exit code


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.stderr.write("interrupted\n")
    sys.stderr.flush()
    os._exit(130)


def _ignore(heard: list[signal.Signals]) -> None:
    """Ignore signals while the interpreter is taken apart: all is done, and it would give them their default again."""
    for each in heard:
        signal.signal(each, signal.SIG_IGN)


if __name__ == "__main__":
    main()
