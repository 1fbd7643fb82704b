"""Memory snapshots of PyTorch: ``torch.cuda.memory._dump_snapshot()`` and ``dlprof --memory``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aggregator.errors import CorruptProfileError
from aggregator.metrics.memory.model import (
    Blocks,
    DeviceTrace,
    Events,
    MemoryTrace,
    Segments,
)
from aggregator.sources.memory.pickle_bytes import EventRun, PickledList, StackRef
from aggregator.sources.memory.pickled import read_pickle
from aggregator.texts import say

RUN_KEY: Final = "dlprof"
"""What ``dlprof --memory`` adds to the snapshot."""
_STATES: Final = {"active_allocated": 2, "active_awaiting_free": 1, "active_pending_free": 1}
_MAX_DEVICES: Final = 1024


def read_snapshot(path: Path) -> MemoryTrace:
    """Read a snapshot; nothing in it is executed.

    Raises:
        ProfileError: It is damaged, cut off, or no snapshot.
        OSError: It cannot be read.
    """
    content, columns = read_pickle(path)
    if not isinstance(content, dict) or not isinstance(content.get("segments"), list):
        raise _no_snapshot(path)
    traces = content.get("device_traces", [])
    segments = _dicts(content["segments"])
    if not isinstance(traces, PickledList) or len(traces) > _MAX_DEVICES:
        raise _no_snapshot(path)
    events = columns.events()
    used = {_number(segment, "device") for segment in segments}
    rows = {number: _rows(trace) for number, trace in enumerate(traces)}
    devices = tuple(
        _device(
            number,
            _part(events, rows.get(number, ()), is_whole=len(rows) == 1),
            [segment for segment in segments if _number(segment, "device") == number],
        )
        for number in sorted(used | {number for number, runs in rows.items() if runs})
        if 0 <= number < _MAX_DEVICES
    )
    run = content.get(RUN_KEY)
    annotations = content.get("external_annotations", [])
    return MemoryTrace(
        devices=devices,
        stacks=columns.stacks(),
        notes=columns.notes(),
        annotations=tuple(_dicts(annotations)),
        run=run if isinstance(run, dict) else {},
    )


def _no_snapshot(path: Path) -> CorruptProfileError:
    return CorruptProfileError(
        say("'{path}' is a pickle, but no memory snapshot of PyTorch.", path=path),
        hint=say("Write it with torch.cuda.memory._dump_snapshot()."),
    )


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _number(item: dict[str, Any], key: str) -> int:
    value = item.get(key)
    is_number = isinstance(value, int) and -(1 << 63) <= value < 1 << 63
    return int(value) if is_number and value is not None else 0


def _rows(trace: object) -> tuple[EventRun, ...]:
    return tuple(trace.runs) if isinstance(trace, PickledList) else ()


def _part(events: Events, runs: Iterable[EventRun], *, is_whole: bool) -> Events:
    """Return the events of one device."""
    runs = list(runs)
    if is_whole and runs == [EventRun(0, len(events))]:
        return events
    if len(runs) == 1:
        return events.part(slice(runs[0].first, runs[0].first + runs[0].length))
    parts = [np.arange(run.first, run.first + run.length) for run in runs]
    rows = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
    return events.part(rows)


def _device(number: int, events: Events, segments: list[dict[str, Any]]) -> DeviceTrace:
    blocks = [
        (index, block, address)
        for index, segment in enumerate(segments)
        for block, address in _placed(segment)
    ]
    return DeviceTrace(
        device=number,
        events=events,
        blocks=Blocks(
            address=_array(address for _, _, address in blocks),
            size=_array(_number(block, "size") for _, block, _ in blocks),
            requested=_array(_number(block, "requested_size") for _, block, _ in blocks),
            state=_array(_STATES.get(str(block.get("state")), 0) for _, block, _ in blocks).astype(
                np.int8
            ),
            segment=_array(index for index, _, _ in blocks),
            stack=_array(_stack(block.get("frames")) for _, block, _ in blocks).astype(np.int32),
        ),
        segments=Segments(
            address=_array(_number(segment, "address") for segment in segments),
            size=_array(_number(segment, "total_size") for segment in segments),
            stream=_array(_number(segment, "stream") for segment in segments),
            pool=tuple(_pool(segment) for segment in segments),
        ),
    )


def _placed(segment: dict[str, Any]) -> Iterable[tuple[dict[str, Any], int]]:
    """Blocks of a segment with their addresses, which older versions of PyTorch do not write."""
    place = _number(segment, "address")
    for block in _dicts(segment.get("blocks")):
        address = _number(block, "address") if "address" in block else place
        yield block, address
        place = address + _number(block, "size")


def _stack(frames: object) -> int:
    if isinstance(frames, StackRef):
        return int(frames)
    return frames.stack if isinstance(frames, PickledList) else 0


def _pool(segment: dict[str, Any]) -> str:
    kind = str(segment.get("segment_type", "large"))
    pool = segment.get("segment_pool_id")
    if isinstance(pool, tuple | list) and any(pool):
        return f"{kind} {':'.join(map(str, pool))}"
    return kind


def _array(values: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.fromiter(values, dtype=np.int64)
