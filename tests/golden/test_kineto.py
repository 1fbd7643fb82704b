"""The shared Kineto trace against plain Python over its JSON, and beside the nsys capture."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import query

NAME = "kineto_resnet50_fp16.pt.trace.json"
Events = list[dict[str, Any]]


@pytest.fixture(scope="module")
def events(profile: Callable[[str], Path]) -> Events:
    trace = json.loads(profile(NAME).read_text())
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


@pytest.fixture(scope="module")
def database(imported: Callable[[str], Path]) -> Path:
    return imported(NAME)


def _of(events: Events, *categories: str) -> Events:
    return [event for event in events if event["cat"] in categories]


def _ns(event: dict[str, Any]) -> int:
    return round(event["dur"] * 1000)


def test_counts_and_sums_are_those_of_the_trace(events: Events, database: Path) -> None:
    kernels = _of(events, "kernel")
    found = query(database, "SELECT count(*), sum(duration) FROM kernels")
    assert found == [(len(kernels), sum(map(_ns, kernels)))]
    sql = "SELECT kind, count(*), sum(bytes), sum(duration) FROM view_memory_ops GROUP BY kind"
    expected = [
        (kind, len(rows), sum(row["args"]["bytes"] for row in rows), sum(map(_ns, rows)))
        for kind in ("memcpy", "memset")
        if (rows := _of(events, f"gpu_{kind}"))
    ]
    assert query(database, sql) == expected
    calls = len(_of(events, "cuda_runtime", "cuda_driver"))
    assert query(database, "SELECT count(*) FROM view_api_calls") == [(calls,)]


def test_kernel_time_belongs_to_the_outermost_op(events: Events, database: Path) -> None:
    """Forward ops by walking each launch's enclosing ``aten::`` events, one by one."""
    ops = defaultdict(list)
    for event in _of(events, "cpu_op"):
        name = event["name"]
        if re.match(r"\w+::\w+$", name) and name.partition("::")[0] == "aten":
            ops[event["tid"]].append((event["ts"], event["ts"] + event["dur"], name[6:]))
    main = next(e["tid"] for e in events if e["name"].startswith("ProfilerStep#"))
    starts = sorted(ops[main], key=lambda op: (op[0], -op[1]))
    outermost: list[tuple[float, float, str]] = []
    for op in starts:
        if not outermost or op[0] >= outermost[-1][1]:
            outermost.append(op)
    calls = {e["args"]["correlation"]: e for e in _of(events, "cuda_runtime", "cuda_driver")}
    expected: Counter[str] = Counter()
    for kernel in _of(events, "kernel"):
        call = calls[kernel["args"]["correlation"]]
        around = [op for op in outermost if op[0] <= call["ts"] < op[1]]
        if call["tid"] == main and around:
            expected[around[0][2]] += _ns(kernel)
    sql = """SELECT op_node_type, sum(kernel_duration) FROM view_kernel_launches
        WHERE direction = 'fprop' AND aggr_id = 1 GROUP BY 1"""
    assert dict(query(database, sql)) == dict(expected)


def test_iterations_are_the_data_loaders(events: Events, database: Path) -> None:
    loads = [e for e in events if e["name"].startswith("enumerate(DataLoader)#")]
    base = min(round(e["ts"] * 1000) for e in events if e["cat"] != "Trace")
    stops = sorted(round(e["ts"] * 1000) + _ns(e) - base for e in loads)
    sql = "SELECT stop_time FROM view_iterations_all WHERE aggr_id = 1 ORDER BY stop_time"
    found = [row[0] for row in query(database, sql)]
    assert found[: len(stops)] == stops


def test_stacks_modules_and_types_are_kept(events: Events, database: Path) -> None:
    sql = """SELECT op_node_name, stack_trace, data_type FROM view_op_metrics
        WHERE op_node_type = 'conv2d' AND direction = 'fprop'"""
    rows = query(database, sql)
    modules = {e["name"] for e in events if e["name"].startswith("nn.Module: Conv2d_")}
    named = {f"nn.Module: {name.split('/')[-2]}" for name, _, _ in rows}
    assert named == modules
    assert all("train.py(47): loop" in stack.splitlines() for _, stack, _ in rows)
    assert all(stack.splitlines()[-1].endswith("_conv_forward") for _, stack, _ in rows)
    assert {data_type for _, _, data_type in rows} <= {"float16", "float32"}
