"""Steps during which the hardware slowed a GPU down: their times say nothing about a program.

A GPU lowers its clock, often to half, when it or its machine draws too much power or is too hot.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Self

import numpy as np

from profiler_cli.capture.gpu_samples import SLOWED_BITS

INTERVAL_MS = 100
QUERY = "index,clocks.sm,clocks.max.sm,clocks_event_reasons.active"
LOW_CLOCK = 0.75
"""A GPU at work with a lower share of its highest clock is slowed down, whatever the reasons."""


class ClockLog:
    """Asks ``nvidia-smi`` for the clocks of all GPUs while it is entered."""

    def __init__(self) -> None:
        self._slowed_s: dict[str, list[float]] = {}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
        try:
            self._process = subprocess.Popen(
                [*command, f"--loop-ms={INTERVAL_MS}"], stdout=subprocess.PIPE, text=True
            )
        except OSError:
            return self
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *details: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.add(line, time.time())

    def add(self, line: str, time_s: float) -> None:
        """Take a line of ``nvidia-smi``."""
        gpu, clock, highest, reasons = (word.strip() for word in line.split(","))
        try:
            is_low = float(clock) < LOW_CLOCK * float(highest)
            is_slowed = is_low or bool(int(reasons, 16) & SLOWED_BITS)
        except ValueError:
            return
        if is_slowed:
            self._slowed_s.setdefault(gpu, []).append(time_s)

    def slowed(self, gpus: str, times_ms: Sequence[float], end_s: float) -> list[bool]:
        """Return which steps of a program ran while one of its GPUs was slowed down.

        Args:
            gpus: Numbers of its GPUs.
            times_ms: Its steps. Unit: ms.
            end_s: When the last of them ended.
        """
        ends_s = end_s - (np.cumsum(np.array(times_ms)[::-1])[::-1] - np.array(times_ms)) / 1e3
        starts_s = ends_s - np.array(times_ms) / 1e3
        found = np.zeros(len(times_ms), dtype=bool)
        margin_s = INTERVAL_MS / 1e3
        for gpu in gpus.split(","):
            at = np.sort(np.array(self._slowed_s.get(gpu, [])))
            low = np.searchsorted(at, starts_s - margin_s)
            found |= np.searchsorted(at, ends_s + margin_s) > low
        return [bool(flag) for flag in found]


def same_steps(ends_ns: Sequence[int], unprofiled_ends_ns: Sequence[int]) -> list[int]:
    """Return the steps of a program's own clock that are the bare steps, by the time of their ends.

    Bare steps before the collection and those after it do not follow each other. A program ends a
    step just after its optimizer.

    Args:
        ends_ns: Ends of the steps by the program's own clock, ascending.
        unprofiled_ends_ns: Ends of the bare steps.
    """
    own = np.array(ends_ns, dtype=np.int64)
    if len(own) < 2:
        return []
    after = np.searchsorted(own, np.array(unprofiled_ends_ns, dtype=np.int64)).clip(1, len(own) - 1)
    is_before = np.array(unprofiled_ends_ns) - own[after - 1] < own[after] - np.array(
        unprofiled_ends_ns
    )
    return sorted({int(at) for at in after - is_before})
