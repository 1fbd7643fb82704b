"""The first step: one record per kernel, with the ranges around its launch sorted out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aggregator.pyprof.launches import Launch, LaunchSource, RangeColumns, open_launches
from aggregator.pyprof.markers import KERNEL_HOLE, Around, shortened, sizes_marker, sort_out

Record = dict[str, Any]
_CELLS = ("LSTMCell", "GRUCell", "RNNCell")
_NOISE = ("void ", "at::", "cuda::", "native::", "(anonymous namespace)::")


def parse_file(path: Path) -> tuple[int, Iterator[Record]]:
    """Read a profile.

    Returns:
        Number of kernels, and their records in the order of the file.

    Raises:
        ProfileError: The file is not there, damaged, or of no kind that is known.
    """
    source = open_launches(path)
    launches = source.launches()
    return len(launches), _records(source, launches)


def _records(source: LaunchSource, launches: list[Launch]) -> Iterator[Record]:
    chains = _enclosing(launches, source.ranges())
    used = {number for chain in chains for number in chain}
    whole = source.texts(used)
    texts = {number: shortened(text) for number, text in whole.items()}
    sizes = {number: sizes_marker(text) for number, text in whole.items()}
    known: dict[tuple[str, ...], Around] = {}
    correlation = _Correlation()
    kernels_of: Counter[int] = Counter()
    for launch, chain in zip(launches, chains, strict=True):
        key = tuple(texts.get(number, "") for number in chain)
        around = known.get(key)
        if around is None:
            around = known[key] = sort_out(tuple(text for text in key if text))
        record = _record(launch, around, correlation)
        counted = next((number for number in chain if sizes.get(number)), None)
        if counted is not None and not record["marker"]:
            record["marker"] = [sizes[counted].replace(KERNEL_HOLE, str(kernels_of[counted]))]
            kernels_of[counted] += 1
        yield record


def _enclosing(launches: list[Launch], ranges: dict[object, RangeColumns]) -> list[tuple[int, ...]]:
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

    def assign(self, around: Around) -> tuple[list[int], int, list[int]]:
        """The kernel's number (a list of at most one), sub-number, and its other numbers."""
        ids = around.seq_ids
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


def _record(launch: Launch, around: Around, correlation: _Correlation) -> Record:
    seq, sub, other = correlation.assign(around)
    return {
        "kShortName": short_name(launch.name),
        "kDuration": launch.duration_ns,
        "layer": around.layer,
        "trace": around.trace,
        "reprMarkers": around.representations,
        "marker": around.markers,
        "seqMarker": around.sequence,
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


def short_name(name: str) -> str:
    """A kernel's name without template arguments and well-known namespaces."""
    result = name.replace("<unnamed>::", "").split("<")[0]
    for part in _NOISE:
        result = result.replace(part, "")
    return result.split("(")[0]
