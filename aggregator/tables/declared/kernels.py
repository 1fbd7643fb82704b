"""Tables of kernels: summed per op, or launch by launch in one iteration."""

from __future__ import annotations

from dataclasses import replace

from aggregator.tables.declared.ops import MERGED_OPS, OP_ID, OPS, called_from
from aggregator.tables.spec import (
    Column,
    Join,
    KeyView,
    LookupView,
    RowsOfOtherTable,
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

_IN_DOMAIN = "t.aggr_id = :aggr_id AND t.domain_name = :domain"
_OF_OP = f"{_IN_DOMAIN} AND t.op_node_id = :op_id"
_IN_ITERATION = f"{_IN_DOMAIN} AND t.iter_value = :iteration"
_OP_OF_ROW = Join(
    "view_op_nodes",
    "o",
    "o.domain_name = t.domain_name AND o.op_node_id = t.op_node_id",
    is_copied=True,
)


def _share(time: str, view: str, condition: str, of_what: str) -> Column:
    # Inside the sub-query the columns stand without alias: they are the inner view's own.
    inner = condition.replace("t.", "")
    total = f"(SELECT SUM({time}) FROM {view} WHERE {inner})"  # noqa: S608
    return real("share_pct?", f"Share of {of_what}.", f"100.0 * t.{time} / NULLIF({total}, 0)")


def _op_of(alias: str) -> tuple[Column, ...]:
    return (
        identifier("op_id", OP_ID, "t.op_node_id"),
        text("op_name?", "Path of the op that launched it.", f"{alias}.op_node_name"),
        choice(
            "direction?",
            "fprop, bprop or recompute; empty: work outside every op.",
            f"{alias}.direction",
        ),
        *(replace(column, nullable=True) for column in called_from(alias)),
    )


_LONG_NAME = text("kernel_long_name?", "Full name of the kernel.", "t.long_kernel_name")


def _readable(sql: str = "t.readable_name") -> Column:
    """DLProf's databases have the short name only."""
    meaning = "Library, operation, types, tile and layout, from the full name."
    return text("readable_name?", meaning, sql, title="Kernel")


def _kernel(
    readable: str, calls: str, total: str, average: str, least: str, most: str
) -> tuple[Column, ...]:
    return (
        _readable(readable),
        _LONG_NAME,
        text("kernel_name", "Short name of the kernel."),
        boolean("uses_tc?", "Whether it used Tensor Cores.", when_null="Unknown from its name."),
        summed("num_calls", "Number of launches.", calls),
        summed("gpu_time_ns", "Sum of the durations of its launches.", total),
        real("gpu_time_avg_ns", "Mean duration of a launch.", average),
        number("gpu_time_min_ns", "Shortest duration of a launch.", least),
        number("gpu_time_max_ns", "Longest duration of a launch.", most),
    )


_OURS = _kernel(
    *("t.readable_name", "t.calls", "t.gpu_time_sum", "t.gpu_time_avg"),
    *("t.gpu_time_min", "t.gpu_time_max"),
)
_THEIRS = _kernel("t.kernel_name", "t.calls", "t.gpu_time", "t.avg", "t.min", "t.max")
_API_TIME = (
    summed("api_time_ns?", "Sum of the durations of the launching calls.", "t.api_time_sum"),
    real("api_time_avg_ns?", "Mean duration of a launching call.", "t.api_time_avg"),
    number("api_time_min_ns?", "Shortest launching call.", "t.api_time_min"),
    number("api_time_max_ns?", "Longest launching call.", "t.api_time_max"),
)

_SOURCE_OPS = text(
    "source_ops?",
    "Ops that TorchInductor fused into the kernel, from its name.",
    title="Fused ops",
)

_LEAD = ("readable_name", "kernel_name", "gpu_time_ns", "share_pct", "uses_tc", "num_calls")

# The ops of all ranks that a merged row stands for: those of its name without the rank.
_OPS_OF_MERGED = """
    SELECT o.op_node_id FROM view_op_nodes AS o
    WHERE o.aggr_id = :aggr_id AND o.domain_name = :domain
      AND (iif(substr(o.op_node_name, 1, length(o.rank) + 7) = '/rank_' || o.rank || '/',
               substr(o.op_node_name, length(o.rank) + 7), o.op_node_name),
           o.direction, o.op_node_type) IN ({rows})
"""

_OF_OPS = (
    RowsOfOtherTable("of_ops", OPS, "t.op_node_id", columns=("op_id",)),
    RowsOfOtherTable(
        "of_merged_ops",
        MERGED_OPS,
        "t.op_node_id",
        columns=("op_name", "direction", "op_type"),
        values=_OPS_OF_MERGED,
    ),
)

_KERNELS_OF_DLPROF = TableSpec(
    name="kernels",
    title=say("Kernels"),
    source=Source(view="view_kernel_summaries", joins=(_OP_OF_ROW,)),
    columns=(
        *_THEIRS,
        _SOURCE_OPS,
        *_API_TIME,
        _share("gpu_time", "view_kernel_summaries", _IN_DOMAIN, "all kernels' time"),
        *_op_of("o"),
    ),
    default_ordering=("-gpu_time_ns",),
    key=("kernel_name", "op_id", "uses_tc"),
    # Many ops launch the same kernel.
    lead=("readable_name", "kernel_name", "gpu_time_ns", "share_pct", "op_name", *_LEAD[4:]),
    hidden=(
        *(column.name for column in _API_TIME),
        *("kernel_name", "kernel_long_name", "op_id", "stack_trace"),
    ),
    among=_OF_OPS,
)

KERNELS = replace(
    _KERNELS_OF_DLPROF,
    source=Source(view="view_kernels_by_full_name"),
    key=("kernel_long_name", "kernel_name", "op_id", "uses_tc"),
    columns=(
        *_OURS,
        _SOURCE_OPS,
        *_API_TIME,
        _share("gpu_time_sum", "view_kernels_by_full_name", _IN_DOMAIN, "all kernels' time"),
        *_op_of("t"),
    ),
    fallback=_KERNELS_OF_DLPROF,
)


def _merged(readable: str, time: str, least: str, most: str, view: str) -> tuple[Column, ...]:
    calls, total = "sum(t.calls)", f"sum(t.{time})"
    all_kernels = f"(SELECT sum({time}) FROM {view} WHERE {_IN_DOMAIN.replace('t.', '')})"  # noqa: S608
    share = f"100.0 * {total} / NULLIF({all_kernels}, 0)"
    return (
        *_kernel(
            readable,
            calls,
            total,
            f"round(1.0 * {total} / {calls}, 6)",
            f"min(t.{least})",
            f"max(t.{most})",
        ),
        _SOURCE_OPS,
        number("num_ops", "Number of ops that launched it.", "count(DISTINCT t.op_node_id)"),
        summed("api_time_ns?", _API_TIME[0].description, "sum(t.api_time_sum)"),
        real(
            "api_time_avg_ns?",
            _API_TIME[1].description,
            f"round(1.0 * sum(t.api_time_sum) / {calls}, 6)",
        ),
        number("api_time_min_ns?", _API_TIME[2].description, "min(t.api_time_min)"),
        number("api_time_max_ns?", _API_TIME[3].description, "max(t.api_time_max)"),
        real("share_pct?", "Share of all kernels' time.", share),
    )


_MERGED_KERNELS_OF_DLPROF = TableSpec(
    name="merged-kernels",
    title=say("Kernels of all ops"),
    source=Source(view="view_kernel_summaries"),
    columns=_merged("t.kernel_name", "gpu_time", "min", "max", "view_kernel_summaries"),
    default_ordering=("-gpu_time_ns",),
    key=("kernel_name", "uses_tc"),
    grouped_by=("kernel_name", "uses_tc"),
    lead=(*_LEAD, "num_ops"),
    hidden=(*(column.name for column in _API_TIME), "kernel_name", "kernel_long_name"),
    among=_OF_OPS,
)

#: One row for each kernel, however many ops launch it.
MERGED_KERNELS = replace(
    _MERGED_KERNELS_OF_DLPROF,
    source=Source(view="view_kernels_by_full_name"),
    columns=_merged(
        *("t.readable_name", "gpu_time_sum", "gpu_time_min", "gpu_time_max"),
        "view_kernels_by_full_name",
    ),
    key=("kernel_long_name", "kernel_name", "uses_tc"),
    grouped_by=("kernel_long_name", "kernel_name", "uses_tc"),
    fallback=_MERGED_KERNELS_OF_DLPROF,
)

_OP_KERNELS_OF_DLPROF = TableSpec(
    name="op-kernels",
    title=say("Kernels of the op"),
    source=Source(view="view_kernel_summaries", where=_OF_OP),
    columns=(
        *_THEIRS,
        *_API_TIME,
        _share("gpu_time", "view_kernel_summaries", _OF_OP, "the op's kernel time"),
    ),
    default_ordering=("-gpu_time_ns",),
    key=("kernel_name", "uses_tc"),
    lead=_LEAD,
    hidden=(*(column.name for column in _API_TIME), "kernel_name", "kernel_long_name"),
)

OP_KERNELS = replace(
    _OP_KERNELS_OF_DLPROF,
    source=Source(view="view_kernels_by_full_name", where=_OF_OP),
    key=("kernel_long_name", "kernel_name", "uses_tc"),
    columns=(
        *_OURS,
        *_API_TIME,
        _share("gpu_time_sum", "view_kernels_by_full_name", _OF_OP, "the op's kernel time"),
    ),
    fallback=_OP_KERNELS_OF_DLPROF,
)


def _of_every_op(spec: TableSpec, time: str) -> TableSpec:
    """The same rows for all ops at once: hundreds of queries in one."""
    of_op = f"NULLIF(SUM(t.{time}) OVER (PARTITION BY t.op_node_id), 0)"
    share = replace(spec.by_name["share_pct"], sql=f"100.0 * t.{time} / {of_op}")
    shown = tuple(share if column.name == share.name else column for column in spec.columns)
    return replace(
        spec,
        source=replace(spec.source, where=_IN_DOMAIN),
        columns=(*shown, identifier("op_id", OP_ID, "t.op_node_id")),
        fallback=_of_every_op(spec.fallback, "gpu_time") if spec.fallback else None,
    )


KERNELS_OF_EVERY_OP = _of_every_op(OP_KERNELS, "gpu_time_sum")  # With the op as one more column.


def _launch(
    name_alias: str, readable: str, start: str, api_start: str, grid: str, block: str
) -> tuple[Column, ...]:
    return (
        identifier("op_id", OP_ID, "t.op_node_id"),
        text("op_name?", "Path of the op that launched it.", f"{name_alias}.op_node_name"),
        _readable(readable),
        text("kernel_name", "Short name of the kernel."),
        identifier("device_id", "GPU that ran it.", integer=True),
        number(
            "start_time_ns?",
            "Start on the GPU, from the start of the profile.",
            start,
            title="GPU start",
        ),
        number("gpu_time_ns", "Duration on the GPU.", "t.kernel_duration", unit="µs"),
        boolean("uses_tc?", "Whether it used Tensor Cores.", when_null="Unknown from its name."),
        text("grid", "Size of the grid, in blocks.", grid),
        text("block", "Size of a block, in threads.", block),
        _LONG_NAME,
        identifier("stream_id", "CUDA stream.", integer=True),
        number(
            "api_start_ns", "Start of the launching call, from the start of the profile.", api_start
        ),
        number(
            "api_time_ns?",
            "Duration of the launching call on the CPU.",
            "t.api_duration",
            unit="µs",
        ),
    )


_OP_PART, _NAME_PART, _SIZE_PART, _DEVICE_PART = (
    LookupView("view_launch_ops", "o", "op_key"),
    LookupView("view_launch_names", "n", "name_key"),
    LookupView("view_launch_sizes", "z", "size_key"),
    LookupView("view_launch_devices", "v", "device_key"),
)
_NARROW_LAUNCHES = KeyView(
    view="view_launch_keys",
    row_id="row_id",
    where="s.aggr_id = :aggr_id AND s.iter_value = :iteration",
    parts=(_OP_PART, _NAME_PART, _SIZE_PART, _DEVICE_PART),
    sql={
        "op_id": "o.op_node_id",
        "op_name": "o.op_node_name",
        "readable_name": "n.readable_name",
        "kernel_name": "n.kernel_name",
        "device_id": "v.device_id",
        "start_time_ns": "s.kernel_timestamp",
        "gpu_time_ns": "s.kernel_duration",
        "uses_tc": "n.uses_tc",
        "grid": "z.grid",
        "block": "z.block",
        "kernel_long_name": "n.long_kernel_name",
        "stream_id": "s.stream_id",
        "api_start_ns": "s.api_start",
        "api_time_ns": "s.api_duration",
    },
    # Launches are numbered in the order of their calls.
    orders={"api_start_ns": "s.row_id"},
)

_LAUNCH_KEY = ("api_start_ns", "device_id", "op_id", "kernel_name", "gpu_time_ns", "grid", "block")

_ITERATION_KERNELS_OF_DLPROF = TableSpec(
    name="iteration-kernels",
    title=say("Kernels in the iteration"),
    source=Source(view="view_iteration_op_kernels", joins=(_OP_OF_ROW,), where=_IN_ITERATION),
    # What DLProf calls the timestamp of a kernel is the start of its API call; the start on the
    # GPU is in none of its views.
    columns=_launch("o", "t.kernel_name", "t.gpu_start", "t.kernel_timestamp", "t.grid", "t.block"),
    default_ordering=("api_start_ns",),
    key=_LAUNCH_KEY,
    lead=("op_name", "readable_name", "kernel_name", "device_id", "api_start_ns"),
    hidden=("op_id", "kernel_name", "kernel_long_name", "stream_id", "api_time_ns"),
)

ITERATION_KERNELS = replace(
    _ITERATION_KERNELS_OF_DLPROF,
    source=Source(view="view_kernel_launches", where=_IN_ITERATION),
    columns=_launch(
        "t",
        "t.readable_name",
        "t.kernel_timestamp",
        "t.api_start",
        "t.grid_x || ', ' || t.grid_y || ', ' || t.grid_z",
        "t.block_x || ', ' || t.block_y || ', ' || t.block_z",
    ),
    fallback=_ITERATION_KERNELS_OF_DLPROF,
    narrow=_NARROW_LAUNCHES,
)


def _of_op(spec: TableSpec) -> TableSpec:
    where = f"{spec.source.where} AND t.op_node_id = :op_id"
    return replace(
        spec,
        narrow=spec.narrow and _narrow_of_op(spec.narrow),
        name="iteration-op-kernels",
        title=say("Kernels of the op in the iteration"),
        source=replace(spec.source, where=where),
        fallback=_of_op(spec.fallback) if spec.fallback else None,
    )


def _narrow_of_op(narrow: KeyView) -> KeyView:
    part = _OP_PART
    keys = f"SELECT {part.key} FROM {part.view} WHERE op_node_id = :op_id"  # noqa: S608
    return replace(narrow, where=f"{narrow.where} AND s.{part.key} IN ({keys})")


ITERATION_OP_KERNELS = _of_op(ITERATION_KERNELS)
