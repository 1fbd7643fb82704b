"""Each op owns its work: one small trace per rule, expected values inline.

Every kernel of a trace has a name of its own, so that ``kernels()`` returns the owner of each.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.options import Mode
from tests.builders import LAUNCH, START_END, Analyzed, Trace, analyze, one_gpu

FPROP, BPROP = "fprop", "bprop"


def _op_rows(analyzed: Analyzed, *columns: str) -> dict[str, tuple[object, ...]]:
    """Columns of every op by Op ID."""
    rows = analyzed.query(f"SELECT op_node_id, {', '.join(columns)} FROM view_op_metrics")
    return {row[0]: row[1:] for row in rows}


# --- forward ops ----------------------------------------------------------------------------------


def test_outermost_operator_range_is_the_op_and_owns_everything_inside_it(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.op("linear", 100, 200, seq=1)
    main.op("addmm", 110, 190, seq=1)
    main.op("empty", 115, 118)
    main.launch("gemm", 120)
    main.launch("tail", 194)
    found = analyze(trace, tmp_path)
    assert found.ops() == {("/linear", FPROP): 1}
    assert found.kernels() == {"gemm": ("/linear", FPROP), "tail": ("/linear", FPROP)}


def test_times_of_an_op_add_up(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.op("linear", 100, 200, seq=1)
    # Two calls of 10 and 5 ns, the second overlapping a driver call inside it.
    main.launch("a", 110, length=10, gpu=(130, 160))
    main.launch("b", 140, length=5, gpu=(150, 170), stream=8)
    main.call("cuLaunchKernel", 141, 144)
    main.set(160, gpu=(190, 230))
    found = analyze(trace, tmp_path)
    expected = {
        "cpu_time_sum": 100,
        "cpu_overhead_sum": 100 - 10 - 5 - 2,
        "gpu_time_sum": (170 - 130) + (230 - 190),
        "gpu_idle_sum": 190 - 170,
        "kernel_calls": 2,
        "num_calls": 1,
        "gpu_time_min": 80,
        "gpu_time_max": 80,
    }
    assert _op_rows(found, *expected) == {"LINEAR_1": tuple(expected.values())}
    # Kernel tables sum what op tables flatten, and hold no memory operations.
    kernel_times = found.query("SELECT kernel_name, gpu_time FROM view_kernel_summaries ORDER BY 1")
    assert kernel_times == [("a", 30), ("b", 20)]


def test_each_thread_has_its_own_open_ops(tmp_path: Path) -> None:
    trace, main = one_gpu()
    other = main.process.thread(2)
    main.op("conv2d", 100, 200)
    other.op("relu", 100, 200)
    main.launch("on_main", 120)
    other.launch("on_other", 121)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {"on_main": ("/conv2d", FPROP), "on_other": ("/relu", FPROP)}


def test_equal_correlation_ids_of_two_processes_stay_apart(tmp_path: Path) -> None:
    trace = Trace()
    trace.gpu(0)
    trace.gpu(1)
    for pid, device, kernel, op in ((300, 1, "of_rank_1", "relu"), (100, 0, "of_rank_0", "gelu")):
        thread = trace.thread(pid)
        thread.op(op, 100, 200)
        assert thread.launch(kernel, 120, device=device) == 1, "both processes begin with 1"
    found = analyze(trace, tmp_path)
    assert found.kernels() == {
        "of_rank_0": ("/rank_0/gelu", FPROP),
        "of_rank_1": ("/rank_1/relu", FPROP),
    }
    devices = found.query("SELECT kernel_name, device_id, process_id FROM view_kernel_launches")
    assert sorted(devices) == [("of_rank_0", 0, 100), ("of_rank_1", 1, 300)]


def test_autocast_writes_an_op_twice_and_it_is_one_call(tmp_path: Path) -> None:
    trace, main = one_gpu()
    engine = main.process.thread(2)
    main.op("conv2d", 100, 200, seq=0)
    main.op("to", 110, 120, seq=0)
    main.launch("cast", 112)
    main.op("conv2d", 130, 190, seq=1)
    main.op("cudnn_convolution", 140, 180, seq=1)
    main.launch("conv", 150)
    engine.backward("ConvolutionBackward0", 300, 400, seq=1)
    engine.launch("dgrad", 320)
    engine.backward("ToCopyBackward0", 410, 450, seq=0)
    engine.launch("cast_back", 420)
    found = analyze(trace, tmp_path)
    assert found.ops() == {("/conv2d", FPROP): 1, ("/conv2d", BPROP): 1}
    assert found.kernels() == {
        "cast": ("/conv2d", FPROP),
        "conv": ("/conv2d", FPROP),
        "dgrad": ("/conv2d", BPROP),
        "cast_back": ("/conv2d", BPROP),
    }


def test_a_kernel_belongs_to_the_op_that_launched_it_however_late_it_runs(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.op("conv2d", 100, 200)
    main.launch("late", 120, gpu=(500, 900))
    main.op("relu", 300, 1000)
    main.launch("prompt", 310, gpu=(900, 950))
    found = analyze(trace, tmp_path)
    assert found.kernels() == {"late": ("/conv2d", FPROP), "prompt": ("/relu", FPROP)}


def test_of_several_calls_with_one_correlation_id_the_outermost_launched(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.op("conv2d", 100, 200)
    number = main.call(LAUNCH, 120, 140)
    main.call("cuLaunchKernel", 125, 135, correlation=number)
    main.process.kernel("k", 150, 160, correlation=number)
    found = analyze(trace, tmp_path)
    sql = "SELECT kernel_name, api_start, api_duration FROM view_kernel_launches"
    assert found.query(sql) == [("k", 120, 20)]


def test_a_call_may_launch_many_kernels(tmp_path: Path) -> None:
    # A CUDA graph traced node by node: all its kernels bear the launching call's number.
    trace, main = one_gpu()
    main.op("compiled_graph", 100, 200)
    number = main.call("cudaGraphLaunch_v10000", 110, 130)
    for position in range(3):
        main.process.kernel(f"node{position}", 200 + position, 210 + position, correlation=number)
    main.process.copy(220, 230, correlation=number)
    found = analyze(trace, tmp_path)
    assert set(found.kernels().values()) == {("/compiled_graph", FPROP)}
    assert found.query("SELECT kernel_calls, gpu_time FROM view_op_nodes") == [(3, 12 + 10)]
    assert found.query("SELECT op_node_id FROM view_memory_ops") == [("COMPILED_GRAPH_1",)]


def test_one_process_may_use_several_gpus(tmp_path: Path) -> None:
    trace, main = one_gpu()
    trace.gpu(1)
    main.op("conv2d", 100, 200)
    main.launch("on_0", 110, device=0, gpu=(120, 150))
    main.launch("on_1", 130, device=1, gpu=(140, 180))
    found = analyze(trace, tmp_path)
    assert found.ops() == {("/conv2d", FPROP): 1}
    # The union is over the op's work wherever it ran.
    assert found.query("SELECT gpu_time FROM view_op_nodes") == [(60,)]
    sql = "SELECT device_id, device_gpu_utilization FROM view_gpu_devices ORDER BY 1"
    assert found.query(sql) == [(0, round(3000 / 180, 6)), (1, round(4000 / 180, 6))]


# --- backward -------------------------------------------------------------------------------------


def test_backward_node_belongs_to_the_last_range_that_started_with_its_number(
    tmp_path: Path,
) -> None:
    trace, main = one_gpu()
    engine = main.process.thread(2)
    # Ranges that record no node carry the number that the next recorded op will get.
    main.op("add_", 100, 110, seq=1)
    main.op("batch_norm", 120, 200, seq=1)
    main.op("_batch_norm_impl_index", 130, 190, seq=1)
    main.op("cudnn_batch_norm", 140, 180, seq=1)
    main.op("to", 210, 220, seq=2)
    main.op("conv2d", 230, 300, seq=2)
    main.op("convolution", 240, 290, seq=2)
    engine.backward("ConvolutionBackward0", 400, 450, seq=2)
    engine.launch("dconv", 410)
    # Started after the node: not its forward side, whatever its number.
    main.op("item", 415, 420, seq=2)
    engine.backward("CudnnBatchNormBackward0", 460, 500, seq=1)
    engine.launch("dnorm", 470)
    main.op("item", 510, 520, seq=1)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {"dconv": ("/conv2d", BPROP), "dnorm": ("/batch_norm", BPROP)}


def test_sequence_numbers_of_another_process_do_not_link(tmp_path: Path) -> None:
    trace = Trace()
    trace.gpu(0)
    trace.gpu(1)
    for pid, op in ((100, "conv2d"), (200, "linear")):
        main = trace.thread(pid)
        engine = main.process.thread(2)
        main.op(op, 100 + pid, 150 + pid, seq=5)
        main.launch(f"f{pid}", 110 + pid, device=pid // 200)
        engine.backward("Backward0", 500 + pid, 540 + pid, seq=5)
        engine.launch(f"b{pid}", 510 + pid, device=pid // 200)
    kernels = analyze(trace, tmp_path).kernels()
    assert kernels["b100"] == ("/rank_0/conv2d", BPROP)
    assert kernels["b200"] == ("/rank_1/linear", BPROP)


def test_work_of_the_wrapper_around_a_node_is_backward_work_of_the_op(tmp_path: Path) -> None:
    trace, main = one_gpu()
    engine = main.process.thread(2)
    main.op("linear", 100, 200, seq=3)
    engine.wrapper("AddmmBackward0", 300, 400)
    engine.launch("before_node", 305)
    engine.node("AddmmBackward0", 320, 360, seq=3)
    engine.op("mm", 325, 350)
    engine.launch("in_node", 330)
    engine.op("add_", 370, 390)
    engine.launch("after_node", 375)
    found = analyze(trace, tmp_path)
    assert found.ops() == {("/linear", FPROP): 1, ("/linear", BPROP): 1}
    assert set(found.kernels().values()) == {("/linear", BPROP)}
    assert _op_rows(found, "cpu_time_sum", "kernel_calls", "op_node_name") == {
        "LINEAR_1": (100, 0, "/linear"),
        "LINEAR_BPROP_1": (100, 3, "/linear"),
    }


def test_all_backward_nodes_of_one_forward_call_are_one_backward_call(tmp_path: Path) -> None:
    trace, main = one_gpu()
    engine = main.process.thread(2)
    main.op("linear", 100, 200, seq=1)
    main.op("t", 110, 120, seq=1)
    main.op("addmm", 130, 190, seq=2)
    engine.backward("AddmmBackward0", 300, 340, seq=2)
    engine.launch("mm", 310)
    engine.backward("TBackward0", 350, 370, seq=1)
    found = analyze(trace, tmp_path)
    assert found.ops() == {("/linear", FPROP): 1, ("/linear", BPROP): 1}
    assert _op_rows(found, "cpu_time_sum")["LINEAR_BPROP_1"] == (40 + 20,)


def test_a_second_pass_over_one_graph_is_a_second_backward_call(tmp_path: Path) -> None:
    trace, main = one_gpu()
    engine = main.process.thread(2)
    main.op("linear", 100, 200, seq=1)
    main.launch("gemm", 110)
    engine.backward("AddmmBackward0", 300, 340, seq=1)
    engine.backward("AddmmBackward0", 400, 440, seq=1)
    assert analyze(trace, tmp_path).ops() == {("/linear", FPROP): 1, ("/linear", BPROP): 2}


def test_the_first_node_of_a_wrapper_names_its_op_and_its_pass(tmp_path: Path) -> None:
    trace, main = one_gpu()
    engine = main.process.thread(2)
    main.op("linear", 100, 200, seq=1)
    main.op("relu", 210, 220, seq=2)
    for at, seq in ((300, 2), (400, 3)):
        engine.wrapper("AddmmBackward0", at, at + 40)
        engine.node("AddmmBackward0", at + 2, at + 20, seq=1)
        engine.node("ReluBackward0", at + 22, at + 38, seq=seq)
        engine.launch(f"gemm{at}", at + 5)
    found = analyze(trace, tmp_path)
    assert set(found.kernels().values()) == {("/linear", BPROP)}
    assert found.ops()["/linear", BPROP] == 2


def test_backward_work_without_an_op_is_in_the_groups_of_the_thread_that_has_most(
    tmp_path: Path,
) -> None:
    trace, loader = one_gpu()
    main, engine = loader.process.thread(5), loader.process.thread(9)
    loader.range("prefetching", 0, 1000)
    main.range("iteration 0", 50, 500)
    main.range("iteration 1", 500, 900)
    engine.wrapper("torch::autograd::AccumulateGrad", 300, 340)
    engine.launch("accumulate", 310)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {"accumulate": ("/iteration #/backward/AccumulateGrad", BPROP)}


def test_gradient_accumulation_has_no_forward_op_and_is_an_op_of_its_own(tmp_path: Path) -> None:
    trace, main = one_gpu()
    engine = main.process.thread(2)
    main.op("linear", 100, 200, seq=1)
    engine.wrapper("torch::autograd::AccumulateGrad", 300, 340)
    engine.node("torch::autograd::AccumulateGrad", 305, 330)
    engine.op("new_empty_strided", 310, 320)
    engine.launch("accumulate", 312)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {"accumulate": ("/backward/AccumulateGrad", BPROP)}
    sql = "SELECT op_node_type, direction FROM view_op_nodes WHERE op_node_name LIKE '%Grad'"
    assert found.query(sql) == [("backward", BPROP)]


def test_no_op_is_named_after_the_autograd_engine(tmp_path: Path) -> None:
    trace, main = one_gpu()
    engine = main.process.thread(2)
    main.op("linear", 100, 200, seq=1)
    engine.wrapper("SomeLossBackward0", 300, 340)
    engine.launch("orphan", 310)
    engine.wrapper("torch::autograd::CopyBackwards", 350, 390)
    engine.node("torch::autograd::CopyBackwards", 355, 380, seq=77)
    engine.launch("copies", 360)
    found = analyze(trace, tmp_path)
    assert not [name for name, _ in found.ops() if "autograd::engine" in name]
    assert {direction for _, direction in found.kernels().values()} == {BPROP}


def test_on_the_cpu_the_engine_runs_on_the_main_thread(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.range("iteration 0", 50, 500)
    main.op("linear", 100, 200, seq=1)
    main.backward("AddmmBackward0", 300, 340, seq=1)
    main.launch("mm", 310)
    main.op("relu", 400, 450, seq=2)
    main.launch("relu", 410)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {
        "mm": ("/iteration #/linear", BPROP),
        "relu": ("/iteration #/relu", FPROP),
    }


# --- groups, stray work ---------------------------------------------------------------------------


def test_ranges_without_a_schema_name_are_groups_on_the_path(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.range("iteration 3", 50, 900)
    main.range("DistributedDataParallel.forward, op_id = 15", 90, 400)
    main.op("conv2d", 100, 200, seq=1)
    main.launch("conv", 110)
    main.op("relu", 210, 300, seq=2)
    main.launch("relu", 220)
    found = analyze(trace, tmp_path)
    path = "/iteration #/DistributedDataParallel.forward/"
    assert found.ops() == {(f"{path}conv2d", FPROP): 1, (f"{path}relu", FPROP): 1}
    groups = dict(found.query("SELECT group_name, num_calls FROM view_group_metrics"))
    assert groups == {"/": 2, "/iteration #/": 2, path: 2, "_CompleteModel_": 2}


def test_tensor_core_time_is_that_of_the_tensor_core_kernels_of_an_op(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.op("conv2d", 100, 200, seq=1)
    main.launch("volta_fp16_s884cudnn_fp16_128x128_ldg8_relu_f2f_tn_v1", 110, gpu=(200, 270))
    main.launch("add_kernel", 120, gpu=(300, 330))
    main.launch("mul_kernel", 130, gpu=(340, 390))
    found = analyze(trace, tmp_path)
    times = "SELECT kernel_time, tc_kernel_time FROM view_op_metrics WHERE kernel_calls > 0"
    assert found.query(times) == [(150, 70)]


def test_a_group_without_work_has_no_gpu_time(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.range("forward", 90, 400)
    main.op("view", 100, 200, seq=1)
    main.op("relu", 500, 600, seq=2)
    main.launch("relu", 510)
    found = analyze(trace, tmp_path)
    statistics = ("sum", "avg", "min", "max")
    columns = ", ".join(f"gpu_time_{name}, gpu_idle_{name}" for name in statistics)
    (row,) = found.query(f"SELECT {columns} FROM view_group_metrics WHERE group_name = '/forward/'")
    assert row == (0,) * 8


def test_work_in_a_group_and_in_no_op_belongs_to_an_op_of_the_groups_name(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.range("iteration 3", 50, 900)
    main.range("augment", 90, 400)
    main.op("conv2d", 100, 200, seq=1)
    main.launch("conv", 110)
    main.launch("own", 250, length=20)
    found = analyze(trace, tmp_path)
    assert found.kernels()["own"] == ("/iteration #/augment", FPROP)
    # Its CPU time is that of the calls it makes: the ops in it have theirs.
    sql = "SELECT cpu_time, num_calls, op_node_type FROM view_op_nodes WHERE op_node_name = ?"
    assert found.query(sql, "/iteration #/augment") == [(20, 1, "augment")]


def test_work_outside_every_range_is_unassociated(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.op("conv2d", 100, 200, seq=1)
    main.launch("inside", 110)
    main.launch("outside", 300)
    main.launch("outside_too", 320)
    main.call("cudaDeviceSynchronize_v3020", 400, 450)
    found = analyze(trace, tmp_path)
    stray, sync = f"unassociated_{LAUNCH}", "unassociated_cudaDeviceSynchronize_v3020"
    assert found.ops() == {("/conv2d", FPROP): 1, (stray, ""): 2, (sync, ""): 1}
    assert found.kernels()["outside"] == (stray, "")
    sql = "SELECT op_node_type, tc_eligible, cpu_time FROM view_op_nodes WHERE op_node_name = ?"
    assert found.query(sql, sync) == [("cudaDeviceSynchronize_v3020", 0, 50)]


def test_a_kernel_without_an_api_call_is_kept_and_warned_about(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.op("conv2d", 100, 200, seq=1)
    main.launch("known", 110)
    main.process.kernel("lost", 150, 160, correlation=999)
    main.process.kernel("null", 160, 170, correlation=None)
    main.process.copy(170, 180, correlation=None)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {
        "known": ("/conv2d", FPROP),
        "lost": ("unassociated_lost", ""),
        "null": ("unassociated_null", ""),
    }
    assert found.query("SELECT op_node_id FROM view_memory_ops") == [("MEMCPY_1",)]
    assert found.warnings() == {"WORK_WITHOUT_CALL": 3}


def test_a_call_that_reaches_out_of_its_range_does_not_lie_in_it(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.range("outer", 50, 400)
    main.op("conv2d", 100, 200, seq=1)
    main.launch("inside", 198, length=2)
    main.launch("across", 199, length=2)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {
        "inside": ("/outer/conv2d", FPROP),
        "across": ("/outer", FPROP),
    }


# --- kinds of ranges ------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [None, 5000])
def test_ranges_closed_by_the_end_of_the_capture_are_no_ops(
    tmp_path: Path, end: int | None
) -> None:
    # GIVEN ranges that an exception left open, each inside the one before, and ops after them
    trace, main = one_gpu()
    trace.add("ANALYSIS_DETAILS", duration=5000)
    for start in (10, 20, 30):
        main.range("leaky", start, end)
    main.op("conv2d", 100, 200, seq=1)
    main.launch("conv", 110)
    main.op("relu", 300, 400, seq=2)
    main.launch("relu", 310)
    main.op("linear", 500, end, seq=3)
    main.launch("linear", 510)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {
        "conv": ("/conv2d", FPROP),
        "relu": ("/relu", FPROP),
        "linear": ("unassociated_cudaLaunchKernel_v7000", ""),
    }
    assert found.warnings() == {"OPEN_RANGES": 4}


def test_the_last_repetition_of_a_group_ends_with_the_capture(tmp_path: Path) -> None:
    trace, main = one_gpu()
    trace.add("ANALYSIS_DETAILS", duration=5000)
    for step in range(3):
        start = step * 1000
        main.range(f"step {step}", start, start + 900 if step < 2 else 5000)
        main.op("conv2d", start + 100, start + 200, seq=step)
        main.launch(f"conv_{step}", start + 110)
    found = analyze(trace, tmp_path)
    assert {path for path, _ in found.kernels().values()} == {"/step #/conv2d"}
    assert found.warnings() == {"CUT_RANGES": 1}


def test_what_nsight_systems_lost_is_reported(tmp_path: Path) -> None:
    # GIVEN its own words on a recording of JAX that its importer could not read to the end
    trace, main = one_gpu()
    main.range("iteration 0", 50, 400)
    main.launch("conv", 110)
    failure = "Error when processing events: Source ID=\nType=ErrorInformation (18)\n"
    texts = [failure, failure, "No CUDA events collected. Does the process use CUDA?"]
    texts += ["Number of CUPTI events produced: \t37349, CUPTI buffers: 50."]
    texts += ["Number of CUDA events collected: \t470.", "Number of CUDA events collected: \t3."]
    for text in texts:
        trace.add("DIAGNOSTIC_EVENT", timestamp=1, severity=2, text=text)
    # WHEN it is imported THEN the numbers say what is missing
    found = analyze(trace, tmp_path)
    assert found.warnings() == {"LOST_EVENTS": 2}
    ((message,),) = found.query("SELECT message FROM view_warnings")
    assert "(473 of 37349 CUDA events are there)" in message


def test_a_gpu_whose_records_were_lost_is_not_called_unused(tmp_path: Path) -> None:
    # GIVEN a process that crashed, and one that never used CUDA
    trace, main = one_gpu()
    trace.cuda_device(100, 1, 1)
    trace.gpu(1)
    main.launch("conv", 110)
    not_all = "Not all CUDA events might have been collected."
    not_started = "CUDA profiling might have not been started correctly."
    dropped = "Number of incomplete CUPTI events dropped: 407. Incomplete events appear when ..."
    for pid, severity, text in (
        *((2, 2, not_all), (2, 2, not_started), (1, 2, not_all), (1, 1, dropped)),
        *((1, 3, "Failed to start\nmore"), (1, 3, "Failed to start\nmore")),
    ):
        trace.add("DIAGNOSTIC_EVENT", severity=severity, text=text, globalPid=pid)
    found = analyze(trace, tmp_path)
    # THEN what Nsight Systems said comes first, and nothing is said of the GPU
    assert list(found.warnings().items()) == [
        ("DROPPED_EVENTS", 407),
        ("INCOMPLETE_EVENTS", 1),
        ("RECORDER_ERROR", 2),
    ]
    assert found.query("SELECT 1 FROM view_expert_systems WHERE problem LIKE '%used%'") == []
    assert found.query("SELECT 1 FROM devices WHERE device_id = 1") == [(1,)]


def test_other_words_of_nsight_systems_are_no_warning(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.launch("conv", 110)
    trace.add("DIAGNOSTIC_EVENT", text="No NVTX events collected. Does the process use NVTX?")
    trace.add("DIAGNOSTIC_EVENT", text=None)
    assert analyze(trace, tmp_path).warnings() == {}


def test_start_end_ranges_do_not_nest_and_are_no_ops(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.range("aten::span, seq = 1", 90, 150, kind=START_END)
    main.op("conv2d", 100, 200, seq=1)
    main.launch("conv", 110)
    main.launch("later", 300)
    main.range("phase", 250, 400, kind=START_END)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {"conv": ("/conv2d", FPROP), "later": (f"unassociated_{LAUNCH}", "")}
    assert found.result.counts["start_end_ranges"] == 2


def test_registered_strings_are_read_like_texts(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.range("iteration 0", 50, 900, registered=True)
    main.range("aten::conv2d, seq = 1, op_id = 2", 100, 200, registered=True)
    main.launch("conv", 110)
    assert analyze(trace, tmp_path).kernels() == {"conv": ("/iteration #/conv2d", FPROP)}


def test_ranges_of_other_domains_are_no_ops_and_break_no_nesting(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.range("NCCL", 1, None, domain=3, kind=75)
    main.op("conv2d", 100, 200, seq=1)
    # Crosses the op: nesting holds within one domain only.
    main.range("aten::ncclAllReduce", 150, 250, domain=3)
    main.launch("in_op", 160)
    main.launch("after_op", 220)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {
        "in_op": ("/conv2d", FPROP),
        "after_op": (f"unassociated_{LAUNCH}", ""),
    }


def test_equal_ops_of_one_step_are_numbered_and_shapes_keep_apart_what_has_no_step(
    tmp_path: Path,
) -> None:
    trace, main = one_gpu()
    main.op("conv2d", 100, 200, seq=1, sizes="[[8, 3, 4, 4], [6, 3, 3, 3]]")
    main.launch("small", 110)
    main.op("conv2d", 300, 400, seq=2, sizes="[[8, 6, 4, 4], [6, 6, 3, 3]]")
    main.launch("large", 310)
    main.op("conv2d", 500, 600, seq=3, sizes="[[8, 3, 4, 4], [6, 3, 3, 3]]")
    main.launch("small_again", 510)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {
        "small": ("/conv2d", FPROP),
        "large": ("/conv2d[2]", FPROP),
        "small_again": ("/conv2d", FPROP),
    }
    assert found.op_ids() == {"CONV2D_1": "/conv2d", "CONV2D_2": "/conv2d[2]"}
    shapes = dict(found.query("SELECT kernel_name, input_shapes FROM view_kernel_launches"))
    assert shapes["small"] == "<N:8, C:3, H:4, W:4>; <K:6, C:3, R:3, S:3>"


def test_kernel_belongs_to_the_deepest_of_two_thousand_ranges(tmp_path: Path) -> None:
    trace, main = one_gpu()
    depth, groups = 2_000, 200
    for level in range(groups):
        main.range("recurse", level, 10 * depth - level)
    main.op("conv2d", depth, 5 * depth, seq=1)
    for level in range(depth):
        main.op("view", depth + 1 + level, 5 * depth - 1 - level)
    main.launch("deepest", 2 * depth + 10)
    found = analyze(trace, tmp_path)
    # A group directly inside one of its own name adds nothing to the path.
    name = "/recurse/conv2d"
    assert found.kernels() == {"deepest": (name, FPROP)}
    assert found.ops() == {(name, FPROP): 1}


def test_simple_mode_has_one_op_that_owns_everything(tmp_path: Path) -> None:
    trace, main = one_gpu()
    main.op("conv2d", 100, 200, seq=1)
    main.launch("conv", 110, gpu=(130, 150))
    main.launch("stray", 300, gpu=(310, 330))
    found = analyze(trace, tmp_path, mode=Mode.SIMPLE)
    name = "simple_mode_global_node_name"
    assert found.kernels() == {"conv": (name, ""), "stray": (name, "")}
    assert found.iterations() == [(0, 330)]
    assert found.op_ids() == {"SIMPLE_MODE_GLOBAL_NODE_OP_TYPE_1": name}
