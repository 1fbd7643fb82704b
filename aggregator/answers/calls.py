"""The calls of one op and the launches of one kernel: by iteration, by duration, by shape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from aggregator.errors import KernelNotFoundError, OpNotFoundError
from aggregator.profile.arrays import Bool, Int64
from aggregator.profile.profile import DEFAULT_DOMAIN
from aggregator.system.replies import Unknown, doc
from aggregator.system.sqlite_uri import as_text
from aggregator.tables.aggregation_data import AggregationData, remembered
from aggregator.tables.declared.iterations import ITERATIONS
from aggregator.tables.declared.kernels import KERNELS
from aggregator.tables.declared.ops import OPS
from aggregator.tables.spec import NOT_IN_DATABASE
from aggregator.texts import say

MAX_BINS = 40  # Bars of a histogram.
MAX_SHAPES = 50  # Different shapes that are listed, those with the most GPU time.
#: From this ratio of the longest to the shortest duration on, bins grow by a factor.
_WIDE = 20.0

ONLY_DEFAULT_DOMAIN = say("Single launches are assigned to the ops of the default domain only.")


class DurationBin(Struct):
    """A bar of a histogram."""

    start_ns: Annotated[int, doc("Shortest duration of the bin, inclusive.")]
    stop_ns: Annotated[int, doc("End of the bin, exclusive but for the last bin.")]
    num_calls: Annotated[int, doc("Calls or launches of such a duration.")]


class OpIteration(Struct):
    """The calls of an op in an iteration."""

    iteration_index: int
    num_calls: Annotated[int | None, doc("Calls that started in it.")]
    gpu_time_ns: Annotated[int, doc("Time in which the GPU worked for these calls.")]
    cpu_time_ns: Annotated[int | None, doc("Their time on the CPU.")]


class CallShapes(Struct):
    """Calls with the same shapes."""

    input_shapes: str
    output_shapes: str
    num_calls: int
    gpu_time_ns: int


class OpCalls(Struct, kw_only=True):
    """The calls of an op in the aggregated iterations."""

    iterations: list[OpIteration]
    gpu_time_bins: Annotated[
        list[DurationBin] | None, doc("Histogram of the GPU time of a call.")
    ] = None
    cpu_time_bins: Annotated[
        list[DurationBin] | None, doc("Histogram of the CPU time of a call.")
    ] = None
    longest_start_ns: Annotated[
        int | None, doc("Start of the call that took longest on CPU or GPU.")
    ] = None
    longest_time_ns: Annotated[int | None, doc("How long it took.")] = None
    num_shapes: Annotated[int | None, doc("Number of different shapes.")] = None
    shapes: Annotated[list[CallShapes] | None, doc("The shapes with the most GPU time.")] = None
    unknown: Unknown


class KernelIteration(Struct):
    """The launches of a kernel in an iteration."""

    iteration_index: int
    num_calls: Annotated[int, doc("Number of launches.")]
    gpu_time_ns: Annotated[int, doc("Sum of their durations.")]


class LaunchSize(Struct):
    """Launches of the same size."""

    grid: Annotated[str, doc("Size of the grid, in blocks.")]
    block: Annotated[str, doc("Size of a block, in threads.")]
    num_calls: int
    gpu_time_ns: int


class KernelLaunches(Struct, kw_only=True):
    """The launches of a kernel in the aggregated iterations, all ops together."""

    kernel_name: Annotated[str, doc("Short name of the kernel.")]
    kernel_long_name: Annotated[str | None, doc("Full name; null: the address has a short name.")]
    readable_name: Annotated[str | None, doc("Null if several kernels are meant.")]
    long_names: Annotated[list[str], doc("Full names of all kernels meant.")]
    uses_tc: Annotated[
        bool | None, doc("Whether it used Tensor Cores; null: unknown, or some launches did.")
    ]
    num_ops: Annotated[int, doc("Number of ops that launched it.")]
    num_calls: Annotated[int, doc("Number of launches.")]
    gpu_time_ns: Annotated[int, doc("Sum of the durations.")]
    gpu_time_avg_ns: Annotated[float | None, doc("Mean duration.")]
    gpu_time_min_ns: Annotated[int, doc("Shortest duration.")]
    gpu_time_max_ns: Annotated[int, doc("Longest duration.")]
    share_pct: Annotated[float | None, doc("Share of all kernels' time.")]
    iterations: list[KernelIteration] | None = None
    gpu_time_bins: Annotated[list[DurationBin] | None, doc("Histogram of the durations.")] = None
    num_sizes: Annotated[int | None, doc("Number of different launch sizes.")] = None
    sizes: Annotated[list[LaunchSize] | None, doc("The launch sizes with the most GPU time.")] = (
        None
    )
    unknown: Unknown = {}


@remembered(256)
def read_op_calls(data: AggregationData) -> OpCalls:
    """Times by iteration, histograms of the times of a call, and the shapes of the inputs.

    Raises:
        OpNotFoundError: The aggregation has no such op.
    """
    has_calls = data.database.has("view_op_instances")
    return _op_calls(data) if has_calls else _op_calls_of_dlprof(data)


def require_op(data: AggregationData) -> None:
    """Raise OpNotFoundError if the op without calls is none of the aggregation."""
    if not data.rows(OPS, {"op_id": str(data.params["op_id"])}, limit=1):
        raise OpNotFoundError(
            say("The aggregation has no op {op_id!r} in this domain.", op_id=data.params["op_id"])
        )


def _op_calls(data: AggregationData) -> OpCalls:
    iterations = aggregated_iterations(data)
    sql = (
        "SELECT start_time, gpu_time, cpu_time, input_shapes, output_shapes FROM view_op_instances "
        "WHERE domain_name = :domain AND op_node_id = :op_id "
        "AND start_time >= :low AND start_time < :high"
    )
    bounds = {"low": iterations.low_ns, "high": iterations.high_ns}
    calls = data.database.rows(sql, {**data.params, **bounds})
    if not calls:
        require_op(data)
    start, gpu, cpu = (_integers(row[place] for row in calls) for place in range(3))
    place = iterations.places(start)
    shapes = _sums((inputs, outputs, gpu_ns) for _, gpu_ns, _, inputs, outputs in calls)
    recorded = {names: sums for names, sums in shapes.items() if any(names)}
    longest = int(np.argmax(np.maximum(gpu, cpu))) if len(start) else None
    return OpCalls(
        iterations=[
            OpIteration(*row)
            for row in iterations.rows(
                iterations.sums(place, np.ones_like(place)),
                iterations.sums(place, gpu),
                iterations.sums(place, cpu),
            )
        ],
        gpu_time_bins=bins(gpu),
        cpu_time_bins=bins(cpu),
        longest_start_ns=None if longest is None else int(start[longest]),
        longest_time_ns=None if longest is None else int(max(gpu[longest], cpu[longest])),
        num_shapes=len(recorded) if recorded else None,
        shapes=[CallShapes(*row) for row in _largest(recorded)] if recorded else None,
        unknown={} if recorded else dict.fromkeys(("num_shapes", "shapes"), _NO_SHAPES),
    )


_NO_SHAPES = say("The profile contains no shapes of its inputs.")


def _op_calls_of_dlprof(data: AggregationData) -> OpCalls:
    """NVIDIA's databases have the kernel time of an op in each iteration, and no single calls."""
    iterations = aggregated_iterations(data)
    sql = (
        "SELECT iter_value, total_gpu_time FROM view_iteration_ops "
        "WHERE aggr_id = :aggr_id AND domain_name = :domain AND op_node_id = :op_id"
    )
    found = data.database.rows(sql, data.params)
    if not found:
        require_op(data)
    place = iterations.places_of(_integers(row[0] for row in found))
    gpu = iterations.sums(place, _integers(row[1] for row in found))
    missing = (
        *("num_calls", "cpu_time_ns", "gpu_time_bins", "cpu_time_bins", "num_shapes", "shapes"),
        *("longest_start_ns", "longest_time_ns"),
    )
    return OpCalls(
        iterations=[OpIteration(index, None, ns, None) for index, ns in iterations.rows(gpu)],
        unknown=dict.fromkeys(missing, NOT_IN_DATABASE),
    )


def kernel_rows(data: AggregationData, name: str) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of a kernel, and the column that has its name: the full or the short one.

    Raises:
        KernelNotFoundError: The aggregation has no such kernel.
    """
    for column in ("kernel_long_name", "kernel_name"):
        if rows := data.rows(KERNELS, {column: name}):
            return rows, column
    raise KernelNotFoundError(
        say("The aggregation has no kernel {name!r} in this domain.", name=name),
        hint=say("Use its full name, as the table of kernels has it."),
    )


@remembered(256)
def read_kernel_launches(data: AggregationData, *, kernel: str) -> KernelLaunches:
    """Its sums, times by iteration, a histogram of its durations, and the launch sizes.

    Args:
        data: The aggregation.
        kernel: The full name, or a short name, which then stands for all kernels that share it.

    Raises:
        KernelNotFoundError: The aggregation has no such kernel.
    """
    rows, column = kernel_rows(data, kernel)
    calls, time = (sum(row[key] or 0 for row in rows) for key in ("num_calls", "gpu_time_ns"))
    shares = [row["share_pct"] for row in rows if row["share_pct"] is not None]
    names = {(row["kernel_long_name"], row["readable_name"]) for row in rows}
    reply = KernelLaunches(
        kernel_name=rows[0]["kernel_name"],
        kernel_long_name=kernel if column == "kernel_long_name" else None,
        readable_name=rows[0]["readable_name"] if len(names) == 1 else None,
        long_names=sorted(long for long, _ in names if long is not None),
        uses_tc=_common(row["uses_tc"] for row in rows),
        num_ops=len({row["op_id"] for row in rows}),
        num_calls=calls,
        gpu_time_ns=time,
        gpu_time_avg_ns=time / calls if calls else None,
        gpu_time_min_ns=min(row["gpu_time_min_ns"] for row in rows),
        gpu_time_max_ns=max(row["gpu_time_max_ns"] for row in rows),
        share_pct=sum(shares) if shares else None,
    )
    return _with_launches(reply, data, kernel, column)


def _with_launches(
    reply: KernelLaunches, data: AggregationData, name: str, column: str
) -> KernelLaunches:
    """Add what only single launches say."""
    if data.params["domain"] != DEFAULT_DOMAIN and data.database.has("view_launch_keys"):
        missing = ("iterations", "gpu_time_bins", "num_sizes", "sizes")
        return replace(reply, unknown=dict.fromkeys(missing, ONLY_DEFAULT_DOMAIN))
    iterations = aggregated_iterations(data)
    found = data.database.rows(_launches_sql(data, column), {**data.params, "kernel": name})
    place = iterations.places_of(_integers(row[0] for row in found))
    gpu = _integers(row[1] for row in found)
    sizes = _sums((grid, block, gpu_ns) for _, gpu_ns, grid, block in found)
    return replace(
        reply,
        iterations=[
            KernelIteration(*row)
            for row in iterations.rows(
                iterations.sums(place, np.ones_like(place)), iterations.sums(place, gpu)
            )
        ],
        gpu_time_bins=bins(gpu),
        num_sizes=len(sizes),
        sizes=[LaunchSize(*row) for row in _largest(sizes)],
    )


def _launches_sql(data: AggregationData, column: str) -> str:
    """Return the SQL of iteration, duration, grid and block of each launch of ``:kernel``.

    Looking up keys is about ten times as fast as joining the name of every launch.
    """
    if data.database.has("view_launch_keys"):
        name = {"kernel_long_name": "long_kernel_name"}.get(column, column)
        keys = f"SELECT name_key FROM view_launch_names WHERE {name} = :kernel"  # noqa: S608
        return (
            "SELECT s.iter_value, s.kernel_duration, z.grid, z.block FROM view_launch_keys s "  # noqa: S608
            "JOIN view_launch_sizes z ON z.size_key = s.size_key "
            f"WHERE s.aggr_id = :aggr_id AND s.name_key IN ({keys})"
        )
    return (
        "SELECT iter_value, kernel_duration, grid, block FROM view_iteration_kernels "
        "WHERE aggr_id = :aggr_id AND domain_name = :domain AND kernel_name = :kernel"
    )


class _Iterations:
    """The aggregated iterations, in order."""

    def __init__(self, index: Int64, start_ns: Int64, stop_ns: Int64) -> None:
        self.index, self._start_ns = index, start_ns
        self.low_ns = int(start_ns[0]) if len(start_ns) else 0
        self.high_ns = int(stop_ns[-1]) if len(stop_ns) else 0

    def hold(self, time_ns: Int64) -> Bool:
        """Whether each time lies in them."""
        return (time_ns >= self.low_ns) & (time_ns < self.high_ns)

    def places(self, time_ns: Int64) -> Int64:
        """Row of the iteration that contains each time."""
        return np.searchsorted(self._start_ns, time_ns, side="right") - 1

    def places_of(self, index: Int64) -> Int64:
        """Row of each index of an iteration; -1: it is not aggregated."""
        order = np.argsort(self.index)
        place = np.searchsorted(self.index, index, sorter=order)
        found = np.append(order, -1)[place]
        return np.where(np.append(self.index, 0)[found] == index, found, -1)

    def sums(self, place: Int64, values: Int64) -> list[int]:
        """Sum of the values in each iteration."""
        total = np.zeros(len(self.index), dtype=np.int64)
        np.add.at(total, place[place >= 0], values[place >= 0])
        return total.tolist()

    def rows(self, *columns: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """The index of each iteration with its values."""
        return zip(self.index.tolist(), *columns, strict=True)


def aggregated_iterations(data: AggregationData) -> _Iterations:
    """Return the iterations of the aggregation, with their times."""
    rows = [row for row in data.rows(ITERATIONS) if row["is_profiled"]]
    names = ("iteration_index", "start_time_ns", "stop_time_ns")
    return _Iterations(*(_integers(row[name] for row in rows) for name in names))


def bins(durations_ns: Int64) -> list[DurationBin]:
    """A histogram; its counts add up to the number of durations.

    A bin holds durations from its start, inclusive, to its stop, exclusive but for the last one.
    Durations of zero, calls without work, are a bin of their own.
    """
    positive = durations_ns[durations_ns > 0]
    without = len(durations_ns) - len(positive)
    result = [DurationBin(0, 0, without)] if without else []
    if not len(positive):
        return result
    low, high = int(positive.min()), int(positive.max())
    spread = np.geomspace if high > _WIDE * low else np.linspace
    edges = np.unique(spread(low, high, MAX_BINS + 1).round().astype(np.int64))
    edges[0], edges[-1] = low, high
    if len(edges) == 1:
        return [*result, DurationBin(low, high, len(positive))]
    counts = np.histogram(positive, edges)[0]
    columns = (edges[:-1].tolist(), edges[1:].tolist(), counts.tolist())
    return result + [DurationBin(*row) for row in zip(*columns, strict=True)]


def _sums(rows: Iterable[tuple[Any, Any, int]]) -> dict[tuple[str, str], list[int]]:
    """Return the number and time of the rows of each pair of texts."""
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for first, second, gpu_ns in rows:
        sums = found[as_text(first) or "", as_text(second) or ""]
        sums[0] += 1
        sums[1] += gpu_ns
    return found


def _largest(found: Mapping[tuple[str, str], Sequence[int]]) -> list[tuple[str, str, int, int]]:
    """Return the names, calls and time of the entries with the most GPU time."""
    ordered = sorted(found.items(), key=lambda item: (-item[1][1], -item[1][0], item[0]))
    return [(*names, calls, time) for names, (calls, time) in ordered[:MAX_SHAPES]]


def _common(values: Iterable[bool | None]) -> bool | None:
    """Return the value that all have; None if they differ, or it is unknown."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


def _integers(values: Iterable[Any]) -> Int64:
    """Return the numbers of a column; what a damaged database holds instead of one counts as 0."""
    whole = (value if isinstance(value, int) else 0 for value in values)
    return np.fromiter(whole, dtype=np.int64)
