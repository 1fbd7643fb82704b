"""Sample GPU memory and utilization while the application runs, and add them to its export.

NVML is used through the library of the driver, ``libnvidia-ml.so.1``, in the process of dlprof; the
application is not affected. Without NVML the memory usage is unknown, and the export stores the
reason. The samples are a table of the export, so that ``--database`` finds them later.
"""

from __future__ import annotations

import ctypes
import sqlite3
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self

from aggregator.sources.collector.step_times import replace_table
from aggregator.sources.nsys.gpu_memory import NVML_ERROR, SAMPLE_COLUMNS
from aggregator.sources.nsys.gpu_speed import SLOWED
from aggregator.sources.nsys.schema import CAPTURE_NOTES, GPU_SAMPLES

LIBRARY: Final = "libnvidia-ml.so.1"
INTERVAL_S: Final = 0.2
MAX_ROWS: Final = 4096
"""Largest number of rows per GPU; beyond it, neighboring rows are merged in pairs."""
REASONS: Final = (
    *("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
)
"""Names of the function that says why the clock is low; the second one is older."""
SLOWED_BITS: Final = 0x8 | 0x20 | 0x40 | 0x80
"""Reasons that lower the clock a lot: hardware slowdown, heat (two bits), power brake."""
_SM_CLOCK: Final = 1
_JOIN_S: Final = 2.0
_UUID_CHARS: Final = 96


class NvmlError(Exception):
    """NVML cannot be used, with the reason."""


class Reading(NamedTuple):
    """State of a GPU at one time."""

    gpu: int  # Its number in NVML.
    uuid: str  # ``GPU-...``.
    total: int  # Memory. Unit: bytes.
    used: int  # Memory in use by all processes. Unit: bytes.
    busy: int | None  # Recent share of time with any kernel; None if unknown. Unit: %.
    slowed: int | None = None  # 1: the hardware lowers its clock; None if unknown.


class GpuReader(Protocol):
    """The part of NVML that the monitor uses."""

    def read(self) -> list[Reading]:
        """Read the state of all GPUs."""

    def close(self) -> None:
        """Release the library."""


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _Utilization(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in ("gpu", "memory")]


class Nvml:
    """The NVML library of the driver.

    Raises:
        NvmlError: It is missing or returns an error.
    """

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._library: Any = ctypes.CDLL(library)
        except OSError as error:
            raise NvmlError(f"{library} was not found") from error
        try:
            self._library.nvmlErrorString.restype = ctypes.c_char_p
            self._check(self._library.nvmlInit_v2())
            count = ctypes.c_uint()
            self._check(self._library.nvmlDeviceGetCount_v2(ctypes.byref(count)))
            self._gpus = [self._open(number) for number in range(count.value)]
        except AttributeError as error:
            raise NvmlError(f"{library} is too old") from error
        known = (getattr(self._library, name, None) for name in REASONS)
        self._reasons: Any = next((found for found in known if found is not None), None)

    def _check(self, code: int) -> None:
        if code:
            raise NvmlError(self._library.nvmlErrorString(code).decode(errors="replace"))

    def _open(self, number: int) -> tuple[int, Any, str]:
        handle = ctypes.c_void_p()
        self._check(self._library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(handle)))
        uuid = ctypes.create_string_buffer(_UUID_CHARS)
        self._check(self._library.nvmlDeviceGetUUID(handle, uuid, _UUID_CHARS))
        return number, handle, uuid.value.decode(errors="replace")

    def read(self) -> list[Reading]:
        """Read the state of all GPUs, except those that return an error."""
        found = []
        for number, handle, uuid in self._gpus:
            memory, rates = _Memory(), _Utilization()
            if self._library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)):
                continue
            has_rates = not self._library.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates))
            busy = int(rates.gpu) if has_rates else None
            slowed = self._slowed(handle)
            found.append(Reading(number, uuid, int(memory.total), int(memory.used), busy, slowed))
        return found

    def busiest_clock_mhz(self) -> int | None:
        """Return the clock of the multiprocessors of the busiest GPU; None: it is unknown."""
        found = []
        for _, handle, _ in self._gpus:
            rates, clock = _Utilization(), ctypes.c_uint()
            if self._library.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates)):
                continue
            if not self._library.nvmlDeviceGetClockInfo(handle, _SM_CLOCK, ctypes.byref(clock)):
                found.append((int(rates.gpu), int(clock.value)))
        return max(found)[1] if found else None

    def _slowed(self, handle: Any) -> int | None:
        reasons = ctypes.c_ulonglong()
        if self._reasons is None or self._reasons(handle, ctypes.byref(reasons)):
            return None
        return int(bool(reasons.value & SLOWED_BITS))

    def close(self) -> None:
        """Release the library."""
        self._library.nvmlShutdown()


@dataclass
class _Series:
    """Readings of one GPU; each row is merged from the same number of them."""

    rows: list[list[Any]] = field(default_factory=list)
    per_row: int = 1
    pending: list[list[Any]] = field(default_factory=list)

    def add(self, row: list[Any]) -> None:
        self.pending.append(row)
        if len(self.pending) < self.per_row:
            return
        self.rows.append(_merged(self.pending))
        self.pending = []
        if len(self.rows) >= MAX_ROWS:
            self.per_row *= 2
            self.rows = [_merged(self.rows[at : at + 2]) for at in range(0, len(self.rows), 2)]

    def all_rows(self) -> list[list[Any]]:
        return [*self.rows, _merged(self.pending)] if self.pending else self.rows


def _merged(rows: list[list[Any]]) -> list[Any]:
    """Merge rows: first time, highest memory usage, mean utilization, slowed at any time."""
    busy = [row[5] for row in rows if row[5] is not None]
    mean = sum(busy) / len(busy) if busy else None
    slowed = max((row[7] for row in rows if row[7] is not None), default=None)
    return [*rows[0][:4], max(row[4] for row in rows), mean, rows[0][6], slowed]


class GpuMonitor:
    """Samples all GPUs from ``started`` until the block is left.

    The first sample is taken before the application starts: it is the usage of other processes.
    """

    def __init__(self, reader: GpuReader | None = None, interval_s: float = INTERVAL_S) -> None:
        self.error = ""
        self._interval_s = interval_s
        self._before: list[list[Any]] = []
        self._series: dict[int, _Series] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        try:
            self._reader: GpuReader | None = reader or Nvml()
            self._before = [self._row(reading, 1) for reading in self._reader.read()]
        except NvmlError as error:
            self._reader, self.error = None, str(error)

    def __enter__(self) -> Self:
        return self

    def started(self) -> None:
        """Start sampling, after the application has started."""
        if self._reader is not None:
            try:
                self._thread.start()
            except RuntimeError as error:  # the limit of threads: the application runs by now
                self.error = str(error)

    def __exit__(self, *details: object) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)
        if self._reader is not None and not self._thread.is_alive():
            self._reader.close()

    def rows(self) -> list[list[Any]]:
        """Return the rows, with the columns ``SAMPLE_COLUMNS`` and ``SLOWED``."""
        return [
            *self._before,
            *(row for series in self._series.values() for row in series.all_rows()),
        ]

    def add_to_export(self, export: Path) -> str:
        """Write the samples, or the reason why there are none, into the export of this capture.

        Returns:
            The error if that failed; empty on success.
        """
        notes = [[NVML_ERROR, self.error]] if self.error else []
        try:
            with closing(sqlite3.connect(export)) as connection, connection:
                replace_table(connection, CAPTURE_NOTES, ("name", "value"), notes)
                replace_table(connection, GPU_SAMPLES, (*SAMPLE_COLUMNS, SLOWED), self.rows())
        except sqlite3.Error as error:
            return str(error)
        return ""

    def _sample(self) -> None:
        while not self._ended.is_set() and self._reader is not None:
            with suppress(NvmlError):
                for reading in self._reader.read():
                    row = self._row(reading, 0)
                    self._series.setdefault(reading.gpu, _Series()).add(row)
            self._ended.wait(self._interval_s)

    @staticmethod
    def _row(reading: Reading, is_before: int) -> list[Any]:
        gpu, uuid, total, used, busy, slowed = reading
        return [time.time_ns(), gpu, uuid, total, used, busy, is_before, slowed]
