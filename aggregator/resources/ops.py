"""Tables of ops: one row per op node, per op type, per group of ops."""

from __future__ import annotations

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
    text,
)
from aggregator.texts import say

_ALL_OPS_GPU_TIME = (
    "(SELECT SUM(gpu_time) FROM view_op_nodes WHERE aggr_id = :aggr_id AND domain_name = :domain)"
)

#: How many ops the dashboard lists.
TOP_OPS = 10

OP_ID = "Name of the op node, unique in the aggregation (CONV2D_1); what key_node accepts."
STACK_TRACE = "Source lines that called the op, outermost first, one per line."


def called_from(alias: str, *, nullable: bool = False) -> tuple[Column, ...]:
    """The program's line that called an op, and the whole stack."""
    trace = f"{alias}.stack_trace"
    return (
        text(
            "source_line",
            f"program_line({trace})",
            "The program's own line in the stack: the innermost outside PyTorch and Python.",
            nullable=True,
        ),
        text("stack_trace", trace, STACK_TRACE, nullable=nullable),
    )


_OP_COLUMNS: tuple[Column, ...] = (
    identifier("op_id", "t.op_node_id", OP_ID),
    text("op_name", "t.op_node_name", "Path of the op in the model."),
    choice("direction", "t.direction", "fprop or bprop; empty: work outside every op."),
    choice("op_type", "t.op_node_type", "Kind of op (conv2d)."),
    number("gpu_time_ns", "t.gpu_time", "Time in which the op's device work ran, overlap once."),
    number("cpu_time_ns", "t.cpu_time", "Length of the op's ranges on the CPU."),
    number("num_calls", "t.num_calls", "Executions of the op in the aggregated iterations."),
    boolean("tc_eligible", "t.tc_eligible", "Whether the op could use Tensor Cores."),
    boolean("using_tc", "t.using_tc", "Whether a kernel of the op used Tensor Cores."),
    number("kernel_calls", "t.kernel_calls", "Kernels launched."),
    boolean("is_bad_data_type", "t.is_bad_data_type", "Eligible, but in a type without them."),
    choice("data_type", "t.data_type", "Data types of the inputs."),
    *called_from("t"),
    real(
        "share_pct",
        f"100.0 * t.gpu_time / NULLIF({_ALL_OPS_GPU_TIME}, 0)",
        "Share of the GPU time of all ops of the domain.",
        nullable=True,
    ),
    real("tflops_per_second", "m.tflops_per_second", "TFLOP/s achieved.", nullable=True),
    real("gbytes_per_second", "m.gbytes_per_second", "GB/s achieved.", nullable=True),
    real("arithmetic_intensity", "m.arithmetic_intensity", "Operations per byte.", nullable=True),
    choice("bound", "m.bound", "compute, memory or link.", nullable=True),
    number("ideal_time_ns", "m.ideal_time", "Time at the GPU's peaks.", nullable=True),
    number("left_time_ns", "m.left_time", "What is left to win.", nullable=True),
    real("peak_pct", "m.peak_pct", "Ideal time over GPU time.", nullable=True),
)

_METRICS = Join(
    "view_op_metrics",
    "m",
    # By the row id that both views number the same rows with: an op's id would have to be searched.
    "m.row_id = t.row_id",
    has_all=True,
)

OPS = TableSpec(
    name="ops",
    title=say("Ops"),
    source=Source(view="view_op_nodes", joins=(_METRICS,)),
    columns=_OP_COLUMNS,
    default_ordering=("-gpu_time_ns",),
    key=("op_id",),
)


def _statistics(stem: str, alias: str, what: str, *, nullable: bool = False) -> tuple[Column, ...]:
    """Sum, mean, least and greatest of a time, under DLProf's column names."""
    view_stem = f"{alias}.{stem}"
    return (
        number(f"{stem}_ns", f"{view_stem}_sum", f"{what}, summed.", nullable=nullable),
        real(f"{stem}_avg_ns", f"{view_stem}_avg", f"{what}, mean of a call.", nullable=nullable),
        number(
            f"{stem}_min_ns", f"{view_stem}_min", f"{what}, least of a call.", nullable=nullable
        ),
        number(f"{stem}_max_ns", f"{view_stem}_max", f"{what}, most of a call.", nullable=nullable),
    )


def _time16(alias: str, *, nullable: bool = False) -> tuple[Column, ...]:
    return (
        *_statistics("cpu_time", alias, "Length on the CPU", nullable=nullable),
        *_statistics("gpu_time", alias, "Time with device work running", nullable=nullable),
        *_statistics("cpu_overhead", alias, "CPU time outside CUDA calls", nullable=nullable),
        *_statistics("gpu_idle", alias, "Gaps between the device work", nullable=nullable),
    )


_LISTED = {column.name for column in _OP_COLUMNS}

#: One op with everything that is known of it; never listed.
OP_DETAIL = TableSpec(
    name="op",
    title=say("Op"),
    source=Source(
        view="view_op_nodes",
        joins=(_METRICS,),
        where="t.aggr_id = :aggr_id AND t.domain_name = :domain AND t.op_node_id = :op_id",
    ),
    columns=(
        *_OP_COLUMNS,
        *(column for column in _time16("m", nullable=True) if column.name not in _LISTED),
    ),
    default_ordering=(),
    key=("op_id",),
)

OP_TYPES = TableSpec(
    name="op-types",
    title=say("Op types"),
    source=Source(view="view_op_type_summary"),
    columns=(
        identifier("op_type", "t.op_node_type", "Kind of op (conv2d)."),
        number("num_ops", "t.num_nodes", "Op nodes of the type."),
        number("num_calls", "t.num_calls", "Executions of all of them."),
        *_time16("t"),
    ),
    default_ordering=("-gpu_time_ns",),
    key=("op_type",),
)

GROUP_OPS = TableSpec(
    name="group-ops",
    title=say("Group ops"),
    source=Source(view="view_group_ops"),
    columns=(
        identifier("id", "t.row_full_id", "Path of a group, or the op_id of a leaf."),
        text("name", "t.row_full_name", "Full path."),
        text("trimmed_name", "t.row_trimmed_name", "Last part of the path."),
        choice(
            "kind",
            "CASE t.row_type WHEN 1 THEN 'group' WHEN 2 THEN 'op' END",
            "group, or op for a leaf.",
        ),
        number("level", "t.level", "Depth of the path, 1 for the root."),
        number("num_op_instances", "t.num_op_instances", "Executions of the ops below."),
        number("num_tc_eligible_ops", "t.num_supported_leaf_ops", "Eligible ops below."),
        number("num_ops_using_tc", "t.num_tc_leaf_ops", "Ops below that used Tensor Cores."),
        number("cpu_time_ns", "t.cpu_time_sum", "Sum of the ops' CPU time."),
        number("gpu_time_ns", "t.gpu_time_sum", "Sum of the ops' GPU time."),
        number("cpu_overhead_ns", "t.cpu_overhead_sum", "Sum of the ops' CPU overhead."),
        number("gpu_idle_ns", "t.gpu_idle_sum", "Sum of the ops' GPU idle time."),
    ),
    default_ordering=("name",),
    key=("name", "id"),
)

ITERATION_OPS = TableSpec(
    name="iteration-ops",
    title=say("Ops in the iteration"),
    source=Source(
        view="view_iteration_ops",
        where="t.aggr_id = :aggr_id AND t.domain_name = :domain AND t.iter_value = :iteration",
    ),
    columns=(
        identifier("op_id", "t.op_node_id", OP_ID),
        text("op_name", "t.op_node_name", "Path of the op in the model."),
        choice("direction", "t.direction", "fprop or bprop; empty: work outside every op."),
        choice("op_type", "t.op_node_type", "Kind of op."),
        number(
            "op_start_ns",
            "t.op_start",
            "Start of its first call in the iteration, in profile time; null: it began earlier.",
            nullable=True,
        ),
        number("total_kernel_count", "t.total_count", "Kernels launched in the iteration."),
        number("tc_kernel_count", "t.tc_count", "Those that used Tensor Cores."),
        number("gpu_time_ns", "t.total_gpu_time", "Sum of the kernels' durations."),
        number("tc_gpu_time_ns", "t.tc_gpu_time", "Of those that used Tensor Cores."),
        choice("data_type", "t.data_type", "Data types of the inputs."),
        *called_from("t"),
    ),
    default_ordering=("-gpu_time_ns",),
    key=("op_id", "op_name", "direction"),
)
