"""Nothing is lost, nothing is counted twice: databases of real captures against plain SQL.

The other side of each comparison is the export itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.builders import query

SMALL = (
    "pytorch_resnet50_fp32",
    "pytorch_resnet50_amp",
    "pytorch_bert_bf16",
    "ddp2_resnet50_amp",
    "nvtx_domains",
    "simple_no_nvtx",
    "jax_cnn_bf16",
)
LARGE = "pytorch_gpt2_large"
ALL = [*SMALL, LARGE]
EMIT_NVTX = [
    "pytorch_resnet50_fp32",
    "pytorch_resnet50_amp",
    "pytorch_bert_bf16",
    "ddp2_resnet50_amp",
    LARGE,
]
WORK = "CUPTI_ACTIVITY_KIND_"
PID, TID = "(({}>>24) & 16777215)", "({} & 16777215)"

HERE = "WHERE domain_name = 'default-domain' AND aggr_id = 1"
"""The default domain holds all device work; other domains repeat what their ranges cover."""

Rows = list[tuple[Any, ...]]
Profile = Callable[[str], Path]


def _differences(ours: Rows, theirs: Rows) -> tuple[Rows, Rows]:
    """Rows only in ours, rows only in theirs; a row too many counts as well."""
    left, right = Counter(ours), Counter(theirs)
    return list((left - right).elements())[:5], list((right - left).elements())[:5]


@dataclass(frozen=True)
class Launch:
    """Columns of ``view_kernel_launches``, which joins so many tables that it is read once."""

    kernel: tuple[Any, ...]
    times: tuple[int, int, int]
    duration: int
    op_name: str
    direction: str


@pytest.fixture(scope="module")
def launches(imported: Profile) -> Callable[[str], list[Launch]]:
    @cache
    def read(name: str) -> list[Launch]:
        rows = query(
            imported(name),
            "SELECT kernel_name, long_kernel_name, kernel_timestamp, kernel_duration, stream_id,"
            " grid_x, grid_y, grid_z, block_x, block_y, block_z, process_id,"
            " api_start, api_duration, op_node_name, direction"
            f" FROM view_kernel_launches {HERE}",
        )
        return [
            Launch(row[:12], (row[2], row[12], row[13]), row[3], row[14], row[15]) for row in rows
        ]

    return read


Launches = Callable[[str], list[Launch]]


@pytest.mark.parametrize("name", ALL)
def test_every_kernel_is_there_once(profile: Profile, launches: Launches, name: str) -> None:
    theirs = query(
        profile(name),
        f"SELECT s.value, l.value, k.start, k.end - k.start, k.streamId, k.gridX, k.gridY, k.gridZ,"
        f" k.blockX, k.blockY, k.blockZ, {PID.format('k.globalPid')}"
        f" FROM {WORK}KERNEL AS k JOIN StringIds AS s ON s.id = k.shortName"
        " JOIN StringIds AS l ON l.id = k.demangledName",
    )
    ours = [launch.kernel for launch in launches(name)]
    assert _differences(ours, theirs) == ([], [])


@pytest.mark.parametrize("name", ALL)
def test_every_kernel_has_the_call_that_launched_it(
    profile: Profile, launches: Launches, name: str
) -> None:
    theirs = query(
        profile(name),
        "SELECT k.start, coalesce(min(r.start), k.start), coalesce(r.end - r.start, 0)"
        f" FROM {WORK}KERNEL AS k LEFT JOIN {WORK}RUNTIME AS r"
        " ON r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24"
        " GROUP BY k.rowid",
    )
    assert _differences([launch.times for launch in launches(name)], theirs) == ([], [])


@pytest.mark.parametrize("name", ALL)
def test_every_api_call_is_there_once(profile: Profile, imported: Profile, name: str) -> None:
    theirs = query(
        profile(name),
        f"SELECT s.value, r.start, r.end - r.start, {PID.format('r.globalTid')},"
        f" {TID.format('r.globalTid')}, r.correlationId"
        f" FROM {WORK}RUNTIME AS r JOIN StringIds AS s ON s.id = r.nameId",
    )
    ours = query(
        imported(name),
        "SELECT api_name, api_start, api_duration, process_id, thread_id, correlation_id"
        " FROM view_api_calls",
    )
    assert _differences(ours, theirs) == ([], [])


@pytest.mark.parametrize("name", ALL)
def test_every_copy_and_set_is_there_once(profile: Profile, imported: Profile, name: str) -> None:
    shared = f"bytes, streamId, start, end - start, {PID.format('globalPid')}"
    theirs = query(
        profile(name),
        f"SELECT 'memcpy', copyKind, {shared} FROM {WORK}MEMCPY"
        f" UNION ALL SELECT 'memset', -1, {shared} FROM {WORK}MEMSET",
    )
    ours = query(
        imported(name),
        "SELECT kind, copy_kind, bytes, stream_id, timestamp, duration, process_id"
        " FROM view_memory_ops",
    )
    assert _differences(ours, theirs) == ([], [])


@pytest.mark.parametrize("name", ALL)
def test_durations_per_kernel_name_add_up_to_the_exports(
    profile: Profile, imported: Profile, name: str
) -> None:
    theirs = query(
        profile(name),
        "SELECT s.value, count(*), sum(k.end - k.start)"
        f" FROM {WORK}KERNEL AS k JOIN StringIds AS s ON s.id = k.shortName GROUP BY s.value",
    )
    for view, calls, time in (
        ("view_iteration_kernels", "count(*)", "sum(kernel_duration)"),
        ("view_kernel_summaries", "sum(calls)", "sum(gpu_time)"),
        ("view_kernel_metrics", "sum(calls)", "sum(gpu_time_sum)"),
    ):
        sql = f"SELECT kernel_name, {calls}, {time} FROM {view} {HERE} GROUP BY kernel_name"
        assert _differences(query(imported(name), sql), theirs) == ([], []), view


@pytest.mark.parametrize("name", ALL)
def test_totals_of_all_views_agree(profile: Profile, imported: Profile, name: str) -> None:
    database = imported(name)
    kernels, kernel_time = query(
        profile(name), f"SELECT count(*), sum(end - start) FROM {WORK}KERNEL"
    )[0]
    memory_time = sum(
        query(profile(name), f"SELECT coalesce(sum(end - start), 0) FROM {WORK}{table}")[0][0]
        for table in ("MEMCPY", "MEMSET")
    )
    counts = {
        f"SELECT sum(total_kernel_count) FROM view_iterations_profiled {HERE}": kernels,
        f"SELECT sum(kernel_calls) FROM view_op_nodes {HERE}": kernels,
        f"SELECT sum(total_count) FROM view_iteration_ops {HERE}": kernels,
        f"SELECT sum(total_gpu_time) FROM view_iteration_ops {HERE}": kernel_time,
        f"SELECT total_gpu_time FROM view_kernel_summary {HERE}": kernel_time + memory_time,
        f"SELECT memory_gpu_time FROM view_kernel_summary {HERE}": memory_time,
        f"SELECT using_tc_gpu_time + other_gpu_time FROM view_kernel_summary {HERE}": kernel_time,
    }
    found = {sql: query(database, sql)[0][0] for sql in counts}
    assert found == counts


@pytest.mark.parametrize("name", EMIT_NVTX)
def test_nearly_all_kernels_lie_in_ops(launches: Launches, name: str) -> None:
    kernels = launches(name)
    stray = sum("unassociated_" in kernel.op_name.lower() for kernel in kernels)
    backward = sum(kernel.direction == "bprop" for kernel in kernels)
    assert stray <= 0.005 * len(kernels)
    assert backward >= 0.3 * len(kernels)


@pytest.mark.parametrize("name", EMIT_NVTX)
def test_no_op_is_named_after_the_engine_or_the_wrapper_module(
    imported: Profile, name: str
) -> None:
    sql = (
        f"SELECT op_node_name, op_node_type, op_node_id FROM view_op_nodes {HERE}"
        " AND (op_node_name || op_node_type LIKE '%autograd::engine%'"
        # Calls made in the group itself, outside every op, are its own; they launch nothing.
        " OR op_node_type LIKE 'DistributedDataParallel%' AND kernel_calls > 0)"
    )
    assert query(imported(name), sql) == []


# --- iterations -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "instances"),
    [
        ("pytorch_resnet50_fp32", 8),
        ("pytorch_resnet50_amp", 20),
        ("pytorch_bert_bf16", 15),
        ("ddp2_resnet50_amp", 12),
        (LARGE, 400),
    ],
)
def test_intervals_lie_between_key_node_instances(
    imported: Profile, name: str, instances: int
) -> None:
    rows = query(
        imported(name),
        "SELECT start_time, stop_time, duration FROM view_iterations_all WHERE aggr_id = 1"
        " ORDER BY iter_value",
    )
    assert len(rows) == instances + 1
    assert rows[0][0] == 0
    assert all(stop - start == duration > 0 for start, stop, duration in rows)
    assert all(earlier[1] == later[0] for earlier, later in pairwise(rows)), (
        "iterations leave a gap or overlap"
    )


@pytest.mark.parametrize("name", ALL)
def test_the_parts_of_an_iteration_add_up_to_its_length(imported: Profile, name: str) -> None:
    rows = query(
        imported(name),
        "SELECT duration, tc_duration, non_tc_duration, memory_duration, dataloader_duration,"
        " io_duration, cpu_duration, graph_duration, other_duration"
        f" FROM view_iterations_profiled {HERE}",
    )
    assert rows
    assert [row for row in rows if sum(row[1:]) != row[0] or min(row) < 0] == []


@pytest.mark.parametrize("name", ALL)
def test_shares_of_the_model_add_up_to_100(imported: Profile, name: str) -> None:
    database = imported(name)
    (row,) = query(database, f"SELECT * FROM view_resource_usage_breakdown {HERE}")
    assert sum(row[2:]) == pytest.approx(100, abs=1e-5)
    assert min(row[2:]) >= 0
    (parts,) = query(
        database,
        "SELECT sum(tc_duration), sum(non_tc_duration), sum(memory_duration),"
        " sum(dataloader_duration), sum(io_duration), sum(cpu_duration), sum(other_duration),"
        f" sum(graph_duration), sum(duration) FROM view_iterations_profiled {HERE}",
    )
    wall = parts[-1]
    assert [100 * part / wall for part in parts[:-1]] == pytest.approx(list(row[2:]), abs=1e-5)


@pytest.mark.parametrize("name", [*SMALL[:4]])
def test_busy_time_per_gpu_is_the_union_of_its_kernels(
    profile: Profile, imported: Profile, name: str
) -> None:
    database = imported(name)
    wall = query(database, f"SELECT wall_clock_time FROM view_performance_summary {HERE}")[0][0]
    rows = query(
        profile(name), f"SELECT deviceId, start, end FROM {WORK}KERNEL ORDER BY deviceId, start"
    )
    busy: dict[int, int] = defaultdict(int)
    reached: dict[int, int] = defaultdict(int)
    for device, start, end in rows:
        busy[device] += max(0, end - max(start, reached[device]))
        reached[device] = max(reached[device], end)
    expected = {device: pytest.approx(100 * time / wall, abs=1e-6) for device, time in busy.items()}
    sql = f"SELECT device_id, device_gpu_utilization FROM view_gpu_devices {HERE}"
    assert dict(query(database, sql)) == expected


# --- facts of single captures ---------------------------------------------------------------------


def _conv_calls(database: Path) -> dict[str, Counter[int]]:
    sql = f"SELECT direction, num_calls FROM view_op_nodes {HERE} AND op_node_type = 'conv2d'"
    result: dict[str, Counter[int]] = defaultdict(Counter)
    for direction, calls in query(database, sql):
        result[direction][calls] += 1
    return result


def test_resnet50_has_53_convolutions_called_once_per_iteration(imported: Profile) -> None:
    amp = _conv_calls(imported("pytorch_resnet50_amp"))
    assert amp == {"fprop": Counter({20: 53}), "bprop": Counter({20: 53})}
    fp32 = _conv_calls(imported("pytorch_resnet50_fp32"))
    assert fp32 == {"fprop": Counter({8: 53}), "bprop": Counter({8: 53})}


def test_two_ranks_have_53_convolutions_each(imported: Profile) -> None:
    database = imported("ddp2_resnet50_amp")
    assert _conv_calls(database) == {"fprop": Counter({12: 106}), "bprop": Counter({12: 106})}
    sql = (
        f"SELECT substr(op_node_name, 1, 8), direction, count(*) FROM view_op_nodes {HERE}"
        " AND op_node_type = 'conv2d' GROUP BY 1, 2"
    )
    assert sorted(query(database, sql)) == [
        (f"/rank_{rank}/", direction, 53) for rank in (0, 1) for direction in ("bprop", "fprop")
    ]


def test_each_rank_ran_on_its_own_gpu(imported: Profile) -> None:
    sql = (
        f"SELECT DISTINCT substr(op_node_name, 1, 8), device_id FROM view_kernel_launches {HERE}"
        " AND op_node_name LIKE '/rank_%'"
    )
    assert sorted(query(imported("ddp2_resnet50_amp"), sql)) == [("/rank_0/", 0), ("/rank_1/", 1)]
