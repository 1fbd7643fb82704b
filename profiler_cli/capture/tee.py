"""Forward the output of a program unchanged, and keep its last lines."""

from __future__ import annotations

import os
import pty
import sys
import termios
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self, TextIO

_CHUNK: Final = 1 << 16
_KEPT_BYTES: Final = 1 << 15
_JOIN_S: Final = 2.0


class OutputTees:
    """Standard output and error for a program to be started.

    If they are a terminal, the program gets a terminal too, so that progress bars and colors work.
    """

    def __init__(self, *, show: bool) -> None:
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._lock = threading.Lock()
        self._tees = [_Tee(stream, self._keep, show=show) for stream in (sys.stdout, sys.stderr)]

    @property
    def stdout(self) -> int:
        """File descriptor for the standard output of the program."""
        return self._tees[0].write_end

    @property
    def stderr(self) -> int:
        """File descriptor for its standard error."""
        return self._tees[1].write_end

    def started(self) -> None:
        """Start forwarding, after the program has its file descriptors."""
        for tee in self._tees:
            tee.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        for tee in self._tees:
            tee.finish()

    def last_lines(self, count: int) -> list[str]:
        """Return the last lines that are not blank."""
        with self._lock:
            text = b"".join(self._tail).decode(errors="replace")
        lines = [
            line.rpartition("\r")[2].rstrip() for line in text.replace("\r\n", "\n").split("\n")
        ]
        return [line for line in lines if line][-count:]

    def _keep(self, chunk: bytes) -> None:
        with self._lock:
            self._tail.append(chunk)
            self._tail_bytes += len(chunk)
            while self._tail_bytes - len(self._tail[0]) > _KEPT_BYTES:
                self._tail_bytes -= len(self._tail.popleft())


class _Tee(threading.Thread):
    """Forwards one stream."""

    def __init__(self, target: TextIO, keep: Callable[[bytes], None], *, show: bool) -> None:
        super().__init__(daemon=True)
        self._target = _descriptor(target)
        self._keep = keep
        self._show = show
        is_terminal = self._target is not None and os.isatty(self._target)
        self._read_end, self.write_end = _terminal_like(self._target) if is_terminal else os.pipe()
        target.flush()

    def start(self) -> None:
        os.close(self.write_end)
        super().start()

    def finish(self) -> None:
        """Wait for the remaining output; processes that outlive the program may keep it open."""
        if self.ident is None:
            os.close(self.write_end)
        else:
            self.join(_JOIN_S)
        if not self.is_alive():
            os.close(self._read_end)

    def run(self) -> None:
        while True:
            try:
                chunk = os.read(self._read_end, _CHUNK)
            except OSError:  # a terminal that no process has open any more
                return
            if not chunk:
                return
            self._keep(chunk)
            if self._show and self._target is not None:
                self._forward(chunk)

    def _forward(self, chunk: bytes) -> None:
        try:
            while chunk:
                chunk = chunk[os.write(self._target or 0, chunk) :]
        except OSError:
            # The reader has closed the pipe, as in "dlprof ... | head": the application continues.
            self._show = False


def _descriptor(stream: TextIO) -> int | None:
    with suppress(OSError, ValueError):
        return stream.fileno()
    return None


def _terminal_like(target: int | None) -> tuple[int, int]:
    """Open a terminal of the same size that does not change the output."""
    master, slave = pty.openpty()
    attributes = termios.tcgetattr(slave)
    attributes[1] &= ~termios.OPOST  # done by the real terminal
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    with suppress(OSError, termios.error):
        termios.tcsetwinsize(slave, termios.tcgetwinsize(target or 0))
    return master, slave
