"""The format of summaries of ranks, Parquet files with one row for each rank and step.

``SCHEMA`` documents the columns, which are never removed. The file's metadata has a JSON text
``dlprof`` with the format, its version, and what joins the captures of a job: host, start of the
clock, GPUs, ranks.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Annotated, Any, BinaryIO, Final

import msgspec
import pyarrow as pa
from msgspec import Struct

from aggregator.metrics.ownership import CLASSES

SUFFIX: Final = ".ranks.parquet"
FORMAT: Final = "dlprof rank summary"
VERSION: Final = 2
KEY: Final = b"dlprof"
"""Key of the metadata."""
MAGIC: Final = b"PAR1"
"""How a Parquet file begins."""
_DIGEST: Final = b"sha256:"
MOST_NS: Final = 1 << 60
_Whole = Annotated[int, msgspec.Meta(ge=0, le=MOST_NS)]
MOST_OPS: Final = 20
MOST_KERNELS: Final = 20
CLASS_COLUMNS: Final = tuple(
    re.sub(r"\W+", "_", name).replace("_the_", "_") + "_ns" for name in CLASSES
)


class SummaryRank(Struct, frozen=True):
    """A rank of a summary."""

    number: _Whole = msgspec.field(name="rank")  # Number in its capture.
    host: str
    is_aligned: bool  # Whether its clock within the capture is known.
    residual_ns: _Whole  # Of its clock within the capture. Unit: ns.


class SummaryHead(Struct, kw_only=True):
    """What a file says of itself in its metadata."""

    format: str = FORMAT
    version: int = VERSION
    meta: dict[str, str]  # Of ``dldb_meta``.
    ranks: Annotated[list[SummaryRank], msgspec.Meta(min_length=1)]
    recorded_ranks: list[_Whole]  # Numbers in the job that are certain; empty: none are.
    gpus: list[str]  # UUIDs.
    kernels: list[_Whole]  # Number of kernels and start of the first.
    source: str  # Where the full database was; empty: not stored.


def _field(name: str, kind: pa.DataType, unit: str, text: str) -> pa.Field:
    return pa.field(name, kind, metadata={"unit": unit, "description": text})


_TIME: Final = pa.int64()
CALL: Final = pa.struct(
    [
        _field("kind", pa.string(), "none", "AllReduce, AllGather, Broadcast, ..."),
        _field("device", pa.int64(), "none", "row of the GPU in its database"),
        _field("stream", pa.int64(), "none", "CUDA stream"),
        _field("call", pa.int64(), "none", "number that all its ranks recorded"),
        _field("bytes", pa.int64(), "bytes", "data that the rank contributed"),
        _field("start_ns", _TIME, "ns", "start of its kernel"),
        _field("end_ns", _TIME, "ns", "end of its kernel"),
        _field("api_end_ns", _TIME, "ns", "end of the call that launched it"),
        _field("work_end_ns", _TIME, "ns", "last end of computing kernels launched before it"),
        _field("busy_until_ns", _TIME, "ns", "last end of those that started before its end"),
        _field("next_start_ns", _TIME, "ns", "start of the first one after its end"),
        _field("next_launch_ns", _TIME, "ns", "start of the call that launched that one"),
        _field("work_ns", _TIME, "ns", "sum of the computing kernels launched before it"),
        _field("work_count", pa.int64(), "count", "number of these kernels"),
    ]
)
OP: Final = pa.struct(
    [
        _field("name", pa.string(), "none", "path and name of the op"),
        _field("direction", pa.string(), "none", "fprop, bprop or empty"),
        _field("owned_ns", _TIME, "ns", "time of the step that the op owns"),
    ]
)
KERNEL: Final = pa.struct(
    [
        _field("name", pa.string(), "none", "short name of the kernel"),
        _field("launches", pa.int64(), "count", "launches in the step"),
        _field("gpu_ns", _TIME, "ns", "sum of their durations"),
    ]
)
SCHEMA: Final = pa.schema(
    [
        _field(
            "rank",
            pa.int32(),
            "none",
            "number of the rank: in the job if that is certain, else in the capture",
        ),
        _field("step", pa.int64(), "none", "number of the iteration; null: outside of all"),
        _field("kind", pa.string(), "none", "before, iteration or after; empty: outside of all"),
        _field("is_steady", pa.bool_(), "none", "whether the step is one of the steady steps"),
        _field("start_ns", _TIME, "ns", "start of the step on the capture's clock"),
        _field("duration_ns", _TIME, "ns", "length of the step"),
        *(
            _field(column, _TIME, "ns", f"time of the step on the rank's GPU: {name}")
            for column, name in zip(CLASS_COLUMNS, CLASSES, strict=True)
        ),
        _field("ops", pa.list_(OP), "none", f"the {MOST_OPS} ops that own most of all steps"),
        _field("kernels", pa.list_(KERNEL), "none", f"the {MOST_KERNELS} costliest kernels"),
        _field("collectives", pa.list_(CALL), "none", "collectives, in order of start"),
    ]
)


def write_table(table: pa.Table, stream: BinaryIO) -> None:
    """Write a summary, with a digest of all else between the columns and the footer.

    Parquet finds columns from the footer and the footer from the end of the file, so other readers
    are not affected.
    """
    from pyarrow import parquet as pq  # noqa: PLC0415 - loads slowly

    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, **_writing())
    data = buffer.getvalue().to_pybytes()
    footer = _footer(data)
    stream.write(data[:footer] + _DIGEST + sha256(data).digest() + data[footer:])


def is_intact(data: bytes) -> bool:
    """Return whether a file is as it was written; one that others wrote has no digest to compare.

    Parquet's reader ends the process for some damages.
    """
    footer = _footer(data)
    start = footer - len(_DIGEST) - 32
    if start < 0 or not data[start:].startswith(_DIGEST):
        return True
    return data[footer - 32 : footer] == sha256(data[:start] + data[footer:]).digest()


def _footer(data: bytes) -> int:
    """Return where the footer begins: its length and a mark are the last eight bytes."""
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def _writing() -> dict[str, Any]:
    """Return the options of the writer: times as packed differences, texts as dictionaries."""
    texts, numbers = [], {}
    names = [(field.name, field.type) for field in SCHEMA if not pa.types.is_list(field.type)]
    names += [
        (f"{field.name}.list.element.{part.name}", part.type)
        for field in SCHEMA
        if pa.types.is_list(field.type)
        for part in field.type.value_type
    ]
    for name, kind in names:
        if pa.types.is_string(kind):
            texts.append(name)
        elif pa.types.is_integer(kind):
            numbers[name] = "DELTA_BINARY_PACKED"
    return {
        "compression": "zstd",
        "compression_level": 9,
        "use_dictionary": texts,
        "column_encoding": numbers,
        "write_statistics": False,
    }
