"""Tables of iterations, aggregations and GPUs."""

from __future__ import annotations

from dataclasses import replace

from aggregator.query.spec import (
    Column,
    Join,
    Source,
    TableSpec,
    boolean,
    choice,
    identifier,
    number,
    real,
    sentence,
    text,
)
from aggregator.texts import say


def _parts(alias: str) -> tuple[Column, ...]:
    def part(name: str, column: str, description: str, measured: str = "") -> Column:
        found = number(name, f"{alias}.{column}", description, nullable=True)
        return replace(found, measured=measured)

    return (
        part("total_kernel_count", "total_kernel_count", "Kernels launched."),
        part("tc_kernel_count", "using_tc_kernel_count", "Kernels that used Tensor Cores."),
        part(
            "gpu_time_ns",
            f"tc_duration + {alias}.non_tc_duration",
            "Time with a kernel running, mean over the GPUs.",
        ),
        part("tc_duration_ns", "tc_duration", "Time with a Tensor Core kernel running."),
        part("non_tc_duration_ns", "non_tc_duration", "Time with only other kernels running."),
        part("memory_duration_ns", "memory_duration", "Time with only copies and sets running."),
        part(
            "dataloader_duration_ns",
            "dataloader_duration",
            "Time waiting for input only.",
            "dataloader_measured",
        ),
        part("io_duration_ns", "io_duration", "Time in I/O only.", "io_measured"),
        part("cpu_duration_ns", "cpu_duration", "Time with ops on the CPU only."),
        part("other_duration_ns", "other_duration", "The rest."),
    )


def _iteration(is_profiled: str) -> tuple[Column, ...]:
    return (
        number("iteration_index", "t.iter_value", "Counted from 0 in the whole profile."),
        choice("kind", "t.kind", "before, iteration or after.", nullable=True),
        boolean("is_profiled", is_profiled, "Whether the aggregation covers it."),
        number("start_time_ns", "t.start_time", "From the start of the profile."),
        number("stop_time_ns", "t.stop_time", "From the start of the profile."),
        number("duration_ns", "t.duration", "Length."),
    )


#: DLProf tells the parts of the aggregated iterations only.
_ITERATIONS_OF_DLPROF = TableSpec(
    name="iterations",
    title=say("Iterations"),
    source=Source(
        view="view_iterations_all",
        joins=(
            Join("view_aggregations", "a", "a.aggr_id = t.aggr_id"),
            Join(
                "view_iterations_profiled",
                "p",
                "p.aggr_id = t.aggr_id AND p.iter_value = t.iter_value AND p.domain_name = :domain",
            ),
        ),
        where="t.aggr_id = :aggr_id",
    ),
    columns=(
        *_iteration("t.iter_value BETWEEN a.iter_start AND a.iter_stop"),
        *_parts("p"),
    ),
    default_ordering=("iteration_index",),
    key=("iteration_index",),
)

ITERATIONS = replace(
    _ITERATIONS_OF_DLPROF,
    source=Source(view="view_iterations_detail"),
    columns=(*_iteration("t.is_aggregated"), *_parts("t")),
    fallback=_ITERATIONS_OF_DLPROF,
)

GPUS = TableSpec(
    name="gpus",
    title=say("GPUs"),
    source=Source(view="view_gpu_devices"),
    columns=(
        identifier("device_id", "t.device_id", "Number of the GPU.", integer=True),
        text("gpu_name", "t.gpu_name", "Model."),
        text("compute_capability", "t.cuda_major || '.' || t.cuda_minor", "Architecture."),
        number("sm_count", "t.sm_count", "Streaming multiprocessors."),
        real("gpu_utilization_pct", "t.device_gpu_utilization", "Time with a kernel running."),
        number("memory_total_bytes", "t.memory_total", "Memory of the GPU.", nullable=True),
        number(
            "memory_used_bytes",
            "t.memory_used",
            "Most memory in use at once during the run; null: not recorded.",
            nullable=True,
        ),
    ),
    default_ordering=("device_id",),
    key=("device_id", "gpu_name"),
)

AGGREGATIONS = TableSpec(
    name="aggregations",
    title=say("Aggregations"),
    source=Source(view="view_aggregations", where="1"),
    columns=(
        identifier("id", "t.aggr_id", "Number of the aggregation.", integer=True),
        number("iter_start", "t.iter_start", "First aggregated iteration."),
        number("iter_stop", "t.iter_stop", "Last aggregated iteration, inclusive."),
        number("iter_aggregated", "t.iter_aggregated", "How many it covers."),
        text("key_node", "t.key_node_name", "Op that marks an iteration; empty: none found."),
        sentence("key_node_reason", "t.key_node_reason", "Why that op."),
        text("created_at", "t.aggr_start", "When it was made."),
    ),
    default_ordering=("id",),
    key=("id",),
)
