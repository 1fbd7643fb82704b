"""Work that CUDA graphs replay belongs to the ops that ran when the graphs were captured."""

from __future__ import annotations

import gzip
import json
import lzma
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aggregator.sources.kineto import captures
from tests.builders import Analyzed, Trace, analyze, analyze_file, query
from tests.conftest import ProfileFactory

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
SERVING = {
    "inference__sglang_decode__sglang_Qwen3-8B_decode": (
        "inference__sglang_decode__capture_traces__bs_32_rank0",
        555,
        544,
    ),
    "inference__vllm_decode_full__graph_execution": (
        (
            "inference__vllm_decode_full__capture_traces"
            "__graph_capture_rank_0.1773709742341309550.pt.trace"
        ),
        425,
        421,
    ),
}
GRADES = (
    "SELECT o.name_grade, count(*) FROM kernels AS k JOIN op_kernels AS p ON p.id = k.op_kernel "
    "JOIN ops AS o ON o.id = p.op GROUP BY 1"
)
NAMES = (
    "SELECT o.op_name FROM kernels AS k JOIN op_kernels AS p ON p.id = k.op_kernel "
    "JOIN ops AS o ON o.id = p.op WHERE o.name_grade = 'capture' ORDER BY k.start"
)


def _events(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return [event for event in events if event.get("ph") == "X"]


def _is_around(event: dict[str, Any], ts: float, tid: int) -> bool:
    inside: bool = event["tid"] == tid and event["ts"] <= ts < event["ts"] + event["dur"]
    return inside


@pytest.mark.parametrize("name", SERVING)
def test_replayed_kernels_of_serving_engines_are_in_the_modules_of_the_capture(
    name: str, shared_dir: Path, imported: ProfileFactory
) -> None:
    """The modules around the op of each captured call, by plain JSON."""
    capture_name, count, replayed = SERVING[name]
    database = imported(f"{name}.json.gz")
    capture = shared_dir / "public" / "serving" / f"{capture_name}.json.gz"
    grades = dict(query(database, GRADES))
    assert grades.pop("capture") == replayed
    assert sum(grades.values()) == count - replayed
    assert set(grades) <= {"recorded", "module"}

    events = _events(capture)
    begin, end = (
        next(e["ts"] for e in events if e["name"] == f"hipStream{which}Capture")
        for which in ("Begin", "End")
    )
    calls = sorted(
        (e["ts"], e["tid"]) for e in events if "kernel" in e["args"] and begin < e["ts"] < end
    )
    modules = [e for e in events if e["name"].startswith("nn.Module: ")]
    ops_of_trace = [e for e in events if e["cat"] == "cpu_op"]
    expected = []
    for ts, tid in calls:
        # An op may call modules again: its path is the one outside it.
        first = min((e["ts"] for e in ops_of_trace if _is_around(e, ts, tid)), default=ts)
        around = sorted(
            (e["ts"], e["name"].removeprefix("nn.Module: "))
            for e in modules
            if _is_around(e, ts, tid) and e["ts"] <= first
        )
        expected.append("/" + "".join(f"{module}/" for _, module in around))
    assert len(expected) == replayed
    ops = [row[0] for row in query(database, NAMES)]
    wrong = [pair for pair in zip(ops, expected, strict=True) if not pair[0].startswith(pair[1])]
    assert wrong == []
    assert sum(module != "/" for module in expected) > 0.99 * replayed


@pytest.fixture(scope="module")
def graphed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Analyzed]:
    """A training of three eager steps and eleven replays, and its database."""
    folder = tmp_path_factory.mktemp("graphed")
    path = folder / "graphed_nodes.sqlite"
    path.write_bytes(
        lzma.decompress((CAPTURES / "advice" / "graphed_nodes.sqlite.xz").read_bytes())
    )
    return path, analyze_file(path, folder / "out.sqlite")


def test_replayed_nodes_of_an_export_are_in_the_modules_that_created_them(
    graphed: tuple[Path, Analyzed],
) -> None:
    """Node by node through the raw tables: node, original, creation, modules around it."""
    path, found = graphed
    nodes = query(
        path,
        "SELECT graphNodeId, originalGraphNodeId, start, globalTid FROM CUDA_GRAPH_NODE_EVENTS",
    )
    ranges = query(
        path,
        "SELECT n.start, n.end, n.globalTid, coalesce(n.text, s.value) FROM NVTX_EVENTS AS n "
        "LEFT JOIN StringIds AS s ON s.id = n.textId "
        "WHERE coalesce(n.text, s.value) LIKE 'torch.nn: %' ORDER BY n.start",
    )
    replayed = query(
        path,
        "SELECT start, graphNodeId FROM CUPTI_ACTIVITY_KIND_KERNEL "
        "WHERE graphNodeId IS NOT NULL ORDER BY start",
    )
    original = {node: source for node, source, *_ in nodes if source is not None}
    created = {node: (start, tid) for node, source, start, tid in nodes if source is None}
    rows = found.query(NAMES)
    assert len(rows) == len(replayed) == 2354
    checked = Counter[str]()
    for (op_name,), (_, node) in zip(rows, replayed, strict=True):
        start, tid = created[original[node]]
        around = [
            text.removeprefix("torch.nn: ").split(" (")[0]
            for low, high, thread, text in ranges
            if thread == tid and low <= start < high
        ]
        if around:
            path_of_op = "/" + "/".join(one for one in around if one != "blocks") + "/"
            assert op_name.replace("/blocks/", "/").startswith(path_of_op), (op_name, around)
            checked["in a module"] += 1
    assert checked["in a module"] == 11 * 64
    assert dict(found.query(GRADES)) == {"capture": 2354, "recorded": 722}


def test_a_replay_costs_what_the_same_step_costs_without_a_graph(
    graphed: tuple[Path, Analyzed],
) -> None:
    """Products by size, of the eager steps before the capture and of the replays after it."""
    path, found = graphed
    ((replays,),) = query(
        path,
        "SELECT count(DISTINCT r.correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r "
        "JOIN StringIds AS s ON s.id = r.nameId WHERE s.value LIKE 'cudaGraphLaunch%'",
    )
    products = (
        "SELECT u.unit_name, u.input_shapes, u.flops_per_call, u.bytes_per_call, sum(u.calls) "
        "FROM view_op_units AS u JOIN ops AS o ON o.op_id = u.op_node_id "
        "WHERE u.aggr_id = 1 AND u.is_matrix AND o.name_grade = ? GROUP BY 1, 2, 3, 4 ORDER BY 1, 2"
    )
    eager, replayed = (found.query(products, grade) for grade in ("recorded", "capture"))
    steps = 3
    assert replays == 11
    assert [(*row[:4], row[4] // steps * replays) for row in eager] == replayed
    (addmm,) = {row[2:4] for row in replayed if row[1] == "[[128], [64, 256], [256, 128], [], []]"}
    operands = 128 + 64 * 256 + 256 * 128 + 64 * 128
    assert addmm == (2 * 64 * 256 * 128, 2 * operands)


# --- what cannot be known -------------------------------------------------------------------------

KERNELS = ("gemm", "relu")


def _event(cat: str, name: str, ts: int, dur: int, **args: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 7,
        "tid": 7,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def _kineto(path: Path, events: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def _capture(module: str, kernels: tuple[str, ...] = KERNELS) -> list[dict[str, Any]]:
    """One graph; each kernel is launched by an op in the module."""
    length = 20 * len(kernels)
    events = [
        _event("cuda_runtime", "hipStreamBeginCapture", 5, 1, correlation=1),
        _event("python_function", f"nn.Module: {module}", 8, length),
        _event("cuda_runtime", "hipStreamEndCapture", 10 + length, 1, correlation=2),
    ]
    for number, kernel in enumerate(kernels):
        at = 10 + 20 * number
        events += [
            _event("cpu_op", f"aten::{kernel}", at, 10),
            _event(
                "cuda_runtime", "hipLaunchKernel", at + 2, 2, correlation=10 + at, kernel=kernel
            ),
        ]
    return events


def _replay(kernels: tuple[str, ...] = KERNELS) -> list[dict[str, Any]]:
    events = [
        _event("cpu_op", "aten::arange", 0, 5),
        _event("user_annotation", "decode", 10, 20),
        _event("cuda_runtime", "hipGraphLaunch", 12, 4, correlation=1),
    ]
    at = [100 + 10 * number for number in range(len(kernels))]
    return events + [
        _event("kernel", kernel, start, 5, correlation=1, device=0, stream=0)
        for kernel, start in zip(kernels, at, strict=True)
    ]


def _grades(found: Analyzed) -> set[tuple[str, str, str]]:
    return set(
        found.query(
            "SELECT o.op_name, o.name_grade, o.name_reason FROM kernels AS k "
            "JOIN op_kernels AS p ON p.id = k.op_kernel JOIN ops AS o ON o.id = p.op"
        )
    )


def test_a_capture_beside_names_the_replay(tmp_path: Path) -> None:
    path = _kineto(tmp_path / "run.json", _replay())
    _kineto(tmp_path / "capture_traces" / "bs_1.json", _capture("Net_0"))
    found = analyze_file(path, tmp_path / "out.sqlite")
    assert {(name, grade) for name, grade, _ in _grades(found)} == {
        ("/Net_0/gemm", "capture"),
        ("/Net_0/relu", "capture"),
    }
    assert found.query(
        "SELECT num_calls, gpu_time_sum FROM view_op_metrics WHERE kernel_calls"
    ) == [
        (1, 5000),
        (1, 5000),
    ]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "does not hold their capture"),
        ({"bs_1": _capture("Net_0", ("gemm", "gelu"))}, "no capture that was read"),
        ({"bs_1": _capture("Net_0", ("gemm",))}, "no capture that was read"),
        ({"bs_1": _capture("Net_0", ("", ""))}, "no capture that was read"),
        ({"bs_1": _capture("A_0"), "bs_2": _capture("B_0")}, "belong to different ops"),
    ],
    ids=["missing", "other kernels", "fewer kernels", "no names", "two modules"],
)
def test_a_replay_without_its_capture_is_unknown(
    files: dict[str, list[dict[str, Any]]], reason: str, tmp_path: Path
) -> None:
    path = _kineto(tmp_path / "run.json", _replay())
    for name, events in files.items():
        _kineto(tmp_path / "capture_traces" / f"{name}.json", events)
    ((op_name, grade, why),) = _grades(analyze_file(path, tmp_path / "out.sqlite"))
    assert (op_name, grade) == ("/decode", "unknown")
    assert reason in why


def test_a_capture_ends_before_the_next_one_of_its_thread(tmp_path: Path) -> None:
    path = _kineto(tmp_path / "run.json", _replay())
    later = [
        event | {"ts": event["ts"] + 100, "args": event["args"] | {"correlation": 1000 + number}}
        for number, event in enumerate(_capture("Other_0", ("gelu",)))
    ]
    _kineto(tmp_path / "capture_traces" / "all.json", [*_capture("Net_0"), *later])
    found = analyze_file(path, tmp_path / "out.sqlite")
    names = {(name, grade) for name, grade, _ in _grades(found)}
    assert names == {("/Net_0/gemm", "capture"), ("/Net_0/relu", "capture")}


def test_captures_of_several_batch_sizes_in_the_same_modules_agree(tmp_path: Path) -> None:
    path = _kineto(tmp_path / "run.json", _replay())
    for size in (1, 2, 4):
        _kineto(tmp_path / "capture_traces" / f"bs_{size}.json", _capture("Net_0"))
    found = analyze_file(path, tmp_path / "out.sqlite")
    assert {grade for _, grade, _ in _grades(found)} == {"capture"}


def test_a_damaged_capture_is_named_and_left_out(tmp_path: Path) -> None:
    path = _kineto(tmp_path / "run.json", _replay())
    (tmp_path / "capture_traces").mkdir()
    (tmp_path / "capture_traces" / "bs_1.json").write_text('{"traceEvents": [{"ph": "X"')
    found = analyze_file(path, tmp_path / "out.sqlite")
    assert found.warnings()["UNREADABLE_CAPTURE"] == 1
    assert {grade for _, grade, _ in _grades(found)} == {"unknown"}


def test_captures_that_are_left_out_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captures, "MAX_FILES", 1)
    path = _kineto(tmp_path / "run.json", _replay())
    for size in (1, 2, 4):
        _kineto(tmp_path / "capture_traces" / f"bs_{size}.json", _capture("Net_0"))
    found = analyze_file(path, tmp_path / "out.sqlite")
    assert found.warnings() == {"TOO_MANY_CAPTURES": 2}
    assert {grade for _, grade, _ in _grades(found)} == {"capture"}


def _graph(updated: bool) -> Trace:
    """An op whose kernel is captured as a node, and two replays of its clone."""
    trace = Trace()
    trace.gpu(0)
    main = trace.thread(100)
    main.range("torch.nn: Net (Net)", 0, 50)
    main.op("linear", 5, 40, seq=0)
    main.call("cudaLaunchKernel_v7000", 10, 20)
    trace.add(
        "CUDA_GRAPH_NODE_EVENTS",
        start=15,
        end=15,
        globalTid=main.global_tid,
        graphNodeId=1,
        originalGraphNodeId=None,
    )
    main.call("cudaGraphInstantiate_v12000", 60, 80)
    for at, source in ((65, None), (66, 1)):
        trace.add(
            "CUDA_GRAPH_NODE_EVENTS",
            start=at,
            end=at,
            globalTid=main.global_tid,
            graphNodeId=9,
            originalGraphNodeId=source,
        )
    for at in (100, 200):
        number = main.call("cudaGraphLaunch_v10000", at, at + 5)
        main.process.kernel("gemm", at + 10, at + 20, correlation=number)["graphNodeId"] = 9
        if updated:
            main.call("cudaGraphExecUpdate_v10020", at + 50, at + 60)
    return trace


def test_a_clone_of_a_captured_node_belongs_to_its_op(tmp_path: Path) -> None:
    found = analyze(_graph(updated=False), tmp_path)
    assert [row[:2] for row in _grades(found)] == [("/Net/linear", "capture")]
    # The capture itself, which launched nothing, and two replays.
    calls = "SELECT num_calls, kernel_calls, gpu_time_sum, cpu_time_sum FROM view_op_metrics"
    assert found.query(f"{calls} WHERE op_node_type = 'linear'") == [(3, 2, 20, 35)]


def test_a_node_is_made_by_the_call_around_it_after_another_call_in_there(tmp_path: Path) -> None:
    trace = _graph(updated=False)
    trace.thread(100).call("cuKernelGetFunction", 11, 13, correlation=500)
    assert [row[:2] for row in _grades(analyze(trace, tmp_path))] == [("/Net/linear", "capture")]


def test_replays_after_an_update_in_place_are_unknown(tmp_path: Path) -> None:
    found = analyze(_graph(updated=True), tmp_path)
    grades = {name: (grade, why) for name, grade, why in _grades(found)}
    assert grades["/Net/linear"][0] == "capture"
    others = [value for name, value in grades.items() if name != "/Net/linear"]
    assert others == [("unknown", "CUDA graphs replayed it after a graph was changed in place.")]


def _annotated(
    folder: Path, change: Callable[[list[dict[str, Any]]], None] | None = None
) -> Analyzed:
    """Four replays of a graph whose eight kernels the program annotated, as PyTorch 2.14 does."""
    packed = Path(__file__).parents[1] / "data" / "cases" / "graph_annotations.trace.json.xz"
    trace = json.loads(lzma.decompress(packed.read_bytes()))
    if change:
        change([event for event in trace["traceEvents"] if event["cat"] == "kernel"])
    (folder / "trace.json").write_text(json.dumps(trace))
    return analyze_file(folder / "trace.json", folder / "out.sqlite")


ANNOTATED = (
    "SELECT op_node_name, direction, kernel_calls, gpu_time, name_grade FROM view_op_nodes"
    " WHERE aggr_id = 1 AND kernel_calls > 0 ORDER BY 1, 2"
)
MODULES = ("/layers/0/attention/wo", "/layers/0/attention/wq", "/layers/0/feed_forward/w1", "/norm")


def test_annotations_of_nodes_name_the_modules_of_replays(tmp_path: Path) -> None:
    found = _annotated(tmp_path)
    assert found.query(ANNOTATED) == [
        (module, direction, 4, 160_000, "annotated")
        for module in MODULES
        for direction in ("bprop", "fprop")
    ]
    streams = "SELECT DISTINCT stream_id FROM kernels ORDER BY 1"
    assert found.query(streams) == [(33,), (34,), (35,), (36,)]
    # Forty samples of a counter, the last of which stands for a time after the profile.
    assert found.warnings() == {"UNUSED_EVENTS": 1}
    counters = "SELECT c.name, c.unit, c.source, count(*), min(s.value), max(s.value)"
    counters += " FROM counters AS c JOIN counter_samples AS s ON s.counter = c.id"
    assert found.query(counters) == [("SMs Active", "percent", "kineto", 39, 5000, 8800)]
    using = "SELECT DISTINCT tc_eligible, using_tc FROM view_op_nodes WHERE op_node_type = 'wq'"
    assert found.query(using) == [(1, 1)]


def test_nodes_without_an_annotation_belong_to_the_op_that_launched_them(tmp_path: Path) -> None:
    def forget_norm(kernels: list[dict[str, Any]]) -> None:
        for kernel in kernels:
            if kernel["args"]["name"] == "norm":
                del kernel["args"]["name"]

    rows = _annotated(tmp_path, forget_norm).query(ANNOTATED)
    assert [row[0] for row in rows] == [*(name for name in MODULES[:3] for _ in range(2)), STRAY]
    assert rows[-1][2:] == (8, 320_000, "unknown")


STRAY = "unassociated_cudaGraphLaunch"


def test_replays_that_no_annotation_names_belong_to_the_launch(tmp_path: Path) -> None:
    """Node ids alone name nothing: the registry of the annotations was not written."""

    def forget_all(kernels: list[dict[str, Any]]) -> None:
        for kernel in kernels:
            kernel["args"] = {
                name: value
                for name, value in kernel["args"].items()
                if name not in {"name", "autograd_phase", "original_stream"}
            }

    [row] = _annotated(tmp_path, forget_all).query(ANNOTATED)
    assert (row[0], *row[2:]) == (STRAY, 32, 1_280_000, "unknown")


def test_node_ids_that_repeat_mix_no_modules(tmp_path: Path) -> None:
    def repeat(kernels: list[dict[str, Any]]) -> None:
        for kernel in kernels:
            kernel["args"] |= {"graph id": 1, "graph node id": 7}

    (tmp_path / "repeated").mkdir()
    expected = _annotated(tmp_path).query(ANNOTATED)
    assert _annotated(tmp_path / "repeated", repeat).query(ANNOTATED) == expected


def test_a_backward_pass_has_the_name_of_a_forward_pass_without_kernels(tmp_path: Path) -> None:
    def keep_backward(kernels: list[dict[str, Any]]) -> None:
        for kernel in kernels:
            kernel["args"]["autograd_phase"] = "backward"

    rows = _annotated(tmp_path, keep_backward).query(ANNOTATED)
    assert rows == [(module, "bprop", 8, 320_000, "annotated") for module in MODULES]


def test_work_outside_graphs_keeps_the_op_that_launched_it(tmp_path: Path) -> None:
    def launch_in_op(kernels: list[dict[str, Any]]) -> None:
        # The correlation ids of the copies, which aten::copy_ makes.
        for kernel in kernels:
            kernel["args"]["correlation"] -= 1

    rows = _annotated(tmp_path, launch_in_op).query(ANNOTATED)
    assert [row[:3] for row in rows] == [("/copy_", "fprop", 32)]
