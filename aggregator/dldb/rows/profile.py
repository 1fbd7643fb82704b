"""An imported profile as rows of the database's tables: the raw events, stored once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np

from aggregator.dldb.rows.corrected import marker_tables
from aggregator.dldb.rows.costs import cost_numbers, cost_tables
from aggregator.dldb.rows.domains import domain_tables, graph_launches
from aggregator.dldb.rows.ops import op_table
from aggregator.dldb.rows.phases import phase_ranges
from aggregator.dldb.rows.ranks import call_table, link_table, message_table, rank_table
from aggregator.dldb.rows.shapes import shape_texts
from aggregator.dldb.writer import Table, attributes
from aggregator.importing.imported import (
    ImportedProfile,
    memory_column,
)
from aggregator.kernels.traits import kernel_traits
from aggregator.profile.arrays import Int32, Integers, ordered, parts_of, row_codes
from aggregator.profile.profile import Counter, Device
from aggregator.profile.recorded_part import RecordedPart
from aggregator.profile.settings import NOT_RECORDED, read_settings
from aggregator.texts import say

TID_MASK = 0xFFFFFF
WARNING_COLUMNS = ("code", "message", "count", "share", "example")
NO_MEMORY = say("The capture holds no reading of the GPU's memory; a run under dlprof records it.")


def profile_tables(data: ImportedProfile) -> Iterator[Table]:
    """Tables in the order in which they are written, the largest last."""
    yield from _small_tables(data)
    shape_rows, shapes = shape_texts(data)
    yield shapes
    yield from cost_tables(data.costs)
    yield from _instances(data, shape_rows)
    yield from domain_tables(data)
    yield graph_launches(data)
    yield _memory_ops(data)
    yield _device_waits(data)
    yield from marker_tables(data)
    yield from _kernel_tables(data)
    yield from _api_calls(data)


def _small_tables(data: ImportedProfile) -> Iterator[Table]:
    profile = data.profile
    domains = [0, *(domain.code for domain in data.domains)]
    names = [profile.domain_names[code] for code in domains]
    yield Table("domains", {"id": list(range(1, len(domains) + 1)), "name": names})
    count = len(profile.process_ids)
    yield Table("processes", {"id": list(range(1, count + 1)), "pid": list(profile.process_ids)})
    threads = np.arange(1, len(profile.threads) + 1)
    yield Table(
        "threads",
        {
            "id": threads,
            "tid": profile.threads & TID_MASK,
            "process": profile.thread_process + 1,
            "name": [profile.thread_names.get(tid, "") for tid in profile.threads.tolist()],
        },
    )
    yield _marks(data)
    yield _annotations(data)
    codes = np.union1d(profile.api_calls.name, data.rollup.memory.code)
    codes = codes[codes >= 0].astype(np.int64)
    api_names = [profile.strings[code] for code in codes.tolist()]
    yield Table("api_names", {"id": codes + 1, "name": api_names})
    yield _devices(data)
    yield rank_table(data)
    yield message_table(data)
    yield call_table(data)
    yield link_table(data)
    streams = profile.blocking_streams
    yield Table(
        "blocking_streams",
        {
            "id": np.arange(1, len(streams.process) + 1),
            "process": streams.process + 1,
            "stream_id": streams.stream_id,
            "is_default": streams.is_default,
        },
    )
    yield op_table(data)
    yield Table("warnings", attributes(profile.warnings, *WARNING_COLUMNS))
    yield Table("model_config", _model_config(data))
    yield _key_node_candidates(data)
    yield phase_ranges(data.phases)
    yield _windows(profile.recorded_part)
    yield from counter_tables(profile.counters)
    yield from _range_tables(data)
    yield from _busy_time(data)


def _windows(part: RecordedPart) -> Table:
    return Table(
        "windows",
        {
            "id": np.arange(1, len(part.start_ns) + 1),
            "process": part.process + 1,
            "start": part.start_ns,
            "stop": part.end_ns,
            "ended_by": list(part.ended_by),
        },
    )


def _key_node_candidates(data: ImportedProfile) -> Table:
    found = data.candidates
    shares = {
        name: [
            None if share is None else round(100 * share, 2)
            for share in attributes(found, name)[name]
        ]
        for name in ("evenness", "alike", "coverage")
    }
    return Table(
        "key_node_candidates",
        {
            "id": list(range(1, len(found) + 1)),
            **attributes(found, "name", "key_node", "instances", "iterations"),
            "kind": [str(counter.kind) for counter in found],
            "period": [counter.period_ns for counter in found],
            **shares,
            **attributes(found, "per_optimizer_step", "counts", "score", "is_chosen"),
        },
    )


def _marks(data: ImportedProfile) -> Table:
    profile, marks = data.profile, data.profile.marks
    order = np.argsort(marks.time_ns, kind="stable")
    return Table(
        "marks",
        {
            "time": marks.time_ns[order],
            "name": [profile.range_names[code] for code in marks.name[order].tolist()],
            "domain": [profile.domain_names[code] for code in marks.domain[order].tolist()],
            "thread": marks.thread[order] + 1,
        },
    )


def _annotations(data: ImportedProfile) -> Table:
    profile, notes = data.profile, data.profile.annotations
    row_of = {tid: row for row, tid in enumerate(profile.threads.tolist(), start=1)}
    return Table(
        "annotations",
        {
            "start": [note.start_ns for note in notes],
            "stop": [note.end_ns for note in notes],
            **attributes(notes, "name", "domain", "category", "payload"),
            "thread": [row_of.get(note.global_tid) for note in notes],
        },
    )


_DEVICE_COLUMNS = (
    *("device_id", "name", "sm_count", "memory_bytes", "memory_used_bytes", "memory_before_bytes"),
    *("busy_pct", "memory_source", "uuid", "clock_hz", "bandwidth"),
)


def _devices(data: ImportedProfile) -> Table:
    devices = data.profile.devices
    capability = [device.compute_capability or (None, None) for device in devices]
    return Table(
        "devices",
        {
            "id": list(range(1, len(devices) + 1)),
            **attributes(devices, *_DEVICE_COLUMNS),
            "cuda_major": [major for major, _ in capability],
            "cuda_minor": [minor for _, minor in capability],
            "memory_reason": [_memory_reason(device) for device in devices],
            "host": data.profile.session.host_name,
            "host_device_id": [
                device.device_id if device.host_id is None else device.host_id for device in devices
            ],
        },
    )


def _memory_reason(device: Device) -> str:
    return "" if device.memory_used_bytes is not None else device.memory_reason or NO_MEMORY


def _model_config(data: ImportedProfile) -> dict[str, list[str | None]]:
    """Settings recorded by markers, and the reason for each that is not recorded."""
    settings = list(read_settings(data.profile.range_names).values())
    return {
        "key": [setting.key for setting in settings],
        "value": [json.dumps(s.value) if s.is_recorded else None for s in settings],
        "source": [setting.source for setting in settings],
        "reason": ["" if setting.is_recorded else NOT_RECORDED for setting in settings],
    }


def _range_tables(data: ImportedProfile) -> Iterator[Table]:
    ranges = data.ranges
    order = ordered(ranges.start_ns)
    yield Table(
        "range_names", {"id": list(range(1, len(ranges.names) + 1)), "name": list(ranges.names)}
    )
    yield Table(
        "named_ranges",
        {
            "name": ranges.name[order] + 1,
            "domain": 1,
            "process": ranges.process[order] + 1,
            "start": ranges.start_ns[order],
            "stop": ranges.end_ns[order],
        },
    )


def _busy_time(data: ImportedProfile) -> Iterator[Table]:
    """A table per row: their columns of times become bytes one after the other."""
    for inputs in data.rollups:
        for device, levels in enumerate(inputs.busy, start=1):
            for level, busy in enumerate((*levels, *inputs.collectives[device - 1]), start=1):
                yield Table(
                    "busy_time",
                    {
                        "domain": inputs.domain + 1,
                        "device": device,
                        "level": level,
                        "starts": [busy.start_ns.astype("<i8", copy=False)],
                        "stops": [busy.end_ns.astype("<i8", copy=False)],
                    },
                )


def _instances(data: ImportedProfile, shape_rows: Integers) -> Iterator[Table]:
    columns = data.rollup.instances
    cost = cost_numbers(data.costs, len(columns.op))
    for rows in parts_of(0, len(columns.op)):
        yield Table(
            "op_instances",
            {
                "id": np.arange(rows.start + 1, rows.stop + 1),
                "op": columns.op[rows] + 1,
                "start": columns.start_ns[rows],
                "stop": columns.end_ns[rows],
                "cpu_time": columns.cpu_time_ns[rows],
                "cpu_overhead": columns.cpu_overhead_ns[rows],
                "gpu_time": columns.gpu_time_ns[rows],
                "gpu_idle": columns.gpu_idle_ns[rows],
                "thread": data.work.instances.thread[rows] + 1,
                "shapes": shape_rows[rows],
                "cost": cost[rows],
            },
        )


def _memory_ops(data: ImportedProfile) -> Table:
    work, order = data.work, data.memory_order
    is_copy = np.arange(len(order)) < len(data.profile.copies)
    instance = memory_column(work, "instance")[order]
    memory = data.rollup.memory
    return Table(
        "memory_ops",
        {
            "id": np.arange(1, len(order) + 1),
            "op": data.ops.op_of_instance[instance] + 1,
            "is_copy": is_copy[order],
            "name": memory.code.astype(np.int64) + 1,
            "copy_kind": memory_column(work, "copy_kind")[order],
            "bytes": memory_column(work, "num_bytes")[order],
            "host_kind": memory_column(work, "host_kind")[order],
            "api_start": memory.api_start_ns,
            "api_duration": memory.api_duration_ns,
            "start": memory_column(work, "start_ns")[order],
            "duration": memory.duration_ns,
            "device": memory_column(work, "device")[order].astype(np.int64) + 1,
            "stream_id": memory_column(work, "stream_id")[order],
            "process": memory_column(work, "process")[order].astype(np.int64) + 1,
        },
    )


def _device_waits(data: ImportedProfile) -> Table:
    """Waits whose calls are known; the times of the calls refer to rows of ``api_calls``."""
    waits, calls = data.profile.waits, data.profile.api_calls
    call, record = waits.call, waits.record_call
    known = np.flatnonzero(call >= 0)
    start = calls.start_ns[call[known]]
    ago = np.where(record[known] >= 0, start - calls.start_ns[record[known]], -1)
    order = ordered(start)
    row = known[order]
    return Table(
        "device_waits",
        {
            "id": np.arange(1, len(order) + 1),
            "start": start[order],
            "process": waits.process[row].astype(np.int64) + 1,
            "device": waits.device[row].astype(np.int64) + 1,
            "stream_id": waits.stream_id[row],
            "record_ago": np.maximum(ago[order], -1),
            "record_stream": waits.record_stream_id[row],
        },
    )


def _kernel_tables(data: ImportedProfile) -> Iterator[Table]:
    names, strings = data.kernel_names, data.profile.strings
    long_names = [strings[code] for code in names.long.tolist()]
    yield Table(
        "kernel_names",
        {
            "id": list(range(1, len(names.short) + 1)),
            "name": [strings[code] for code in names.short.tolist()],
            "long_name": long_names,
            "uses_tc": names.uses_tc,
            "tc_verdict": [None if value < 0 else value for value in names.verdict.tolist()],
            "readable_name": [kernel_traits(name).readable_name for name in long_names],
            "source_ops": [", ".join(kernel_traits(name).source_ops) for name in long_names],
        },
    )
    pairs = data.rollup.op_kernels
    last_launch = np.zeros(len(pairs.op), dtype=np.int64)
    last_launch[data.rollup.kernels.code] = np.arange(len(data.kernel_order))
    # DLProf counts by short name, and names the last kernel for all of them.
    first, same = row_codes(pairs.op, pairs.name, pairs.uses_tc)
    last_of_name = np.zeros(len(first), dtype=np.int64)
    np.maximum.at(last_of_name, same, last_launch)
    last = names.of_kernel[last_of_name[same]] if len(same) else same
    yield Table(
        "op_kernels",
        {
            "id": np.arange(1, len(pairs.op) + 1),
            "op": pairs.op + 1,
            "name": [strings[code] for code in pairs.name.tolist()],
            "uses_tc": pairs.uses_tc,
            "last_long_name": [long_names[row] for row in last.tolist()],
            "kernel": pairs.kernel + 1,
        },
    )
    order = data.kernel_order
    kernels = data.profile.kernels
    sizes, size_of = _launch_sizes(kernels.grid[order], kernels.block[order])
    yield sizes
    columns = data.rollup.kernels
    for rows in parts_of(0, len(order)):
        row = order[rows]
        yield Table(
            "kernels",
            {
                "id": np.arange(rows.start + 1, rows.stop + 1),
                "op_kernel": columns.code[rows] + 1,
                "instance": data.work.kernels.instance[row] + 1,
                "name": names.of_kernel[rows] + 1,
                "api_start": columns.api_start_ns[rows],
                "api_duration": columns.api_duration_ns[rows],
                "start": kernels.start_ns[row],
                "duration": columns.duration_ns[rows],
                "device": kernels.device[row] + 1,
                "stream_id": kernels.stream_id[row],
                "process": kernels.process[row] + 1,
                "size": size_of[rows],
            },
        )


def _launch_sizes(grid: Int32, block: Int32) -> tuple[Table, Int32]:
    dims = [*grid.T, *block.T]
    first, code = row_codes(*dims)
    names = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
    columns = {name: column[first] for name, column in zip(names, dims, strict=True)}
    table = Table("launch_sizes", {"id": np.arange(1, len(first) + 1), **columns})
    return table, code + 1


def _api_calls(data: ImportedProfile) -> Iterator[Table]:
    api = data.profile.api_calls
    order = ordered(api.start_ns)
    for rows in parts_of(0, len(order)):
        row = order[rows]
        instance = data.work.instances.call_instance[row]
        yield Table(
            "api_calls",
            {
                "id": np.arange(rows.start + 1, rows.stop + 1),
                "name": api.name[row] + 1,
                "op": data.ops.op_of_instance[instance] + 1,
                "start": api.start_ns[row],
                "duration": api.end_ns[row] - api.start_ns[row],
                "thread": api.thread[row] + 1,
                "correlation_id": api.correlation_id[row],
            },
        )


def counter_tables(counters: Sequence[Counter]) -> Iterator[Table]:
    """Yield the counters of a profile, and their samples in order of time."""
    if not counters:
        return
    columns = {
        name: [getattr(track, name) for track in counters] for name in ("name", "unit", "source")
    }
    numbers = np.arange(1, len(counters) + 1)
    devices = np.array([counter.device + 1 for counter in counters])
    yield Table("counters", {"id": numbers, "device": devices, **columns})
    of_sample = np.repeat(numbers, [len(counter.start_ns) for counter in counters])
    start, stop, value = (
        np.concatenate([getattr(counter, name) for counter in counters])
        for name in ("start_ns", "stop_ns", "value")
    )
    order = np.lexsort((of_sample, start))
    yield Table(
        "counter_samples",
        {
            "id": np.arange(1, len(order) + 1),
            "counter": of_sample[order],
            "start": start[order],
            "stop": stop[order],
            "value": value[order],
        },
    )
