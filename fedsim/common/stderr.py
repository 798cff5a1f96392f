"""A stderr that never blocks its writer: the work goes on when nobody reads the messages."""

import atexit
import io
import os
import sys
import threading
from collections import deque
from typing import Any

_MOST = 1 << 20  # bytes that wait for a reader; beyond them, what comes is left out
_PATIENCE_S = 3.0  # how long a process that ends waits for somebody to read on


class PatientPipe(io.FileIO):
    """A pipe or a terminal, written by a thread of its own.

    A pipe or a terminal that nobody reads is full after some kilobytes, and a plain write then waits for ever. Here a
    write only adds to what the thread has to do: up to 1 MiB waits, and what comes beyond that is left out. `drain`
    waits for the thread as long as the reader takes something. The descriptor stays open.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._descriptor = descriptor
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._changed = threading.Condition()
        self._process = os.getpid()
        threading.Thread(target=self._write_on, name="stderr", daemon=True).start()

    def write(self, content: Any, /) -> int:
        """Hand bytes over, and go on."""
        data = bytes(content)
        if os.getpid() != self._process:  # a forked child has no such thread
            return os.write(self._descriptor, data)
        with self._changed:
            if self._waiting + len(data) <= _MOST:
                self._pieces.append(data)
                self._waiting += len(data)
                self._changed.notify_all()
        return len(data)

    def drain(self) -> None:
        """Wait until all is written, or for some seconds in which nobody reads."""
        if os.getpid() != self._process:
            return
        with self._changed:
            progress = True
            while (before := self._waiting) and progress:
                progress = self._changed.wait_for(lambda: self._waiting < before, _PATIENCE_S)

    def _write_on(self) -> None:
        while True:
            with self._changed:
                while not self._pieces:
                    self._changed.wait()
                left = self._pieces.popleft()
            while left:
                try:
                    size = os.write(self._descriptor, left[:512])
                except OSError:  # the reader has gone
                    size = len(left)
                left = left[size:]
                with self._changed:
                    self._waiting -= size
                    self._changed.notify_all()


def never_wait_on_stderr() -> None:
    """Let this process's stderr be a `PatientPipe`, unless it is a file, which never keeps anybody waiting."""
    try:
        descriptor = sys.stderr.fileno()
        if os.path.isfile(descriptor):  # noqa: PTH113  of a descriptor
            return
    except (AttributeError, OSError, ValueError):  # closed, or one that a program has put there
        return
    pipe = PatientPipe(descriptor)
    sys.stderr = io.TextIOWrapper(pipe, sys.stderr.encoding, "backslashreplace", write_through=True)
    atexit.register(pipe.drain)
