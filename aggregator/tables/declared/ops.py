"""Tables of ops: one row per op node, per op type, per group of ops."""

from __future__ import annotations

from dataclasses import replace

from aggregator.tables.spec import (
    Column,
    Join,
    Source,
    TableSpec,
    boolean,
    choice,
    identifier,
    number,
    real,
    summed,
    text,
)
from aggregator.texts import say

_ALL_OPS_GPU_TIME = (
    "(SELECT SUM(gpu_time) FROM view_op_nodes WHERE aggr_id = :aggr_id AND domain_name = :domain)"
)

_WHOLE_PATH = "(SELECT SUM(path_ns) FROM view_critical_path WHERE aggr_id = :aggr_id)"
_NO_MEMORY = "GPU memory was not recorded."
_NOT_REPLAYED = "Its work was not replayed."

TOP_OPS = 10  # How many ops the dashboard lists.

OP_ID = "Name of the op node, unique in the aggregation (CONV2D_1); what key_node accepts."
STACK_TRACE = "Source lines that called the op, outermost first, one per line."


def called_from(alias: str) -> tuple[Column, ...]:
    """The program's line that called an op, and the whole stack."""
    trace = f"{alias}.stack_trace"
    return (
        text(
            "source_line?",
            "The program's own line in the stack: the innermost outside PyTorch and Python.",
            f"program_line({trace})",
        ),
        text("stack_trace", STACK_TRACE, trace),
    )


#: What every table with a row for each op begins with.
NAMES: tuple[Column, ...] = (
    identifier("op_id", OP_ID, "t.op_node_id"),
    text("op_name", "Path of the op in the model.", "t.op_node_name"),
    choice("direction", "fprop, bprop or recompute; empty: work outside every op."),
    choice("op_type", "Kind of op (conv2d).", "t.op_node_type"),
)


#: How it is known that the work of an op belongs to it.
EVIDENCE: tuple[Column, ...] = (
    choice(
        "name_grade?",
        "How it is known that the GPU's work belongs to the op: recorded, provenance (by the "
        "compiler), capture (of a CUDA graph) or unknown.",
        title="Name evidence",
    ),
    text(
        "name_reason?",
        "What the evidence is, or why the op is unknown.",
        title="Name evidence, why",
    ),
    text(
        "shared_modules?",
        "Modules that a kernel of compiled code computes for, if they are several; empty: one.",
    ),
)


def rate_columns(alias: str, when_null: str = "") -> tuple[Column, ...]:
    """Rates, and the distance to the peak rates of the GPU."""
    columns = (
        real("tflops_per_second?", "Operations per GPU time."),
        real("gbytes_per_second?", "Bytes to move per GPU time."),
        real("arithmetic_intensity?", "Operations per byte to move."),
        choice(
            "bound?",
            "What limits it: compute, memory or link.",
            "iif(t.ideal_time IS NULL, NULL, t.bound)",
        ),
        summed(
            "ideal_time_ns?",
            "Per call the longer of: operations at the peak rate, bytes at the peak bandwidth.",
            "t.ideal_time",
        ),
        summed("left_time_ns?", "GPU time beyond the ideal time.", "t.left_time"),
        real("peak_pct?", "Ideal time over GPU time: 100 % is the roofline."),
    )
    return tuple(
        replace(column, sql=column.sql.replace("t.", f"{alias}."), when_null=when_null)
        for column in columns
    )


_TENSOR_CORES = (
    boolean(
        "tc_eligible?",
        "Whether the op could use Tensor Cores.",
        when_null="Unknown: the profile names no ops.",
    ),
    boolean(
        "using_tc?",
        "Whether one of its kernels used Tensor Cores.",
        when_null="Unknown: the kernels of its CUDA graphs were not recorded.",
    ),
    summed("kernel_calls", "Number of kernel launches."),
)
_GPU_SHARE = real(
    "share_pct?",
    "Share of the GPU time of all ops.",
    f"100.0 * t.gpu_time / NULLIF({_ALL_OPS_GPU_TIME}, 0)",
    title="GPU share (%)",
)

_OP_COLUMNS: tuple[Column, ...] = (
    *NAMES,
    summed(
        "gpu_time_ns",
        "Time in which the GPU worked for the op, summed over its calls; overlap counts once.",
        "t.gpu_time",
    ),
    summed("cpu_time_ns", "Time that the calls of the op took on the CPU.", "t.cpu_time"),
    summed("num_calls", "Executions in the aggregated iterations."),
    *_TENSOR_CORES,
    boolean("is_bad_data_type", "Could use Tensor Cores, but runs in a data type that has none."),
    choice("data_type", "Data types of the inputs."),
    number("rank?", "Rank that ran it.", when_null="Its process is not one of several ranks."),
    *EVIDENCE,
    *called_from("t"),
    _GPU_SHARE,
    *rate_columns("m"),
    number(
        "peak_bytes?",
        "GPU memory that it allocated and that is held at the peak.",
        title="Memory at the peak (GB)",
        when_null=_NO_MEMORY,
    ),
    real(
        "path_pct?",
        "Share of the critical path of the steps that its work on the GPU fills.",
        f"100.0 * s.path_ns / NULLIF({_WHOLE_PATH}, 0)",
        title="Critical path (%)",
        when_null=_NOT_REPLAYED,
    ),
    number(
        "slack_ns?",
        "How much later its work may end without delaying a step.",
        "s.slack_ns",
        title="Slack",
        when_null="Any time, or it was not replayed.",
    ),
)

#: What the page shows of an op beside its name, and what the reader has to choose.
_SHOWN = ("gpu_time_ns", "share_pct", "direction", "num_calls", "using_tc", "op_type")
_ON_DEMAND = ("cpu_time_ns", "tc_eligible", "kernel_calls", "data_type", "stack_trace")

_METRICS = Join(
    "view_op_metrics",
    "m",
    # By the row id that both views number the same rows with: an op's id would have to be searched.
    "m.row_id = t.row_id",
    has_all=True,
)

_REPLAYED = Join(
    "view_op_sensitivity",
    "s",
    "s.op_id = t.op_node_id AND s.direction = t.direction",
    is_copied=True,
)

OPS = TableSpec(
    name="ops",
    title=say("Ops"),
    source=Source(view="view_op_nodes", joins=(_METRICS, _REPLAYED)),
    columns=_OP_COLUMNS,
    default_ordering=("-gpu_time_ns",),
    key=("op_id",),
    lead=("op_name", *_SHOWN, "rank"),
    hidden=(
        *("op_id", "source_line", "is_bad_data_type", "tflops_per_second", "gbytes_per_second"),
        *("arithmetic_intensity", "bound", "ideal_time_ns", "left_time_ns", "peak_pct"),
        *("name_grade", "name_reason", "shared_modules", "peak_bytes", "path_pct", "slack_ns"),
        *_ON_DEMAND,
    ),
)


MERGED_OPS = TableSpec(
    name="merged-ops",
    title=say("Ops, ranks merged"),
    source=Source(view="view_merged_ops", is_summed=True),
    columns=(
        text("op_name", "Path of the op in the model, without the rank.", "t.op_node_name"),
        *NAMES[2:],
        text("ranks?", "Ranks that ran it, separated by commas.", title="Rank"),
        number("num_ranks", "Number of ranks that ran it.", title="Ranks"),
        summed("gpu_time_ns", "GPU time of all its ranks together.", "t.gpu_time"),
        _GPU_SHARE,
        number("slowest_rank?", "Rank on which it took the most GPU time."),
        summed("slowest_gpu_time_ns", "GPU time on that rank.", "t.slowest_gpu_time"),
        real(
            "imbalance_pct?",
            "GPU time on the slowest rank beyond the mean of the ranks.",
            "t.imbalance",
            when_null="It has no GPU time.",
        ),
        summed("cpu_time_ns", "Time of the calls of all its ranks on the CPU.", "t.cpu_time"),
        summed("num_calls", "Executions on all its ranks, in the aggregated iterations."),
        *_TENSOR_CORES,
        choice("data_type", "Data types of the inputs."),
        identifier("op_id", "Name of the op on the slowest rank.", "t.op_node_id"),
        *called_from("t"),
    ),
    default_ordering=("-gpu_time_ns",),
    key=("op_name", "direction", "op_type", "op_id"),
    lead=("op_name", *_SHOWN, "ranks", "slowest_rank", "imbalance_pct"),
    hidden=("num_ranks", "op_id", "source_line", "slowest_gpu_time_ns", *_ON_DEMAND),
)


def _statistics(stem: str, alias: str, what: str) -> tuple[Column, ...]:
    """Sum, mean, least and greatest of a time, under DLProf's column names."""
    view_stem = f"{alias}.{stem}"
    return (
        summed(f"{stem}_ns", f"{what}; sum.", f"{view_stem}_sum"),
        real(f"{stem}_avg_ns", f"{what}; mean of a call.", f"{view_stem}_avg"),
        number(f"{stem}_min_ns", f"{what}; least of a call.", f"{view_stem}_min"),
        number(f"{stem}_max_ns", f"{what}; most of a call.", f"{view_stem}_max"),
    )


def time_columns(alias: str) -> tuple[Column, ...]:
    """Return the sixteen columns of the times of ops, op types and groups."""
    return (
        *_statistics("cpu_time", alias, "Time of the calls on the CPU, including what they called"),
        *_statistics("gpu_time", alias, "Time in which the GPU worked for the op"),
        *_statistics("cpu_overhead", alias, "CPU time outside CUDA calls"),
        *_statistics("gpu_idle", alias, "Gaps between the GPU work of a call"),
    )


_LISTED = {column.name for column in _OP_COLUMNS}

#: One op with everything that is known of it; never listed.
OP_DETAIL = TableSpec(
    name="op",
    title=say("Op"),
    source=Source(
        view="view_op_nodes",
        joins=(_METRICS, _REPLAYED),
        where="t.aggr_id = :aggr_id AND t.domain_name = :domain AND t.op_node_id = :op_id",
    ),
    columns=(
        *_OP_COLUMNS,
        *(replace(time, nullable=True) for time in time_columns("m") if time.name not in _LISTED),
    ),
    default_ordering=(),
    key=("op_id",),
)

OP_TYPES = TableSpec(
    name="op-types",
    title=say("Op types"),
    source=Source(view="view_op_type_summary", is_summed=True),
    columns=(
        identifier("op_type", "Kind of op (conv2d).", "t.op_node_type"),
        number("num_ops", "Number of different ops of this type.", "t.num_nodes"),
        summed("num_calls", "Executions in the aggregated iterations."),
        *time_columns("t"),
    ),
    default_ordering=("-gpu_time_ns",),
    key=("op_type",),
    lead=("op_type", "gpu_time_ns", "num_ops", "num_calls", "gpu_time_avg_ns", "gpu_time_min_ns"),
    hidden=tuple(
        f"{stem}_{part}_ns"
        for stem in ("cpu_overhead", "gpu_idle")
        for part in ("avg", "min", "max")
    ),
)

GROUP_OPS = TableSpec(
    name="group-ops",
    title=say("Group ops"),
    source=Source(view="view_group_ops"),
    columns=(
        identifier("id", "Path of a group, or the op_id of an op.", "t.row_full_id"),
        text("name", "Full path.", "t.row_full_name"),
        text("trimmed_name", "Last part of the path.", "t.row_trimmed_name"),
        choice("kind", "group or op.", "CASE t.row_type WHEN 1 THEN 'group' WHEN 2 THEN 'op' END"),
        number("level", "Depth of the path; 1: the root."),
        summed("num_op_instances", "Executions of the ops below."),
        number(
            "num_tc_eligible_ops?",
            "Ops below that could use Tensor Cores.",
            "t.num_supported_leaf_ops",
            when_null="Unknown: the profile names no ops.",
        ),
        number("num_ops_using_tc", "Ops below that used Tensor Cores.", "t.num_tc_leaf_ops"),
        summed("cpu_time_ns", "CPU time of all ops below.", "t.cpu_time_sum"),
        summed("gpu_time_ns", "GPU time of all ops below.", "t.gpu_time_sum"),
        summed("cpu_overhead_ns", "CPU time outside CUDA calls.", "t.cpu_overhead_sum"),
        summed(
            "gpu_idle_ns",
            "Gaps between the GPU work of a call; those of a call within another count twice.",
            "t.gpu_idle_sum",
        ),
        choice(
            "direction?",
            "fprop, bprop or recompute; empty: work outside every op.",
            "t.op_direction",
            when_null="Groups have none.",
        ),
        number(
            "rank?",
            "Rank that ran the op.",
            "t.op_rank",
            when_null="A group, or a run of one process.",
        ),
        number(
            "peak_bytes?",
            "GPU memory of its ops and of the tensors of its modules at the peak.",
            title="Memory at the peak (GB)",
            when_null=_NO_MEMORY,
        ),
    ),
    default_ordering=("name",),
    key=("name", "id"),
    lead=("name", "kind", "level", "gpu_time_ns", "cpu_time_ns", "cpu_overhead_ns", "gpu_idle_ns"),
    hidden=("id", "trimmed_name", "rank", "cpu_overhead_ns", "gpu_idle_ns"),
)

ITERATION_OPS = TableSpec(
    name="iteration-ops",
    title=say("Ops in the iteration"),
    source=Source(
        view="view_iteration_ops",
        where="t.aggr_id = :aggr_id AND t.domain_name = :domain AND t.iter_value = :iteration",
    ),
    columns=(
        *NAMES,
        number(
            "op_start_ns?",
            "Start of its first call in the iteration, from the start of the profile.",
            "t.op_start",
            when_null="Its call began in an earlier iteration.",
        ),
        number("total_kernel_count", "Number of kernel launches.", "t.total_count"),
        number("tc_kernel_count", "Kernels that used Tensor Cores.", "t.tc_count"),
        number(
            "gpu_time_ns", "Sum of the durations of its kernels.", "t.total_gpu_time", unit="µs"
        ),
        number(
            "tc_gpu_time_ns",
            "Sum of the durations of its Tensor Core kernels.",
            "t.tc_gpu_time",
            unit="µs",
        ),
        choice("data_type", "Data types of the inputs."),
        *called_from("t"),
    ),
    default_ordering=("-gpu_time_ns",),
    key=("op_id", "op_name", "direction"),
    lead=("op_name",),
    hidden=("op_id", "source_line"),
)
