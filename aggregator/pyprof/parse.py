"""The first step: one record per kernel, with the ranges around its launch sorted out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from aggregator.errors import CorruptProfileError
from aggregator.pyprof.launches import (
    Launch,
    LaunchSource,
    RangeColumns,
    Size,
    open_launches,
)
from aggregator.pyprof.markers import (
    KERNEL_HOLE,
    NUMBER,
    Around,
    canonical,
    outputs_of,
    sizes_marker,
    sort_out,
)
from aggregator.pyprof.operators import shared_kind
from aggregator.texts import say

Record = dict[str, Any]
_CELLS = ("LSTMCell", "GRUCell", "RNNCell")
_NOISE = ("void ", "at::", "cuda::", "native::", "(anonymous namespace)::")
_OTHER_KIND = say("a value in it is of another kind than it must be")


class _Kernel(NamedTuple):
    """A kernel with what its dictionary says beside its launch.

    Attributes:
        launch: The kernel and its call.
        around: The ranges around the call; sequence numbers in it are ``NUMBER``.
        markers: PyProf's markers.
        sequence: PyTorch's ranges with their true numbers.
        seq: Its sequence number, or none.
        sub: Its number among the kernels of its op.
        other: Other sequence numbers.
    """

    launch: Launch
    around: Around
    markers: list[str]
    sequence: list[str]
    seq: list[int]
    sub: int
    other: list[int]


def parse_file(path: Path) -> tuple[int, Iterator[Record]]:
    """Read a profile.

    Returns:
        Number of kernels, and their records in the order of the file.

    Raises:
        ProfileError: The file is not there, damaged, or of no kind that is known.
    """
    count, kernels = _parsed(path)
    return count, map(_record, kernels)


def parse_lines(path: Path) -> tuple[int, Iterator[str]]:
    """As ``parse_file``, with each record as ``repr`` would write it, in half the time."""
    count, kernels = _parsed(path)
    return count, map(_line, kernels)


def _parsed(path: Path) -> tuple[int, Iterator[_Kernel]]:
    with _damage(path):
        source = open_launches(path)
        launches = source.launches()
    return len(launches), _whole(path, _kernels(source, launches))


def _whole(path: Path, kernels: Iterator[_Kernel]) -> Iterator[_Kernel]:
    """Kernels of a file whose ranges and texts are read as they are asked for."""
    with _damage(path):
        yield from kernels


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Turn what values of a damaged file raise when they are read as numbers into one sentence."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        raise CorruptProfileError(
            say("'{path}' cannot be read: {error}.", path=path, error=_OTHER_KIND)
        ) from error


def _kernels(source: LaunchSource, launches: list[Launch]) -> Iterator[_Kernel]:
    chains = _enclosing(launches, source.ranges())
    texts = source.texts({number for chain in chains for number in chain})
    known, sizes = _Known(texts), _Sizes(texts)
    correlation = _Correlation()
    for launch, chain in zip(launches, chains, strict=True):
        around, sequence, ids = known.around(chain)
        seq, sub, other = correlation.assign(around, ids)
        markers = around.markers or sizes.markers(chain, launch.name)
        yield _Kernel(launch, around, markers, sequence, seq, sub, other)


class _Known:
    """Ranges around launches, sorted out once for all steps that only differ in their numbers."""

    def __init__(self, texts: dict[int, str]) -> None:
        self._texts = {number: canonical(text) for number, text in texts.items()}
        self._around: dict[tuple[str, ...], Around] = {}

    def around(self, chain: tuple[int, ...]) -> tuple[Around, list[str], list[int]]:
        """What is around, PyTorch's ranges in it with their numbers, and these numbers."""
        parts = [self._texts.get(number, ("", "")) for number in chain]
        numbers = {number for _, number in parts if number}
        if len(numbers) > 1:  # their order counts: not the same in every step
            found = sort_out(tuple(_text(*part) for part in parts if part[0]))
            return found, found.sequence, found.seq_ids
        key = tuple(text for text, _ in parts if text)
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
    """A range's text with its true number."""
    head, separator, place = canonical_text.rpartition(", seq = ")
    if not number or not separator or place != NUMBER:
        return canonical_text
    return head + separator + number


class _Sizes:
    """Operators that today's PyTorch recorded with their sizes, as PyProf's markers."""

    def __init__(self, texts: dict[int, str]) -> None:
        self._texts = texts
        self._outputs = outputs_of(texts.values())
        self._markers: dict[int, str] = {}
        self._kernels: Counter[int] = Counter()
        self._kinds: Counter[tuple[int, str]] = Counter()

    def markers(self, chain: tuple[int, ...], name: str) -> list[str]:
        """The outermost operator that can be counted, with the number of this kernel in it."""
        for number in chain:
            marker = self._markers.get(number)
            if marker is None:
                text = self._texts.get(number, "")
                marker = self._markers[number] = sizes_marker(text, self._outputs)
            if marker:
                count, kind = self._kernels[number], shared_kind(name)
                again = self._kinds[number, kind] if kind else 0
                self._kernels[number], self._kinds[number, kind] = count + 1, again + 1
                hole = f"{count}, 'again': {again}" if again else str(count)
                return [marker.replace(KERNEL_HOLE, hole)]
        return []


def _enclosing(launches: list[Launch], ranges: Mapping[Any, RangeColumns]) -> list[tuple[int, ...]]:
    """Numbers of the ranges around each launch, outermost first."""
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
    """PyProf's running choice of one sequence number per kernel, and its sub-number."""

    def __init__(self) -> None:
        self._seq = -1
        self._sub = -1
        self._ops: list[str] = ["na"]

    def assign(self, around: Around, ids: list[int]) -> tuple[list[int], int, list[int]]:
        """The kernel's number (a list of at most one), sub-number, and its other numbers."""
        if not ids:
            return [], 0, []
        current = ids[0]
        if around.direction == "fprop":
            later = [number for number in ids if number > self._seq]
            current = later[0] if later else self._seq
        again = current == self._seq and around.ops == self._ops
        sub = self._sub + 1 if again or self._is_cell(around) else 0
        self._seq, self._sub, self._ops = current, sub, around.ops
        own = [number for number in ids if number == current]
        return own, sub, [number for number in ids if number != current]

    def _is_cell(self, around: Around) -> bool:
        """A cell that PyTorch computes with several kernels has a number for each."""
        forward = around.ops[:1] == ["forward"] and around.ops == self._ops
        return forward and around.modules[0] in _CELLS


def _record(kernel: _Kernel) -> Record:
    launch, around = kernel.launch, kernel.around
    return {
        "kShortName": short_name(launch.name),
        "kDuration": launch.duration_ns,
        "layer": around.layer,
        "trace": around.trace,
        "reprMarkers": around.representations,
        "marker": kernel.markers,
        "seqMarker": kernel.sequence,
        "seqId": kernel.seq,
        "subSeqId": kernel.sub,
        "altSeqId": kernel.other,
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


def _line(kernel: _Kernel) -> str:
    """``repr`` of the record; what repeats from step to step is made once."""
    launch, around = kernel.launch, kernel.around
    markers = kernel.markers
    shown = around.shown_markers if markers is around.markers else repr(markers)
    return (
        f"{{'kShortName': {_shown_short(launch.name)}, 'kDuration': {launch.duration_ns},"
        f" {around.front}, 'marker': {shown}, 'seqMarker': {kernel.sequence},"
        f" 'seqId': {kernel.seq}, 'subSeqId': {kernel.sub}, 'altSeqId': {kernel.other},"
        f" {around.back}, {_shown_place(*launch[3:4], *launch[6:])}, 'kLongName':"
        f" {_shown(launch.name)}}}"
    )


@lru_cache(maxsize=65536)
def _shown(name: str) -> str:
    return repr(name)


@lru_cache(maxsize=65536)
def _shown_place(tid: int, device: int, stream: int, grid: Size, block: Size) -> str:
    values = {"tid": tid, "device": device, "stream": stream, "grid": grid, "block": block}
    return repr(values)[1:-1]


@lru_cache(maxsize=65536)
def _shown_short(name: str) -> str:
    return repr(short_name(name))


@lru_cache(maxsize=65536)
def short_name(name: str) -> str:
    """A kernel's name without template arguments and well-known namespaces."""
    result = name.replace("<unnamed>::", "").split("<")[0]
    for part in _NOISE:
        result = result.replace(part, "")
    return result.split("(")[0]
