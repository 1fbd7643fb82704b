"""The address of each table and object below an aggregation."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aggregator.tables.declared.advice import ADVICE
from aggregator.tables.declared.efficiency import (
    EFFICIENCY,
    GROUP_EFFICIENCY,
    ITERATION_EFFICIENCY,
    OP_EFFICIENCY,
    OP_TYPE_EFFICIENCY,
    OP_UNITS,
    PEAK_RATES,
)
from aggregator.tables.declared.iterations import (
    GPUS,
    ITERATIONS,
    KEY_NODE_CANDIDATES,
    NAME_EVIDENCE,
    PHASES,
)
from aggregator.tables.declared.kernels import (
    ITERATION_KERNELS,
    ITERATION_OP_KERNELS,
    KERNELS,
    MERGED_KERNELS,
    OP_KERNELS,
)
from aggregator.tables.declared.ops import GROUP_OPS, ITERATION_OPS, MERGED_OPS, OP_TYPES, OPS
from aggregator.tables.declared.owners import OWNERS
from aggregator.tables.declared.ranks import COLLECTIVES, RANK_ITERATIONS, RANKS
from aggregator.tables.declared.summaries import (
    GPU_UTILIZATION,
    KERNEL_SUMMARY,
    OP_SUMMARY,
    PERFORMANCE_SUMMARY,
    RESOURCE_USAGE,
    TENSOR_CORE_EFFICIENCY,
)
from aggregator.tables.declared.timeline import TIMELINE_EVENTS
from aggregator.tables.spec import ObjectSpec, TableSpec

_HOLE = re.compile(r"{(\w+)}")
#: What the holes of an address take. An op id may hold a slash.
_HOLES = {"iteration": r"\d+", "op_id": r".+"}


@dataclass(frozen=True)
class FoundTable:
    """A table, and the values that its address named."""

    spec: TableSpec
    params: dict[str, str | int]


#: Each table at its address. Longer addresses come before those that they begin like.
TABLES: dict[str, TableSpec] = {
    "iterations/{iteration}/ops/{op_id}/kernels": ITERATION_OP_KERNELS,
    "iterations/{iteration}/kernels": ITERATION_KERNELS,
    "iterations/{iteration}/ops": ITERATION_OPS,
    "iterations": ITERATIONS,
    "ops/{op_id}/kernels": OP_KERNELS,
    "ops/{op_id}/units": OP_UNITS,
    "ops": OPS,
    "merged-ops": MERGED_OPS,
    "op-types": OP_TYPES,
    "group-ops": GROUP_OPS,
    "merged-kernels": MERGED_KERNELS,
    "kernels": KERNELS,
    "gpus": GPUS,
    "advice": ADVICE,
    "key-node-candidates": KEY_NODE_CANDIDATES,
    "ranks": RANKS,
    "collectives": COLLECTIVES,
    "rank-iterations": RANK_ITERATIONS,
    "op-efficiency": OP_EFFICIENCY,
    "op-type-efficiency": OP_TYPE_EFFICIENCY,
    "group-efficiency": GROUP_EFFICIENCY,
    "iteration-efficiency": ITERATION_EFFICIENCY,
    "peak-rates": PEAK_RATES,
    "owners": OWNERS,
    "phases": PHASES,
    "name-evidence": NAME_EVIDENCE,
    "timeline/events": TIMELINE_EVENTS,
}

#: The tables whose address has no holes, by that address, but the events: a capture holds millions.
WHOLE_TABLES = {
    address: spec
    for address, spec in TABLES.items()
    if not _HOLE.search(address) and spec is not TIMELINE_EVENTS
}

#: Each panel's object at its address.
OBJECTS: dict[str, ObjectSpec] = {
    spec.name: spec
    for spec in (
        PERFORMANCE_SUMMARY,
        RESOURCE_USAGE,
        KERNEL_SUMMARY,
        OP_SUMMARY,
        GPU_UTILIZATION,
        TENSOR_CORE_EFFICIENCY,
        EFFICIENCY,
    )
}


def find_table(address: str) -> FoundTable | None:
    """Return the table at an address such as ``iterations/3/ops``; None if there is none."""
    for template, spec in TABLES.items():
        pattern = _HOLE.sub(lambda hole: f"(?P<{hole[1]}>{_HOLES[hole[1]]})", template)
        if match := re.fullmatch(pattern, address):
            found = match.groupdict()
            params: dict[str, str | int] = dict(found)
            if "iteration" in found:
                params["iteration"] = int(found["iteration"])
            return FoundTable(spec, params)
    return None
