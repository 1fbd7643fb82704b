"""The dashboard's objects."""

from __future__ import annotations

from aggregator.query.spec import Field, ObjectSpec

_PERFORMANCE = "view_performance_summary"
_MODEL = "view_model_summary"
_BREAKDOWN = "view_resource_usage_breakdown"
_KERNELS = "view_kernel_summary"
_OPS = "view_op_summary"

PERFORMANCE_SUMMARY = ObjectSpec(
    "performance-summary",
    "Performance summary",
    (
        Field("wall_clock_time_ns", _PERFORMANCE, "wall_clock_time", "Sum of the iterations."),
        Field(
            "tc_utilization_pct",
            _PERFORMANCE,
            "tc_utilization",
            "Share of Tensor Core kernels in the kernel time of eligible ops.",
            "number",
            "has_ops",
        ),
        Field(
            "gpu_utilization_pct",
            _PERFORMANCE,
            "gpu_utilization",
            "Time with a kernel running, mean over the GPUs.",
            "number",
        ),
        Field("total_iterations", _PERFORMANCE, "total_iterations", "Found in the profile."),
        Field("profiled_iterations", _PERFORMANCE, "profiled_iterations", "Aggregated."),
        Field("iter_start", _PERFORMANCE, "iter_start", "First aggregated iteration."),
        Field("iter_stop", _PERFORMANCE, "iter_stop", "Last aggregated iteration, inclusive."),
        Field("iter_avg_ns", _PERFORMANCE, "iter_avg", "Mean length of an iteration.", "number"),
        Field(
            "iter_std_dev_ns",
            _PERFORMANCE,
            "iter_std_dev",
            "Standard deviation of an iteration's length.",
            "number",
        ),
        Field("key_node", _PERFORMANCE, "key_node", "Op that marks an iteration.", "string"),
        Field("key_node_reason", _PERFORMANCE, "key_node_reason", "Why that op.", "string"),
    ),
)

RESOURCE_USAGE = ObjectSpec(
    "resource-usage",
    "Resource usage breakdown",
    tuple(
        Field(f"{part}_pct", _BREAKDOWN, f"{part}_duration_pct", description, "number", measured)
        for part, description, measured in (
            ("tc", "A Tensor Core kernel runs.", ""),
            ("non_tc", "Other kernels run.", ""),
            ("memory", "Only copies and sets run.", ""),
            ("dataloader", "Only input is waited for.", "dataloader_measured"),
            ("io", "Only I/O happens.", "io_measured"),
            ("cpu", "Only ops on the CPU run.", ""),
            ("other", "None of these.", ""),
        )
    ),
)

_GPU_TIME = "GPU time, summed."
_COUNT = "How many there are."


def _sums(part: str, view: str, stem: str, model_stem: str) -> tuple[Field, ...]:
    return (
        Field(f"{part}.gpu_time_ns", view, f"{stem}_gpu_time", _GPU_TIME),
        Field(f"{part}.count", view, f"{stem}_count", _COUNT),
        Field(f"{part}.cpu_time_ns", _MODEL, f"{model_stem}_cpu_time", "CPU time, summed."),
    )


KERNEL_SUMMARY = ObjectSpec(
    "kernel-summary",
    "Kernel summary",
    (
        *_sums("all", _KERNELS, "total", "kernels_all"),
        *_sums("using_tc", _KERNELS, "using_tc", "kernels_tc"),
        *_sums("memory", _KERNELS, "memory", "kernels_memory"),
        *_sums("other", _KERNELS, "other", "kernels_other"),
    ),
)

OP_SUMMARY = ObjectSpec(
    "op-summary",
    "Op summary",
    (
        *_sums("all", _OPS, "nodes_total", "ops_all"),
        *_sums("using_tc", _OPS, "nodes_using_tc", "ops_tc"),
        *_sums("eligible_not_using", _OPS, "nodes_tc_eligible", "ops_eligible"),
        *_sums("other", _OPS, "nodes_other", "ops_other"),
    ),
)

_GPU_BUSY = ("view_domain_model_gpu_utilization", "gpu_utilization")
_TC_SHARE = ("view_tc_utilization", "tc_utilization")
_TC_TEXT = "Share of Tensor Core kernels in the kernel time of eligible ops."

GPU_UTILIZATION = ObjectSpec(
    "gpu-utilization",
    "GPU utilization",
    (
        Field(
            "using_gpu_pct", *_GPU_BUSY, "Time with a kernel running, mean over the GPUs.", "number"
        ),
        Field("idle_gpu_pct", *_GPU_BUSY, "The rest of the time.", "number", is_rest=True),
    ),
)
TENSOR_CORE_EFFICIENCY = ObjectSpec(
    "tensor-core-efficiency",
    "Tensor Core kernel efficiency",
    (
        Field("tc_utilization_pct", *_TC_SHARE, _TC_TEXT, "number", "has_ops"),
        Field("using_tc_pct", *_TC_SHARE, _TC_TEXT, "number", "has_ops"),
        Field(
            "not_using_tc_pct",
            *_TC_SHARE,
            "Share of their other kernels.",
            "number",
            "has_ops",
            is_rest=True,
        ),
    ),
)
