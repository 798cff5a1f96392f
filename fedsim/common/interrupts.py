"""Ctrl-C, SIGTERM and SIGHUP that are not lost, wherever they arrive."""

import os
from types import FrameType, SimpleNamespace

EXIT_CODE = 130


THIS_PROCESS = SimpleNamespace(asked=False)
"""Whether somebody has asked it to end."""


def interrupt(_signal: int, _frame: FrameType | None) -> None:
    """Note a signal, and raise `KeyboardInterrupt`; a second one ends the process at once."""
    if THIS_PROCESS.asked:
        os._exit(EXIT_CODE)
    THIS_PROCESS.asked = True
    raise KeyboardInterrupt


def look_for_interrupt() -> None:
    """Raise `KeyboardInterrupt` if a signal came: in a callback of the interpreter, Python drops the first one."""
    if THIS_PROCESS.asked:
        raise KeyboardInterrupt
