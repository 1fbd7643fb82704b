"""Writes files as nvprof of CUDA 10 wrote them: its tables with all their columns."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence
from pathlib import Path

PID, TID, BACKWARD_TID = 41, 3940300608, 452974336
CONCURRENT = "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"
_CALL = (
    "(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, cbid INT NOT NULL, start INT NOT NULL, end INT NOT"
    " NULL, processId INT NOT NULL, threadId INT NOT NULL, correlationId INT NOT NULL,"
    " returnValue INT NOT NULL)"
)
_SCHEMA = f"""
CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME {_CALL};
CREATE TABLE CUPTI_ACTIVITY_KIND_DRIVER {_CALL};
CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, flags INT NOT NULL,
    timestamp INT NOT NULL, id INT NOT NULL, objectKind INT NOT NULL, objectId BLOB NOT NULL,
    name INT NOT NULL, domain INT NOT NULL);
CREATE TABLE {{kernels}} (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, cacheConfig BLOB NOT NULL,
    sharedMemoryConfig INT NOT NULL, registersPerThread INT NOT NULL, start INT NOT NULL,
    end INT NOT NULL, completed INT NOT NULL, deviceId INT NOT NULL, contextId INT NOT NULL,
    streamId INT NOT NULL, gridX INT NOT NULL, gridY INT NOT NULL, gridZ INT NOT NULL,
    blockX INT NOT NULL, blockY INT NOT NULL, blockZ INT NOT NULL, staticSharedMemory INT NOT NULL,
    dynamicSharedMemory INT NOT NULL, localMemoryPerThread INT NOT NULL, localMemoryTotal INT NOT
    NULL, correlationId INT NOT NULL, gridId INT NOT NULL, name INT NOT NULL);
"""
RELU = "_ZN2at6native18elementwise_kernelILi512ELi1EEEvi"
GEMM = "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_tn"
IMAGE = "{'name': '', 'type': 'tensor', 'shape': (64, 128), 'dtype': 'float16'}"
WEIGHT = "{'name': '', 'type': 'tensor', 'shape': (32, 128), 'dtype': 'float16'}"
LINEAR = f"{{'mod': 'torch.nn.functional', 'op': 'linear', 'args': [{IMAGE}, {WEIGHT}]}}"
RELU_MARKER = f"{{'mod': 'torch.nn.functional', 'op': 'relu', 'args': [{IMAGE}]}}"
TRACE = "{'traceMarker': ['net.py:7', '/usr/lib/torch/nn/modules/module.py:493', 'net.py:3']}"
Size = tuple[int, int, int]


class NvprofFile:
    """A file that is filled row by row."""

    def __init__(self, path: Path, kernel_table: str = CONCURRENT) -> None:
        self._connection = sqlite3.connect(path)
        self._kernels = kernel_table
        self._strings: dict[str, int] = {}
        self._number = 0
        self._connection.executescript(_SCHEMA.format(kernels=kernel_table))

    def linear_and_relu(self) -> None:
        """The forward pass of a linear layer and a relu."""
        self.marker("layer:encoder", 0, 300)
        self.marker(TRACE, 5, 299)
        self.marker(LINEAR, 10, 100)
        self.marker("addmm, seq = 3", 20, 90)
        self.kernel(GEMM, 30, 5000)
        self.marker(RELU_MARKER, 110, 200)
        self.marker("relu, seq = 4", 120, 190)
        self.kernel(RELU, 130, 700)

    def string(self, text: str) -> int:
        """Number of a text."""
        number = self._strings.setdefault(text, len(self._strings) + 1)
        self._connection.execute("INSERT OR IGNORE INTO StringTable VALUES (?, ?)", (number, text))
        return number

    def marker(self, text: str, start: int, end: int, tid: int = TID) -> None:
        """A range: one row where it opens, one where it closes, joined by their id."""
        self._number += 1
        thread = struct.pack("<iq", PID, tid)
        rows = [
            (flags, time, self._number, 2, thread, name, 0)
            for flags, time, name in ((2, start, self.string(text)), (4, end, 0))
        ]
        columns = "flags, timestamp, id, objectKind, objectId, name, domain"
        self._insert("CUPTI_ACTIVITY_KIND_MARKER", columns, rows)

    def kernel(
        self,
        name: str,
        called: int,
        duration: int = 1000,
        *,
        tid: int = TID,
        grid: Size = (80, 1, 1),
        block: Size = (256, 1, 1),
        call: str = "RUNTIME",
    ) -> None:
        """A kernel with its launch, of the runtime or of the driver."""
        self._number += 1
        signed = struct.unpack("<i", struct.pack("<I", tid))[0]
        self._insert(
            f"CUPTI_ACTIVITY_KIND_{call}",
            "cbid, start, end, processId, threadId, correlationId, returnValue",
            [(211, called, called + 5, PID, signed, self._number, 0)],
        )
        start = called + 50
        place = (start, start + duration, start + duration, 0, 1, 7)
        self._insert(
            self._kernels,
            "cacheConfig, sharedMemoryConfig, registersPerThread, start, end, completed, deviceId,"
            " contextId, streamId, gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory,"
            " dynamicSharedMemory, localMemoryPerThread, localMemoryTotal, correlationId, gridId,"
            " name",
            [(b"", 1, 32, *place, *grid, *block, 0, 0, 0, 0, self._number, 1, self.string(name))],
        )

    def _insert(self, table: str, columns: str, rows: Sequence[tuple[object, ...]]) -> None:
        holes = ",".join("?" * len(rows[0]))
        self._connection.executemany(f"INSERT INTO {table} ({columns}) VALUES ({holes})", rows)

    def close(self) -> None:
        """Write it."""
        self._connection.commit()
        self._connection.close()
