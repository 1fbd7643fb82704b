"""``dlprof memory``: what filled the memory of the GPU, from a snapshot or a profile."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from aggregator.dldb.gpu_memory import add_recordings
from aggregator.dldb.memory_reader import compare_recordings, read_devices, start_utc_ns
from aggregator.dldb.reader import open_database
from aggregator.dldb.stored import reading_errors
from aggregator.errors import UsageError
from aggregator.importing.gpu_memory import recorded
from aggregator.metrics.memory.analysis import DeviceMemory
from aggregator.metrics.memory.answers import fragmentation, leaks, step_peaks
from aggregator.metrics.memory.difference import MemoryDifference
from aggregator.metrics.memory.kinds import KIND_NAMES
from aggregator.metrics.memory.what_if import WhatIf, what_if
from aggregator.system.plain_text import escape_control_characters, on_one_line
from aggregator.system.replies import to_plain
from aggregator.texts import say
from profiler_cli.console import EXIT_DONE
from profiler_cli.options.parser import SubcommandParser

_DESCRIPTION: Final = (
    "Show what filled the memory of each GPU at its peak: from a snapshot of PyTorch "
    "(torch.cuda.memory._dump_snapshot or dlprof --memory) or from an Nsight Systems export "
    "with --cuda-memory-usage=true. Nothing in a snapshot is executed."
)
_OWNERS: Final = 12
_MAX_NAME: Final = 70
_STEPS: Final = 10


def run_memory(words: Sequence[str]) -> int:
    """Run ``dlprof memory`` as one of ``SUBCOMMANDS``."""
    options = _parser().parse_args(list(words))
    if options.new is not None:
        return _compare(options)
    devices = read_devices(options.file)
    if options.into is not None:
        _add(options.into, options.file, devices)
    changes = [[what_if(device, change) for change in options.what_if] for device in devices]
    if options.format == "json":
        found = [
            as_json(device) | ({"what_if": [asdict(row) for row in results]} if results else {})
            for device, results in zip(devices, changes, strict=True)
        ]
        print(json.dumps({"devices": found}, indent=2))
    else:
        for device, results in zip(devices, changes, strict=True):
            lines = (*_text(device, results), *_answers(device))
            print(escape_control_characters("\n".join(lines)))
    return EXIT_DONE


def _compare(options: argparse.Namespace) -> int:
    if options.what_if or options.into is not None:
        raise UsageError(say("--what-if and --into need a single recording."))
    found = compare_recordings(read_devices(options.file), read_devices(options.new))
    if options.format == "json":
        print(json.dumps({"differences": to_plain(found)}, indent=2))
    else:
        for difference in found:
            print(escape_control_characters("\n".join(_difference_text(difference))))
    return EXIT_DONE


def _difference_text(found: MemoryDifference) -> Iterator[str]:
    base, new = found.base_peak_allocated_bytes, found.new_peak_allocated_bytes
    peaks = f"{_size(base)} to {_size(new)}"
    yield f"GPU {found.device}: peak {_signed(found.difference_bytes)}, from {peaks}"
    yield "  By kind:"
    for kind in found.kinds:
        sizes = f"{_size(kind.base_bytes)} to {_size(kind.new_bytes)}"
        yield f"    {_signed(kind.difference_bytes):>11}  {kind.kind}: {sizes}"
    changed = [owner for owner in found.owners if owner.difference_bytes]
    if changed:
        yield "  By owner:"
    for owner in changed[:_OWNERS]:
        yield f"    {_signed(owner.difference_bytes):>11}  {owner.kind}  {_shortened(owner.owner)}"
    if rest := sum(owner.difference_bytes for owner in changed[_OWNERS:]):
        yield f"    {_signed(rest):>11}  {len(changed) - _OWNERS} others"


def _signed(size: int) -> str:
    return f"{'+' if size > 0 else ''}{_size(size)}"


def _add(database: Path, file: Path, devices: Sequence[DeviceMemory]) -> None:
    with open_database(database) as dldb, reading_errors(database):
        start_ns = start_utc_ns(dldb.connection) if dldb.is_ours else None
    add_recordings(database, [recorded(device, file, start_ns) for device in devices])


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="dlprof memory",
        description=_DESCRIPTION,
        epilog="Exit codes: 0 done; 2 usage; 4 the file cannot be used; 5 the database cannot.",
    )
    parser.add("file FILE", "snapshot, export, trace or database", type=Path)
    parser.add(
        "new NEW",
        "a second one: show what makes its peak higher or lower than that of FILE",
        type=Path,
        nargs="?",
    )
    parser.add(
        "--format", "output format (default: text)", choices=("text", "json"), default="text"
    )
    parser.add(
        "--into DATABASE",
        "also store the recording in this database, for the view Memory of dlprofviewer",
        type=Path,
    )
    parser.add(
        "--what-if CHANGE",
        "predict the peak with a change: checkpoint:MODULE (* for one part of a path), "
        "batch:FACTOR, bf16-states, shard:N, shard:N:gradients, shard:N:parameters; repeatable",
        action="append",
        default=[],
    )
    return parser


def _answers(memory: DeviceMemory) -> Iterator[str]:
    peaks = step_peaks(memory)
    if len(peaks) > 1:
        yield "  Peak of each step:"
        for peak in peaks[:_STEPS]:
            kinds = ", ".join(f"{kind} {_size(size)}" for kind, size in peak.kinds.items())
            yield f"    {_size(peak.allocated_bytes):>10}  step {peak.step}: {kinds}"
        if len(peaks) > _STEPS:
            yield f"    ... and {len(peaks) - _STEPS} more"
    grows = leaks(memory)
    if grows:
        yield "  Grows with each step:"
    for leak in grows[:_OWNERS]:
        yield f"    {_size(leak.bytes):>10}  {leak.steps} steps  {_shortened(leak.name)}"
    if free := fragmentation(memory):
        largest = f"the largest block has {_size(free.largest_bytes)}"
        yield f"  Free in the allocator's cache at the end: {_size(free.free_bytes)}; {largest}"


def _what_ifs(results: Sequence[WhatIf]) -> Iterator[str]:
    for result in results:
        peak, saved = _size(result.peak_allocated_bytes), _size(result.saved_bytes)
        yield f"  with {result.change}: peak {peak}, saves {saved}"


def as_json(memory: DeviceMemory) -> dict[str, Any]:
    """Return the figures of a device, for scripts."""
    counts = memory.counts
    kinds = memory.bytes_by_kind(memory.at_peak)
    return {
        "device": memory.device,
        "events": memory.num_events,
        "peak_allocated_bytes": counts.peak_allocated,
        "peak_allocated_at_ns": memory.peak_at_ns,
        "peak_reserved_bytes": counts.peak_reserved,
        "end_allocated_bytes": counts.end_allocated,
        "end_reserved_bytes": counts.end_reserved,
        "kinds": [{"kind": kind, "bytes_at_peak": size} for kind, size in kinds.items()],
        "unnamed_bytes_at_peak": memory.unnamed_bytes_at_peak,
    }


def _text(memory: DeviceMemory, what_ifs: Sequence[WhatIf]) -> Iterator[str]:
    counts = memory.counts
    peak = counts.peak_allocated
    yield f"GPU {memory.device}: {memory.num_events:,} events"
    yield f"  peak     {_size(peak)} allocated, {_size(counts.peak_reserved)} reserved"
    yield from _what_ifs(what_ifs)
    ends = (counts.end_allocated, counts.end_active, counts.end_reserved)
    allocated, active, reserved = map(_size, ends)
    yield f"  end      {allocated} allocated, {active} active, {reserved} reserved"
    yield "  At the peak:"
    evidence = memory.evidence(memory.at_peak)
    for kind, size in memory.bytes_by_kind(memory.at_peak).items():
        why = f": {evidence[kind]}" if evidence[kind] else ""
        yield f"    {_size(size):>10}  {_share(size, peak):>5}  {kind}{why}"
    yield f"    {_size(memory.unnamed_bytes_at_peak):>10}  without a kind, or without module and op"
    yield "  By the phase that allocated it:"
    for phase, size in memory.bytes_by_phase(memory.at_peak).items():
        yield f"    {_size(size):>10}  {_share(size, peak):>5}  {phase}"
    yield "  Largest owners at the peak:"
    for owner in memory.owners(memory.at_peak)[:_OWNERS]:
        kind = KIND_NAMES[owner.kind]
        yield f"    {_size(owner.size):>10}  {owner.count:>5}x  {kind}  {_shortened(owner.name)}"


def _size(size: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(size) >= scale:
            return f"{size / scale:.2f} {unit}"
    return f"{size} B"


def _share(size: int, whole: int) -> str:
    return f"{100 * size / whole:.1f}%" if whole else ""


def _shortened(name: str) -> str:
    name = on_one_line(name)
    return name if len(name) <= _MAX_NAME else f"{name[:24]}...{name[-44:]}"
