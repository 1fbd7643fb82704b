"""Reads a Chrome trace of ``torch.profiler`` (Kineto) into a ``Profile``.

A trace has the same CUPTI activities as an export of Nsight Systems and the same ops as
``emit_nvtx``, so ops, links and iterations follow from the same rules. Its modules become groups,
and its Python functions become the call stacks of ops.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aggregator.kernels.names import short_name
from aggregator.profile.arrays import row_codes
from aggregator.profile.profile import (
    DEFAULT_DOMAIN,
    ApiCalls,
    CollectiveCalls,
    DeviceWork,
    Kernels,
    Marks,
    MemoryOps,
    NodeNames,
    Profile,
    ProfileWarning,
    Ranges,
    SourceFormat,
    Waits,
)
from aggregator.sources.formats import no_activity
from aggregator.sources.kineto.arguments import Shapes, read_arguments
from aggregator.sources.kineto.captures import add_captures, replays_graphs
from aggregator.sources.kineto.events import Columns, TraceEvents, read_events
from aggregator.sources.kineto.lists import complete_lists
from aggregator.sources.kineto.names import copy_kinds
from aggregator.sources.kineto.ranges import build_ranges
from aggregator.sources.kineto.row_order import sort_events
from aggregator.sources.kineto.samples import CATEGORY, sampled_counters
from aggregator.sources.kineto.system import (
    Lanes,
    job_ranks,
    rank_number,
    read_devices,
    read_session,
    read_system,
    set_processes,
)
from aggregator.sources.kineto.trace_json import TraceText
from aggregator.sources.repair import (
    clear_impossible_bytes,
    drop_repeated,
    possible_times,
    repair_devices,
)
from aggregator.system.resources import release_memory
from aggregator.texts import say

if TYPE_CHECKING:
    from pathlib import Path

    from aggregator.profile.arrays import Int64
    from aggregator.system.progress import Progress

_WORK = ("kernels", "copies", "sets", "syncs")


def read(path: Path, progress: Progress) -> Profile:
    """Read the columns of a trace.

    Raises:
        UnsupportedProfileError: JSON or gzip, but not a trace.
        CorruptProfileError: The trace is incomplete or damaged.
        NoGpuActivityError: A trace without CUDA calls and GPU work.
    """
    progress.phase("read", 0)
    progress.message("Reading events from the Kineto trace")
    profile = _read_one(path, progress)
    if replays_graphs(profile):
        add_captures(profile, path, lambda file: _read_one(file, progress))
    return profile


def _read_one(path: Path, progress: Progress) -> Profile:
    events = read_events(TraceText(path), progress)
    sort_events(events)
    release_memory()
    tables = events.tables
    if not any(len(tables[kind]["start"]) for kind in ("api", *_WORK)):
        hint = say(
            "Profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] and check that "
            "the application used a GPU."
        )
        raise no_activity(path, hint)
    profile = _assemble(path, events)
    release_memory()
    return profile


def _assemble(path: Path, events: TraceEvents) -> Profile:
    _drop_far(events)
    tables = events.tables
    warnings: list[ProfileWarning] = []
    work = [tables[kind] for kind in _WORK]
    drop_repeated(work, tables["api"], [tables["ranges"], tables["python"]], warnings)
    start_ns = min(int(t["start"].min()) for t in tables.values() if len(t["start"]))
    for table in tables.values():
        table["start"] -= start_ns
        table["end"] -= start_ns
    end_ns = max(int(t["end"].max(initial=0)) for t in tables.values())
    repair_devices(work, warnings)
    clear_impossible_bytes([tables["copies"], tables["sets"]], warnings)
    devices = read_devices(events)
    kernel_links = _kernel_links(events, start_ns)
    counters, lost = sampled_counters(events.samples, devices, start_ns, end_ns)
    events.unused += Counter({CATEGORY: lost} if lost else {})
    warnings += _warnings(events)
    lanes = Lanes(events)
    strings, short = _strings(events)
    api = _api_calls(tables["api"], lanes)
    set_processes(work, api, lanes)
    columns = _WorkColumns(np.array([d.device_id for d in devices], dtype=np.int64))
    shapes = complete_lists(
        events, [read_arguments(arguments) for arguments in events.shapes.values()]
    )
    ranges, range_names = build_ranges(events, lanes.thread, shapes)
    _clear_missing_sizes(ranges, shapes)
    return Profile(
        source_name=path.name,
        end_ns=end_ns,
        strings=strings,
        range_names=range_names,
        shape_texts=tuple(shape.text for shape in shapes),
        shape_types=tuple(shape.data_type for shape in shapes),
        shape_parameters=tuple(shape.parameters for shape in shapes),
        shape_element_types=tuple(shape.element_types for shape in shapes),
        domain_names=(DEFAULT_DOMAIN,),
        threads=lanes.threads,
        thread_process=lanes.thread_process,
        process_ids=lanes.process_ids,
        devices=devices,
        ranges=ranges,
        start_end_ranges=Ranges(),
        marks=Marks(),
        api_calls=api,
        kernels=_kernels(tables["kernels"], columns, short),
        copies=_memory(tables["copies"], columns, strings),
        sets=_memory(tables["sets"], columns, strings),
        syncs=DeviceWork(**columns.of(tables["syncs"])),
        waits=_waits(tables["syncs"], columns),
        collective_calls=_collective_calls(tables["kernels"]),
        message_bytes=tables["kernels"]["message"],
        node_names=_node_names(events),
        kernel_links=kernel_links,
        thread_names=lanes.names,
        system=read_system(events.header),
        session=read_session(events.header, start_ns),
        rank=rank_number(events.header),
        job_ranks=job_ranks(events.header),
        source_format=SourceFormat.KINETO,
        records_memory=events.records_memory,
        counters=counters,
        warnings=warnings,
        broken_kernels=np.array(events.broken_kernels, dtype=np.int64),
    )


def _drop_far(events: TraceEvents) -> None:
    """Leave out events that are far from all others: their times are none."""
    least, most = possible_times([*events.tables.values()])
    for kind, table in events.tables.items():
        near = (table["start"] >= least) & (table["start"] <= most) & (table["end"] <= most)
        if not near.all():
            events.broken += int(np.count_nonzero(~near))
            if kind == "kernels":
                events.broken_kernels += table["correlation"][~near].tolist()
            events.tables[kind] = {name: column[near] for name, column in table.items()}


def _clear_missing_sizes(ranges: Ranges, shapes: list[Shapes]) -> None:
    """Set the shape code of ranges without sizes to -1."""
    nothing = np.array([not shape.text for shape in shapes], dtype=bool)
    if nothing.any():
        ranges.shapes[(ranges.shapes >= 0) & nothing[ranges.shapes]] = -1


@dataclass(frozen=True)
class _WorkColumns:
    device_ids: Int64

    def of(self, table: Columns) -> dict[str, Any]:
        """Renumbered columns of a table."""
        return {
            "start_ns": table["start"],
            "end_ns": table["end"],
            "device": np.searchsorted(self.device_ids, table["device"]).astype(np.int32),
            "stream_id": table["stream"],
            "process": table["process"],
            "correlation_id": table["correlation"],
        }


def _api_calls(table: Columns, lanes: Lanes) -> ApiCalls:
    thread = lanes.thread[table["lane"]]
    columns = (table["correlation"], table["name"], table["kernel"])
    return ApiCalls(table["start"], table["end"], thread, *columns)


def _strings(events: TraceEvents) -> tuple[tuple[str, ...], Int64]:
    names = events.work_names
    texts = names.values()
    short = np.arange(len(texts))
    for code in np.unique(events.tables["kernels"]["name"]).tolist():
        short[code] = names.code(short_name(texts[code]))
    return names.values(), short


def _kernels(table: Columns, work: _WorkColumns, short: Int64) -> Kernels:
    return Kernels(
        **work.of(table),
        name=short[table["name"]].astype(np.int32),
        long_name=table["name"].astype(np.int32),
        grid=table["grid"],
        block=table["block"],
    )


def _collective_calls(table: Columns) -> CollectiveCalls:
    call = table["call"].astype(np.int64)
    kernel = np.flatnonzero(call >= 0)
    return CollectiveCalls(kernel, call[kernel])


def _node_names(events: TraceEvents) -> NodeNames:
    modules = events.annotations.values()
    code = np.array([row if name else -1 for row, (name, _) in enumerate(modules)], dtype=np.int32)
    if not (code >= 0).any():
        return NodeNames()
    kinds = ("kernels", "copies", "sets")
    return NodeNames(modules, tuple(code[events.tables[kind]["annotation"]] for kind in kinds))


def _kernel_links(events: TraceEvents, start_ns: int) -> Int64:
    """Return the kernels of other streams that kernels of CUDA graphs depend on; shape (2, n).

    An arrow leads from the end of a node to the start of the next one. Within a stream the order of
    the kernels says the same; links of other nodes are counted as not used.
    """
    number, is_target, *place = events.node_links
    numbers, link = np.unique(number, return_inverse=True)
    links = np.full((2, len(numbers)), -1, dtype=np.int64)
    table = events.tables["kernels"]
    count = len(table["start"])
    for end, column in enumerate(("end", "start")):
        chosen = is_target == end
        device, lane, time_ns = (values[chosen] for values in place)
        found = (table["device"], table["lane"], table[column])
        pairs = zip(found, (device, lane, time_ns - start_ns), strict=True)
        first, code = row_codes(*(np.concatenate(pair).astype(np.int64) for pair in pairs))
        kernel = first[code[count:]]
        links[end, link[chosen]] = np.where(kernel < count, kernel, -1)
    known = (links >= 0).all(axis=0)
    if lost := int(np.count_nonzero(~known)):
        events.unused["links of graph nodes"] += lost
    before, after = links[:, known]
    is_apart = (table["stream"][before] != table["stream"][after]) | (
        table["device"][before] != table["device"][after]
    )
    return np.stack([before, after])[:, is_apart]


def _memory(table: Columns, work: _WorkColumns, strings: tuple[str, ...]) -> MemoryOps:
    codes, rows = np.unique(table["name"], return_inverse=True)
    kinds = np.array([copy_kinds(strings[code]) for code in codes.tolist()], dtype=np.int64)
    kinds = kinds.reshape(-1, 2)[rows.ravel()]
    return MemoryOps(
        **work.of(table), num_bytes=table["bytes"], copy_kind=kinds[:, 0], host_kind=kinds[:, 1]
    )


def _waits(table: Columns, work: _WorkColumns) -> Waits:
    columns = work.of(table)
    return Waits(
        process=columns["process"],
        correlation_id=table["correlation"].astype(np.int64),
        device=columns["device"],
        stream_id=table["stream"].astype(np.int64),
        record_id=table["record"].astype(np.int64),
        record_stream_id=table["record_stream"].astype(np.int64),
    )


def _warnings(events: TraceEvents) -> list[ProfileWarning]:
    warnings = []
    if not any(len(events.tables[kind]["start"]) for kind in _WORK):
        text = say(
            "API calls have no work on a GPU in the trace: its activities lacked CUDA, or CUPTI "
            "did not record; every time on the GPU is unknown."
        )
        warnings.append(ProfileWarning("NO_GPU_WORK", text, len(events.tables["api"]["start"])))
    if events.is_cut:
        text = say("The file is cut off: what came after its last whole event is lost.")
        warnings.append(ProfileWarning("CUT_FILE", text, 1))
    if events.unused:
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(events.unused.items()))
        text = say("events of the trace are of kinds that are not used: {kinds}.", kinds=kinds)
        warnings.append(ProfileWarning("UNUSED_EVENTS", text, events.unused.total()))
    if events.broken:
        text = say("events of the trace have no time or no duration; they were left out.")
        rows = sum(len(table["start"]) for table in events.tables.values()) + events.broken
        share = events.broken / rows
        warnings.append(ProfileWarning("BROKEN_EVENTS", text, events.broken, share))
    if events.odd:
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(events.odd.items()))
        text = say(
            "values of the trace are of another type and count as unknown: {names}.", names=kinds
        )
        warnings.append(ProfileWarning("ODD_VALUES", text, events.odd.total()))
    if events.reversed:
        text = say("events of the trace end before they begin; they are counted with no duration.")
        warnings.append(ProfileWarning("REVERSED_EVENTS", text, events.reversed))
    return warnings
