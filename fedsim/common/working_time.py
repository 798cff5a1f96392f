"""Processor seconds of this process, without those of what is done only once on a machine."""

import time

_once_s = [0.0]


def working_s() -> float:
    """Return the processor seconds that this process has spent, but for those told to `leave_out`."""
    return time.process_time() - _once_s[0]


def leave_out(seconds: float) -> None:
    """Take some seconds, such as those of compiling a loop, for none of the work."""
    _once_s[0] += seconds
