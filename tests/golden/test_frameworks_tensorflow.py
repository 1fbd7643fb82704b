"""TensorFlow modes: no capture was at hand, so these traces are made after the public source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aggregator.errors import NoFrameworkRangesError
from aggregator.frameworks import tensorflow
from aggregator.options import Mode
from tests.builders import DOMAIN, HERE, PUSH_POP, START_END, Process, Thread, Trace, analyze

CORE = 1


def core_trace(domain: str = tensorflow.DOMAIN) -> tuple[Trace, Process, Thread]:
    """A trace whose domain 1 is TensorFlow's."""
    trace = Trace()
    trace.gpu()
    process = trace.process()
    thread = process.thread(1)
    thread.range(domain, 0, None, domain=CORE, kind=DOMAIN)
    return trace, process, thread


def node(
    thread: Thread, name: str, op_type: str, start: int, end: int, *, kind: int = PUSH_POP
) -> None:
    """A graph node as NVIDIA's TensorFlow writes it."""
    thread.range(f"{op_type}: {name}", start, end, domain=CORE, kind=kind)


def test_nodes_are_ops_with_their_names_as_paths(tmp_path: Path) -> None:
    trace, process, first = core_trace()
    node(first, "model/conv1/Conv2D", "Conv2D", 0, 100)
    first.launch("conv_kernel", 10)
    second = process.thread(2)
    node(second, "model/conv1/BiasAdd", "BiasAdd", 50, 90)
    second.launch("bias_kernel", 60)
    found = analyze(trace, tmp_path)
    assert found.result.mode == Mode.TENSORFLOW2
    assert found.kernels() == {
        "conv_kernel": ("/model/conv1/Conv2D", ""),
        "bias_kernel": ("/model/conv1/BiasAdd", ""),
    }
    groups = found.query(f"SELECT group_name, num_calls FROM view_group_metrics {HERE}", 1)
    assert ("/model/conv1/", 2) in groups


def test_the_mode_says_that_it_is_unverified(tmp_path: Path) -> None:
    trace, _, thread = core_trace()
    node(thread, "a/MatMul", "MatMul", 0, 100)
    thread.launch("gemm", 10)
    found = analyze(trace, tmp_path)
    assert found.result.mode_reason.startswith("TensorFlow 2 ranges found; unverified: no public")
    assert found.warnings() == {"UNVERIFIED_MODE": 1}


@pytest.mark.parametrize(
    ("names", "mode"),
    [
        (("conv1/Conv2D", "gradients/conv1/Conv2D_grad/Conv2DBackpropFilter"), Mode.TENSORFLOW1),
        (("conv1/Conv2D", "gradient_tape/conv1/Conv2D/Conv2DBackpropFilter"), Mode.TENSORFLOW2),
        (("conv1/Conv2D",), Mode.TENSORFLOW2),
    ],
)
def test_gradients_identify_the_version(tmp_path: Path, names: tuple[str, ...], mode: Mode) -> None:
    trace, _, thread = core_trace()
    for place, name in enumerate(names):
        node(thread, name, name.rpartition("/")[2], 100 * place, 100 * place + 50)
        thread.launch(f"kernel{place}", 100 * place + 10)
    assert analyze(trace, tmp_path).result.mode == mode
    asked = analyze(trace, tmp_path, mode=Mode.TENSORFLOW1)
    assert asked.result.mode == Mode.TENSORFLOW1


def test_detailed_nodes_have_types_and_shapes(tmp_path: Path) -> None:
    trace, _, thread = core_trace()
    marker = {
        "op": "MatMul",
        "name": "dense/MatMul",
        "args": [
            {"name": "dense/x", "shape": [32, 100]},
            {"name": "dense/w", "shape": [100, 10]},
            {"name": "dense/unknown", "shape": None},
        ],
        "attrs": {"T": "bfloat32", "transpose_a": False},
    }
    thread.range(json.dumps(marker, separators=(",", ":")), 0, 100, domain=CORE)
    thread.launch("gemm", 10)
    found = analyze(trace, tmp_path)
    rows = found.query(
        "SELECT op_node_name, op_node_type, data_type, input_shapes"
        f" FROM view_kernel_launches {HERE}",
        1,
    )
    assert rows == [("/dense/MatMul", "MatMul", "bfloat16", "<32, 100>; <100, 10>")]


def test_a_detailed_node_that_is_no_json_keeps_its_name(tmp_path: Path) -> None:
    trace, _, thread = core_trace()
    text = '{"op":"Const","name":"a/b","args":[],"attrs":{"value":""dtype: x""}}'
    thread.range(text, 0, 100, domain=CORE)
    thread.copy(10, gpu=(20, 30))
    assert analyze(trace, tmp_path).ops() == {("/a/b", ""): 1}


def test_start_end_ranges_are_read_too(tmp_path: Path) -> None:
    """What NVIDIA's first versions wrote; one may end after the next has begun."""
    trace, _, thread = core_trace()
    node(thread, "a/MatMul", "MatMul", 0, 100, kind=START_END)
    thread.launch("gemm", 10)
    node(thread, "recv", "_Recv", 110, 250, kind=START_END)
    node(thread, "b/Relu", "Relu", 200, 300, kind=START_END)
    thread.launch("relu", 260)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {"gemm": ("/a/MatMul", ""), "relu": ("/b/Relu", "")}


def test_an_op_around_others_owns_only_the_rest(tmp_path: Path) -> None:
    trace, _, thread = core_trace()
    node(thread, "cluster_0_1/xla_run", "_XlaRun", 0, 200)
    node(thread, "cluster_0_1/xla_run/fusion.3", "fusion", 10, 50)
    thread.launch("fused", 20)
    thread.launch("setup", 100)
    found = analyze(trace, tmp_path)
    assert found.kernels() == {
        "fused": ("/cluster_0_1/xla_run/fusion.3", ""),
        "setup": ("/cluster_0_1/xla_run", ""),
    }


def test_the_global_step_is_the_key_node(tmp_path: Path) -> None:
    trace, _, thread = core_trace()
    for step in range(3):
        node(thread, "global_step", "VariableV2", 1000 * step, 1000 * step + 10)
        node(thread, "a/MatMul", "MatMul", 1000 * step + 100, 1000 * step + 200)
        thread.launch(f"gemm{step}", 1000 * step + 110)
    found = analyze(trace, tmp_path)
    assert found.result.mode == Mode.TENSORFLOW1
    assert found.result.key_node == "/global_step"
    assert [stop for _, stop in found.iterations()][:3] == [10, 1010, 2010]
    assert found.ops()["/a/MatMul", ""] == 3


def test_without_global_step_numbered_ranges_mark_the_steps(tmp_path: Path) -> None:
    trace, _, thread = core_trace()
    for step in range(3):
        thread.range(f"step {step}", 1000 * step, 1000 * step + 900)
        node(thread, "a/MatMul", "MatMul", 1000 * step + 100, 1000 * step + 200)
        thread.launch(f"gemm{step}", 1000 * step + 110)
    found = analyze(trace, tmp_path)
    assert found.result.key_node == "step #"
    assert [stop for _, stop in found.iterations()][:2] == [900, 1900]


def test_upstream_nodes_stand_beside_xlas_ranges(tmp_path: Path) -> None:
    trace, _, thread = core_trace(domain="TSL")
    thread.range("model/conv/Conv2D:Conv2D#shape=(float[1,2];)#", 0, 100, domain=CORE)
    thread.launch("conv", 10)
    thread.range("XlaModule:#hlo_module=cluster_0,program_id=3#", 200, 300, domain=CORE)
    thread.range("Thunk:#hlo_op=dot.1#", 210, 250, domain=CORE)
    thread.launch("dot", 220)
    found = analyze(trace, tmp_path)
    assert found.result.mode == Mode.TENSORFLOW2
    assert found.kernels() == {
        "conv": ("/model/conv/Conv2D", ""),
        "dot": ("/cluster_0/dot.1", ""),
    }


def test_xlas_ranges_alone_are_jax_unless_asked_for(tmp_path: Path) -> None:
    trace, _, thread = core_trace(domain="TSL")
    thread.range("XlaModule:#hlo_module=a,program_id=3#", 200, 300, domain=CORE)
    thread.range("Thunk:#hlo_op=dot.1#", 210, 250, domain=CORE)
    thread.launch("dot", 220)
    assert analyze(trace, tmp_path).result.mode == Mode.JAX
    asked = analyze(trace, tmp_path, mode=Mode.TENSORFLOW2)
    assert asked.result.mode == Mode.TENSORFLOW2
    with pytest.raises(NoFrameworkRangesError):
        analyze(trace, tmp_path, mode=Mode.TENSORRT)


@pytest.mark.parametrize(
    ("op_type", "eligible"),
    [
        ("Conv2D", True),
        ("_FusedConv2D", True),
        ("Conv2DBackpropInput", True),
        ("Conv3DBackpropFilterV2", True),
        ("DepthwiseConv2dNative", True),
        ("MatMul", True),
        ("_FusedMatMul", True),
        ("BatchMatMulV2", True),
        ("CudnnRNNV3", True),
        ("CudnnRNNBackpropV2", True),
        ("Einsum", True),
        ("_XlaRun", True),
        ("convolution", True),
        ("SparseMatMul", False),
        ("Relu", False),
        ("Cast", False),
        ("fusion", False),
    ],
)
def test_eligibility_depends_on_the_type(op_type: str, eligible: bool) -> None:
    assert tensorflow.is_tc_eligible(op_type) is eligible
