"""Properties of every trace: attribution, conservation, sums, independence of the row order."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.builders import WRAPPER, Analyzed, Row, Trace, analyze, analyze_file, query
from tests.golden.slow_reference import SCHEMA_OP, Reference, disagreements
from tests.property.traces import LOADER, programs, scratch

HERE = "WHERE domain_name = 'default-domain'"
SUMMED = ("num_calls", "kernel_calls", "cpu_time_sum", "gpu_time_sum", "cpu_overhead_sum")
PARTS = ("tc", "non_tc", "graph", "memory", "dataloader", "io", "cpu", "other")
VIEWS = (
    *("view_op_metrics", "view_kernel_metrics", "view_kernel_launches", "view_memory_ops"),
    *("view_api_calls", "view_group_metrics", "view_group_ops", "view_op_type_summary"),
    *("view_iterations_all", "view_iterations_profiled", "view_iteration_ops"),
    *("view_model_summary", "view_gpu_devices", "view_tensor_core_ops", "view_warnings"),
)

_COLUMNS: dict[str, list[str]] = {}

Mask = npt.NDArray[np.bool_]


def _work(trace: Trace, *kinds: str) -> list[Row]:
    return [row for kind in kinds for row in trace.tables[f"CUPTI_ACTIVITY_KIND_{kind}"]]


def _total(rows: list[Row]) -> int:
    return sum(row["end"] - row["start"] for row in rows)


def _one(found: Analyzed, sql: str, aggregation: int = 1) -> Any:
    ((value,),) = found.query(f"{sql} {HERE} AND aggr_id = ?", aggregation)
    return value


def _content(found: Analyzed) -> dict[str, Counter[tuple[Any, ...]]]:
    """All rows of the views, without row ids."""
    result = {}
    for view in VIEWS:
        kept = ", ".join(column for column in _columns(found, view) if column != "row_id")
        result[view] = Counter(found.query(f"SELECT {kept} FROM {view}"))
    return result


def _columns(found: Analyzed, view: str) -> list[str]:
    """Names of the columns of a view, the same in all databases."""
    if view not in _COLUMNS:
        _COLUMNS[view] = [row[1] for row in found.query(f"PRAGMA table_info({view})")]
    return _COLUMNS[view]


@given(programs(), st.randoms(use_true_random=False))
def test_one_trace(trace: Trace, order: random.Random) -> None:
    """What can be checked of one database, and that the rows' order in the export changes nothing.

    One test, for making the database takes longer than all the checks.
    """
    with scratch() as folder:
        source = trace.write(folder / "plain.sqlite")
        found = analyze_file(source, folder / "plain.db")
        _check_attribution(found, Reference(source))
        _check_unions_of_instances(found)
        _check_shares(found)

        shuffled = trace.write(folder / "shuffled.sqlite", shuffled=order)
        theirs = _content(analyze_file(shuffled, folder / "shuffled.db"))
        ours = _content(found)
        assert [view for view in VIEWS if ours[view] != theirs[view]] == []


def _check_attribution(found: Analyzed, reference: Reference) -> None:
    """Each kernel is in the op that a slow and simple reference finds."""
    for kernel in reference.kernels:
        assert list(kernel.around) == reference.around_one_by_one(kernel)
    assert disagreements(found.path, reference) == []


@given(programs(shared_names=True))
def test_sums_over_types_ops_and_kernels_agree(trace: Trace) -> None:
    with scratch() as folder:
        found = analyze(trace, folder)
        kernels = _work(trace, "KERNEL")
        assert found.result.counts["kernels"] == len(kernels)
        for metric in ("gpu_time", "cpu_time", "cpu_overhead", "gpu_idle"):
            by_type = _one(found, f"SELECT sum({metric}_sum) FROM view_op_type_summary")
            assert by_type == _one(found, f"SELECT sum({metric}_sum) FROM view_op_metrics"), metric
        calls = [
            _one(found, "SELECT sum(num_calls) FROM view_op_type_summary"),
            _one(found, "SELECT sum(num_calls) FROM view_op_nodes"),
            _one(
                found,
                "SELECT num_calls FROM (SELECT * FROM view_group_metrics"
                " WHERE group_name = '_CompleteModel_')",
            ),
        ]
        assert len(set(calls)) == 1, calls
        counts = {
            "SELECT sum(kernel_calls) FROM view_op_nodes": len(kernels),
            "SELECT sum(calls) FROM view_kernel_summaries": len(kernels),
            "SELECT sum(gpu_time) FROM view_kernel_summaries": _total(kernels),
            "SELECT sum(kernel_duration) FROM view_iteration_kernels": _total(kernels),
            "SELECT sum(total_gpu_time) FROM view_iteration_ops": _total(kernels),
            "SELECT memory_gpu_time FROM view_kernel_summary": _total(
                _work(trace, "MEMCPY", "MEMSET")
            ),
        }
        assert {sql: _one(found, sql) for sql in counts} == counts


def _check_unions_of_instances(found: Analyzed) -> None:
    """GPU time of an instance is at most the sum of its kernels, and fills its span with gaps."""
    kernels = found.query("SELECT instance, start, start + duration FROM kernels")
    single = defaultdict(list)
    for instance, start, end in kernels:
        single[instance].append((start, end))
    with_memory = {op for (op,) in found.query("SELECT op FROM memory_ops")}
    rows = found.query(
        "SELECT id, op, gpu_time, gpu_idle, cpu_time, cpu_overhead FROM op_instances"
    )
    for instance, op, gpu_time, gpu_idle, cpu_time, cpu_overhead in rows:
        assert 0 <= cpu_overhead <= cpu_time
        if op in with_memory:
            continue
        work = single[instance]
        assert gpu_time == len({ns for start, end in work for ns in range(start, end)})
        assert gpu_time <= sum(end - start for start, end in work)
        busy = [(start, end) for start, end in work]
        span = max((end for _, end in busy), default=0) - min((s for s, _ in busy), default=0)
        assert gpu_time + gpu_idle == span


@given(programs(), st.data())
def test_aggregations_of_two_parts_add_up_to_that_of_the_whole(
    trace: Trace, data: st.DataObject
) -> None:
    with scratch() as folder:
        found = analyze(trace, folder)
        last = len(found.iterations()) - 1
        assume(last >= 1)
        first = data.draw(st.integers(0, last - 1))
        stop = data.draw(st.integers(first + 1, last))
        middle = data.draw(st.integers(first, stop - 1))
        whole, *parts = (
            found.aggregate(iter_start=low, iter_stop=high).aggr_id
            for low, high in ((first, stop), (first, middle), (middle + 1, stop))
        )
        assert _sums(found, whole) == _sums(found, parts[0]) + _sums(found, parts[1])
        wall = "SELECT wall_clock_time FROM view_performance_summary"
        assert _one(found, wall, whole) == sum(_one(found, wall, part) for part in parts)


@given(programs(), st.data())
def test_a_reaggregation_is_what_an_import_would_have_written(
    trace: Trace, data: st.DataObject
) -> None:
    with scratch() as folder:
        source = trace.write(folder / "profile.sqlite")
        found = analyze_file(source, folder / "later.db")
        last = len(found.iterations()) - 1
        first = data.draw(st.integers(0, last))
        request: dict[str, Any] = {
            "iter_start": first,
            "iter_stop": data.draw(st.integers(first, last)),
        }
        if data.draw(st.booleans()):
            request = {"key_node": data.draw(st.sampled_from(sorted(found.op_ids())))}
        added = found.aggregate(**request).aggr_id
        at_once = analyze_file(source, folder / "at_once.db", **request)
        for view in VIEWS:
            columns = _columns(found, view)
            if "aggr_id" in columns:
                kept = ", ".join(c for c in columns if c not in ("aggr_id", "row_id", "id", "aggr"))
                sql = f"SELECT {kept} FROM {view} WHERE aggr_id = ?"
                assert Counter(found.query(sql, added)) == Counter(at_once.query(sql, 1)), view


def _sums(found: Analyzed, aggregation: int) -> Counter[tuple[str, ...]]:
    """Everything of an aggregation that adds up, by (what, op or kernel)."""
    result: Counter[tuple[str, ...]] = Counter()
    columns = ", ".join(SUMMED)
    sql = f"SELECT op_node_id, {columns} FROM view_op_metrics {HERE} AND aggr_id = ?"
    for op, *values in found.query(sql, aggregation):
        result.update({(op, name): value for name, value in zip(SUMMED, values, strict=True)})
    sql = (
        "SELECT op_node_id, kernel_name, calls, gpu_time_sum, api_time_sum"
        f" FROM view_kernel_metrics {HERE} AND aggr_id = ?"
    )
    for op, kernel, calls, gpu_time, api_time in found.query(sql, aggregation):
        result.update({(op, kernel, "calls"): calls, (op, kernel, "gpu"): gpu_time})
        result[op, kernel, "api"] += api_time
    sums = ", ".join(f"coalesce(sum({part}_duration), 0)" for part in PARTS)
    sql = f"SELECT {sums} FROM view_iterations_profiled {HERE} AND aggr_id = ?"
    (parts,) = found.query(sql, aggregation)
    result.update({(part,): value for part, value in zip(PARTS, parts, strict=True)})
    return +result


# --- the breakdown, nanosecond by nanosecond ------------------------------------------------------


@given(programs(processes=st.just(1)))
def test_the_breakdown_is_what_each_nanosecond_was_spent_on(trace: Trace) -> None:
    with scratch() as folder:
        found = analyze(trace, folder)
        spent = _spent(trace)
        stops = [stop for _, stop in found.iterations()]
        assert stops[-1] == len(spent)
        columns = ", ".join(f"{part}_duration" for part in PARTS)
        rows = found.query(
            f"SELECT start_time, duration, {columns} FROM view_iterations_profiled {HERE}"
            " ORDER BY iter_value"
        )
        for start, duration, *parts in rows:
            inside = spent[start : start + duration]
            assert parts == [int(np.count_nonzero(inside == part)) for part in PARTS]
        share = _one(found, "SELECT gpu_utilization FROM view_performance_summary")
        assert share == round(100 * int(np.count_nonzero(spent == "non_tc")) / len(spent), 6)


def _spent(trace: Trace) -> npt.NDArray[np.str_]:
    """What each nanosecond counts as, by DLProf's order of priority."""
    events = _work(trace, "KERNEL", "MEMCPY", "MEMSET", "RUNTIME")
    last = max(row["end"] for row in events)
    ranges = trace.tables["NVTX_EVENTS"]
    names = {id(row): row["text"].split(", ")[0] for row in ranges}
    on_cpu = [
        row
        for row in ranges
        if names[id(row)].startswith(WRAPPER) or SCHEMA_OP.fullmatch(names[id(row)])
    ]
    loading = [row for row in ranges if names[id(row)] == LOADER]
    result = np.full(last, "other", dtype="U10")
    # The highest priority is painted last.
    for part, rows in (
        ("cpu", on_cpu + _work(trace, "RUNTIME")),
        ("dataloader", loading),
        ("memory", _work(trace, "MEMCPY", "MEMSET")),
        ("non_tc", _work(trace, "KERNEL")),
    ):
        for row in rows:
            result[row["start"] : row["end"]] = part
    return result


def _check_shares(found: Analyzed) -> None:
    columns = " + ".join(f"{part}_duration_pct" for part in PARTS)
    total = _one(found, f"SELECT {columns} FROM view_resource_usage_breakdown")
    assert abs(total - 100) < 1e-5
    rows = query(
        found.path,
        f"SELECT duration, {' + '.join(f'{part}_duration' for part in PARTS)}"
        f" FROM view_iterations_profiled {HERE}",
    )
    assert all(duration == parts for duration, parts in rows)
