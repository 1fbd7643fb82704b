"""The file that the collector writes for one process: see ``dlprof_nvtx/native/collector.h``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from aggregator.errors import CorruptProfileError
from aggregator.texts import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

MAGIC: Final = b"DLPROFC1"
_HEADER: Final = np.dtype([("type", "u4"), ("record_bytes", "u4"), ("bytes", "u8")])

PROCESS, STRING, API, KERNEL, COPY, SET, SYNC, EVENT = range(1, 9)
OVERHEAD, GRAPH_NODE, NVTX, NVTX_TEXT, DEVICES, THREADS, NOTE, END, WINDOW = range(9, 18)
WORK: Final = (KERNEL, COPY, SET)
NOT_SET: Final = (1 << 64) - 1
_MAX_TIME: Final = 1 << 62
_NUMBERED: Final = {
    "correlation": (API, KERNEL, COPY, SET, SYNC, EVENT),
    "event_sync": (SYNC, EVENT),
}
"""Fields that CUPTI may number from 1 again in each window, and the types that have them."""
PUSH, POP, START, STOP, MARK, DOMAIN, CATEGORY, THREAD, ATTRIBUTES = range(1, 10)

_TIMES: Final = [("start", "u8"), ("end", "u8")]
_WHERE: Final = [(name, "u4") for name in ("device", "context", "stream", "correlation")]
_PROCESS: Final = [("time_ns", "u8"), ("utc_ns", "u8"), ("pid", "u4"), ("cupti", "u4")]
_MEMORY: Final = [*_TIMES, ("graph_node", "u8"), ("bytes", "u8"), *_WHERE, ("graph", "u4")]
_COPY: Final = [(name, "u1") for name in ("kind", "source", "target", "is_async")]
TYPES: Final = {
    PROCESS: [*_PROCESS, ("dropped", "u8")],
    END: [*_PROCESS, ("dropped", "u8")],
    API: [
        *_TIMES,
        *((name, "u4") for name in ("thread", "correlation", "name")),
        *(("result", "i4"), ("is_driver", "u4"), ("unused", "u4")),
    ],
    KERNEL: [
        *(*_TIMES, ("graph_node", "u8"), *_WHERE, ("name", "u4"), ("graph", "u4")),
        *((name, "i4") for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")),
        *(("static_bytes", "i4"), ("dynamic_bytes", "i4")),
        *(("registers", "u4"), ("launch_type", "u4")),
    ],
    COPY: [*_MEMORY, *_COPY],
    SET: [*_MEMORY, *_COPY],
    SYNC: [
        *(*_TIMES, ("event_sync", "u8")),
        *((n, "u4") for n in ("type", "correlation", "context", "stream", "event", "unused")),
    ],
    EVENT: [
        ("event_sync", "u8"),
        *((name, "u4") for name in ("correlation", "context", "stream", "event")),
    ],
    OVERHEAD: [*_TIMES, ("kind", "u4"), ("thread", "u4")],
    GRAPH_NODE: [
        *((name, "u8") for name in ("time", "node", "original")),
        *(("thread", "u4"), ("unused", "u4")),
    ],
    WINDOW: [*_TIMES, ("ended_by", "u4"), ("unused", "u4")],
    NVTX: [
        *(("time", "u8"), ("id", "u8")),
        *((name, "u4") for name in ("domain", "thread", "text_bytes", "kind")),
    ],
}
"""Fields of each type of record, as in ``collector.h``."""


@dataclass(frozen=True)
class Window:
    """A time in which a process was recorded. Unit: ns of the collector's clock."""

    start_ns: int
    end_ns: int
    ended_by: str


ENDS: Final = ("failure", "detach", "stop", "end", "failure")
"""What ended a window, by its number: none did, the program, dlprof, the end of the program; or
CUPTI could not be attached."""


@dataclass
class Records:
    """What the collector recorded of one process."""

    columns: dict[int, npt.NDArray[Any]]  # Records by type.
    strings: dict[int, str] = field(default_factory=dict)  # Names of kernels and calls by number.
    nvtx_text: bytes = b""  # Texts of the NVTX records, joined in their order.
    texts: dict[int, list[str]] = field(default_factory=dict)  # Text chunks by type.
    is_complete: bool = False  # Whether the process ended the file itself.
    unfinished: int = 0  # Kernels, copies and sets that the GPU had not finished.
    windows: list[Window] = field(default_factory=list)  # When the process was recorded.

    def notes(self, name: str) -> list[str]:
        """Return the values that the collector noted under a name."""
        pairs = [text.partition("\t") for text in self.texts.get(NOTE, ())]
        return [value for key, _, value in pairs if key == name]

    def lines(self, kind: int) -> list[list[str]]:
        """Return the lines of all text chunks of a type, split at tabs."""
        chunks = self.texts.get(kind, ())
        return [line.split("\t") for text in chunks for line in text.splitlines()]

    def last_ns(self) -> int:
        """Return when something was recorded last. Unit: ns of the collector's clock."""
        last = [int(self.columns[kind]["end"].max(initial=0)) for kind in (API, *WORK)]
        events = self.columns[NVTX]
        times = events["time"][events["kind"] != ATTRIBUTES]
        return min(max(*last, int(times.max(initial=0))), _MAX_TIME)

    def summary(self) -> Records:
        """Return the same without what fills the memory."""
        kept = {kind: self.columns[kind] for kind in (PROCESS, END)}
        return replace(self, columns=kept, strings={}, nvtx_text=b"")


def read_begin(path: Path) -> tuple[int, int] | None:
    """When the collection began in a process, by the collector's clock and in UTC; None: not.

    Raises:
        CorruptProfileError: It is not such a file.
    """
    data = _content(path)
    size_of = np.dtype(TYPES[PROCESS]).itemsize
    for kind, record_bytes, at, size in _chunks(data):
        if kind == PROCESS and record_bytes == size_of and size >= size_of:
            begin = np.frombuffer(data, TYPES[PROCESS], 1, at)[0]
            return int(begin["time_ns"]), int(begin["utc_ns"])
    return None


def read_records(path: Path) -> Records:
    """Read the file of one process, which may end anywhere.

    Raises:
        CorruptProfileError: It is not such a file.
    """
    data = _content(path)
    found = Records(columns={})
    parts: dict[int, list[npt.NDArray[Any]]] = {kind: [] for kind in TYPES}
    part_windows: dict[int, list[int]] = {kind: [] for kind in TYPES}  # Begun before each part.
    texts: list[bytes] = []
    for kind, record_bytes, at, size in _chunks(data):
        if kind in TYPES:
            if record_bytes != np.dtype(TYPES[kind]).itemsize or size % record_bytes:
                break
            parts[kind].append(np.frombuffer(data, TYPES[kind], size // record_bytes, at))
            part_windows[kind].append(_begun(parts[WINDOW]))
        elif kind == NVTX_TEXT:
            if not parts[NVTX] or int(parts[NVTX][-1]["text_bytes"].sum()) != size:
                break
            texts.append(data[at : at + size])
        elif kind == STRING:
            number = int.from_bytes(data[at : at + 4], "little")
            found.strings[number] = data[at + 4 : at + size].decode("utf-8", "replace")
        else:
            text = data[at : at + size].decode("utf-8", "replace")
            found.texts.setdefault(kind, []).append(text)
    # The texts of the last NVTX records may be missing.
    del parts[NVTX][len(texts) :]
    found.nvtx_text = b"".join(texts)
    _number_on(parts, part_windows)
    for kind, arrays in parts.items():
        empty = np.empty(0, TYPES[kind])
        found.columns[kind] = np.concatenate(arrays) if arrays else empty
    found.is_complete = len(found.columns[END]) > 0
    found.windows = _windows(found)
    found.unfinished = sum(int((found.columns[kind]["end"] == 0).sum()) for kind in WORK)
    return found


def _begun(windows: Sequence[npt.NDArray[Any]]) -> int:
    """Return the number of windows that have begun: a record of each begin has no end."""
    return sum(int((window["end"] == 0).sum()) for window in windows)


def _number_on(
    parts: Mapping[int, list[npt.NDArray[Any]]], part_windows: Mapping[int, list[int]]
) -> None:
    """Let the numbers of each window follow those of the window before, in the type of a row."""
    last = max(part_windows[WINDOW], default=0)
    for name, types in _NUMBERED.items():
        offset = 0
        for window in range(1, last + 1):
            most = offset
            for kind in types:
                for at, of_part in enumerate(part_windows[kind]):
                    if of_part == window:
                        rows = parts[kind][at] = _shifted(parts[kind][at], name, offset)
                        values = rows[name][rows[name] != NOT_SET]
                        most = max(most, int(values.max(initial=0)))
            offset = most


def _shifted(rows: npt.NDArray[Any], name: str, offset: int) -> npt.NDArray[Any]:
    """Return the same rows with larger numbers; those that are not set stay."""
    if not offset:
        return rows
    rows = rows.copy()
    rows[name] += np.where(rows[name] == NOT_SET, 0, offset).astype(rows[name].dtype)
    return rows


def _windows(found: Records) -> list[Window]:
    """Return the windows in their order; one without an end lasts as long as there are records."""
    rows = found.columns[WINDOW]
    times = np.minimum(rows["start"], _MAX_TIME), np.minimum(rows["end"], _MAX_TIME)
    ends: dict[int, tuple[int, int]] = {}
    starts: list[int] = []
    for start, end, number in zip(
        *(column.tolist() for column in (*times, rows["ended_by"])), strict=True
    ):
        if end:
            ends[start] = max(start, end), number
        else:
            starts.append(start)
    open_end = min(max(found.last_ns(), *starts[-1:], 0), _MAX_TIME)
    found_ends = [
        ends.get(start, (open_end if start == starts[-1] else start, 0)) for start in starts
    ]
    return [
        Window(start, end, ENDS[number] if number < len(ENDS) else ENDS[0])
        for start, (end, number) in zip(starts, found_ends, strict=True)
    ]


def _content(path: Path) -> mmap:
    """Return the bytes of a file, which are read as they are used."""
    with path.open("rb") as file:
        head = file.read(len(MAGIC))
        if head == MAGIC:
            return mmap(file.fileno(), 0, access=ACCESS_READ)
    raise CorruptProfileError(
        say("'{path}' is not a file of records of dlprof's collector.", path=str(path))
    )


def _chunks(data: mmap) -> Iterator[tuple[int, int, int, int]]:
    """Yield the type, size of a record, begin and size of each complete chunk."""
    at = len(MAGIC)
    while at + _HEADER.itemsize <= len(data):
        kind, record_bytes, size = np.frombuffer(data, _HEADER, 1, at)[0].tolist()
        at += _HEADER.itemsize
        if size > len(data) - at:
            return
        yield kind, record_bytes, at, size
        at += size
