"""Tiny Nsight Systems exports made by code, and short ways to ask what the engine made of them.

A trace is written in the order of its method calls; times are plain integers in ns. Tables and
columns are named as Nsight Systems 2025.3 names them; ``write`` can rename, drop or shuffle them.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import random
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from aggregator.dldb.import_writer import ImportResult
from aggregator.options import AggregationRequest, ImportOptions, Mode
from aggregator.pipeline import AggregationResult, aggregate, import_profile
from aggregator.system.progress import NullProgress

PUSH_POP, START_END, MARK, DOMAIN = 59, 60, 34, 75
LAUNCH = "cudaLaunchKernel_v7000"
WRAPPER = "autograd::engine::evaluate_function: "
RUNTIME_CLASS = 0

SCHEMA: dict[str, tuple[str, ...]] = {
    "StringIds": ("id", "value"),
    "NVTX_EVENTS": (
        *("start", "end", "eventType", "text", "globalTid", "endGlobalTid", "textId", "domainId"),
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        *("start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue"),
    ),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        *("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"),
        *("demangledName", "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"),
        "graphNodeId",
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        *("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"),
        *("bytes", "copyKind"),
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        *("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"),
        *("value", "bytes"),
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        *("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"),
        *("syncType", "eventId"),
    ),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (
        *("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"),
        *("graphId", "graphExecId"),
    ),
    "CUDA_GRAPH_NODE_EVENTS": (
        *("start", "end", "globalTid", "graphNodeId", "originalGraphNodeId"),
    ),
    "TARGET_INFO_GPU": ("id", "name", "totalMemory", "smCount", "computeMajor", "computeMinor"),
    "TARGET_INFO_CUDA_DEVICE": ("gpuId", "cudaId", "pid"),
    "ThreadNames": ("globalTid", "nameId"),
    "TARGET_INFO_SYSTEM_ENV": ("name", "value"),
    "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs",),
    "ANALYSIS_DETAILS": ("globalVid", "duration", "startTime", "stopTime"),
    "DIAGNOSTIC_EVENT": ("timestamp", "timestampType", "source", "severity", "text", "globalPid"),
    "META_DATA_EXPORT": ("name", "value"),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": (
        *("start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType"),
    ),
    "GPU_METRICS": ("timestamp", "typeId", "metricId", "value"),
    "TARGET_INFO_GPU_METRICS": ("typeId", "sourceId", "typeName", "metricId", "metricName"),
    "DLPROF_GPU_SAMPLES": (
        *("utcNs", "gpu", "uuid", "memoryTotal", "memoryUsed", "gpuUtilization", "isBefore"),
    ),
    "DLPROF_WINDOW": ("pid", "start_ns", "end_ns", "ended_by"),
    "DLPROF_LOOPS": ("pid", "name", "steps", "recordedSteps", "timeNs", "recordedNs"),
    "DLPROF_CAPTURE_NOTES": ("name", "value"),
}
HERE = "WHERE domain_name = 'default-domain' AND aggr_id = ?"
ALWAYS = frozenset({"StringIds", "TARGET_INFO_SYSTEM_ENV", "META_DATA_EXPORT"})
Row = dict[str, Any]


def global_pid(pid: int) -> int:
    """Nsight Systems' global process id: the hardware and VM bits above, the process id in them."""
    return (0x1000000 | pid) << 24


@dataclass
class Trace:
    """An export in the making.

    Attributes:
        tables: Rows per table.
    """

    tables: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in SCHEMA})
    _strings: dict[str, int] = field(default_factory=dict)

    def string(self, text: str) -> int:
        """Id of a string in the export's table of strings."""
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            self.add("StringIds", id=self._strings[text], value=text)
        return self._strings[text]

    def add(self, table: str, **values: Any) -> Row:
        """Add a row; columns not given are NULL."""
        self.tables[table].append(values)
        return values

    def process(self, pid: int = 100) -> Process:
        """A process; its correlation ids begin with 1 as every process's do."""
        return Process(self, pid)

    def thread(self, pid: int = 100, tid: int = 1) -> Thread:
        """First thread of a process, for traces that need no more."""
        return self.process(pid).thread(tid)

    def gpu(
        self, number: int = 0, name: str = "NVIDIA H200", capability: tuple[int, int] = (9, 0)
    ) -> None:
        """A GPU of the host."""
        self.add(
            "TARGET_INFO_GPU",
            id=number,
            name=name,
            totalMemory=1 << 34,
            smCount=132,
            computeMajor=capability[0],
            computeMinor=capability[1],
        )

    def session(self, start_utc_ns: int | None, host: str = "") -> None:
        """When time 0 was, and on which machine."""
        if start_utc_ns is not None:
            self.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=start_utc_ns)
        if host:
            self.add("TARGET_INFO_SYSTEM_ENV", name="Hostname", value=host)

    def cuda_device(self, pid: int, ordinal: int, gpu: int) -> None:
        """What a process calls one of the GPUs (``CUDA_VISIBLE_DEVICES``)."""
        self.add("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=ordinal, pid=pid)

    def steps(self, count: int) -> Iterator[tuple[Thread, int, int]]:
        """A loop of similar steps on a GPU, each with a convolution and its kernel.

        Yields:
            The thread, and the number and start of each step, to add more to it.
        """
        self.gpu(0)
        thread = self.thread()
        for step in range(count):
            at = 10_000 * step
            thread.range(f"iteration {step}", at, at + 9_000)
            thread.op("conv2d", at + 100, at + 800, seq=2 * step, sizes="[[8, 3, 4, 4]]")
            thread.launch("sgemm", at + 110, gpu=(at + 200, at + 900))
            yield thread, step, at

    def write(
        self,
        path: Path,
        *,
        suffix: str = "",
        without: Iterable[str] = (),
        shuffled: random.Random | None = None,
    ) -> Path:
        """Write the export.

        Args:
            path: The file to make.
            suffix: Appended to the names of all CUPTI and NVTX tables (``_V2``).
            without: Tables (``StringIds``) and columns (``NVTX_EVENTS.textId``) to leave out.
            shuffled: Puts the rows of every table in a random order.
        """
        dropped = set(without)
        with closing(sqlite3.connect(path)) as connection:
            for table, columns in SCHEMA.items():
                rows = list(self.tables[table])
                if table in dropped or not (rows or table in ALWAYS):
                    continue
                if shuffled is not None:
                    shuffled.shuffle(rows)
                kept = [column for column in columns if f"{table}.{column}" not in dropped]
                name = f"{table}{suffix}" if table.startswith(("CUPTI", "NVTX")) else table
                quoted = ", ".join(f'"{column}"' for column in kept)
                connection.execute(f'CREATE TABLE "{name}" ({quoted})')
                connection.executemany(
                    f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(kept))})',
                    [[row.get(column) for column in kept] for row in rows],
                )
            connection.commit()
        return path


@dataclass
class Process:
    """One process of a trace."""

    trace: Trace
    pid: int
    _last_correlation: int = 0

    def thread(self, tid: int = 1) -> Thread:
        """One thread of the process."""
        return Thread(self.trace, self, tid)

    def next_correlation(self) -> int:
        """The next unused correlation id of the process."""
        self._last_correlation += 1
        return self._last_correlation

    def kernel(
        self,
        name: str,
        start: int,
        end: int,
        *,
        correlation: int | None,
        device: int = 0,
        long_name: str = "",
        stream: int = 7,
    ) -> Row:
        """A kernel that ran, whatever launched it."""
        dims = dict.fromkeys(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), 1)
        return self.trace.add(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            **self._work(start, end, correlation, device, stream),
            **dims,
            shortName=self.trace.string(name),
            demangledName=self.trace.string(long_name or f"void {name}(float*)"),
        )

    def _work(
        self, start: int, end: int, correlation: int | None, device: int, stream: int
    ) -> dict[str, Any]:
        return {
            "start": start,
            "end": end,
            "deviceId": device,
            "contextId": 1,
            "streamId": stream,
            "correlationId": correlation,
            "globalPid": global_pid(self.pid),
        }

    def copy(self, start: int, end: int, *, correlation: int | None, device: int = 0) -> Row:
        """A copy from host to device that ran."""
        work = self._work(start, end, correlation, device, 7)
        return self.trace.add("CUPTI_ACTIVITY_KIND_MEMCPY", **work, bytes=4096, copyKind=1)

    def set(self, start: int, end: int, *, correlation: int | None, device: int = 0) -> Row:
        """A memory set that ran."""
        work = self._work(start, end, correlation, device, 7)
        return self.trace.add("CUPTI_ACTIVITY_KIND_MEMSET", **work, bytes=4096, value=0)

    def graph(self, start: int, end: int, *, correlation: int | None, device: int = 0) -> Row:
        """A CUDA graph that ran, recorded as a whole."""
        work = self._work(start, end, correlation, device, 7)
        return self.trace.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", **work, graphId=1, graphExecId=2)


@dataclass
class Thread:
    """One thread of a process."""

    trace: Trace
    process: Process
    tid: int

    @property
    def global_tid(self) -> int:
        """Nsight Systems' global thread id."""
        return global_pid(self.process.pid) | self.tid

    def range(
        self,
        text: str,
        start: int,
        end: int | None,
        *,
        domain: int | None = 0,
        registered: bool = False,
        kind: int = PUSH_POP,
    ) -> Row:
        """An NVTX range; without an end it was never closed."""
        return self.trace.add(
            "NVTX_EVENTS",
            start=start,
            end=end,
            eventType=kind,
            text=None if registered else text,
            textId=self.trace.string(text) if registered else None,
            globalTid=self.global_tid,
            domainId=domain,
        )

    def op(
        self, name: str, start: int, end: int | None, *, seq: int | None = None, sizes: str = ""
    ) -> Row:
        """A range as PyTorch writes it for an operator: ``aten::conv2d, seq = 1, op_id = 24``."""
        text = name if "::" in name else f"aten::{name}"
        text += f", seq = {seq}" if seq is not None else ""
        text += f", op_id = {len(self.trace.tables['NVTX_EVENTS']) + 1}"
        text += f", sizes = {sizes}, input_op_ids = [(0,-1)]" if sizes else ""
        return self.range(text, start, end)

    def wrapper(self, name: str, start: int, end: int) -> Row:
        """What the autograd engine opens around a backward node."""
        return self.range(f"{WRAPPER}{name}, op_id = 7", start, end)

    def node(self, name: str, start: int, end: int, *, seq: int | None = None) -> Row:
        """A backward node."""
        text = f", seq = {seq}" if seq is not None else ""
        return self.range(f"{name}{text}, op_id = 8", start, end)

    def backward(self, name: str, start: int, end: int, *, seq: int) -> None:
        """A wrapper with its node, which leaves 2 ns at either end to the wrapper alone."""
        self.wrapper(name, start, end)
        self.node(name, start + 2, end - 2, seq=seq)

    def call(self, name: str, start: int, end: int, *, correlation: int | None = None) -> int:
        """An API call; returns its correlation id."""
        number = correlation if correlation is not None else self.process.next_correlation()
        self.trace.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=end,
            eventClass=RUNTIME_CLASS,
            globalTid=self.global_tid,
            correlationId=number,
            nameId=self.trace.string(name),
            returnValue=0,
        )
        return number

    def launch(
        self,
        kernel: str,
        start: int,
        *,
        gpu: tuple[int, int] | None = None,
        device: int = 0,
        length: int = 2,
        long_name: str = "",
        stream: int = 7,
    ) -> int:
        """A launching call at ``start`` and its kernel, which runs right after it by default."""
        number = self.call(LAUNCH, start, start + length)
        begin, end = gpu or (start + length, start + length + 10)
        self.process.kernel(
            kernel,
            begin,
            end,
            correlation=number,
            device=device,
            long_name=long_name,
            stream=stream,
        )
        return number

    def copy(self, start: int, *, gpu: tuple[int, int], device: int = 0, length: int = 2) -> int:
        """A copying call and its copy."""
        number = self.call("cudaMemcpyAsync_v3020", start, start + length)
        self.process.copy(*gpu, correlation=number, device=device)
        return number

    def graph(self, start: int, *, gpu: tuple[int, int], device: int = 0, length: int = 2) -> int:
        """A call that launches a CUDA graph, and the graph."""
        number = self.call("cudaGraphLaunch_v10000", start, start + length)
        self.process.graph(*gpu, correlation=number, device=device)
        return number

    def set(self, start: int, *, gpu: tuple[int, int], device: int = 0, length: int = 2) -> int:
        """A setting call and its set."""
        number = self.call("cudaMemsetAsync_v3020", start, start + length)
        self.process.set(*gpu, correlation=number, device=device)
        return number


def one_gpu() -> tuple[Trace, Thread]:
    """An empty trace with a GPU, and a thread of its only process."""
    trace = Trace()
    trace.gpu()
    return trace, trace.thread()


@dataclass(frozen=True)
class Database:
    """A database of a profile."""

    path: Path

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Rows of a query on the database."""
        return self._connection.execute(sql, parameters).fetchall()

    @cached_property
    def _connection(self) -> sqlite3.Connection:
        """Kept, for each connection reads the whole schema before its first query."""
        return sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)

    def aggregate(self, **request: Any) -> AggregationResult:
        """One more aggregation."""
        return aggregate(self.path, AggregationRequest(**request), NullProgress())

    def ops(self, aggregation: int = 1) -> dict[tuple[str, str], int]:
        """(op name, direction) -> calls."""
        sql = f"SELECT op_node_name, direction, num_calls FROM view_op_nodes {HERE}"
        rows = self.query(sql, aggregation)
        found = {(name, direction): calls for name, direction, calls in rows}
        assert len(found) == len(rows), f"names are not unique: {rows}"
        return found

    def op_ids(self, aggregation: int = 1) -> dict[str, str]:
        """Op ID -> op name."""
        sql = f"SELECT op_node_id, op_node_name FROM view_op_nodes {HERE}"
        return dict(self.query(sql, aggregation))

    def kernels(self, aggregation: int = 1) -> dict[str, tuple[str, str]]:
        """Kernel name -> (op name, direction); each kernel of the trace has a name of its own."""
        sql = (
            f"SELECT kernel_name, op_node_name, direction FROM view_kernel_launches {HERE}"
            " ORDER BY row_id"
        )
        rows = self.query(sql, aggregation)
        found = {kernel: (op, direction) for kernel, op, direction in rows}
        assert len(found) == len(rows), f"a kernel is there twice: {rows}"
        return found

    def iterations(self, aggregation: int = 1) -> list[tuple[int, int]]:
        """(start, stop) of all iterations."""
        sql = (
            "SELECT start_time, stop_time FROM view_iterations_all WHERE aggr_id = ?"
            " ORDER BY iter_value"
        )
        return self.query(sql, aggregation)

    def warnings(self) -> dict[str, int]:
        """Warning code -> events concerned."""
        return dict(self.query("SELECT code, count FROM view_warnings"))


@dataclass(frozen=True)
class Analyzed(Database):
    """A database made of a trace, and what the import returned."""

    result: ImportResult


def query(path: Path, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Rows of a query on any SQLite file, opened for reading only."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(sql, parameters).fetchall()


def alter(path: Path, *statements: str) -> Path:
    """Change an SQLite file; returns its path."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    return path


def unpacked(packed: Path, folder: Path) -> Path:
    """The content of an ``.xz`` file, as a file in a folder."""
    path = folder / packed.stem
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    return path


def oracle(shared_dir: Path, name: str) -> list[dict[str, str]]:
    """Rows of a report of NVIDIA's ``nsys stats``."""
    packed = shared_dir / "oracles" / f"{name}.csv.xz"
    return list(csv.DictReader(io.StringIO(lzma.decompress(packed.read_bytes()).decode())))


def analyze_file(
    source: Path, database: Path, *, mode: Mode = Mode.AUTO, **request: Any
) -> Analyzed:
    """Import an export."""
    options = ImportOptions(source, database, mode=mode, request=AggregationRequest(**request))
    return Analyzed(database, import_profile(options, NullProgress()))


def analyze(trace: Trace, folder: Path, *, mode: Mode = Mode.AUTO, **request: Any) -> Analyzed:
    """Write a trace and import it."""
    source = folder / "profile.sqlite"
    source.unlink(missing_ok=True)
    database = folder / "dlprof_dldb.sqlite"
    database.unlink(missing_ok=True)
    return analyze_file(trace.write(source), database, mode=mode, **request)


def table(name: str) -> list[Any]:
    """Rows of a file in ``tests/data/tables``; lines that begin with # are comments."""
    path = Path(__file__).parent / "data" / "tables" / f"{name}.jsonl"
    lines = path.read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if not line.startswith("#")]


def contents(value: Any) -> Any:
    """Everything in a profile, as values that compare with ``==``."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: contents(getattr(value, one.name)) for one in fields(value)}
    return [contents(one) for one in value] if isinstance(value, list | tuple) else value
