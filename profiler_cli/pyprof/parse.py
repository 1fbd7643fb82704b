"""PyProf's first step: one record per kernel, with the ranges around its launch by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from aggregator.errors import (
    CorruptProfileError,
    ProfileNotFoundError,
    UnsupportedProfileError,
)
from aggregator.sources.formats import Format, detect_file, detect_tables, list_tables
from aggregator.system.progress import NullProgress
from profiler_cli.pyprof.launches import Launch, ProfileLaunches, RangeColumns
from profiler_cli.pyprof.markers import (
    KERNEL_HOLE,
    NUMBER,
    Around,
    canonical,
    outputs_of,
    sizes_marker,
    sort_out,
)
from profiler_cli.pyprof.nvprof import NvprofFile
from profiler_cli.pyprof.operators import shared_kind

Record = dict[str, Any]
LaunchSource: TypeAlias = "ProfileLaunches | NvprofFile"
_CELLS = ("LSTMCell", "GRUCell", "RNNCell")
_NOISE = ("void ", "at::", "cuda::", "native::", "(anonymous namespace)::")
_OTHER_KIND = "a value in it has the wrong type"


def parse_file(path: Path) -> tuple[int, Iterator[Record]]:
    """Read a profile.

    Returns:
        Number of kernels, and their records in the order of the file.

    Raises:
        ProfileError: The file is missing, damaged, or of an unsupported format.
    """
    with _damage(path):
        source = _open_launches(path)
        launches = source.launches()
    return len(launches), _records(path, source, launches)


def _records(path: Path, source: LaunchSource, launches: list[Launch]) -> Iterator[Record]:
    """Yield the records, one by one; ranges and texts are read when the first one is requested."""
    with _damage(path):
        chains = _enclosing(launches, source.ranges())
        texts = source.texts({number for chain in chains for number in chain})
        ranges, sizes = _RangesAround(texts), _Sizes(texts)
        correlation = _Correlation()
        for launch, chain in zip(launches, chains, strict=True):
            around, sequence, ids = ranges.around(chain)
            seq, sub, other = correlation.assign(around, ids)
            yield {
                "kShortName": short_name(launch.name),
                "kDuration": launch.duration_ns,
                "layer": around.layer,
                "trace": around.trace,
                "reprMarkers": around.representations,
                "marker": around.markers or sizes.markers(chain, launch.name),
                "seqMarker": sequence,
                "seqId": seq,
                "subSeqId": sub,
                "altSeqId": other,
                "dir": around.direction,
                "mod": around.modules,
                "op": around.ops,
                "tid": launch.tid,
                "device": launch.device,
                "stream": launch.stream,
                "grid": launch.grid,
                "block": launch.block,
                "kLongName": launch.name,
            }


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Convert errors from values of a wrong type into ``CorruptProfileError``."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        raise CorruptProfileError(f"'{path}' cannot be read: {_OTHER_KIND}.") from error


class _RangesAround:
    """Ranges around launches, sorted once for all steps that differ only in sequence numbers."""

    def __init__(self, texts: dict[int, str]) -> None:
        self._texts = {number: canonical(text) for number, text in texts.items()}
        self._around: dict[tuple[str, ...], Around] = {}

    def around(self, chain: tuple[int, ...]) -> tuple[Around, list[str], list[int]]:
        """Return the ranges around a launch, PyTorch's with their numbers, and these numbers."""
        texts = [self._texts.get(number, ("", "")) for number in chain]
        numbers = {number for _, number in texts if number}
        if len(numbers) > 1:  # their order matters and differs between steps
            found = sort_out(tuple(_text(*text) for text in texts if text[0]))
            return found, found.sequence, found.seq_ids
        key = tuple(text for text, _ in texts if text)
        around = self._around.get(key)
        if around is None:
            around = self._around[key] = sort_out(key)
        if not numbers:
            return around, around.sequence, around.seq_ids
        (number,) = numbers
        sequence = [_text(text, number) for text in around.sequence]
        value = int(number)
        return around, sequence, [value if seq else 0 for seq in around.seq_ids]


def _text(canonical_text: str, number: str) -> str:
    """Return a range's text with its real number."""
    head, separator, digits = canonical_text.rpartition(", seq = ")
    if not number or not separator or digits != NUMBER:
        return canonical_text
    return head + separator + number


class _Sizes:
    """Operators recorded with their sizes by current PyTorch, as PyProf's markers."""

    def __init__(self, texts: dict[int, str]) -> None:
        self._texts = texts
        self._outputs = outputs_of(texts.values())
        self._markers: dict[int, str] = {}
        self._kernels: Counter[int] = Counter()
        self._kinds: Counter[tuple[int, str]] = Counter()

    def markers(self, chain: tuple[int, ...], name: str) -> list[str]:
        """Marker of the outermost operator with a formula, with the number of this kernel in it."""
        for number in chain:
            marker = self._markers.get(number)
            if marker is None:
                text = self._texts.get(number, "")
                marker = self._markers[number] = sizes_marker(text, self._outputs)
            if marker:
                count, kind = self._kernels[number], shared_kind(name)
                repeat = self._kinds[number, kind] if kind else 0
                self._kernels[number], self._kinds[number, kind] = count + 1, repeat + 1
                hole = f"{count}, 'again': {repeat}" if repeat else str(count)
                return [marker.replace(KERNEL_HOLE, hole)]
        return []


def _enclosing(launches: list[Launch], ranges: Mapping[Any, RangeColumns]) -> list[tuple[int, ...]]:
    """Return the numbers of the ranges around each launch, outermost first."""
    result: list[tuple[int, ...]] = [()] * len(launches)
    lanes: dict[object, list[int]] = {}
    for row, launch in enumerate(launches):
        lanes.setdefault(launch.lane, []).append(row)
    for lane, rows in lanes.items():
        if lane not in ranges:
            continue
        columns = ranges[lane]
        starts, ends = columns.start_ns.tolist(), columns.end_ns.tolist()
        numbers = columns.number.tolist()
        rows.sort(key=lambda row: launches[row].api_start_ns)
        following, total = 0, len(starts)
        active: list[tuple[int, int]] = []
        for row in rows:
            start, end = launches[row].api_start_ns, launches[row].api_end_ns
            active = [pair for pair in active if pair[0] > start]
            while following < total and starts[following] < start:
                if ends[following] > start:
                    active.append((ends[following], numbers[following]))
                following += 1
            result[row] = tuple(number for stop, number in active if stop > end)
    return result


class _Correlation:
    """PyProf's selection of one sequence number per kernel, and of its sub-number."""

    def __init__(self) -> None:
        self._seq = -1
        self._sub = -1
        self._ops: list[str] = ["na"]

    def assign(self, around: Around, ids: list[int]) -> tuple[list[int], int, list[int]]:
        """Return the kernel's number (a list of at most one), sub-number, and its other numbers."""
        if not ids:
            return [], 0, []
        current = ids[0]
        if around.direction == "fprop":
            later = [number for number in ids if number > self._seq]
            current = later[0] if later else self._seq
        is_same = current == self._seq and around.ops == self._ops
        sub = self._sub + 1 if is_same or self._is_cell(around) else 0
        self._seq, self._sub, self._ops = current, sub, around.ops
        own = [number for number in ids if number == current]
        return own, sub, [number for number in ids if number != current]

    def _is_cell(self, around: Around) -> bool:
        """Return whether the op is a cell, whose kernels all have sub-numbers."""
        forward = around.ops[:1] == ["forward"] and around.ops == self._ops
        return forward and around.modules[0] in _CELLS


@lru_cache(maxsize=65536)
def short_name(name: str) -> str:
    """Return a kernel's name without template arguments and well-known namespaces."""
    result = name.replace("<unnamed>::", "").split("<")[0]
    for part in _NOISE:
        result = result.replace(part, "")
    return result.split("(")[0]


def _open_launches(path: Path) -> LaunchSource:
    """Return the reader of a file."""
    if not path.is_file():
        raise ProfileNotFoundError(f"No such file '{path}'.")
    tables: frozenset[str] = frozenset()
    found = detect_file(path, path.name)
    if found is Format.SQLITE:
        tables = list_tables(path)
        found = detect_tables(tables)
    if found is Format.NVPROF:
        return NvprofFile(path, tables)
    if found in (Format.EXPORT, Format.TRACE):
        # The readers take half a second to load, with libraries that nothing else here needs.
        from aggregator.sources import open_profile  # noqa: PLC0415

        return ProfileLaunches(open_profile(path, NullProgress()))
    raise UnsupportedProfileError(
        f"'{path}' is no Nsight Systems export, nvprof file or Kineto trace.",
        hint="Export a report with: nsys export --type=sqlite report.nsys-rep",
    )
