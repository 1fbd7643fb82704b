"""Our markers add backward passes, parameters, data types and own times to a profile."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.errors import NoFrameworkRangesError
from aggregator.options import Mode
from tests.builders import Thread, Trace, analyze, one_gpu, query
from tests.conftest import ProfileFactory

OPS = (
    "SELECT op_node_name, direction, op_node_type, num_calls, kernel_calls, cpu_time_sum "
    "FROM view_op_metrics ORDER BY op_node_name, direction"
)


def name_thread(trace: Trace, thread: Thread, name: str) -> None:
    trace.add("ThreadNames", globalTid=thread.global_tid, nameId=trace.string(name))


def marked_step(main: Thread, at: int) -> None:
    """A forward pass as the markers write it where emit_nvtx is off."""
    main.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, at + 50)
    main.range("torch.nn: Net (Net)", at + 100, at + 400)
    main.range('torch.nn: fc (Linear) {"dtype":"float32"}', at + 110, at + 390)
    sizes = "[[8, 16], [4, 16], [4]]"
    text = f"torch.nn::linear, op_id = 0, sizes = {sizes}, input_op_ids = []"
    main.range(text, at + 120, at + 380)
    main.launch("forward", at + 130)


def unmarked_backward(engine: Thread, at: int, launches: int = 3) -> None:
    for number in range(launches):
        engine.call("cudaEventRecord_v3020", at + 20 * number, at + 20 * number + 2)
        engine.launch(f"backward{number}", at + 20 * number + 5)


@pytest.mark.parametrize("is_named", [True, False])
def test_a_backward_pass_without_ranges_is_one_op_with_a_call_per_iteration(
    tmp_path: Path, is_named: bool
) -> None:
    trace, main = one_gpu()
    engine = main.process.thread(2)
    pinning = main.process.thread(3)
    for step in range(4):
        marked_step(main, 10_000 * step)
        unmarked_backward(engine, 10_000 * step + 1_000)
        pinning.copy(10_000 * step + 1_010, gpu=(10_000 * step + 1_020, 10_000 * step + 1_030))
    if is_named:
        name_thread(trace, engine, "pt_autograd_0")
        name_thread(trace, main, "python3")
    found = analyze(trace, tmp_path)
    ops = {row[0]: row[1:] for row in found.query(OPS)}
    # From the first call (0) to the end of the last launch (20 * 2 + 5 + 2), four times.
    assert ops["/backward"] == ("bprop", "backward", 4, 12, 4 * 47)
    assert ops["/Net/fc/linear"][:4] == ("fprop", "linear", 4, 4)
    # A thread that only copies is no engine's.
    assert ops["unassociated_cudaMemcpyAsync_v3020"][2] == 4
    assert found.warnings()["NO_BACKWARD_RANGES"] == 12
    assert len(found.iterations()) == 5
    assert found.result.mode == "pytorch"
    shapes = found.query(
        "SELECT DISTINCT input_shapes, output_shapes FROM view_kernel_launches "
        "WHERE op_node_name = '/Net/fc/linear'"
    )
    assert shapes == [("<N:8, K:16>; <M:4, K:16>; <4>", "<N:8, M:4>")]


def test_a_name_of_no_thread_is_left_out(tmp_path: Path) -> None:
    trace = Trace()
    main = trace.thread()
    engine = main.process.thread(2)
    for step in range(2):
        marked_step(main, 10_000 * step)
        unmarked_backward(engine, 10_000 * step + 1_000)
    name_thread(trace, engine, "pt_autograd_0")
    for nothing in ("", "no number", b"\xff", None, 1.5):
        trace.add("ThreadNames", globalTid=nothing, nameId=trace.string("lost"))
    found = analyze(trace, tmp_path)
    names = {name for (name,) in found.query("SELECT op_node_name FROM view_op_nodes")}
    assert "/backward" in names


def test_two_backward_passes_in_an_iteration_are_two_calls_of_one_op(tmp_path: Path) -> None:
    trace = Trace()
    main = trace.thread()
    engine = main.process.thread(2)
    name_thread(trace, engine, "pt_autograd_0")
    for step in range(3):
        at = 10_000 * step
        marked_step(main, at)
        unmarked_backward(engine, at + 1_000)
        marked_step(main, at + 2_000)
        unmarked_backward(engine, at + 3_000)
    found = analyze(trace, tmp_path)
    rows = {row[0]: row for row in found.query(OPS)}
    assert rows["/backward"][3] == 6
    assert sum(name.startswith("/backward") for name in rows) == 1


def test_processes_have_a_backward_op_each(tmp_path: Path) -> None:
    trace = Trace()
    for rank in range(2):
        main = trace.thread(pid=100 + rank)
        engine = main.process.thread(2)
        name_thread(trace, engine, f"pt_autograd_{rank}")
        for step in range(3):
            marked_step(main, 10_000 * step)
            unmarked_backward(engine, 10_000 * step + 1_000)
    rows = {row[0]: row for row in analyze(trace, tmp_path).query(OPS)}
    # They share a GPU and no collective: they are not ranks of one job.
    assert rows["/process_100/backward"][3:5] == rows["/process_101/backward"][3:5] == (3, 9)


def test_where_a_backward_node_has_a_range_nothing_is_combined(tmp_path: Path) -> None:
    trace = Trace()
    main = trace.thread()
    engine = main.process.thread(2)
    name_thread(trace, engine, "pt_autograd_0")
    main.op("linear", 100, 200, seq=1)
    main.launch("forward", 110)
    engine.backward("AddmmBackward0", 300, 400, seq=1)
    engine.launch("dgrad", 310)
    engine.launch("stray", 500)
    found = analyze(trace, tmp_path)
    assert found.kernels()["stray"][0].startswith("unassociated_")
    assert "NO_BACKWARD_RANGES" not in found.warnings()


def test_a_thread_beside_numbered_ops_is_no_engine(tmp_path: Path) -> None:
    trace = Trace()
    main = trace.thread()
    main.op("linear", 100, 200, seq=1)
    main.launch("forward", 110)
    main.process.thread(2).launch("other", 300)
    assert analyze(trace, tmp_path).kernels()["other"][0].startswith("unassociated_")


def test_a_capture_without_any_range_is_read_where_pytorch_is_asked_for(tmp_path: Path) -> None:
    trace = Trace()
    main = trace.thread()
    engine = main.process.thread(2)
    for step in range(3):
        main.launch("forward", 1_000 * step)
        unmarked_backward(engine, 1_000 * step + 100)
    with pytest.raises(NoFrameworkRangesError):
        analyze(trace, tmp_path, mode=Mode.PYTORCH)
    name_thread(trace, engine, "pt_autograd_0")
    found = analyze(trace, tmp_path, mode=Mode.PYTORCH)
    rows = {row[0]: row for row in found.query(OPS)}
    assert rows["/backward"][3:5] == (3, 9)
    assert analyze(trace, tmp_path).result.mode == "simple"


def test_what_a_checkpoint_computes_again_counts_its_time_once(tmp_path: Path) -> None:
    trace = Trace()
    main = trace.thread()
    engine = main.process.thread(2)
    main.range("torch.nn: Net (Net)", 0, 200)
    main.op("linear", 10, 110, seq=1)
    main.launch("forward", 20)
    engine.wrapper("CheckpointFunctionBackward", 300, 800)
    engine.node("CheckpointFunctionBackward", 302, 798, seq=1)
    engine.range("torch.nn: Net (Net)", 310, 500)
    engine.op("linear", 320, 420, seq=7)
    engine.launch("again", 330)
    engine.backward("AddmmBackward0", 510, 710, seq=7)
    engine.launch("dgrad", 520)
    found = analyze(trace, tmp_path)
    rows = found.query("SELECT op_node_name, direction, cpu_time_sum FROM view_op_metrics")
    times = {(name, direction): time for name, direction, time in rows}
    assert times == {
        ("/Net/linear", "fprop"): 100,
        ("/Net/linear", "bprop"): 500 - 100 - 200,
        ("/recompute/Net/linear", "recompute"): 100,
        ("/recompute/Net/linear", "bprop"): 200,
    }


def _backward_of_relu(engine: Thread, start: int) -> None:
    """The node of ``relu``; a checkpoint runs its segment again when the node needs its input."""
    engine.wrapper("ReluBackward0", start, start + 900)
    engine.node("ReluBackward0", start + 2, start + 898, seq=2)


def test_what_a_checkpoint_computes_again_are_ops_of_its_own(tmp_path: Path) -> None:
    trace = Trace()
    main = trace.thread()
    engine = main.process.thread(2)
    main.op("linear", 10, 110, seq=1)
    main.op("relu_", 120, 180, seq=2)
    main.launch("forward", 130)
    _backward_of_relu(engine, 300)
    engine.op("linear", 310, 410, seq=7)
    engine.op("addmm", 320, 400, seq=7)
    engine.launch("again", 330)
    engine.op("empty", 420, 430)
    engine.op("relu_", 440, 500, seq=8)
    engine.launch("relu again", 450)
    engine.op("threshold_backward", 600, 700)
    engine.launch("own", 610)
    engine.backward("AddmmBackward0", 1300, 1400, seq=1)
    found = analyze(trace, tmp_path)
    kernels = found.kernels()
    assert kernels["again"][:1] == ("/recompute/linear",)
    assert kernels["relu again"][:1] == ("/recompute/relu_",)
    assert kernels["own"][:1] == ("/relu_",)
    rows = found.query(
        "SELECT op_node_name, direction, kernel_calls, cpu_time_sum FROM view_op_metrics"
        " WHERE op_node_type IN ('relu_', 'linear') ORDER BY 1, 2"
    )
    assert rows == [
        ("/linear", "bprop", 0, 100),
        ("/linear", "fprop", 0, 100),
        ("/recompute/linear", "recompute", 1, 100),
        ("/recompute/relu_", "recompute", 1, 60),
        ("/relu_", "bprop", 1, 900 - 100 - 10 - 60),
        ("/relu_", "fprop", 1, 60),
    ]


def test_a_backward_pass_that_records_a_graph_recomputes_nothing(tmp_path: Path) -> None:
    trace = Trace()
    main = trace.thread()
    engine = main.process.thread(2)
    main.op("relu_", 120, 180, seq=2)
    _backward_of_relu(engine, 300)
    engine.op("zeros", 320, 400)
    engine.op("threshold_backward", 600, 700, seq=9)
    engine.launch("own", 610)
    found = analyze(trace, tmp_path)
    assert found.kernels()["own"][0] == "/relu_"
    assert found.query("SELECT count(*) FROM ops WHERE direction = 'recompute'") == [(0,)]


def test_recomputed_ops_of_a_public_trace_are_found(imported: ProfileFactory) -> None:
    database = imported("mi300__resnet_act_checkpoint.json.gz")
    rows = query(
        database,
        "SELECT op_node_type, direction, sum(kernel_calls), sum(kernel_time)"
        " FROM view_op_metrics WHERE op_node_type IN ('relu_', 'conv2d') GROUP BY 1, 2",
    )
    found = {row[:2]: row[2:] for row in rows}
    assert found["relu_", "bprop"] == (51, 239_389)
    assert found["relu_", "recompute"][0] == 48
    assert found["conv2d", "recompute"][0] > 0


def test_parameters_separate_convolutions_of_one_shape(tmp_path: Path) -> None:
    trace = Trace()
    main = trace.thread()
    sizes = "[[8, 3, 32, 32], [6, 3, 3, 3], [], [], [], [], []]"
    markers = ('{"stride":[2,2],"padding":[1,1],"dtype":"float16"}', '{"stride":[1,1]}', "")
    for number, more in enumerate(markers):
        at = 1_000 * number
        name = f"torch.nn: conv{number} (Conv2d) {more}".strip()
        main.range(name, at, at + 500)
        main.op("conv2d", at + 10, at + 400, seq=number, sizes=sizes)
        main.launch(f"kernel{number}", at + 20)
    found = analyze(trace, tmp_path)
    rows = found.query(
        "SELECT input_shapes, parameters, output_shapes FROM view_kernel_launches ORDER BY row_id"
    )
    inputs = "<N:8, C:3, H:32, W:32>; <K:6, C:3, R:3, S:3>"
    assert rows == [
        (inputs, "<SH:2, SW:2>; <PH:1, PW:1>; <DH:1, DW:1>; <G:1>", "<N:8, K:6, P:16, Q:16>"),
        (inputs, "", "<N:8, K:6, P:30, Q:30>"),
        # The stride of this one is not recorded.
        (inputs, "", ""),
    ]


def test_data_types_hold_for_all_of_a_layer_except_casts_in_a_matrix_layer(
    tmp_path: Path,
) -> None:
    trace = Trace()
    main = trace.thread()
    layers = (
        ('torch.nn: norm (LayerNorm) {"input_dtype":"float32"}', "layer_norm"),
        ('torch.nn: fc (Linear) {"dtype":"float16"}', "linear"),
        ('torch.nn: fc (Linear) {"dtype":"float16"}', "to"),
        ("torch.nn: body (Body)", "add"),
    )
    for number, (marker, op) in enumerate(layers):
        at = 1_000 * number
        main.range(marker, at, at + 500)
        main.op(op, at + 10, at + 400, seq=number)
        main.launch(f"kernel{number}", at + 20)
    rows = analyze(trace, tmp_path).query("SELECT op_node_type, data_type FROM view_op_nodes")
    assert dict(rows) == {"layer_norm": "float32", "linear": "float16", "to": "", "add": ""}


def test_calls_that_wrote_no_shapes_join_those_that_did_where_no_loop_is_found(
    tmp_path: Path,
) -> None:
    trace = Trace()
    main = trace.thread()
    for call in range(2):
        at = 1_000 * call
        main.range("torch.nn: Net (Net)", at, at + 900)
        # Of one shape; of two shapes, where those without any stay apart.
        main.op("linear", at + 10, at + 100, sizes="[[8, 4], [2, 4]]" if not call else "")
        main.launch(f"linear{call}", at + 20)
        main.op("add", at + 200, at + 300, sizes="[[8], [8]]" if not call else "")
        main.launch(f"add{call}", at + 210)
        main.op("add", at + 400, at + 500, sizes="[[9], [9]]" if not call else "")
        main.launch(f"again{call}", at + 410)
    ops = analyze(trace, tmp_path).ops()
    assert ops["/Net/linear", "fprop"] == 2
    assert sorted(calls for (name, _), calls in ops.items() if "add" in name) == [1, 1, 2]


def test_dlprofs_own_markers_without_emit_nvtx_have_a_combined_backward_too(tmp_path: Path) -> None:
    trace = Trace()
    main = trace.thread()
    engine = main.process.thread(2)
    trace_marker = "{'traceMarker': ['train.py:3'], 'funcStack': '/<module>/linear'}"
    tensor = "{'name': '', 'type': 'tensor', 'shape': (8, 16), 'dtype': 'float32'}"
    op = f"{{'mod': 'torch.nn.functional', 'op': 'linear', 'args': [{tensor}]}}"
    for step in range(3):
        at = 10_000 * step
        main.range(trace_marker, at + 90, at + 410)
        main.range(op, at + 100, at + 400)
        main.launch("forward", at + 110)
        unmarked_backward(engine, at + 1_000)
    rows = {row[0]: row for row in analyze(trace, tmp_path).query(OPS)}
    assert rows["/backward"][1:5] == ("bprop", "backward", 3, 9)
    assert {row[2] for row in rows.values()} == {"linear", "backward"}
