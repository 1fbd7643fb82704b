"""The dashboard's objects."""

from __future__ import annotations

from aggregator.tables.gpu_time import busy_pct, idle_pct, read_unmarked_usage
from aggregator.tables.spec import IN_GRAPHS, Field, ObjectSpec, fields_of
from aggregator.texts import say

_PERFORMANCE = "view_performance_summary"
_REFERENCE = "view_step_reference"
_STEP = "view_typical_step"
_CORRECTED = "view_corrected_step"
_RECORDED = "view_recorded_part"
_MODEL = "view_model_summary"
_BREAKDOWN = "view_resource_usage_breakdown"
_KERNELS = "view_kernel_summary"
_OPS = "view_op_summary"

PERFORMANCE_SUMMARY = ObjectSpec(
    "performance-summary",
    "Performance summary",
    (
        *fields_of(_PERFORMANCE, {"wall_clock_time_ns=wall_clock_time": "Sum of the iterations."}),
        Field(
            "tc_utilization_pct",
            _PERFORMANCE,
            "tc_utilization",
            "Share of Tensor Core kernels in the kernel time of eligible ops.",
            "number",
            "has_ops",
            when_null=IN_GRAPHS,
        ),
        *fields_of(
            _PERFORMANCE,
            {
                "gpu_utilization_pct=gpu_utilization%": (
                    "Time with a kernel running, mean over the GPUs."
                ),
                "total_iterations": "Found in the profile.",
                "profiled_iterations": "Aggregated.",
                "iter_start": "First aggregated iteration.",
                "iter_stop": "Last aggregated iteration, inclusive.",
                "iter_avg_ns=iter_avg%": "Mean length of an iteration.",
                "iter_std_dev_ns=iter_std_dev%": "Standard deviation of an iteration's length.",
                "key_node$": "Op that marks an iteration.",
                "key_node_reason$": "Why that op.",
                "is_steady": "1: it covers the steady range.",
                "steady_note$": "What the steady range leaves out, or why there is none.",
                "steps": "Iterations without the one before the loop.",
                "iter_median_ns=iter_median": "Median time of a step.",
                "iter_p10_ns=iter_p10": "10th percentile of the steps' times.",
                "iter_p90_ns=iter_p90": "90th percentile of the steps' times.",
            },
        ),
        *fields_of(
            _STEP,
            {
                "step_ns=typical_step": "The typical step: the median or the mean, as profiled.",
                "step_median_ns=step_median": "Median of the steps.",
                "step_mean_ns=step_mean": "Mean of the steps.",
                "step_p10_ns=step_p10": "10th percentile of the steps.",
                "step_p90_ns=step_p90": "90th percentile of the steps.",
                "step_count=typical_steps": "Steps that these are of.",
                "step_first=first_iteration": "Iteration of the first of them.",
                "step_last=last_iteration": "Iteration of the last of them.",
                "loop_steps": "Steps of the loop in all of the profile.",
                "given_step_ns=given_step": "Step without profiling that the user gave.",
                "step_statistic=statistic$": "Which it is: median or mean.",
                "uneven_reason$": "Why it is the mean.",
                "loop_reason$": "How an unmarked loop was found.",
                "between_steps$": "JSON list: what is no step.",
            },
        ),
        *fields_of(
            _REFERENCE,
            {
                "bare_step_ns=bare_step": "Median time of a step without profiling.",
                "bare_step_p10_ns=bare_step_p10": "10th percentile of these steps' times.",
                "bare_step_p90_ns=bare_step_p90": "90th percentile of these steps' times.",
                "bare_steps": "Steps that were timed without profiling.",
                "profiled_step_ns=profiled_step": (
                    "Median time of a step while it is profiled, by the same clock."
                ),
                "profiled_steps": "Steps that this clock timed while they were profiled.",
                "overhead_pct=overhead_pct%": "How much longer a profiled step takes.",
            },
        ),
        *fields_of(
            _RECORDED,
            {
                "recorded_windows": "Times in which the run was recorded.",
                "recorded_time_ns=recorded_time": "Sum of these times.",
                "run_time_ns=run_time": "Length of the run of the application.",
                "recorded_steps": "Steps of its loops that were recorded.",
                "run_steps": "Steps of its loops.",
                "recorded_note$": (
                    "That the profile is a part of the run; null: it is the whole, or that is "
                    "unknown."
                ),
            },
        ),
        Field("bare_step_reason", _REFERENCE, "reason", "Why the bare step is unknown.", "string"),
        *fields_of(
            _CORRECTED,
            {
                "corrected_step_ns=corrected_step": (
                    "Median step of a replay without the costs of profiling."
                ),
                "corrected_step_p10_ns=corrected_step_p10": "10th percentile of these steps.",
                "corrected_step_p90_ns=corrected_step_p90": "90th percentile of these steps.",
                "corrected_busy_pct=corrected_busy_pct%": (
                    "Share of the corrected step in which the GPU runs anything."
                ),
                "corrected_idle_ns=corrected_idle": "Mean idle time of the GPU in that step.",
                "replayed_step_ns=replayed_step": "Median of the same steps as measured.",
                "profiling_cost_ns=profiling_cost": (
                    "Mean time of the CPU that was taken out of a step."
                ),
                "corrected_unexplained_ns=corrected_unexplained": (
                    "Time by which the steps without profiling were still shorter."
                ),
                "waits_for_gpu_pct=waits_for_gpu_pct%": "Share that waits for work of the GPU.",
                "waits_for_cpu_pct=waits_for_cpu_pct%": "Share that waits for work of the CPU.",
                "waits_for_loader_pct=waits_for_loader_pct%": "Share that waits for input.",
                "waits_for_communication_pct=waits_for_communication_pct%": (
                    "Share that waits for communication between GPUs."
                ),
                "corrected_limit$": (
                    "What the corrected step waits for most: gpu, cpu, loader or communication."
                ),
            },
        ),
    ),
)

_CORRECTED_PARTS = (
    *("tc", "non_tc", "communication", "graph", "memory", "dataloader", "io", "cpu", "other"),
)
_MEASURED = {"dataloader": "dataloader_measured", "io": "io_measured"}
"""Parts of the breakdown that not every capture has."""
_NO_GPU_WORK = say("No work of a GPU was recorded in the steps.")
_OF_STEPS = say("The shares are of the iterations or steps.")
_NOT_CORRECTED = say("The step without profiling is known, but not what it consists of.")

RESOURCE_USAGE = ObjectSpec(
    "resource-usage",
    "Resource usage breakdown",
    (
        *(
            Field(
                f"{part}_pct",
                _BREAKDOWN,
                f"{part}_duration_pct",
                description,
                "number",
                _MEASURED.get(part, ""),
            )
            for part, description in (
                ("tc", "A Tensor Core kernel runs."),
                ("non_tc", "Other kernels run."),
                ("graph", "Only CUDA graphs run whose kernels were not recorded."),
                ("memory", "Only copies and sets run."),
                ("dataloader", "Only input is waited for."),
                ("io", "Only I/O happens."),
                ("cpu", "Only ops on the CPU run."),
                ("other", "None of these."),
            )
        ),
        Field(
            "communication_pct",
            _MODEL,
            "exposed_communication_pct",
            "Only kernels that move data between GPUs run; part of non_tc_pct.",
            "number",
        ),
        Field(
            "busy_pct",
            _BREAKDOWN,
            "",
            "The GPU runs kernels, graphs, copies or sets; of the step without profiling where its "
            "parts are known, else of the step as profiled.",
            "number",
            derived=busy_pct,
            when_null=_NO_GPU_WORK,
        ),
        Field(
            "idle_pct",
            _BREAKDOWN,
            "",
            "The rest of that step.",
            "number",
            derived=idle_pct,
            when_null=_NO_GPU_WORK,
        ),
        Field(
            "recorded_span_ns",
            _BREAKDOWN,
            "",
            "The recorded span, from the start of the first to the end of the last work of a GPU: "
            "where no step was found, the shares are of it.",
            derived=lambda values: values.get("recorded_span_ns"),
            when_null=_OF_STEPS,
        ),
        *(
            Field(
                f"corrected_{part}_pct",
                "view_corrected_breakdown",
                f"corrected_{part}_pct",
                f"The same of the corrected step: {part}.",
                "number",
                _MEASURED.get(part, ""),
                when_null=_NOT_CORRECTED,
                reason_view=_REFERENCE,
            )
            for part in _CORRECTED_PARTS
        ),
    ),
    read=read_unmarked_usage,
)

_GPU_TIME = "GPU time, summed."
_COUNT = "How many there are."


def _sums(part: str, view: str, stem: str, model_stem: str) -> tuple[Field, ...]:
    return (
        Field(f"{part}.gpu_time_ns", view, f"{stem}_gpu_time", _GPU_TIME),
        Field(f"{part}.count", view, f"{stem}_count", _COUNT),
        Field(f"{part}.cpu_time_ns", _MODEL, f"{model_stem}_cpu_time", "CPU time, summed."),
    )


def _communication(name: str, column: str, total: str, meaning: str) -> Field:
    """Declare a field of the kernels that move data between GPUs, which DLProf counts as others."""
    return Field(
        f"communication.{name}",
        "view_kernel_summaries",
        column,
        f"{meaning.removesuffix('.')}; part of the others.",
        total=total,
        where="is_communication(kernel_name)",
    )


KERNEL_SUMMARY = ObjectSpec(
    "kernel-summary",
    "Kernel summary",
    (
        *_sums("all", _KERNELS, "total", "kernels_all"),
        *_sums("using_tc", _KERNELS, "using_tc", "kernels_tc"),
        *_sums("memory", _KERNELS, "memory", "kernels_memory"),
        *_sums("other", _KERNELS, "other", "kernels_other"),
        _communication("gpu_time_ns", "gpu_time", "coalesce(sum({column}), 0)", _GPU_TIME),
        _communication("count", "kernel_name", "count(DISTINCT {column})", _COUNT),
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
        *(
            Field(name, *_TC_SHARE, _TC_TEXT, "number", "has_ops", when_null=IN_GRAPHS)
            for name in ("tc_utilization_pct", "using_tc_pct")
        ),
        Field(
            "not_using_tc_pct",
            *_TC_SHARE,
            "Share of their other kernels.",
            "number",
            "has_ops",
            is_rest=True,
            when_null=IN_GRAPHS,
        ),
    ),
)
