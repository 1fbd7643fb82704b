"""What ops should cost beside what they took: tables, the whole, and the GPU's peaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aggregator.tables.declared.ops import NAMES, called_from, rate_columns
from aggregator.tables.spec import (
    Column,
    ObjectSpec,
    Source,
    TableSpec,
    choice,
    fields_of,
    identifier,
    number,
    real,
    sentence,
    summed,
    text,
)
from aggregator.texts import say

_COSTS_UNKNOWN = "Its operations or bytes are not known."
_LEAD = ("left_time_ns", "gpu_time_ns", "ideal_time_ns", "peak_pct", "tflops_per_second")
_UNKNOWN_UTILIZATION = (
    "Too few operations are known, or the program launches the steps faster than the GPU runs them."
)
_HIDDEN = ("known_pct", "flops", "bytes", "matrix_flops")


def _rates() -> tuple[Column, ...]:
    """Columns that every table of this kind has."""
    *rates, bound, ideal, left, peak = rate_columns("t", _COSTS_UNKNOWN)
    known = (
        real("known_pct?", "Share of the GPU time with known costs."),
        summed("flops?", "Floating point operations."),
        summed("bytes?", "Data to move."),
    )
    return (
        summed("gpu_time_ns", "Time in which its GPU work ran.", "t.gpu_time_sum"),
        *(replace(column, when_null=_COSTS_UNKNOWN) for column in known),
        *(*rates, ideal, left, peak, bound),
        summed("matrix_flops?", "Operations of matrix products."),
    )


_NUM_CALLS = summed("num_calls", "Executions with work on a GPU.")
_GROUPED: dict[str, Any] = {
    "default_ordering": ("-left_time_ns",),
    "hidden": ("num_ops", *_HIDDEN),
}

OP_EFFICIENCY = TableSpec(
    name="op-efficiency",
    title=say("Efficiency of ops"),
    source=Source(view="view_op_efficiency"),
    columns=(
        *NAMES,
        _NUM_CALLS,
        *_rates(),
        real("flops_peak_pct?", "Share of the peak rate of operations."),
        real("bandwidth_peak_pct?", "Share of the peak bandwidth."),
        choice(
            "precision?",
            "Precision of its matrix products.",
            when_null="It has no matrix products.",
        ),
        sentence("unknown_reason?", "Why something is unknown."),
        sentence("peak_reason?", "Why it is above 100 % of the peak."),
        *called_from("t"),
    ),
    default_ordering=("-left_time_ns",),
    key=("op_id",),
    lead=("op_name", "direction", *_LEAD, "gbytes_per_second", "arithmetic_intensity", "bound"),
    hidden=(
        "op_id",
        "flops_peak_pct",
        "bandwidth_peak_pct",
        "source_line",
        "stack_trace",
        *_HIDDEN,
    ),
)

OP_TYPE_EFFICIENCY = TableSpec(
    name="op-type-efficiency",
    title=say("Efficiency of op types"),
    source=Source(view="view_op_type_efficiency", is_summed=True),
    columns=(
        identifier("op_type", "Kind of op (conv2d).", "t.op_node_type"),
        number("num_ops", "Number of different ops of this type.", "t.num_nodes"),
        _NUM_CALLS,
        *_rates(),
    ),
    key=("op_type",),
    lead=("op_type", *_LEAD),
    **_GROUPED,
)

GROUP_EFFICIENCY = TableSpec(
    name="group-efficiency",
    title=say("Efficiency of groups"),
    source=Source(view="view_group_efficiency", is_summed=True),
    columns=(
        identifier("group_name", "Path of the group."),
        number("num_ops", "Number of ops below.", "t.num_nodes"),
        _NUM_CALLS,
        *_rates(),
    ),
    key=("group_name",),
    lead=("group_name", *_LEAD),
    **_GROUPED,
)

ITERATION_EFFICIENCY = TableSpec(
    name="iteration-efficiency",
    title=say("Efficiency of iterations"),
    source=Source(view="view_iteration_efficiency"),
    columns=(
        number("iteration_index", "Index of the iteration.", "t.iter_value"),
        number("duration_ns", "Length of the iteration.", "t.duration"),
        *(replace(column, is_sum=False) for column in _rates()),
        real(
            "tflops_per_second_per_gpu?",
            "TFLOP/s of matrix products per GPU, over the length of the iteration.",
            when_null=_UNKNOWN_UTILIZATION,
        ),
        real(
            "mfu_pct?",
            "Operations of matrix products at their peak rate, over the length of the iteration.",
            "t.mfu",
            when_null=_UNKNOWN_UTILIZATION,
        ),
        real(
            "mfu_at_least_pct?",
            "What the utilization is at least.",
            "t.mfu_at_least",
            when_null=_UNKNOWN_UTILIZATION,
        ),
        real(
            "hfu_pct?",
            "The same with the operations of recomputed checkpoints.",
            "t.hfu",
            when_null=_UNKNOWN_UTILIZATION,
        ),
    ),
    default_ordering=("iteration_index",),
    key=("iteration_index",),
    lead=("iteration_index", "mfu_pct", "duration_ns", *_LEAD),
    hidden=("tflops_per_second_per_gpu", "mfu_at_least_pct", "hfu_pct", *_HIDDEN),
)

OP_UNITS = TableSpec(
    name="op-units",
    title=say("What the op was counted by"),
    source=Source(
        view="view_op_units",
        where="t.aggr_id = :aggr_id AND t.domain_name = :domain AND t.op_node_id = :op_id",
    ),
    columns=(
        text("unit_name", "Operator, or kind of copy."),
        text("input_shapes", "Sizes of the arguments; empty: not recorded."),
        text("output_shape", "Sizes of the output, where found elsewhere."),
        number("num_calls", "Calls in the aggregated iterations.", "t.calls"),
        number("flops_per_call?", "Operations."),
        number("bytes_per_call?", "Data to move."),
        choice("precision", "Precision that limits it; empty: unknown."),
        sentence("unknown_reason?", "Why something is unknown."),
        number("unit_id", "Number of the unit in the database.", "t.row_id"),
    ),
    default_ordering=("-flops_per_call",),
    key=("unit_id",),
)

PEAK_RATES = TableSpec(
    name="peak-rates",
    title=say("Peak rates of the GPU"),
    source=Source(view="view_peak_rates", where="t.aggr_id = :aggr_id"),
    columns=(
        identifier("rate_name", "Precision, bandwidth, or link to the host."),
        real("rate?", "TFLOP/s (TOP/s), or GB/s; null: unknown."),
        text("gpu_name", "GPU that has these rates; empty: not in the built-in table."),
        number("is_given", "1: set by the user."),
    ),
    default_ordering=("rate_name",),
    key=("rate_name",),
)

_UTILIZATIONS = {
    *("mfu_pct", "mfu_at_least_pct", "hfu_pct", "tflops_per_second_per_gpu"),
    *("median_step_mfu_pct", "median_step_mfu_at_least_pct", "median_step_hfu_pct"),
}

EFFICIENCY = ObjectSpec(
    "efficiency",
    "Efficiency",
    tuple(
        replace(field, when_null=_UNKNOWN_UTILIZATION) if field.name in _UTILIZATIONS else field
        for field in fields_of(
            "view_model_efficiency",
            {
                "mfu_pct=mfu%": (
                    "Model FLOPs utilization; null if products in over 20 % of GPU time are "
                    "unknown, or the program launches the steps faster than the GPU runs them."
                ),
                "mfu_at_least_pct=mfu_at_least%": "What it is at least.",
                "hfu_pct=hfu%": "Hardware FLOPs utilization: with recomputed checkpoints.",
                "median_step_mfu_at_least_pct=median_step_mfu_at_least%": (
                    "What the median step's MFU is at least."
                ),
                "median_step_hfu_pct=median_step_hfu%": "Hardware FLOPs utilization, median step.",
                "median_step_mfu_pct=median_step_mfu%": (
                    "Median over the iterations, without start-up and end."
                ),
                "model_flops": "Known operations of matrix products, without recomputed ones.",
                "hardware_flops": "Known operations of matrix products, with recomputed ones.",
                "used_gpu_count": "GPUs that ran kernels.",
                "wall_clock_time_ns=wall_time": "Sum of the iterations.",
                "tflops_per_second_per_gpu%": "TFLOP/s of matrix products per GPU, over wall time.",
                "gpu_time_ns=gpu_time_sum": "Sum of the ops' GPU time.",
                "known_pct%": "Of it, with known costs.",
                "flops": "Floating point operations.",
                "matrix_flops": "Those of matrix products.",
                "bytes": "Data to move.",
                "tflops_per_second%": "TFLOP/s over GPU time.",
                "gbytes_per_second%": "GB/s over GPU time.",
                "ideal_time_ns=ideal_time": "Time at the GPU's peaks.",
                "left_time_ns=left_time": "GPU time beyond the ideal time.",
                "compute_time_ns=compute_time": "Ideal time that operations bound.",
                "memory_time_ns=memory_time": "Ideal time that memory bounds.",
                "link_time_ns=link_time": "Ideal time that the bus bounds.",
                "peak_pct%": "Ideal time over GPU time.",
            },
        )
    ),
)
