"""Reads the text of a Chrome trace block by block, each a JSON array of whole events.

A trace is one JSON object that consists almost entirely of ``traceEvents``. It is read in blocks,
each cut between two events, so a trace of any size needs the memory of one block only.
"""

from __future__ import annotations

import gzip
import re
import zlib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec

from aggregator.errors import CorruptProfileError, ProfileError, UnsupportedProfileError
from aggregator.sources.formats import GZIP_MAGIC, corrupt, empty
from aggregator.texts import say

BLOCK_BYTES: Final = 1 << 22
MAX_HEADER_BYTES: Final = 1 << 26
MAX_EVENT_BYTES: Final = 1 << 27
"""A longer event means that the file is damaged: its end is not searched for any further."""
_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
# Quotes in strings are escaped, so this occurs only between objects.
_BETWEEN: Final = re.compile(
    rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|args|pid|tid|ts|dur|id|bp|s)"\s*:)'
)
# Kineto prints C++ numbers: a bandwidth over no time is inf, which JSON does not have.
_NO_NUMBER: Final = re.compile(rb'(":\s*)-?(?:inf|nan|Infinity|NaN)(?=\s*[,}])')
# json.dumps writes half a character for a byte of a name that was no UTF-8.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
# What may follow the last whole event where a file was cut off.
_CUT: Final = re.compile(rb"\s*(?:,\s*(?:\{|$)|\]\s*(?:,|$)|$)")
_MOST_OBJECTS: Final = 64
"""Ends of objects within an event that are tried as its end."""
_MAX_END_BYTES: Final = 1 << 28
"""Limit on the text read to find the end of the list of events."""
_END_COST_BYTES: Final = 1 << 16
_OVERLAP_BYTES: Final = 1 << 10
Kind = TypeVar("Kind", bound=msgspec.Struct)


_Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]


class Args(msgspec.Struct, gc=False, frozen=True):
    """The arguments of an event that are read; others are skipped."""

    correlation: _Int64 = msgspec.field(default=-1)
    seq: _Int64 = msgspec.field(name="Sequence number", default=-1)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw(b""))
    old_dims: msgspec.Raw = msgspec.field(name="Input dims", default=msgspec.Raw(b""))
    types: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw(b""))
    concrete: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=msgspec.Raw(b""))
    call_stack: str = msgspec.field(name="Call stack", default="")
    device: _Int64 = -1
    stream: _Int64 = -1
    grid: tuple[_Int32, _Int32, _Int32] | None = None
    block: tuple[_Int32, _Int32, _Int32] | None = None
    num_bytes: _Int64 = msgspec.field(name="bytes", default=-1)
    copy_kind: str = msgspec.field(name="copy kind", default="")
    copy_source: str = msgspec.field(name="src kind", default="")
    copy_target: str = msgspec.field(name="dst kind", default="")
    name: str = ""  # Of a thread, or of the module of a graph's kernel.
    autograd_phase: str = ""
    original_stream: _Int64 = -1  # Of a graph's kernel when it was captured.
    kernel: str = ""  # Name of the kernel that a call launches; ROCm only.
    index: _Int64 = msgspec.field(name="Ev Idx", default=-1)
    record_id: _Int64 = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=-1)
    record_stream: _Int64 = msgspec.field(name="wait_on_stream", default=-1)
    call_id: int | str = msgspec.field(name="Comms Id", default=-1)
    # Of a collective's kernel: elements that its rank puts in, and their type.
    message: _Int64 = msgspec.field(name="In msg nelems", default=-1)
    message_type: str = msgspec.field(name="dtype", default="")
    external: int = msgspec.field(name="External id", default=-1)
    value: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""))  # Of a sample.


_NO_ARGS: Final = Args()
MEMORY_EVENT: Final = b"[memory]"
"""Name of the events of the allocator."""


class Event(msgspec.Struct, gc=False):
    """One event of a trace; times in microseconds as written."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: Decimal | None = None  # float64 is not exact to 1 ns for times since 1970.
    dur: float | None = None
    id: msgspec.Raw = msgspec.Raw(b"")  # Of an arrow; a number, as a rule.
    args: Args = _NO_ARGS


class TraceText:
    """The text of one trace.

    Attributes:
        path: The file.
        header: The keys of the trace beside its events; complete after the last block.
        records_memory: Whether it holds allocations; complete after the last block.
        is_cut: Whether the file ends within its events; known after the last block.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: dict[str, Any] = {}
        self.records_memory = False
        self.is_cut = False

    def check_head(self) -> None:
        """Check that the text begins like a trace.

        Raises:
            UnsupportedProfileError: It does not.
            CorruptProfileError: It is empty or damaged.
        """
        with _opened(self.path) as file:
            self._head(file)

    def blocks(self) -> Iterator[bytes]:
        """JSON arrays of whole events, in the order of the file; also of one that was cut off.

        Raises:
            UnsupportedProfileError: Not a trace of events.
            CorruptProfileError: The text is damaged, or ends before its second event.
        """
        with _opened(self.path) as file:
            head, rest = self._head(file)
            has_events = False
            while block := self._next(file):
                # The part that was searched before has no boundary.
                searched = max(len(rest) - _OVERLAP_BYTES, 0)
                rest += block
                cut = _last_boundary(rest, searched)
                if cut:
                    if not self.records_memory:
                        self.records_memory = rest.find(MEMORY_EVENT, 0, cut[0]) >= 0
                    yield b"[" + rest[: cut[0]] + b"]"
                    rest, has_events = rest[cut[1] :], True
                elif len(rest) > MAX_EVENT_BYTES:
                    raise corrupt(self.path, "an event has no end")
            last, self.header = self._end(rest, head, may_be_cut=has_events)
            self.records_memory = self.records_memory or MEMORY_EVENT in last
            yield b"[" + last + b"]"

    def _next(self, file: BufferedIOBase) -> bytes:
        """The next part of the text; empty at its end, and where it cannot be unpacked further."""
        try:
            return _read(file, self.path)
        except CorruptProfileError:
            self.is_cut = True
            return b""

    def _head(self, file: BufferedIOBase) -> tuple[bytes, bytes]:
        """Text before the events, and the text of events that was read with it."""
        text = b""
        while len(text) < MAX_HEADER_BYTES:
            block = _read(file, self.path)
            text = (text + block).removeprefix(BOM_UTF8)
            if not text.strip():
                raise empty(self.path)
            if text.lstrip()[:1] != b"{":
                raise not_a_trace(self.path)
            if found := _EVENTS.search(text):
                return text[: found.end()], text[found.end() :]
            if not block:
                break
        raise self._without_events(text)

    def _without_events(self, text: bytes) -> ProfileError:
        try:
            msgspec.json.decode(text, type=msgspec.Raw)
        except _BAD_JSON as error:
            return corrupt(self.path, error)
        return not_a_trace(self.path)

    def _end(self, rest: bytes, head: bytes, *, may_be_cut: bool) -> tuple[bytes, dict[str, Any]]:
        """The last events, and the keys of the trace before and after its events."""
        end = rest.rfind(b"]")
        left = _MAX_END_BYTES
        while end >= 0 and left > 0:
            tail = rest[end:]
            header = _object(head + tail)
            if header is not None:
                left -= len(rest)
                if _is_array(b"[" + rest[:end] + b"]"):
                    header.pop("traceEvents", None)
                    return rest[:end], header
            left -= len(head) + len(tail) + _END_COST_BYTES
            end = rest.rfind(b"]", 0, end)
        cut = _last_boundary(rest, 0)
        before, last = (rest[: cut[0]], rest[cut[1] :]) if cut else (b"", rest)
        whole = _before_cut(last)
        if whole is None or not (before or may_be_cut) or not _is_array(b"[" + before + b"]"):
            raise corrupt(self.path, "the list of events does not end")
        self.is_cut = True
        return b",".join(filter(None, (before, whole))), _object(head + b"]}") or {}


_BAD_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _cleaned(text: bytes) -> bytes:
    """Text with infinite numbers as null, and what is no character as the replacement character."""
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode("utf-8", "replace").encode()
    if b"\\ud" in text or b"\\uD" in text:
        text = _ESCAPE.sub(_whole_character, text)
    return _NO_NUMBER.sub(rb"\1null", text)


def _whole_character(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if escape["half"] else escape[0]


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(_cleaned(text))
    except _BAD_JSON:
        return None
    return value if isinstance(value, dict) else None


def _is_array(text: bytes) -> bool:
    try:
        msgspec.json.decode(_cleaned(text), type=list[msgspec.Raw])
    except _BAD_JSON:
        return False
    return True


def _before_cut(rest: bytes) -> bytes | None:
    """The whole events at the end of a text that was cut off; None: it is damaged otherwise."""
    if len(rest) > BLOCK_BYTES:
        return None
    end = len(rest)
    for _ in range(_MOST_OBJECTS):
        end = rest.rfind(b"}", 0, end)
        if end < 0:
            break
        if _is_array(b"[" + rest[: end + 1] + b"]"):
            return rest[: end + 1] if _CUT.match(rest, end + 1) else None
    return b"" if rest.lstrip()[:1] in (b"{", b"") else None


def _last_boundary(text: bytes, first: int) -> tuple[int, int] | None:
    """End of the last event before another one, from ``first`` on, and the start of that one."""
    window = 1 << 14
    while True:
        start = max(len(text) - window, first)
        found = None
        for match in _BETWEEN.finditer(text, start):
            found = match
        if found:
            return found.start() + 1, found.end()
        if start == first:
            return None
        window *= 8


_BAD_GZIP: Final = (EOFError, zlib.error, gzip.BadGzipFile)
_MOST_LAYERS: Final = 3
"""A server may pack a packed file again; some files unpack to themselves without end."""


def _is_gzip(file: BufferedReader | gzip.GzipFile) -> bool:
    try:
        return file.peek(2).startswith(GZIP_MAGIC)
    except _BAD_GZIP:
        return False  # Reading it raises the error.


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    try:
        with path.open("rb") as raw:
            file: BufferedReader | gzip.GzipFile = raw
            for _ in range(_MOST_LAYERS):
                if not _is_gzip(file):
                    break
                file = gzip.GzipFile(fileobj=file, mode="rb")
            yield cast("BufferedIOBase", file)
    except OSError as error:
        reason = error.strerror or str(error)
        raise corrupt(path, reason) from error


def _read(file: BufferedIOBase, path: Path) -> bytes:
    """Read up to a block; what was unpacked before an error is returned before it is raised."""
    parts: list[bytes] = []
    size = 0
    try:
        while size < BLOCK_BYTES and (part := file.read1(BLOCK_BYTES - size)):
            parts.append(part)
            size += len(part)
    except _BAD_GZIP as error:
        if not parts:
            raise corrupt(path, error) from error
    return b"".join(parts)


# Not strict: numbers may be in quotes.
_DECODER: Final = msgspec.json.Decoder(list[Event], strict=False)
_RAW_EVENTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_RAW_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FIELDS: Final[dict[type[msgspec.Struct], dict[str, tuple[str, msgspec.json.Decoder[Any]]]]] = {
    kind: {
        field.encode_name: (field.name, msgspec.json.Decoder(field.type, strict=False))
        for field in msgspec.structs.fields(kind)
    }
    for kind in (Event, Args)
}
_HEXADECIMAL: Final = re.compile(rb'"(0x[0-9a-fA-F]{1,15})"')


def decode(path: Path, block: bytes, odd: Counter[str]) -> list[Event]:
    """Decode a JSON array of events.

    Args:
        path: The file, for messages.
        block: The text.
        odd: Number of values by name that have another type than they should have; those of this
            block are added. Such values are unknown.

    Raises:
        CorruptProfileError: It is not JSON.
    """
    try:
        return _DECODER.decode(block)
    except _BAD_JSON:
        pass
    text = _cleaned(block)
    try:
        return _DECODER.decode(text)
    except _BAD_JSON:
        pass
    try:
        return [_lenient(Event, event, odd) for event in _RAW_EVENTS.decode(text)]
    except _BAD_JSON as error:
        raise corrupt(path, error) from error


def _lenient(kind: type[Kind], raw: msgspec.Raw, odd: Counter[str]) -> Kind:
    """Decode an object without the fields whose values have another type."""
    found: dict[str, Any] = {}
    fields = _RAW_FIELDS.decode(raw)
    for key, (name, decoder) in _FIELDS[kind].items():
        if key not in fields:
            continue
        text = fields[key]
        try:
            found[name] = decoder.decode(text)
        except msgspec.ValidationError:
            if name == "args" and bytes(text).startswith(b"{"):
                found[name] = _lenient(Args, text, odd)
            elif number := _HEXADECIMAL.fullmatch(bytes(text)):
                found[name] = int(number[1], 16)
            else:
                odd[name] += 1
    return kind(**found)


def not_a_trace(path: Path) -> UnsupportedProfileError:
    """The error for JSON or gzip that is not a trace of torch.profiler."""
    return UnsupportedProfileError(
        say("'{path}' is not a Chrome trace of torch.profiler.", path=str(path)),
        hint=say(
            "Write one with: torch.profiler.profile(...).export_chrome_trace('trace.json.gz')"
        ),
    )
