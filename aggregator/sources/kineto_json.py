"""Takes a Chrome trace apart without holding it: parts of whole events, one after another.

A trace is one JSON object whose ``traceEvents`` are nearly all of it. It is read in blocks, each
cut where one event ends and the next begins: a trace of any size needs the memory of one block.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec

from aggregator.errors import CorruptProfileError, ProfileError, UnsupportedProfileError
from aggregator.sources.kineto_files import GZIP_MAGIC
from aggregator.texts import say

BLOCK_BYTES: Final = 1 << 22
MAX_HEADER_BYTES: Final = 1 << 26
MAX_EVENT_BYTES: Final = 1 << 27
"""A single event longer than this is damage: the end of the text is looked for no further."""
_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
# Quotes within strings are escaped, so this stands only between objects.
_BETWEEN: Final = re.compile(
    rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|args|pid|tid|ts|dur|id|bp|s)"\s*:)'
)
# Kineto prints C++ numbers: a bandwidth over no time is inf, and JSON has no such number.
_NO_NUMBER: Final = re.compile(rb'(":\s*)-?(?:inf|nan|Infinity|NaN)(?=\s*[,}])')
_MAX_END_BYTES: Final = 1 << 28
"""Where the list of events ends is tried until so much text was read for it."""
_END_COST_BYTES: Final = 1 << 16
_OVERLAP_BYTES: Final = 1 << 10


class Args(msgspec.Struct, gc=False, frozen=True):
    """What is read of an event's arguments; the rest is skipped."""

    correlation: int = msgspec.field(default=-1)
    seq: int = msgspec.field(name="Sequence number", default=-1)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw(b""))
    old_dims: msgspec.Raw = msgspec.field(name="Input dims", default=msgspec.Raw(b""))
    types: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw(b""))
    concrete: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=msgspec.Raw(b""))
    call_stack: str = msgspec.field(name="Call stack", default="")
    device: int = -1
    stream: int = -1
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    num_bytes: int = msgspec.field(name="bytes", default=-1)
    name: str = ""


_NO_ARGS: Final = Args()


class Event(msgspec.Struct, gc=False):
    """One event of a trace; times in microseconds as text has them."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float | None = None
    dur: float | None = None
    args: Args = _NO_ARGS


class ExactEvent(Event, gc=False):
    """The same with the digits of its times: where float64 cannot tell nanoseconds apart."""

    ts: msgspec.Raw = msgspec.Raw(b"")  # type: ignore[assignment]
    dur: msgspec.Raw = msgspec.Raw(b"")  # type: ignore[assignment]


class TraceText:
    """The text of one trace.

    Attributes:
        path: The file.
        header: Everything beside the events; complete after the last part.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: dict[str, Any] = {}

    def check_head(self) -> None:
        """Look whether the text begins as a trace does.

        Raises:
            UnsupportedProfileError: It does not.
            CorruptProfileError: It is empty or damaged.
        """
        with _opened(self.path) as file:
            self._head(file)

    def parts(self) -> Iterator[bytes]:
        """JSON arrays of whole events, in the order of the file.

        Raises:
            UnsupportedProfileError: No trace of events.
            CorruptProfileError: The text breaks off or is damaged.
        """
        with _opened(self.path) as file:
            head, rest = self._head(file)
            while block := _read(file, self.path):
                # What was searched before holds no boundary.
                searched = max(len(rest) - _OVERLAP_BYTES, 0)
                rest += block
                cut = _last_boundary(rest, searched)
                if cut:
                    yield b"[" + rest[: cut[0]] + b"]"
                    rest = rest[cut[1] :]
                elif len(rest) > MAX_EVENT_BYTES:
                    raise damaged(self.path, "an event has no end")
            last, tail = self._end(rest, head)
            self.header = tail
            yield b"[" + last + b"]"

    def _head(self, file: IO[bytes]) -> tuple[bytes, bytes]:
        """Text before the events, and what was read of them."""
        text = b""
        while len(text) < MAX_HEADER_BYTES:
            block = _read(file, self.path)
            text += block
            if not text.strip():
                raise _empty(self.path)
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
            return damaged(self.path, str(error))
        return not_a_trace(self.path)

    def _end(self, rest: bytes, head: bytes) -> tuple[bytes, dict[str, Any]]:
        """The last events, and what stands before and behind all events."""
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
        raise damaged(self.path, "the list of events does not end")


_BAD_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _cleaned(text: bytes) -> bytes:
    """Text without what JSON does not know: infinite numbers, bytes of another encoding."""
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode("utf-8", "replace").encode()
    return _NO_NUMBER.sub(rb"\1null", text)


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


def _last_boundary(text: bytes, first: int) -> tuple[int, int] | None:
    """End of the last event that another one follows, and the start of that one.

    Args:
        text: The text.
        first: Where to begin to look.
    """
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


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            yield cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if packed else raw
    except OSError as error:
        reason = error.strerror or str(error)
        raise damaged(path, reason) from error


def _read(file: IO[bytes], path: Path) -> bytes:
    try:
        return file.read(BLOCK_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise damaged(path, str(error)) from error


class Decoder:
    """Turns parts of a trace into events.

    Args:
        path: The file, for messages.
        exact: Keep the digits of times.
    """

    def __init__(self, path: Path, *, exact: bool) -> None:
        self._path = path
        kind: Any = list[ExactEvent] if exact else list[Event]
        # Not strict: numbers in quotes are numbers.
        self._decoder = msgspec.json.Decoder(kind, strict=False)

    def decode(self, part: bytes) -> list[Event]:
        """Events of a part.

        Raises:
            CorruptProfileError: It is no JSON, or a field is of another kind than it must be.
        """
        try:
            return cast("list[Event]", self._decoder.decode(part))
        except msgspec.ValidationError as error:
            raise damaged(self._path, str(error)) from error
        except _BAD_JSON:
            pass
        try:
            return cast("list[Event]", self._decoder.decode(_cleaned(part)))
        except _BAD_JSON as error:
            raise damaged(self._path, str(error)) from error


def damaged(path: Path, reason: str) -> CorruptProfileError:
    """The error for a trace that cannot be read to its end."""
    return CorruptProfileError(
        say(
            "The profile '{path}' is damaged or incomplete: {error}.",
            path=str(path),
            error=reason.rstrip("."),
        ),
        hint=say("Copy or export it again; a capture or a copy may have been cut off."),
    )


def not_a_trace(path: Path) -> UnsupportedProfileError:
    """The error for JSON, or packed text, that is no trace of torch.profiler."""
    return UnsupportedProfileError(
        say("'{path}' is not a Chrome trace of torch.profiler.", path=str(path)),
        hint=say(
            "Write one with: torch.profiler.profile(...).export_chrome_trace('trace.json.gz')"
        ),
    )


def _empty(path: Path) -> CorruptProfileError:
    return CorruptProfileError(
        say("The profile '{path}' is empty.", path=str(path)), hint=say("Export it again.")
    )
