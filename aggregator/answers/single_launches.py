"""Single launches of kernels: commands that profile one, and what was sampled while they ran."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Annotated, Final

import numpy as np
from msgspec import Struct

from aggregator.answers.calls import aggregated_iterations, kernel_rows, require_op
from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.writer import has_table
from aggregator.events.model import Work
from aggregator.events.store import EventStore
from aggregator.profile.arrays import Bool, Int64
from aggregator.profile.profile import DEFAULT_DOMAIN
from aggregator.system.replies import doc
from aggregator.tables.aggregation_data import AggregationData, remembered
from aggregator.tables.timeline.counters import Counter, read_counters
from aggregator.texts import say

_PROGRAM: Final = "PROGRAM ARGUMENTS..."
_MOST_KERNELS: Final = 8
_LEAST_SAMPLES: Final = 3
"""The samples at the ends of a kernel are also of its neighbors."""
_PERCENT: Final = "percent"
_FROM_START: Final = say(
    "The launches are counted from the first one of the capture: the program must run as it did, "
    "and the capture must hold its beginning."
)
_FROM_LATER: Final = say(
    "The capture begins after the program or has pauses, so the command profiles an earlier launch "
    "of the function, maybe of other sizes: record with --bare_steps=0 --profile_steps=all for the "
    "chosen one."
)
_UNPROFILED_STEPS: Final = "SELECT value FROM dldb_meta WHERE key = 'bare_steps' AND value > '0'"
_LATER_WINDOWS: Final = "SELECT pid FROM view_windows GROUP BY pid HAVING count(*) > 1"
_NO_LAUNCHES: Final = say("The database holds no launches in their order.")
_NO_SAMPLES: Final = say(
    "The capture holds no samples of a GPU: nsys profile --gpu-metrics-devices=all takes some."
)
_SHORT: Final = say("None of its kernels lasts as long as three samples.")


class NcuCommand(Struct, kw_only=True):
    """How to profile one launch of a kernel with Nsight Compute."""

    kernel_name: Annotated[str, doc("Name of the function.")]
    command: Annotated[str, doc("The command; PROGRAM ARGUMENTS... stands for the program.")]
    launch_skip: Annotated[int, doc("Launches of this function in the process before the chosen.")]
    start_ns: Annotated[int, doc("Start of the chosen launch in the capture.")]
    gpu_time_ns: Annotated[int, doc("Median duration of the compared launches.")]
    process_id: Annotated[int, doc("Process that launched it.")]
    num_launches: Annotated[int, doc("Launches that were compared.")]
    share_pct: Annotated[float | None, doc("Share of the kernel in the time of all compared.")]


class NcuCommands(Struct, kw_only=True):
    """Commands that profile the kernels of an op or a kernel, those with the most time first."""

    commands: list[NcuCommand]
    note: Annotated[str, doc("What must hold for the commands to choose these launches.")]


class SampledQuantity(Struct, kw_only=True):
    """A quantity of the GPUs while the kernels of an op ran."""

    name: str
    mean_pct: Annotated[float | None, doc("Mean over the time of its long kernels.")]
    sampled_ns: Annotated[int, doc("Time of the kernels that the mean is of.")]
    gpu_time_ns: Annotated[int, doc("Time of all its kernels.")]
    reason: Annotated[str, doc("Why the mean is unknown; empty: it is known.")]


class SampledQuantities(Struct, kw_only=True):
    """What was sampled of the GPUs while the kernels of an op ran."""

    quantities: list[SampledQuantity]
    reason: Annotated[str, doc("Why there are none; empty: there are some.")]


@remembered(256)
def read_op_ncu(data: AggregationData) -> NcuCommands:
    """Return commands of Nsight Compute that profile a typical launch of each kernel of an op.

    Raises:
        OpNotFoundError: The aggregation has no such op.
    """
    require_op(data)

    return _read_commands(data, partial(_of_op, data))


@remembered(256)
def read_kernel_ncu(data: AggregationData, *, kernel: str) -> NcuCommands:
    """Return the command of Nsight Compute that profiles a typical launch of a kernel.

    Args:
        data: The aggregation.
        kernel: The full name, or a short name.

    Raises:
        KernelNotFoundError: The aggregation has no such kernel.
    """
    kernel_rows(data, kernel)

    def choose(store: EventStore, work: Work) -> Bool:
        names = store.names
        wanted = [kernel in pair for pair in zip(names.short, names.long, strict=True)]
        found: Bool = np.array(wanted, dtype=bool)[work.name]
        return found

    return _read_commands(data, choose)


def _of_op(data: AggregationData, store: EventStore, work: Work) -> Bool:
    """Kernels of the op in the request; only ops of the default domain have single launches."""
    if data.params["domain"] != DEFAULT_DOMAIN:
        return np.zeros(len(work.op), dtype=bool)
    ops = store.ops
    rows = [row for row, op_id in enumerate(ops.op_ids) if op_id == data.params["op_id"]]
    chosen = np.isin(np.arange(len(ops)), rows) & (ops.domain == 0)
    found: Bool = chosen[work.op]
    return found


def _read_commands(
    data: AggregationData, choose: Callable[[EventStore, Work], Bool]
) -> NcuCommands:
    if not data.database.has("view_op_instances"):
        return NcuCommands(commands=[], note=_NO_LAUNCHES)
    iterations = aggregated_iterations(data)

    def read(connection: sqlite3.Connection) -> list[NcuCommand]:
        store = stored_events(connection)
        kernels = store.kernels()
        inside = iterations.hold(kernels.api_start_ns)
        return _chosen(store, kernels, np.flatnonzero(inside & choose(store, kernels)))

    is_later = data.database.read_with(_begins_later)
    note = _FROM_LATER if is_later else _FROM_START
    return NcuCommands(commands=data.database.read_with(read), note=note)


def _begins_later(connection: sqlite3.Connection) -> bool:
    """Return whether dlprof left out launches: of steps that it timed only, or between windows."""
    sought = [_UNPROFILED_STEPS, *([_LATER_WINDOWS] if has_table(connection, "windows") else ())]
    return any(connection.execute(query).fetchone() is not None for query in sought)


def _chosen(store: EventStore, kernels: Work, rows: Int64) -> list[NcuCommand]:
    """Commands for the launch of median duration of each function, those with most time first."""
    functions = np.array(_codes(store.names.short), dtype=np.int64)[kernels.name]
    length = kernels.end_ns - kernels.start_ns
    total = int(length[rows].sum())
    pids = [int(pid) for (pid,) in store.values("processes", "pid")]
    found = []
    for function in np.unique(functions[rows]).tolist():
        mine = rows[functions[rows] == function]
        row = mine[np.argsort(length[mine], kind="stable")[len(mine) // 2]]
        same = (functions == function) & (kernels.process == kernels.process[row])
        # Kernels are stored in order of launch; those of one graph in the order of their starts.
        skip = int(np.count_nonzero(same[:row]))
        name = store.names.short[int(kernels.name[row])]
        found.append(
            NcuCommand(
                kernel_name=name,
                command=_command(name, skip),
                launch_skip=skip,
                start_ns=int(kernels.start_ns[row]),
                gpu_time_ns=int(length[row]),
                process_id=pids[int(kernels.process[row])],
                num_launches=len(mine),
                share_pct=100 * int(length[mine].sum()) / total if total else None,
            )
        )
    return sorted(found, key=lambda command: -(command.share_pct or 0))[:_MOST_KERNELS]


def _codes(names: tuple[str, ...]) -> list[int]:
    codes: dict[str, int] = {}
    return [codes.setdefault(name, len(codes)) for name in names]


def _command(kernel: str, skip: int) -> str:
    words = ("ncu", "--set=full", "--kernel-name-base=function", f"--kernel-name={kernel}")
    counts = (f"--launch-skip={skip}", "--launch-count=1", "--export=report")
    return f"{shlex.join([*words, *counts])} {_PROGRAM}"


# --- samples --------------------------------------------------------------------------------------


@remembered(256)
def read_op_samples(data: AggregationData) -> SampledQuantities:
    """Return what was sampled of the GPUs while the kernels of an op ran.

    Raises:
        OpNotFoundError: The aggregation has no such op.
    """
    require_op(data)
    if not data.database.has("view_op_instances"):
        return SampledQuantities(quantities=[], reason=_NO_SAMPLES)
    iterations = aggregated_iterations(data)

    def read(connection: sqlite3.Connection) -> list[SampledQuantity]:
        counters = [track for track in read_counters(connection) if track.unit == _PERCENT]
        if not counters:
            return []
        store = stored_events(connection)
        kernels = store.kernels()
        inside = iterations.hold(kernels.api_start_ns)
        rows = np.flatnonzero(inside & _of_op(data, store, kernels))
        numbers = np.array([row[0] for row in store.values("devices", "device_id")])
        device = numbers[kernels.device[rows]]
        times = (kernels.start_ns[rows], kernels.end_ns[rows], device)
        titles = dict.fromkeys(counter.title for counter in counters)
        return [
            mean_of(title, [c for c in counters if c.title == title], *times) for title in titles
        ]

    quantities = data.database.read_with(read)
    return SampledQuantities(quantities=quantities, reason="" if quantities else _NO_SAMPLES)


def mean_of(
    title: str, counters: list[Counter], start_ns: Int64, end_ns: Int64, device: Int64
) -> SampledQuantity:
    """Average a quantity over the time of kernels that last as long as three samples."""
    weighted, sampled_ns = 0.0, 0
    for counter in counters:
        interval = int(np.median(counter.end_ns - counter.start_ns))
        long = (device == counter.device) & (end_ns - start_ns >= _LEAST_SAMPLES * interval)
        edges = np.stack([start_ns[long], end_ns[long]])
        lengths = counter.end_ns - counter.start_ns
        values = _integral(counter, np.cumsum(lengths * counter.value), edges, counter.value)
        covered = _integral(counter, np.cumsum(lengths), edges, np.ones_like(counter.value))
        weighted += float(values)
        sampled_ns += int(covered)
    return SampledQuantity(
        name=title,
        mean_pct=weighted / sampled_ns / 100 if sampled_ns else None,
        sampled_ns=sampled_ns,
        gpu_time_ns=int((end_ns - start_ns).sum()),
        reason="" if sampled_ns else _SHORT,
    )


def _integral(counter: Counter, total: Int64, edges: Int64, value: Int64) -> int:
    """Sum of a step function between pairs of times; ``total``: up to the end of each sample."""
    at = np.searchsorted(counter.start_ns, edges, side="right") - 1
    row = np.maximum(at, 0)
    since = np.clip(edges - counter.start_ns[row], 0, (counter.end_ns - counter.start_ns)[row])
    before = total[row] - (counter.end_ns - counter.start_ns)[row] * value[row]
    up_to = np.where(at < 0, 0, before + since * value[row])
    return int((up_to[1] - up_to[0]).sum())
