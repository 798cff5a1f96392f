"""Ctrl-C, SIGTERM and SIGHUP that are not lost, wherever they arrive."""

import os
from dataclasses import dataclass
from types import FrameType

EXIT_CODE = 130


@dataclass
class _Interrupt:
    """Whether somebody has asked this process to end."""

    asked: bool = False


THIS_PROCESS = _Interrupt()


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
