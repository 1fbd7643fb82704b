"""Custom domains and whole-graph launches as rows of the database's tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aggregator.correlate.custom_domains import Covered, DomainWork
from aggregator.dldb.writer import Table
from aggregator.importing.imported import ImportedProfile, inverse_order
from aggregator.profile.arrays import Int64


def domain_tables(data: ImportedProfile) -> Iterator[Table]:
    """Yield instances of custom domains and what they cover, behind those of the default domain."""
    first_instance = len(data.work.instances) + 1
    for number, domain in enumerate(data.domains):
        yield _instances(data, number, domain, first_instance)
        yield _kernels(data, number, domain, first_instance)
        yield _memory_ops(data, number, domain, first_instance)
        first_instance += len(domain.op)


def _instances(data: ImportedProfile, number: int, domain: DomainWork, first: int) -> Table:
    columns = data.rollups[number + 1].instances
    return Table(
        "op_instances",
        {
            "id": np.arange(first, first + len(columns.op)),
            "op": columns.op + 1,
            "start": columns.start_ns,
            "stop": columns.end_ns,
            "cpu_time": columns.cpu_time_ns,
            "cpu_overhead": columns.cpu_overhead_ns,
            "gpu_time": columns.gpu_time_ns,
            "gpu_idle": columns.gpu_idle_ns,
            "thread": domain.thread + 1,
            "shapes": 0,
            "cost": 0,
        },
    )


def _kernels(data: ImportedProfile, number: int, domain: DomainWork, first: int) -> Table:
    """Return the kernels of a domain; those found by time are not in the standard views."""
    rank = inverse_order(data.kernel_order)
    position = rank[domain.kernels.row]
    order = np.lexsort((position, domain.kernels.by_time))
    by_time = domain.kernels.by_time[order]
    pairs = data.rollups[number + 1].kernels.code
    own_pairs: list[int | None] = [int(pair) + 1 for pair in pairs]
    own_pairs += [None] * (len(order) - len(own_pairs))
    return Table(
        "domain_kernels",
        {
            "domain": number + 2,
            "by_time": by_time,
            "kernel": position[order] + 1,
            "op_kernel": own_pairs,
            "instance": domain.kernels.instance[order] + first,
        },
    )


def _memory_ops(data: ImportedProfile, number: int, domain: DomainWork, first: int) -> Table:
    rank = inverse_order(data.memory_order)
    position = np.concatenate(
        [rank[domain.copies.row], rank[domain.sets.row + len(data.profile.copies)]]
    )
    by_time = _joined(domain, "by_time")
    instance = _joined(domain, "instance")
    order = np.lexsort((position, by_time))
    return Table(
        "domain_memory_ops",
        {
            "domain": number + 2,
            "by_time": by_time[order],
            "memory_op": position[order] + 1,
            "instance": instance[order] + first,
        },
    )


def _joined(domain: DomainWork, name: str) -> Int64:
    parts: list[Covered] = [domain.copies, domain.sets]
    return np.concatenate([getattr(part, name).astype(np.int64) for part in parts])


def graph_launches(data: ImportedProfile) -> Table:
    """Return the CUDA graphs that were recorded as a whole."""
    graphs = data.work.graphs
    order = graphs.launch_order()
    work = graphs.work
    return Table(
        "graph_launches",
        {
            "id": np.arange(1, len(order) + 1),
            "op": data.ops.op_of_instance[graphs.instance[order]] + 1,
            "api_start": graphs.api_start_ns[order],
            "api_duration": graphs.api_duration_ns[order],
            "start": work.start_ns[order],
            "duration": (work.end_ns - work.start_ns)[order],
            "device": work.device[order] + 1,
            "stream_id": work.stream_id[order],
            "process": work.process[order] + 1,
        },
    )
