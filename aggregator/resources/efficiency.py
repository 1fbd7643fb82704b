"""What ops should cost beside what they took: tables, the whole, and the GPU's peaks."""

from __future__ import annotations

from aggregator.query.spec import (
    Column,
    Field,
    ObjectSpec,
    Source,
    TableSpec,
    choice,
    identifier,
    number,
    real,
    sentence,
    text,
)
from aggregator.resources.ops import called_from
from aggregator.texts import say

_VIEW = "view_model_efficiency"


def _rates() -> tuple[Column, ...]:
    """Columns that every table of this kind has."""
    return (
        number("gpu_time_ns", "t.gpu_time_sum", "Time in which the device work ran."),
        real("known_pct", "t.known_pct", "Of it, with known costs.", nullable=True),
        number("flops", "t.flops", "Floating point operations.", nullable=True),
        number("bytes", "t.bytes", "Data to move.", nullable=True),
        real("tflops_per_second", "t.tflops_per_second", "TFLOP/s achieved.", nullable=True),
        real("gbytes_per_second", "t.gbytes_per_second", "GB/s achieved.", nullable=True),
        real(
            "arithmetic_intensity", "t.arithmetic_intensity", "Operations per byte.", nullable=True
        ),
        number("ideal_time_ns", "t.ideal_time", "Time at the GPU's peaks.", nullable=True),
        number("left_time_ns", "t.left_time", "What is left to win.", nullable=True),
        real("peak_pct", "t.peak_pct", "Ideal time over GPU time.", nullable=True),
        choice("bound", "t.bound", "compute, memory or link.", nullable=True),
    )


OP_EFFICIENCY = TableSpec(
    name="op-efficiency",
    title=say("Efficiency of ops"),
    source=Source(view="view_op_efficiency"),
    columns=(
        identifier("op_id", "t.op_node_id", "Name of the op node."),
        text("op_name", "t.op_node_name", "Path of the op in the model."),
        choice("direction", "t.direction", "fprop or bprop; empty: work outside every op."),
        choice("op_type", "t.op_node_type", "Kind of op."),
        number("num_calls", "t.num_calls", "Executions with work on a GPU."),
        *_rates(),
        number("matrix_flops", "t.matrix_flops", "Those of matrix products.", nullable=True),
        real("flops_peak_pct", "t.flops_peak_pct", "Share of the peak rate.", nullable=True),
        real(
            "bandwidth_peak_pct",
            "t.bandwidth_peak_pct",
            "Share of the peak bandwidth.",
            nullable=True,
        ),
        choice("precision", "t.precision", "Of its matrix products.", nullable=True),
        sentence("unknown_reason", "t.unknown_reason", "Why something is unknown."),
        sentence("peak_reason", "t.peak_reason", "Why it is above 100 % of the peak."),
        *called_from("t"),
    ),
    default_ordering=("-left_time_ns",),
    key=("op_id",),
)

OP_TYPE_EFFICIENCY = TableSpec(
    name="op-type-efficiency",
    title=say("Efficiency of op types"),
    source=Source(view="view_op_type_efficiency"),
    columns=(
        identifier("op_type", "t.op_node_type", "Kind of op."),
        number("num_ops", "t.num_nodes", "Op nodes of the type."),
        number("num_calls", "t.num_calls", "Executions with work on a GPU."),
        *_rates(),
        number("matrix_flops", "t.matrix_flops", "Those of matrix products.", nullable=True),
    ),
    default_ordering=("-left_time_ns",),
    key=("op_type",),
)

GROUP_EFFICIENCY = TableSpec(
    name="group-efficiency",
    title=say("Efficiency of groups"),
    source=Source(view="view_group_efficiency"),
    columns=(
        identifier("group_name", "t.group_name", "Path of the group."),
        number("num_ops", "t.num_nodes", "Op nodes below."),
        number("num_calls", "t.num_calls", "Executions with work on a GPU."),
        *_rates(),
        number("matrix_flops", "t.matrix_flops", "Those of matrix products.", nullable=True),
    ),
    default_ordering=("-left_time_ns",),
    key=("group_name",),
)

ITERATION_EFFICIENCY = TableSpec(
    name="iteration-efficiency",
    title=say("Efficiency of iterations"),
    source=Source(view="view_iteration_efficiency"),
    columns=(
        number("iteration_index", "t.iter_value", "Number of the iteration."),
        number("duration_ns", "t.duration", "Length of the iteration."),
        *_rates(),
        number("matrix_flops", "t.matrix_flops", "Those of matrix products.", nullable=True),
        real(
            "tflops_per_second_per_gpu",
            "t.tflops_per_second_per_gpu",
            "TFLOP/s of matrix products per GPU, over the iteration's length.",
            nullable=True,
        ),
        real("mfu_pct", "t.mfu", "Model FLOPs utilisation.", nullable=True),
    ),
    default_ordering=("iteration_index",),
    key=("iteration_index",),
)

OP_UNITS = TableSpec(
    name="op-units",
    title=say("What the op was counted by"),
    source=Source(
        view="view_op_units",
        where="t.aggr_id = :aggr_id AND t.domain_name = :domain AND t.op_node_id = :op_id",
    ),
    columns=(
        text("unit_name", "t.unit_name", "Operator, or kind of copy."),
        text("input_shapes", "t.input_shapes", "Sizes of the arguments; empty: not recorded."),
        text("output_shape", "t.output_shape", "Sizes of the output, where found elsewhere."),
        number("num_calls", "t.calls", "Calls in the aggregated iterations."),
        number("flops_per_call", "t.flops_per_call", "Operations.", nullable=True),
        number("bytes_per_call", "t.bytes_per_call", "Data to move.", nullable=True),
        choice("precision", "t.precision", "What bounds it; empty: unknown."),
        sentence("unknown_reason", "t.unknown_reason", "Why something is unknown."),
        number("unit_id", "t.row_id", "Number of the unit in the database."),
    ),
    default_ordering=("-flops_per_call",),
    key=("unit_id",),
)

PEAK_RATES = TableSpec(
    name="peak-rates",
    title=say("Peak rates of the GPU"),
    source=Source(view="view_peak_rates", where="t.aggr_id = :aggr_id"),
    columns=(
        identifier("rate_name", "t.rate_name", "Precision, bandwidth, or link to the host."),
        real("rate", "t.rate", "TFLOP/s (TOP/s), or GB/s; null: unknown.", nullable=True),
        text("gpu_name", "t.gpu_name", "GPU whose rates they are; empty: not in the table."),
        number("is_given", "t.is_given", "1: the user gave it."),
    ),
    default_ordering=("rate_name",),
    key=("rate_name",),
)

EFFICIENCY = ObjectSpec(
    "efficiency",
    "Efficiency",
    (
        Field("mfu_pct", _VIEW, "mfu", "Model FLOPs utilisation.", "number"),
        Field(
            "median_step_mfu_pct",
            _VIEW,
            "median_step_mfu",
            "Median over the iterations, without start-up and end.",
            "number",
        ),
        Field("model_flops", _VIEW, "model_flops", "Operations of matrix products."),
        Field("used_gpu_count", _VIEW, "used_gpu_count", "GPUs that ran kernels."),
        Field("wall_clock_time_ns", _VIEW, "wall_time", "Sum of the iterations."),
        Field(
            "tflops_per_second_per_gpu",
            _VIEW,
            "tflops_per_second_per_gpu",
            "TFLOP/s of matrix products per GPU, over wall time.",
            "number",
        ),
        Field("gpu_time_ns", _VIEW, "gpu_time_sum", "Sum of the ops' GPU time."),
        Field("known_pct", _VIEW, "known_pct", "Of it, with known costs.", "number"),
        Field("flops", _VIEW, "flops", "Floating point operations."),
        Field("matrix_flops", _VIEW, "matrix_flops", "Those of matrix products."),
        Field("bytes", _VIEW, "bytes", "Data to move."),
        Field("tflops_per_second", _VIEW, "tflops_per_second", "TFLOP/s over GPU time.", "number"),
        Field("gbytes_per_second", _VIEW, "gbytes_per_second", "GB/s over GPU time.", "number"),
        Field("ideal_time_ns", _VIEW, "ideal_time", "Time at the GPU's peaks."),
        Field("left_time_ns", _VIEW, "left_time", "What is left to win."),
        Field("compute_time_ns", _VIEW, "compute_time", "Ideal time that operations bound."),
        Field("memory_time_ns", _VIEW, "memory_time", "Ideal time that memory bounds."),
        Field("link_time_ns", _VIEW, "link_time", "Ideal time that the bus bounds."),
        Field("peak_pct", _VIEW, "peak_pct", "Ideal time over GPU time.", "number"),
    ),
)
